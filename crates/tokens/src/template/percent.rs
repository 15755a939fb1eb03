//! `text % values`, as Python formats.
//!
//! In: a text with conversions and what stands right of the `%`; out: the text, or Python's complaint.

use minijinja::{
    Error, Value,
    formatting::{FormatStyle, format},
    value::ValueKind,
};

use super::{args::wrong, meter, python};

/// No width or precision is larger.
const MAX_WIDTH: usize = 1 << 20;

/// Formats `text` with a tuple's items, a dict's members or one value.
pub(super) fn percent(text: &str, right: &Value) -> Result<String, Error> {
    let mut values = Values {
        mapping: matches!(right.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable).then_some(right),
        items: if python::is_tuple(right) { right.try_iter()?.collect() } else { vec![right.clone()] },
        next: 0,
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let before = out.len();
        rest = conversion(&mut out, &rest[at + 1..], &mut values)?;
        meter::write(out.len() - before)?;
    }
    out.push_str(rest);
    if values.next < values.items.len() && (values.mapping.is_none() || python::is_tuple(right)) {
        return Err(wrong("not all arguments converted during string formatting".into()));
    }
    Ok(out)
}

/// What the conversions take from.
struct Values<'a> {
    mapping: Option<&'a Value>,
    items: Vec<Value>,
    next: usize,
}

impl Values<'_> {
    fn take(&mut self) -> Result<Value, Error> {
        let value = self.items.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| wrong("not enough arguments for format string".into()))
    }

    fn width(&mut self) -> Result<i64, Error> {
        let value = self.take()?;
        value.as_i64().ok_or_else(|| wrong("* wants int".into()))
    }
}

/// Writes one conversion and gives what follows it.
fn conversion<'t>(out: &mut String, text: &'t str, values: &mut Values<'_>) -> Result<&'t str, Error> {
    let mut rest = text;
    let mut keyed = None;
    if let Some(after) = rest.strip_prefix('(') {
        let (key, after) = after.split_once(')').ok_or_else(|| wrong("incomplete format key".into()))?;
        let mapping = values.mapping.filter(|mapping| mapping.kind() == ValueKind::Map);
        let mapping = mapping.ok_or_else(|| wrong("format requires a mapping".into()))?;
        let member = super::value::member(mapping, &Value::from(key));
        keyed = Some(member.ok_or_else(|| wrong(format!("no key {key:?}")))?);
        rest = after;
    }
    let flags = rest.len() - rest.trim_start_matches(['#', '0', '-', ' ', '+']).len();
    let mut spec = format!("%{}", &rest[..flags]);
    rest = &rest[flags..];
    rest = amount(&mut spec, rest, values)?;
    if let Some(after) = rest.strip_prefix('.') {
        spec.push('.');
        let before = spec.len();
        rest = amount(&mut spec, after, values)?;
        if spec.len() == before {
            spec.push('0');
        }
    }
    rest = rest.trim_start_matches(['h', 'l', 'L']);
    let kind = rest.chars().next().ok_or_else(|| wrong("incomplete format".into()))?;
    rest = &rest[kind.len_utf8()..];
    if kind == '%' {
        out.push('%');
        return Ok(rest);
    }
    let value = match keyed {
        Some(value) => value,
        None => values.take()?,
    };
    let (kind, value) = converted(kind, &value)?;
    spec.push(kind);
    out.push_str(&format(FormatStyle::Printf, &spec, &[value])?);
    Ok(rest)
}

/// A width or a precision: digits, or `*` for the next value.
fn amount<'t>(spec: &mut String, rest: &'t str, values: &mut Values<'_>) -> Result<&'t str, Error> {
    if let Some(after) = rest.strip_prefix('*') {
        let width = values.width()?;
        if usize::try_from(width.abs()).map_or(true, |width| width > MAX_WIDTH) {
            return Err(super::too_long());
        }
        spec.push_str(&width.to_string());
        return Ok(after);
    }
    let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    let number = &rest[..digits];
    if !number.is_empty() && number.parse::<usize>().map_or(true, |width| width > MAX_WIDTH) {
        return Err(super::too_long());
    }
    spec.push_str(number);
    Ok(&rest[digits..])
}

/// The value as the conversion wants it, and the conversion.
fn converted(kind: char, value: &Value) -> Result<(char, Value), Error> {
    let number = matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let whole = value.kind() == ValueKind::Bool || value.is_integer();
    Ok(match kind {
        's' => ('s', Value::from(python::to_str(value))),
        'r' | 'a' => ('s', Value::from(python::to_repr(value))),
        'd' | 'i' | 'u' if whole => ('d', integer(value)),
        'd' | 'i' | 'u' if number => ('d', python::truncated(f64::try_from(value.clone())?)?),
        'x' | 'X' | 'o' if whole => (kind, integer(value)),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' if whole => (kind, Value::from(python::as_float(value)?)),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' if number => (kind, value.clone()),
        'c' if value.is_integer() || value.as_str().is_some_and(|text| text.chars().count() == 1) => {
            ('c', value.clone())
        }
        _ => {
            return Err(wrong(format!("%{kind} format: a number is required, not {}", python::type_name(value))));
        }
    })
}

fn integer(value: &Value) -> Value {
    if value.kind() == ValueKind::Bool { Value::from(i64::from(value.is_true())) } else { value.clone() }
}
