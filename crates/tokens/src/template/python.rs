//! Values as Python prints them.
//!
//! In: a template's value; out: what `str()` or `repr()` gives. Where Python would print an address in memory, what is
//! printed means nothing, here as there.

use std::fmt::{self, Write};

use minijinja::{Error, ErrorKind, Value, value::ValueKind};

use super::{
    args::wrong,
    meter::{self, Paid},
    unicode::{UNPRINTABLE, holds},
    value::{BigInt, Group, Row},
};

/// `str(value)`. What can't be paid for is left out, and the rendering ends in an error.
pub(super) fn to_str(value: &Value) -> String {
    let mut out = String::new();
    let _ = write_str(&mut Paid(&mut out), value);
    out
}

/// `repr(value)`, the same.
pub(super) fn to_repr(value: &Value) -> String {
    let mut out = String::new();
    let _ = write_repr(&mut Paid(&mut out), value);
    out
}

/// `str(value)`, which is the value itself where it is a text.
pub(super) fn as_text(value: &Value) -> Value {
    if text(value).is_some() { value.clone() } else { Value::from(to_str(value)) }
}

/// Appends `str(value)`.
pub(super) fn append(out: &mut String, value: &Value) -> Result<(), Error> {
    write_str(&mut Paid(out), value).map_err(|_| Error::from(ErrorKind::OutOfFuel))
}

/// Appends a text.
pub(super) fn append_text(out: &mut String, text: &str) -> Result<(), Error> {
    meter::write(text.len())?;
    out.push_str(text);
    Ok(())
}

/// The text, if this is a `str`.
pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|_| value.kind() == ValueKind::String)
}

/// Writes `str(value)`.
pub(super) fn write_str(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()),
        ValueKind::Undefined => Ok(()),
        _ => write_repr(out, value),
    }
}

/// Writes `repr(value)`.
pub(super) fn write_repr(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => out.write_str("Undefined"),
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => {
                let mut text = String::new();
                write_float(&mut text, number);
                out.write_str(&text)
            }
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Bytes => write_bytes(out, value.as_bytes().unwrap_or_default()),
        ValueKind::Seq if is_tuple(value) => write_tuple(out, &items(value).collect::<Vec<_>>()),
        ValueKind::Seq => write_list(out, items(value)),
        ValueKind::Iterable if value.len().is_some() => write_list(out, items(value)),
        ValueKind::Map => write_dict(out, pairs(value)),
        _ => write!(out, "{value}"),
    }
}

/// Whether Python would have a tuple here.
pub(super) fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<Group>().is_some() || value.downcast_object_ref::<Row>().is_some()
}

/// The members of a dict.
pub(super) fn pairs(dict: &Value) -> Vec<(Value, Value)> {
    dict.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect()
}

/// Writes a float as `repr` does: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
pub(crate) fn write_float(out: &mut String, number: f64) {
    if number.is_nan() {
        out.push_str("nan");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { "inf" } else { "-inf" });
    } else {
        // Rust's Debug has Python's digits and borders, but writes 1e16 for 1e+16.
        let text = format!("{number:?}");
        match text.split_once('e') {
            None => out.push_str(&text),
            Some((digits, exponent)) => {
                let exponent: i32 = exponent.parse().unwrap_or(0);
                // Writing to a String can't fail.
                let _ = write!(out, "{digits}e{exponent:+03}");
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = Value> {
    list.try_iter().into_iter().flatten()
}

/// Writes a list.
pub(super) fn write_list(out: &mut impl Write, items: impl IntoIterator<Item = Value>) -> fmt::Result {
    out.write_char('[')?;
    write_items(out, items)?;
    out.write_char(']')
}

/// Writes a tuple.
pub(super) fn write_tuple(out: &mut impl Write, items: &[Value]) -> fmt::Result {
    out.write_char('(')?;
    write_items(out, items.iter().cloned())?;
    out.write_str(if items.len() == 1 { ",)" } else { ")" })
}

fn write_items(out: &mut impl Write, items: impl IntoIterator<Item = Value>) -> fmt::Result {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.write_str(", ")?;
        }
        write_repr(out, &item)?;
    }
    Ok(())
}

/// Writes a dict.
pub(super) fn write_dict(out: &mut impl Write, members: impl IntoIterator<Item = (Value, Value)>) -> fmt::Result {
    out.write_char('{')?;
    for (at, (key, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.write_str(", ")?;
        }
        write_repr(out, &key)?;
        out.write_str(": ")?;
        write_repr(out, &value)?;
    }
    out.write_char('}')
}

fn write_quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            char if char == quote => write!(out, "\\{char}")?,
            ' '..='~' => out.write_char(char)?,
            char if !holds(&UNPRINTABLE, char) => out.write_char(char)?,
            char => match u32::from(char) {
                code @ 0..=0xff => write!(out, "\\x{code:02x}")?,
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}")?,
                code => write!(out, "\\U{code:08x}")?,
            },
        }
    }
    out.write_char(quote)
}

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    write!(out, "b{quote}")?;
    for byte in bytes {
        match byte {
            b'\\' => out.write_str("\\\\")?,
            b'\n' => out.write_str("\\n")?,
            b'\r' => out.write_str("\\r")?,
            b'\t' => out.write_str("\\t")?,
            byte if char::from(*byte) == quote => write!(out, "\\{quote}")?,
            b' '..=b'~' => out.write_char(char::from(*byte))?,
            byte => write!(out, "\\x{byte:02x}")?,
        }
    }
    out.write_char(quote)
}

/// What `str.isspace` is true of.
pub(super) fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

/// `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.rstrip()`.
pub(crate) fn strip_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// The name of a value's type, for messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map => "dict",
        _ => "object",
    }
}

/// `float(value)` of a number or a truth.
pub(super) fn as_float(value: &Value) -> Result<f64, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
        _ if value.is_integer() => value.to_string().parse().map_err(|_| wrong("not a number".into())),
        _ => f64::try_from(value.clone()),
    }
}

/// `int(number)`.
pub(super) fn truncated(number: f64) -> Result<Value, Error> {
    let whole = number.trunc();
    if !whole.is_finite() {
        return Err(wrong(format!(
            "cannot convert float {} to integer",
            if number.is_nan() { "NaN" } else { "infinity" }
        )));
    }
    if whole.abs() < 1e38 {
        return Ok(Value::from(whole as i128));
    }
    Ok(Value::from_object(BigInt(format!("{whole:.0}").into())))
}

/// `float(text)`, if it is a number.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let text = strip(text);
    let plain = text.trim_start_matches(['+', '-']);
    let named = matches!(plain.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    if !named && !plain.starts_with(|char: char| char.is_ascii_digit() || char == '.') {
        return None;
    }
    without_underscores(text)?.parse().ok()
}

/// `int(text, base)`, if it is a number.
pub(super) fn parse_int(text: &str, base: u32) -> Option<Value> {
    let text = strip(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match (base, lower.get(..2)) {
        (16 | 0, Some("0x")) => (16, &digits[2..]),
        (8 | 0, Some("0o")) => (8, &digits[2..]),
        (2 | 0, Some("0b")) => (2, &digits[2..]),
        (0, _) => (10, digits),
        (base @ 2..=36, _) => (base, digits),
        _ => return None,
    };
    let digits = without_underscores(digits.trim_start_matches('_'))?;
    if digits.is_empty() || !digits.chars().all(|char| char.is_digit(base)) {
        return None;
    }
    match i128::from_str_radix(&format!("{sign}{digits}"), base) {
        Ok(number) => Some(Value::from(number)),
        Err(_) if base == 10 => {
            let digits = digits.trim_start_matches('0');
            Some(Value::from_object(BigInt(format!("{sign}{digits}").into())))
        }
        Err(_) => None,
    }
}

/// Underscores may stand between digits.
fn without_underscores(text: &str) -> Option<String> {
    let between = |at: usize| {
        let digit = |char: Option<&u8>| char.is_some_and(u8::is_ascii_alphanumeric);
        digit(at.checked_sub(1).and_then(|at| text.as_bytes().get(at))) && digit(text.as_bytes().get(at + 1))
    };
    text.match_indices('_').all(|(at, _)| between(at)).then(|| text.replace('_', ""))
}
