//! Tools as the Harmony format prints them: a namespace of TypeScript-like types.
//!
//! In: names, descriptions and JSON schemas; out: the text, following `openai_harmony`'s `encoding.rs` to the character,
//! its oddities included: they are what the model was trained on, and what the engine sends.

use serde_json::Value;

/// A tool as the format knows it.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Option<Value>,
}

/// The section `# Tools` of a developer's message.
pub(super) fn section(tools: &[Tool]) -> String {
    let mut lines = vec!["## functions\n".to_owned(), "namespace functions {\n".to_owned()];
    for tool in tools {
        lines.extend(tool.description.lines().map(|line| format!("// {line}")));
        lines.push(match &tool.parameters {
            Some(schema) => format!("type {} = (_: {}) => any;\n", tool.name, type_of(schema, "")),
            None => format!("type {} = () => any;\n", tool.name),
        });
    }
    lines.push("} // namespace functions".to_owned());
    format!("# Tools\n\n{}", lines.join("\n"))
}

fn type_of(schema: &Value, indent: &str) -> String {
    if let Some(variants) = list(schema, "oneOf") {
        return variants.iter().map(|variant| variant_of_any(variant, indent)).collect();
    }
    if let Some(kinds) = list(schema, "type") {
        let kinds: Vec<&str> = kinds
            .iter()
            .filter_map(Value::as_str)
            .map(|kind| if kind == "integer" { "number" } else { kind })
            .collect();
        if !kinds.is_empty() {
            return kinds.join(" | ");
        }
    }
    match text(schema, "type") {
        Some("object") => object(schema, indent),
        Some("string") => strings(schema),
        Some("number" | "integer") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => match schema.get("items") {
            Some(items) => format!("{}[]", type_of(items, indent)),
            None => "Array<any>".to_owned(),
        },
        _ => "any".to_owned(),
    }
}

/// A variant of a schema that isn't a property.
fn variant_of_any(variant: &Value, indent: &str) -> String {
    let mut comments: Vec<String> = text(variant, "description").map(str::to_owned).into_iter().collect();
    comments.extend(variant.get("default").map(|default| match default {
        Value::String(text) if !is_enum(variant) => format!("default: \"{text}\""),
        other => format!("default: {other}"),
    }));
    format!("\n{indent} | {}{}", nullable(variant, &format!("{indent}   ")), trailing(&comments))
}

fn object(schema: &Value, indent: &str) -> String {
    let mut out = text(schema, "description").map(|text| format!("{indent}// {text}\n")).unwrap_or_default();
    out.push_str("{\n");
    let required: Vec<&str> = list(schema, "required").unwrap_or_default().iter().filter_map(Value::as_str).collect();
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mark = if required.contains(&key.as_str()) { "" } else { "?" };
        above(&mut out, property, indent);
        match list(property, "oneOf") {
            Some(variants) => one_of(&mut out, &format!("{indent}{key}{mark}"), property, variants, indent),
            None => {
                let default = property.get("default").filter(|_| property.get("oneOf").is_none());
                let default = default.map(|default| format!(" // {}", default_of(default, property)));
                let kind = nullable(property, &format!("{indent}    "));
                out.push_str(&format!("{indent}{key}{mark}: {kind},{}\n", default.unwrap_or_default()));
            }
        }
    }
    out.push_str(indent);
    out.push('}');
    out
}

/// What stands above a property: title, description, examples.
fn above(out: &mut String, property: &Value, indent: &str) {
    if let Some(title) = text(property, "title") {
        out.push_str(&format!("{indent}// {title}\n{indent}//\n"));
    }
    if let Some(description) = text(property, "description").filter(|_| property.get("oneOf").is_none()) {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    let examples = list(property, "examples").unwrap_or_default();
    if !examples.is_empty() {
        out.push_str(&format!("{indent}// Examples:\n"));
        for example in examples.iter().filter_map(Value::as_str) {
            out.push_str(&format!("{indent}// - \"{example}\"\n"));
        }
    }
}

/// A property of several variants, each on a line of its own.
fn one_of(out: &mut String, name: &str, property: &Value, variants: &[Value], indent: &str) {
    let description = text(property, "description");
    let first = variants.first().and_then(|variant| text(variant, "description"));
    let shown_above = description.filter(|_| first != description);
    if let Some(description) = shown_above {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    if let Some(default) = property.get("default") {
        out.push_str(&format!("{indent}// {}\n", default_of(default, property)));
    }
    out.push_str(&format!("{name}:\n"));
    for (at, variant) in variants.iter().enumerate() {
        let mut comments = Vec::new();
        if at > 0 || shown_above.is_none() {
            comments.extend(text(variant, "description").filter(|own| Some(*own) != description).map(str::to_owned));
        }
        comments.extend(variant.get("default").map(|default| default_of(default, variant)));
        let kind = nullable(variant, &format!("{indent}   "));
        out.push_str(&format!("{indent} | {kind}{}\n", trailing(&comments)));
    }
    out.push_str(&format!("{indent},\n"));
}

fn trailing(comments: &[String]) -> String {
    if comments.is_empty() { String::new() } else { format!(" // {}", comments.join(" ")) }
}

fn default_of(default: &Value, schema: &Value) -> String {
    match default {
        Value::String(text) if !is_enum(schema) => format!("default: \"{text}\""),
        Value::String(text) => format!("default: {text}"),
        other => format!("default: {other}"),
    }
}

fn nullable(schema: &Value, indent: &str) -> String {
    let kind = type_of(schema, indent);
    if schema.get("nullable") == Some(&Value::Bool(true)) && !kind.contains("null") {
        return format!("{kind} | null");
    }
    kind
}

fn strings(schema: &Value) -> String {
    let allowed = list(schema, "enum").unwrap_or_default().iter().filter_map(Value::as_str);
    let allowed: Vec<String> = allowed.map(|text| format!("\"{text}\"")).collect();
    if allowed.is_empty() { "string".to_owned() } else { allowed.join(" | ") }
}

fn is_enum(schema: &Value) -> bool {
    list(schema, "enum").is_some_and(|allowed| !allowed.is_empty())
}

fn text<'s>(schema: &'s Value, key: &str) -> Option<&'s str> {
    schema.get(key).and_then(Value::as_str)
}

fn list<'s>(schema: &'s Value, key: &str) -> Option<&'s [Value]> {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice)
}
