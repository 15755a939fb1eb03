//! `text.format(...)` and `text.format_map(...)`, as Python formats.
//!
//! In: a text with fields and what they name; out: the text, or Python's complaint. Never a width or precision beyond a
//! million.

use minijinja::{
    Error, Value,
    formatting::{FormatStyle, format as formatted},
};

use super::{
    args::{Args, wrong},
    meter, python, too_long,
    value::member,
};

/// No width or precision is larger.
const MAX_WIDTH: usize = 1 << 20;

/// How deep fields may stand in fields' formats.
const MAX_NESTING: usize = 2;

/// What the fields take from.
struct Given<'a> {
    positional: &'a [Value],
    named: Option<Value>,
    next: usize,
}

/// The text with its fields filled in.
pub(super) fn format(text: &str, is_map: bool, args: &[Value]) -> Result<String, Error> {
    let mut given = match args.split_last() {
        _ if is_map => {
            let mut args = Args::new(args)?;
            let named = args.next("mapping")?.ok_or_else(|| wrong("format_map: an argument is missing".into()))?;
            args.done()?;
            Given { positional: &[], named: Some(named), next: 0 }
        }
        Some((last, before)) if last.is_kwargs() => Given { positional: before, named: Some(last.clone()), next: 0 },
        _ => Given { positional: args, named: None, next: 0 },
    };
    filled(text, &mut given, MAX_NESTING)
}

fn filled(text: &str, given: &mut Given<'_>, nesting: usize) -> Result<String, Error> {
    let nesting = nesting.checked_sub(1).ok_or_else(|| wrong("Max string recursion exceeded".into()))?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(sign) {
            out.push_str(sign);
            rest = after;
            continue;
        }
        if sign == "}" {
            return Err(wrong("Single '}' encountered in format string".into()));
        }
        let end = closing(rest).ok_or_else(|| wrong("expected '}' before end of string".into()))?;
        let field = field(&rest[..end], given, nesting)?;
        python::append_text(&mut out, &field)?;
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Where a field ends; brackets in it may be nested.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, char)| {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        None
    })
}

/// One field: its value, converted and formatted.
fn field(text: &str, given: &mut Given<'_>, nesting: usize) -> Result<String, Error> {
    let end = text.find(['!', ':']).unwrap_or(text.len());
    let mut value = found(&text[..end], given)?;
    let mut rest = &text[end..];
    if let Some(after) = rest.strip_prefix('!') {
        let kind = after.chars().next().ok_or_else(|| wrong("unmatched '{' in format spec".into()))?;
        value = match kind {
            'r' | 'a' => Value::from(python::to_repr(&value)),
            's' => Value::from(python::to_str(&value)),
            _ => return Err(wrong(format!("Unknown conversion specifier {kind}"))),
        };
        rest = &after[kind.len_utf8()..];
        if !rest.is_empty() && !rest.starts_with(':') {
            return Err(wrong("expected ':' after conversion specifier".into()));
        }
    }
    let style = rest.strip_prefix(':').unwrap_or_default();
    let style = if style.contains(['{', '}']) { filled(style, given, nesting)? } else { style.to_owned() };
    if style.is_empty() {
        return Ok(python::to_str(&value));
    }
    let numbers = style.split(|char: char| !char.is_ascii_digit()).filter(|digits| !digits.is_empty());
    if numbers.into_iter().any(|digits| digits.parse::<usize>().map_or(true, |width| width > MAX_WIDTH)) {
        return Err(too_long());
    }
    meter::write(style.len())?;
    formatted(FormatStyle::StrFormat, &format!("{{:{style}}}"), &[value])
}

/// The value that a field names: an argument, then attributes and items of it.
fn found(name: &str, given: &mut Given<'_>) -> Result<Value, Error> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let mut value = if first.is_empty() || first.bytes().all(|byte| byte.is_ascii_digit()) {
        let at = if first.is_empty() { given.next } else { first.parse().unwrap_or(usize::MAX) };
        given.next += usize::from(first.is_empty());
        let value = given.positional.get(at).cloned();
        value.ok_or_else(|| wrong(format!("Replacement index {at} out of range for positional args tuple")))?
    } else {
        let value = given.named.as_ref().and_then(|named| member(named, &Value::from(first)));
        value.ok_or_else(|| wrong(format!("no argument {first:?}")))?
    };
    while !rest.is_empty() {
        let (key, after) = match rest.strip_prefix('[') {
            Some(inner) => {
                let (key, after) = inner.split_once(']').ok_or_else(|| wrong("Missing ']' in format string".into()))?;
                (key.parse::<u32>().map_or_else(|_| Value::from(key), Value::from), after)
            }
            None => {
                let name = &rest[1..];
                let (key, after) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
                (Value::from(key), after)
            }
        };
        value = value.get_item(&key)?;
        if value.is_undefined() {
            return Err(wrong(format!("no member {key}")));
        }
        rest = after;
    }
    Ok(value)
}
