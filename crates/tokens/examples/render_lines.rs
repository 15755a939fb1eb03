//! Renders templates for `tests/differential.py`.
//!
//! In: on standard input one JSON object a line, `{"template": …, "context": {…}}`; out: one a line,
//! `{"ok": text}` or `{"error": message}`.

use std::{
    io::{BufRead, BufWriter, Write},
    time::{Duration, SystemTime},
};

use request::json::{self, Object, Value};
use tokens::Template;

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let answer = match render(&line?) {
            Ok(text) => serde_json::json!({ "ok": text }),
            Err(message) => serde_json::json!({ "error": message }),
        };
        writeln!(out, "{answer}")?;
    }
    out.flush()
}

fn render(line: &str) -> Result<String, String> {
    let row = json::parse(line.as_bytes()).map_err(|error| error.to_string())?;
    let template = row.get("template").and_then(Value::as_str).ok_or("no template")?;
    let empty = Object::default();
    let context = row.get("context").and_then(Value::as_object).unwrap_or(&empty);
    // 2025-03-05T04:06:07Z
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_741_147_567);
    Template::compile(template).and_then(|template| template.render(context, now)).map_err(|error| error.to_string())
}
