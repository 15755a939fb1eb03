//! Methods of Python's strings, lists and dicts.
//!
//! In: a value, a method's name, arguments; out: what Python gives. Methods that change a list or dict in place are
//! unknown here: the sandbox that transformers renders in forbids them.

use std::ops::Range;

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Tuple, ValueKind},
};

use super::{
    args::{Args, expect_text, wrong},
    fields, meter,
    python::{self, is_space},
    unicode::{DECIMAL, DIGIT, holds},
    value::List,
};

/// No method makes a string longer than this, in bytes.
const MAX_TEXT: usize = 64 << 20;

/// Calls a method that minijinja doesn't have.
pub(super) fn call(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => string(state, value, name, args),
        ValueKind::Map => dict(value, name, args),
        ValueKind::Seq | ValueKind::Iterable => list(value, name, args),
        ValueKind::Number => number(value, name, args),
        _ => Err(unknown()),
    }
}

/// A part of the text that `of` is; itself, uncopied, where that is all of it.
pub(super) fn part(of: &Value, text: &str) -> Value {
    match python::text(of) {
        Some(whole) if whole.len() == text.len() && !of.is_safe() => of.clone(),
        _ => Value::from(text),
    }
}

fn string(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    if name == "format" || name == "format_map" {
        return fields::format(text, name == "format_map", args).map(Value::from);
    }
    let mut args = Args::new(args)?;
    let result = match name {
        "strip" => {
            let chars = args.text("chars")?;
            meter::read(chars.as_ref().map_or(0, |chars| text.len().saturating_mul(chars.len()) / 64))?;
            part(value, text.trim_matches(|char| stripped(&chars, char)))
        }
        "lstrip" => {
            let chars = args.text("chars")?;
            meter::read(chars.as_ref().map_or(0, |chars| text.len().saturating_mul(chars.len()) / 64))?;
            part(value, text.trim_start_matches(|char| stripped(&chars, char)))
        }
        "rstrip" => {
            let chars = args.text("chars")?;
            meter::read(chars.as_ref().map_or(0, |chars| text.len().saturating_mul(chars.len()) / 64))?;
            part(value, text.trim_end_matches(|char| stripped(&chars, char)))
        }
        "split" | "rsplit" => {
            let separator = args.text("sep")?;
            let most = args.int("maxsplit")?.unwrap_or(-1);
            split(text, separator.as_deref(), most, name == "rsplit")?
        }
        "splitlines" => {
            let keep = args.next("keepends")?.is_some_and(|keep| keep.is_true());
            strings(split_lines(text, keep))?
        }
        "startswith" | "endswith" => {
            let affixes = args.next("prefix")?.ok_or_else(|| wrong("startswith: an argument is missing".into()))?;
            let within = substring(text, args.int("start")?, args.int("end")?);
            let at_start = name == "startswith";
            Value::from(match within {
                Some(range) => has_affix(&text[range], &affixes, at_start)?,
                None => false,
            })
        }
        "replace" => {
            let old = args.needed_text("old")?;
            let new = args.needed_text("new")?;
            let count = args.int("count")?.unwrap_or(-1);
            Value::from(replace(text, &old, &new, count)?)
        }
        "join" => {
            let items = args.next("iterable")?.ok_or_else(|| wrong("join: an argument is missing".into()))?;
            let mut out = String::new();
            for (at, item) in items.try_iter()?.enumerate() {
                let item = super::value::valid(item)?;
                let item = python::text(&item).ok_or_else(|| wrong("join: expected str".into()))?;
                if at > 0 {
                    python::append_text(&mut out, text)?;
                }
                python::append_text(&mut out, item)?;
            }
            Value::from(out)
        }
        "find" | "rfind" | "index" | "rindex" => {
            let needle = args.needed_text("sub")?;
            let within = substring(text, args.int("start")?, args.int("end")?);
            let found = within.and_then(|range| {
                let base = range.start;
                let part = &text[range];
                let at = if name.starts_with('r') { part.rfind(&needle) } else { part.find(&needle) };
                at.map(|at| text[..base + at].chars().count() as i64)
            });
            match found {
                None if name.ends_with("index") => return Err(wrong("substring not found".into())),
                found => Value::from(found.unwrap_or(-1)),
            }
        }
        "count" => {
            let needle = args.needed_text("sub")?;
            let within = substring(text, args.int("start")?, args.int("end")?);
            Value::from(within.map_or(0, |range| match needle.is_empty() {
                true => text[range].chars().count() + 1,
                false => text[range].matches(&needle).count(),
            }))
        }
        "partition" | "rpartition" => {
            let separator = args.needed_text("sep")?;
            if separator.is_empty() {
                return Err(wrong("empty separator".into()));
            }
            let first = name == "partition";
            let cut = if first { text.split_once(&separator) } else { text.rsplit_once(&separator) };
            Value::from(match cut {
                Some((before, after)) => Tuple::from([before.into(), separator.into(), after.into()]),
                None if first => Tuple::from([text.into(), "".into(), "".into()]),
                None => Tuple::from(["".into(), "".into(), text.into()]),
            })
        }
        "removeprefix" => {
            let prefix = args.needed_text("prefix")?;
            Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = args.needed_text("suffix")?;
            Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text))
        }
        "ljust" | "rjust" | "center" => {
            let width = args.needed_int("width")?;
            let fill = args.text("fillchar")?.unwrap_or_else(|| " ".into());
            Value::from(justify(text, width, &fill, name)?)
        }
        "zfill" => Value::from(zfill(text, args.needed_int("width")?)?),
        "expandtabs" => Value::from(expand_tabs(text, args.int("tabsize")?.unwrap_or(8))?),
        "upper" => Value::from(text.to_uppercase()),
        "lower" => Value::from(text.to_lowercase()),
        "casefold" => Value::from(casefold(text)),
        "capitalize" => Value::from(capitalize(text)),
        "title" => Value::from(title(text)),
        "swapcase" => Value::from(swapcase(text)),
        "encode" => {
            args.next("encoding")?;
            args.next("errors")?;
            Value::from_bytes(text.as_bytes().to_vec())
        }
        "isalnum" => every(text, |char| char.is_alphanumeric()),
        "isalpha" => every(text, char::is_alphabetic),
        "isascii" => Value::from(text.is_ascii()),
        "isdecimal" => every(text, |char| holds(&DECIMAL, char)),
        "isdigit" => every(text, |char| holds(&DECIMAL, char) || holds(&DIGIT, char)),
        "isnumeric" => every(text, char::is_numeric),
        "isspace" => every(text, is_space),
        "isidentifier" => Value::from(is_identifier(text)),
        "isprintable" => Value::from(!text.chars().any(|char| holds(&super::unicode::UNPRINTABLE, char))),
        "islower" => Value::from(!text.chars().any(char::is_uppercase) && text.chars().any(char::is_lowercase)),
        "isupper" => Value::from(!text.chars().any(char::is_lowercase) && text.chars().any(char::is_uppercase)),
        "istitle" => Value::from(is_title(text)),
        _ => return Err(unknown()),
    };
    args.done()?;
    if let Some(made) = result.as_str() {
        state.consume_fuel(made.len() as u64 / 64)?;
    }
    Ok(result)
}

fn dict(dict: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let mut args = Args::new(args)?;
    let pairs = || super::python::pairs(dict);
    let result = match name {
        "keys" => List::make(pairs().into_iter().map(|(key, _)| key))?,
        "values" => List::make(pairs().into_iter().map(|(_, value)| value))?,
        "items" => List::make(pairs().into_iter().map(|pair| Value::from(Tuple::from([pair.0, pair.1]))))?,
        "copy" => dict.clone(),
        "get" => {
            let key = args.next("key")?.ok_or_else(|| wrong("get: an argument is missing".into()))?;
            let fallback = args.next("default")?.unwrap_or_else(|| Value::from(()));
            super::value::member(dict, &key).unwrap_or(fallback)
        }
        _ => return Err(unknown()),
    };
    args.done()?;
    Ok(result)
}

fn list(list: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let mut args = Args::new(args)?;
    let result = match name {
        "index" => {
            let wanted = args.next("value")?.ok_or_else(|| wrong("index: an argument is missing".into()))?;
            let start = args.int("start")?.unwrap_or(0);
            let items: Vec<Value> = list.try_iter()?.collect();
            let from = usize::try_from(if start < 0 { start + items.len() as i64 } else { start }).unwrap_or(0);
            let found = items.iter().enumerate().skip(from).find(|(_, item)| **item == wanted);
            Value::from(found.ok_or_else(|| wrong("value is not in list".into()))?.0)
        }
        "count" => {
            let wanted = args.next("value")?.ok_or_else(|| wrong("count: an argument is missing".into()))?;
            Value::from(list.try_iter()?.filter(|item| *item == wanted).count())
        }
        "copy" if !python::is_tuple(list) => List::make(list.try_iter()?)?,
        _ => return Err(unknown()),
    };
    args.done()?;
    Ok(result)
}

fn number(number: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::new(args)?;
    let result = match name {
        "is_integer" if !number.is_integer() => Value::from(f64::try_from(number.clone())?.fract() == 0.0),
        "bit_length" if number.is_integer() => {
            let bits = i128::try_from(number.clone())?.unsigned_abs();
            Value::from(128 - bits.leading_zeros())
        }
        _ => return Err(unknown()),
    };
    args.done()?;
    Ok(result)
}

fn stripped(chars: &Option<String>, char: char) -> bool {
    match chars {
        Some(chars) => chars.contains(char),
        None => is_space(char),
    }
}

fn strings<'t>(parts: impl IntoIterator<Item = &'t str>) -> Result<Value, Error> {
    List::make(parts.into_iter().map(Value::from))
}

fn split(text: &str, separator: Option<&str>, most: i64, from_right: bool) -> Result<Value, Error> {
    let most = usize::try_from(most).ok();
    match separator {
        Some("") => Err(wrong("empty separator".into())),
        Some(separator) => match (most, from_right) {
            (None, _) => strings(text.split(separator)),
            (Some(most), false) => strings(text.splitn(most.saturating_add(1), separator)),
            (Some(most), true) => {
                let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
                parts.reverse();
                strings(parts)
            }
        },
        None if from_right => strings(split_spaces_from_right(text, most.unwrap_or(usize::MAX))),
        None => strings(split_spaces(text, most.unwrap_or(usize::MAX))),
    }
}

fn split_spaces(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn split_spaces_from_right(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        let start =
            rest.char_indices().rev().find(|(_, char)| is_space(*char)).map_or(0, |(at, char)| at + char.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

pub(super) fn split_lines(text: &str, keep: bool) -> Vec<&str> {
    let breaks = |char: char| {
        matches!(char, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(breaks) {
        let length =
            if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep { at + length } else { at }]);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The bytes of `text[start:end]`; `None` where `start` lies beyond the text's end.
fn substring(text: &str, start: Option<i64>, end: Option<i64>) -> Option<Range<usize>> {
    if start.is_none() && end.is_none() {
        return Some(0..text.len());
    }
    let length = text.chars().count() as i64;
    let clamp = |at: i64| if at < 0 { (at + length).max(0) } else { at };
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(length)).min(length);
    if start > length || start > end {
        return None;
    }
    let byte = |at: i64| text.char_indices().nth(usize::try_from(at).unwrap_or(0)).map_or(text.len(), |(byte, _)| byte);
    Some(byte(start)..byte(end))
}

fn has_affix(text: &str, affixes: &Value, at_start: bool) -> Result<bool, Error> {
    let has = |affix: &str| if at_start { text.starts_with(affix) } else { text.ends_with(affix) };
    if python::is_tuple(affixes) {
        for affix in affixes.try_iter()? {
            meter::read(text.len())?;
            if has(&expect_text(&affix)?) {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    Ok(has(&expect_text(affixes)?))
}

fn replace(text: &str, old: &str, new: &str, count: i64) -> Result<String, Error> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() }.min(most);
    bounded(text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, most))
}

fn justify(text: &str, width: i64, fill: &str, name: &str) -> Result<String, Error> {
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(wrong("the fill character must be exactly one character long".into()));
    };
    let width = usize::try_from(width).unwrap_or(0);
    bounded(width.saturating_mul(fill.len_utf8()))?;
    let missing = width.saturating_sub(text.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // CPython's rounding.
        _ => missing / 2 + (missing & width & 1),
    };
    let pad = |count: usize| std::iter::repeat_n(fill, count);
    Ok(pad(left).chain(text.chars()).chain(pad(missing - left)).collect())
}

fn zfill(text: &str, width: i64) -> Result<String, Error> {
    let width = usize::try_from(width).unwrap_or(0);
    bounded(width)?;
    let missing = width.saturating_sub(text.chars().count());
    let (sign, digits) = if text.starts_with(['+', '-']) { text.split_at(1) } else { ("", text) };
    Ok(format!("{sign}{}{digits}", "0".repeat(missing)))
}

fn expand_tabs(text: &str, size: i64) -> Result<String, Error> {
    let size = usize::try_from(size).unwrap_or(0);
    bounded(text.matches('\t').count().saturating_mul(size))?;
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for char in text.chars() {
        match char {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\t' => {}
            char => {
                column = if matches!(char, '\n' | '\r') { 0 } else { column + 1 };
                out.push(char);
            }
        }
    }
    Ok(out)
}

fn casefold(text: &str) -> String {
    text.to_lowercase().replace('ß', "ss").replace('ς', "σ")
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

fn is_cased(char: char) -> bool {
    char.is_uppercase() || char.is_lowercase()
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for char in text.chars() {
        if within {
            out.extend(char.to_lowercase())
        } else {
            out.extend(char.to_uppercase())
        }
        within = is_cased(char);
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_uppercase() { out.extend(char.to_lowercase()) } else { out.extend(char.to_uppercase()) }
    }
    out
}

fn is_title(text: &str) -> bool {
    let mut within = false;
    let mut any = false;
    for char in text.chars() {
        if char.is_uppercase() && within || char.is_lowercase() && !within {
            return false;
        }
        within = is_cased(char);
        any |= within;
    }
    any
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && chars.all(|char| char == '_' || char.is_alphanumeric())
}

fn every(text: &str, is: impl Fn(char) -> bool) -> Value {
    Value::from(!text.is_empty() && text.chars().all(is))
}

/// Whether a text of so many bytes may be made.
pub(super) fn bounded(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT { Err(super::too_long()) } else { Ok(()) }
}

fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}
