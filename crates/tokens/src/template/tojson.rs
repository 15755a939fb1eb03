//! `tojson` as transformers defines it: Python's `json.dumps`.
//!
//! In: a value and json.dumps' arguments; out: its text, byte for byte: `", "` and `": "`, keys in order, characters
//! as they are, floats as Python writes them. What json.dumps refuses is refused.

use std::cell::Cell;

use minijinja::{
    Error, ErrorKind, Value,
    value::{Rest, ValueKind, ValueOrKwargs},
};

use super::{
    args::Args,
    meter, python,
    value::{BigInt, Dict},
};

/// Nesting beyond this is refused, as Python's recursion limit does.
const MAX_DEPTH: usize = 900;

/// json.dumps' arguments.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    /// Bytes that were paid for.
    paid: Cell<usize>,
}

/// Text that may be written before it is paid for, in bytes.
const CREDIT: usize = 4096;

/// The filter.
pub(super) fn tojson(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let style = Style::new(
        args.some("ensure_ascii")?,
        args.some("indent")?,
        args.some("separators")?,
        args.some("sort_keys")?,
    )?;
    args.done()?;
    let mut out = String::new();
    write(&mut out, value, &style, 0)?;
    style.pay(&out)?;
    Ok(out)
}

impl Style {
    fn new(
        ensure_ascii: Option<Value>,
        indent: Option<Value>,
        separators: Option<Value>,
        sort_keys: Option<Value>,
    ) -> Result<Style, Error> {
        let indent = match indent {
            None => None,
            Some(indent) => Some(match indent.as_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(usize::try_from(i64::try_from(indent)?.clamp(0, 1024)).unwrap_or(0)),
            }),
        };
        let (item_separator, key_separator) = match separators {
            None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
            Some(pair) => {
                let pair: Vec<Value> = pair.try_iter()?.collect();
                match pair.as_slice() {
                    [item, key] => (python::to_str(item), python::to_str(key)),
                    _ => return Err(refused("tojson: separators must be a pair".into())),
                }
            }
        };
        Ok(Style {
            ensure_ascii: ensure_ascii.is_some_and(|given| given.is_true()),
            indent,
            item_separator,
            key_separator,
            sort_keys: sort_keys.is_some_and(|given| given.is_true()),
            paid: Cell::new(0),
        })
    }

    /// Pays for what was written since the last time.
    fn pay(&self, out: &str) -> Result<(), Error> {
        meter::write(out.len() - self.paid.replace(out.len()))
    }

    fn new_line(&self, out: &mut String, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            if indent.len() * depth > CREDIT {
                meter::write(indent.len() * depth)?;
            }
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
        Ok(())
    }
}

fn write(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refused("tojson: nested too deeply".into()));
    }
    if out.len() > style.paid.get() + CREDIT || meter::is_spent() {
        style.pay(out)?;
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(out, value),
        ValueKind::String => write_text(out, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq => write_list(out, value, style, depth)?,
        ValueKind::Map if !value.is_kwargs() => write_dict(out, value, style, depth)?,
        // Slices and sums of lists are lists to Python.
        ValueKind::Iterable if value.len().is_some() => write_list(out, value, style, depth)?,
        ValueKind::Plain => match value.downcast_object_ref::<BigInt>() {
            Some(big) => out.push_str(&big.0),
            None => return Err(not_json(value)),
        },
        _ => return Err(not_json(value)),
    }
    Ok(())
}

fn write_number(out: &mut String, value: &Value) {
    if value.is_integer() {
        out.push_str(&value.to_string());
        return;
    }
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => out.push_str("NaN"),
        Ok(number) if number.is_infinite() => out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        Ok(number) => python::write_float(out, number),
        Err(_) => out.push_str(&value.to_string()),
    }
}

fn write_list(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut empty = true;
    out.push('[');
    for item in value.try_iter()? {
        if !std::mem::take(&mut empty) {
            out.push_str(&style.item_separator);
        }
        style.new_line(out, depth + 1)?;
        write(out, &item, style, depth + 1)?;
    }
    if !empty {
        style.new_line(out, depth)?;
    }
    out.push(']');
    Ok(())
}

fn write_dict(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut members: Vec<(Value, Value)> = python::pairs(value);
    if style.sort_keys {
        if members.iter().any(|(key, _)| key.kind() != members[0].0.kind()) {
            return Err(refused("tojson: keys of several types can't be sorted".into()));
        }
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    let mut empty = true;
    out.push('{');
    for (key, value) in members {
        if !std::mem::take(&mut empty) {
            out.push_str(&style.item_separator);
        }
        style.new_line(out, depth + 1)?;
        write_key(out, &key, style)?;
        out.push_str(&style.key_separator);
        write(out, &value, style, depth + 1)?;
    }
    if !empty {
        style.new_line(out, depth)?;
    }
    out.push('}');
    Ok(())
}

fn write_key(out: &mut String, key: &Value, style: &Style) -> Result<(), Error> {
    match key.kind() {
        ValueKind::String => write_text(out, key.as_str().unwrap_or_default(), style),
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            out.push('"');
            write(out, key, style, 0)?;
            out.push('"');
        }
        _ => return Err(not_json(key)),
    }
    Ok(())
}

fn write_text(out: &mut String, text: &str, style: &Style) {
    out.push('"');
    let mut written = 0;
    for (at, char) in text.char_indices() {
        let plain = match char {
            '"' | '\\' => false,
            '\u{20}'..='\u{7e}' => true,
            char => char >= '\u{7f}' && !style.ensure_ascii,
        };
        if plain {
            continue;
        }
        out.push_str(&text[written..at]);
        written = at + char.len_utf8();
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            char => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}

fn not_json(value: &Value) -> Error {
    let what = match value.kind() {
        ValueKind::Undefined => "Undefined",
        _ if value.downcast_object_ref::<Dict>().is_some() => "dict",
        _ => "this object",
    };
    refused(format!("tojson: {what} isn't JSON serializable"))
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}
