//! A chat template rendered for its writer.
//!
//! In: a template and a context, with their names; out: the text, exactly; or what is wrong and in which line.

use std::time::SystemTime;

use request::json::{self, Object};
use tokens::{Fault, Template};

/// The text that the template gives for the context. `strftime_now` prints the time of day, in UTC.
///
/// # Errors
/// `FILE:LINE: what`, for a person.
pub(super) fn text(template: (&str, &[u8]), context: (&str, &[u8])) -> Result<String, String> {
    let (name, source) = template;
    let source = std::str::from_utf8(source).map_err(|_| format!("{name}: this is not UTF-8"))?;
    let parsed = json::parse(context.1).map_err(|error| in_line(context, error))?;
    let values = parsed.as_object().ok_or_else(|| format!("{}: not an object, but {}", context.0, parsed.kind()))?;
    refuse_half_characters(values, context.0)?;
    let rendered = Template::compile(source).and_then(|template| template.render(values, SystemTime::now()));
    rendered.map_err(|error| {
        let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
        let raised = if error.fault == Fault::Raised { "raise_exception: " } else { "" };
        format!("{name}{line}: {raised}{}", error.message)
    })
}

fn in_line((name, bytes): (&str, &[u8]), error: json::Error) -> String {
    let before = &bytes[..error.at.min(bytes.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("{name}:{line}: not JSON: {error}")
}

/// Python can't print them either.
fn refuse_half_characters(values: &Object<'_>, name: &str) -> Result<(), String> {
    match values.iter().find(|(key, _)| values.lone_surrogate_in(key)) {
        Some((key, _)) => Err(format!("{name}: `{key}` holds half of a surrogate pair, which is no text")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    fn check(template: &str, context: &str, expected: &str) {
        let text = super::text(("t.jinja", template.as_bytes()), ("c.json", context.as_bytes()));
        assert_eq!(text.unwrap_or_else(|problem| format!("! {problem}")), expected, "{template} with {context}");
    }

    #[test]
    fn the_text_is_printed_as_it_is() {
        let loops = "{% for m in messages %}\n<{{ m.role }}>{{ m.content }}\n{% endfor %}";
        check(loops, r#"{"messages":[{"role":"user","content":"hi\n"}]}"#, "<user>hi\n\n");
        check("{{ bos_token }}{{ x is defined }}", r#"{"bos_token":"<s>"}"#, "<s>False");
    }

    #[test]
    fn an_error_names_its_line() {
        check("a\nb\n{% if %}", "{}", "! t.jinja:3: syntax error: unexpected end of block");
        check("a\n{{ raise_exception('no system') }}", "{}", "! t.jinja:2: raise_exception: no system");
        check("", "{\n\"a\": }", "! c.json:2: not JSON: a value should stand here (byte 7)");
        check("", "[]", "! c.json: not an object, but a list");
        check("{{ a }}", r#"{"a":"\ud83d"}"#, "! c.json: `a` holds half of a surrogate pair, which is no text");
    }
}
