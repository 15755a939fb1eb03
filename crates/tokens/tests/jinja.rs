//! Templates against what transformers' Jinja2 gives.
//!
//! `data/jinja.json`: templates and contexts out of public bug reports (each names its source), with the text that
//! transformers 5.24 (jinja2 3.1.6) renders, or its error.

use std::time::{Duration, SystemTime};

use request::json::{self, Object};
use tokens::Template;

/// 2025-03-05T04:06:07Z.
const CLOCK: Duration = Duration::from_secs(1_741_147_567);

#[test]
fn templates_render_as_in_transformers() {
    let mut wrong = Vec::new();
    for line in include_str!("data/jinja.json").lines().filter(|line| line.starts_with('{')) {
        let row = json::parse(line.trim_end_matches(',').as_bytes()).unwrap();
        let text = |name| row.get(name).and_then(json::Value::as_str);
        let empty = Object::default();
        let context = row.get("context").and_then(json::Value::as_object).unwrap_or(&empty);
        let template = text("template").unwrap();
        let rendered = Template::compile(template)
            .and_then(|compiled| compiled.render(context, SystemTime::UNIX_EPOCH + CLOCK))
            .map_err(|error| error.to_string());
        if rendered.as_deref().ok() != text("rendered") {
            wrong.push(format!(
                "{:?}\n  template {template:?}\n  expected {:?}\n  rendered {rendered:?}",
                text("name"),
                text("rendered")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
