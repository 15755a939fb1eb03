//! What a template prints for an image, a sound or a film.
//!
//! In: a template that takes contents as parts; out: the text between two others. Found out once, by rendering a message
//! of ours.

use std::{sync::OnceLock, time::SystemTime};

use minijinja::Value;

use super::Modality;
use crate::template::{Dict, List, Template};

/// Stands where the probe's texts do. Templates don't strip it.
const MARK: &str = "\u{1}";

/// What a template prints, by modality, once it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Printed([OnceLock<Option<String>>; 3]);

impl Printed {
    /// What `template`, whose these are, prints for each of them; `None` if nothing, or not the same wherever it stands.
    pub(crate) fn by(&self, template: &Template, modality: Modality) -> Option<&str> {
        self.0[modality as usize].get_or_init(|| probe(template, modality)).as_deref()
    }
}

/// A part between texts, twice. Where what is printed counts them, it is what comes before the number.
fn probe(template: &Template, modality: Modality) -> Option<String> {
    let text = || Dict::collect([("type", Value::from("text")), ("text", Value::from(MARK))]);
    let shown = || Dict::collect([("type", Value::from(modality.name()))]);
    let content = List::collect([text(), shown(), text(), shown(), text()]);
    let message = Dict::collect([("role", Value::from("user")), ("content", content)]);
    let nothing = || Value::from(());
    let context = Dict::collect([
        ("bos_token", Value::from("")),
        ("eos_token", Value::from("")),
        ("documents", nothing()),
        ("add_generation_prompt", Value::from(false)),
        ("messages", List::collect([message])),
        ("tools", nothing()),
    ]);
    let rendered = template.render_value(context, 1, SystemTime::UNIX_EPOCH).ok()?;
    let between: Vec<&str> = rendered.split(MARK).collect();
    let [_, first, second, _] = between[..] else { return None };
    let same: usize =
        first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(character, _)| character.len_utf8()).sum();
    // White space around it may be what parts texts.
    let printed = first[..same].trim();
    (!printed.is_empty()).then(|| printed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &str, expected: Option<&str>) {
        let source = format!("{{% for m in messages %}}[{{{{ m.role }}}}]{parts}{{% endfor %}}");
        let template = Template::compile(&source).expect("a template");
        assert_eq!(Printed::default().by(&template, Modality::Image), expected, "{source}");
    }

    #[test]
    fn what_stands_between_texts_is_an_images() {
        let each = |image: &str| {
            format!(
                "{{% for c in m.content %}}{{% if c.type == 'image' %}}{image}{{% else %}}{{{{ c.text | trim }}}}\n{{% endif %}}{{% endfor %}}"
            )
        };
        check(&each("<image>"), Some("<image>"));
        check(&each(" <a> <b> "), Some("<a> <b>"));
        check(&each("<|image_{{ loop.index }}|>"), Some("<|image_"));
        check(&each(""), None);
        check(&each("{{ raise_exception('none, please') }}"), None);
        check("<image><image>{% for c in m.content %}{{ c.text }}{% endfor %}", None);
        check("{{ m.content }}", None);
    }
}
