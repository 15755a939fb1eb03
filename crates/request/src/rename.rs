//! A body's model replaced, every other byte left as it is.
//!
//! In: a body that is a JSON object, and a name; out: the same bytes with the name in place of the value of every `model`
//! at the top level; or nothing where there is none to replace. A key spelt with escapes counts, as it does in Python.

use crate::json;

/// Where a value stands in a body: its first byte, and the one behind its last.
type Span = (usize, usize);

/// The body with `model` in place of its model's name. `None` where the body isn't a JSON object or names no model by a
/// string: nothing is then to be changed.
pub fn rename_model(body: &[u8], model: &str) -> Option<Vec<u8>> {
    json::parse(body).ok()?.as_object()?.get("model")?.as_str()?;
    let spans = spans(body);
    if spans.is_empty() {
        return None;
    }
    let name = quoted(model);
    let mut renamed = Vec::with_capacity(body.len() + name.len());
    let mut from = 0;
    for (start, end) in spans {
        renamed.extend_from_slice(&body[from..start]);
        renamed.extend_from_slice(name.as_bytes());
        from = end;
    }
    renamed.extend_from_slice(&body[from..]);
    Some(renamed)
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The text that a JSON string (with its quotes) stands for.
pub(crate) fn unquoted(string: &[u8]) -> Option<String> {
    json::parse(string).ok()?.as_str().map(str::to_owned)
}

/// The values of `model` at the top level of a body that is a JSON object.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut depth, mut at, mut key_next, mut of_model) = (0_usize, 0, false, false);
    // Where the value of a model began that is no string, list or object.
    let mut bare: Option<usize> = None;
    while let Some(byte) = body.get(at) {
        let end = if *byte == b'"' { string_end(body, at) } else { at + 1 };
        if let Some(start) = bare.filter(|_| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace()) {
            spans.push((start, at));
            bare = None;
        }
        match byte {
            b'"' if depth == 1 && key_next => {
                key_next = false;
                of_model = unquoted(&body[at..end]).as_deref() == Some("model");
            }
            b'"' if depth == 1 && std::mem::take(&mut of_model) => spans.push((at, end)),
            b'{' | b'[' => {
                if depth == 1 && std::mem::take(&mut of_model) {
                    spans.push((at, at));
                }
                depth += 1;
                key_next = depth == 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if let Some(open) = spans.last_mut().filter(|open| depth == 1 && open.0 == open.1) {
                    open.1 = end;
                }
            }
            b',' if depth == 1 => key_next = true,
            b':' | b'"' | b',' => {}
            other if depth == 1 && !other.is_ascii_whitespace() && std::mem::take(&mut of_model) => bare = Some(at),
            _ => {}
        }
        at = end;
    }
    spans
}

/// The byte behind the string that begins at `start`.
fn string_end(body: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(stop) = memchr::memchr2(b'"', b'\\', body.get(at..).unwrap_or_default()) {
        if body[at + stop] == b'"' {
            return at + stop + 1;
        }
        at += stop + 2;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Option<&str>) {
        let renamed = rename_model(body.as_bytes(), "ne\"w");
        let renamed = renamed.map(|renamed| String::from_utf8(renamed).expect("text"));
        assert_eq!(renamed.as_deref(), expected, "{body}");
    }

    #[test]
    fn every_model_at_the_top_is_replaced_and_nothing_else() {
        check(
            r#" { "model" :  "a" , "x":[1.0e5,{"model":"a"}]} "#,
            Some(r#" { "model" :  "ne\"w" , "x":[1.0e5,{"model":"a"}]} "#),
        );
        check(
            r#"{"model":"a","model":null,"model":"b"}"#,
            Some(r#"{"model":"ne\"w","model":"ne\"w","model":"ne\"w"}"#),
        );
        check(
            r#"{"model":{"a":["}"]},"model":[1],"mod\u0065l":"b"}"#,
            Some(r#"{"model":"ne\"w","model":"ne\"w","mod\u0065l":"ne\"w"}"#),
        );
        check(
            r#"{"x":"model","model":"\"\\","y":"\"model\":\"a\""}"#,
            Some(r#"{"x":"model","model":"ne\"w","y":"\"model\":\"a\""}"#),
        );
        check(
            "\u{feff}{\"model\":NaN ,\"model\":\"\u{e4}\"}",
            Some("\u{feff}{\"model\":\"ne\\\"w\" ,\"model\":\"ne\\\"w\"}"),
        );
    }

    #[test]
    fn what_names_no_model_stays_as_it_is() {
        for body in [
            r#"{"messages":[]}"#,
            r#"{"model":null}"#,
            r#"["model","a"]"#,
            r#"{"model":"a""#,
            "",
            r#"{"x":{"model":"a"}}"#,
        ] {
            check(body, None);
        }
    }
}
