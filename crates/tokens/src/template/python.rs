//! Values as Python prints them.
//!
//! In: a template's value; out: what `str()` or `repr()` gives. Where Python would print an address in memory, what is
//! printed means nothing, here as there.

use std::fmt::{self, Write};

use minijinja::{Value, value::ValueKind};

use super::unicode::{UNPRINTABLE, holds};

/// `str(value)`.
pub(super) fn to_str(value: &Value) -> String {
    let mut out = String::new();
    // Writing to a String can't fail.
    let _ = write_str(&mut out, value);
    out
}

/// Writes `str(value)`.
pub(super) fn write_str(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write_repr(out, value),
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
        ValueKind::Seq if value.is_tuple() => write_tuple(out, value),
        ValueKind::Seq => write_list(out, value),
        ValueKind::Iterable if value.len().is_some() => write_list(out, value),
        ValueKind::Map => write_dict(out, value),
        _ => write!(out, "{value}"),
    }
}

/// The members of a dict.
pub(super) fn pairs(dict: &Value) -> Vec<(Value, Value)> {
    dict.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect()
}

/// Writes a float as `repr` does: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn write_float(out: &mut String, number: f64) {
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

fn write_list(out: &mut impl Write, list: &Value) -> fmt::Result {
    out.write_char('[')?;
    write_items(out, list)?;
    out.write_char(']')
}

fn write_tuple(out: &mut impl Write, tuple: &Value) -> fmt::Result {
    out.write_char('(')?;
    write_items(out, tuple)?;
    out.write_str(if tuple.len() == Some(1) { ",)" } else { ")" })
}

fn write_items(out: &mut impl Write, list: &Value) -> fmt::Result {
    for (at, item) in list.try_iter().into_iter().flatten().enumerate() {
        if at > 0 {
            out.write_str(", ")?;
        }
        write_repr(out, &item)?;
    }
    Ok(())
}

fn write_dict(out: &mut impl Write, dict: &Value) -> fmt::Result {
    out.write_char('{')?;
    for (at, (key, value)) in pairs(dict).into_iter().enumerate() {
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
