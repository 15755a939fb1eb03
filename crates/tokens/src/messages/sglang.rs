//! Messages as SGLang hands them to a chat template.
//!
//! In: the messages and tools of a request; out: the values a template sees, following SGLang's
//! `entrypoints/openai/protocol.py` (which members there are, in which order), `serving_chat.py` (arguments parsed, the
//! last message) and `parser/jinja_template_utils.py` (parts joined by spaces, or kept as a list). What SGLang answers
//! with an error is an error here.

use minijinja::Value;
use request::json::{self, Object};

use super::{Conversation, present, refused, shown};
use crate::{
    EncodeError, Template,
    media::{Met, Modality, content_hash},
    template::{ContentFormat, Dict, List, to_template},
};

/// Roles other than `user`, which SGLang takes in capitals, too.
const ROLES: [&str; 6] = ["system", "assistant", "tool", "function", "developer", "latest_reminder"];

/// Cleans up the messages for a template. A last message of the assistant's is taken off to be continued where that is
/// asked for, and said by the user where it isn't.
pub(crate) fn clean(
    messages: &[json::Value<'_>],
    template: &Template,
    format: ContentFormat,
    continues: bool,
) -> Result<Conversation, EncodeError> {
    let mut conversation = Conversation::default();
    let last = messages.len().saturating_sub(1);
    for (at, message) in messages.iter().enumerate() {
        let Some(message) = message.as_object() else { return Err(refused("a message isn't an object")) };
        let role = role(message)?;
        let content = content(message.get("content"), &role, format, template, &mut conversation.media)?;
        if at == last
            && role == "assistant"
            && let Content::Text(text) = &content
        {
            if continues {
                conversation.final_text = Some(text.clone());
            } else {
                let said = [("role", Value::from("user")), ("content", Value::from(text.as_str()))];
                conversation.messages.push(Dict::collect(said));
            }
            continue;
        }
        let parted = format == ContentFormat::Openai && matches!(message.get("content"), Some(json::Value::Array(_)));
        conversation.messages.push(cleaned(message, &role, content, parted)?);
    }
    Ok(conversation)
}

fn role(message: &Object<'_>) -> Result<String, EncodeError> {
    let Some(role) = message.get("role").and_then(json::Value::as_str) else {
        return Err(refused("a message has no role"));
    };
    let lower = role.to_lowercase();
    match role == "user" || ROLES.contains(&lower.as_str()) {
        true => Ok(lower),
        false => Err(refused("SGLang knows no such role")),
    }
}

enum Content {
    Text(String),
    Parts(Vec<Value>),
}

impl From<Content> for Value {
    fn from(content: Content) -> Value {
        match content {
            Content::Text(text) => Value::from(text),
            Content::Parts(parts) => List::collect(parts),
        }
    }
}

fn content(
    sent: Option<&json::Value<'_>>,
    role: &str,
    format: ContentFormat,
    template: &Template,
    media: &mut Vec<Met>,
) -> Result<Content, EncodeError> {
    let parts = match sent {
        None | Some(json::Value::Null) if role == "user" => return Err(refused("a user's message has no content")),
        None | Some(json::Value::Null) => return Ok(Content::Text(String::new())),
        Some(json::Value::Str(text)) => return Ok(Content::Text(text.clone().into_owned())),
        Some(json::Value::Array(parts)) => parts,
        Some(_) => return Err(refused("a content is neither text nor a list of parts")),
    };
    let parts = parts.iter().map(|part| read_part(part, role)).collect::<Result<Vec<_>, _>>()?;
    let texts = || parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(*text) } else { None });
    // A tool's answer is one text, unless it holds more than text.
    let only_texts = parts.iter().all(|part| matches!(part, Part::Text(_) | Part::Thought));
    if format == ContentFormat::String || role == "tool" && only_texts {
        return Ok(Content::Text(texts().collect::<Vec<_>>().join(" ")));
    }
    let kind = |name: &str| ("type", Value::from(name));
    let shown = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(Dict::collect([kind("text"), ("text", Value::from(*text))])),
        Part::Media(modality, url) => {
            let placeholder = template.placeholder(*modality).map(str::to_owned);
            media.push(Met { hash: content_hash(*modality, url), placeholder });
            Some(Dict::collect([kind(modality.name())]))
        }
        Part::ToolReference(name) => Some(Dict::collect([kind("tool_reference"), ("name", Value::from(*name))])),
        Part::Thought => None,
    });
    Ok(Content::Parts(shown.collect()))
}

enum Part<'m> {
    Text(&'m str),
    Media(Modality, &'m json::Value<'m>),
    ToolReference(&'m str),
    /// Which no template sees.
    Thought,
}

fn read_part<'m>(part: &'m json::Value<'_>, role: &str) -> Result<Part<'m>, EncodeError> {
    const NOT_A_PART: &str = "a content part isn't one that SGLang takes";
    let Some(part) = part.as_object() else { return Err(refused(NOT_A_PART)) };
    let text = |key| part.get(key).and_then(json::Value::as_str);
    let kind = text("type").unwrap_or_default();
    match kind {
        "text" => text("text").map(Part::Text),
        "tool_reference" => text("name").map(Part::ToolReference),
        "thinking" | "reasoning" if role == "assistant" => {
            (text("thinking").is_some() != text("text").is_some()).then_some(Part::Thought)
        }
        "image_url" | "video_url" | "audio_url" => {
            let url = part.get(kind).and_then(|object| object.get("url")?.as_str());
            Modality::of(kind).filter(|_| url.is_some()).map(|modality| Part::Media(modality, shown(part, kind)))
        }
        _ => None,
    }
    .ok_or_else(|| refused(NOT_A_PART))
}

/// The message's members in SGLang's order, null ones left out. A content that was gone through part by part stands last.
fn cleaned(message: &Object<'_>, role: &str, content: Content, last: bool) -> Result<Value, EncodeError> {
    let mut members = vec![("role", Value::from(role))];
    if !last {
        members.push(("content", Value::from(())));
    }
    let at = members.len() - 1;
    if role != "user" {
        for key in ["tool_call_id", "name", "reasoning_content"] {
            match message.get(key) {
                None | Some(json::Value::Null) => {}
                Some(json::Value::Str(text)) => members.push((key, Value::from(text.as_ref()))),
                Some(_) => return Err(refused("a message's member isn't text")),
            }
        }
        if let Some(calls) = list(message, "tool_calls")? {
            let calls = calls.iter().map(|call| tool_call(call, role == "assistant")).collect::<Result<Vec<_>, _>>()?;
            members.push(("tool_calls", List::collect(calls)));
        }
        if let Some(own) = list(message, "tools")? {
            members.push(("tools", List::collect(own.iter().map(tool).collect::<Result<Vec<_>, _>>()?)));
        }
    }
    match last {
        true => members.push(("content", content.into())),
        false => members[at].1 = content.into(),
    }
    Ok(Dict::collect(members))
}

fn list<'m, 'a>(message: &'m Object<'a>, key: &str) -> Result<Option<&'m [json::Value<'a>]>, EncodeError> {
    match message.get(key) {
        None | Some(json::Value::Null) => Ok(None),
        Some(json::Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(refused("a message's member isn't a list")),
    }
}

/// A call with all its members, null where they are missing.
fn tool_call(call: &json::Value<'_>, of_assistant: bool) -> Result<Value, EncodeError> {
    let function = call.get("function").and_then(json::Value::as_object);
    let Some((call, function)) = call.as_object().zip(function) else {
        return Err(refused("a tool call has no function"));
    };
    if call.get("type").is_some_and(|kind| kind.as_str() != Some("function")) {
        return Err(refused("a tool call isn't one of a function"));
    }
    let member = |object: &Object<'_>, key| object.get(key).map_or(Value::from(()), to_template);
    let arguments = match function.get("arguments") {
        Some(json::Value::Str(text)) if of_assistant => parsed(text)?,
        Some(sent @ (json::Value::Str(_) | json::Value::Object(_))) => to_template(sent),
        None | Some(json::Value::Null) => Value::from(()),
        Some(_) => return Err(refused("a tool call's arguments are neither text nor an object")),
    };
    let function = Dict::collect([("name", member(function, "name")), ("arguments", arguments)]);
    Ok(Dict::collect([
        ("id", member(call, "id")),
        ("index", member(call, "index")),
        ("type", Value::from("function")),
        ("function", function),
    ]))
}

/// Arguments have to be a JSON object, as `orjson` reads one: integers beyond 64 bits are floats, and every float is a
/// number.
fn parsed(arguments: &str) -> Result<Value, EncodeError> {
    let object = json::parse(arguments.as_bytes()).ok().filter(|object| object.as_object().is_some());
    let object = object.and_then(|mut object| as_orjson(&mut object).then(|| to_template(&object)));
    object.ok_or_else(|| refused("a tool call's arguments aren't a JSON object"))
}

fn as_orjson(value: &mut json::Value<'_>) -> bool {
    match value {
        json::Value::Int(digits) => {
            if digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err() {
                let Ok(float) = digits.parse::<f64>() else { return false };
                *value = json::Value::Float(float);
            }
            !matches!(value, json::Value::Float(float) if !float.is_finite())
        }
        json::Value::Float(float) => float.is_finite(),
        json::Value::Array(items) => items.iter_mut().all(as_orjson),
        json::Value::Object(object) => {
            let keys: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
            keys.iter().all(|key| !object.lone_surrogate_in(key) && object.get_mut(key).is_none_or(as_orjson))
        }
        json::Value::Null | json::Value::Bool(_) | json::Value::Str(_) => true,
    }
}

/// Tools as SGLang's models print them; `bare` gives the functions alone, with which it tries again where a template
/// fails.
pub(crate) fn tools(tools: &[json::Value<'_>], bare: bool) -> Result<Value, EncodeError> {
    let tools = tools.iter().map(|tool| if bare { function(tool) } else { self::tool(tool) });
    Ok(List::collect(tools.collect::<Result<Vec<_>, _>>()?))
}

fn tool(tool: &json::Value<'_>) -> Result<Value, EncodeError> {
    let kind = tool.get("type").map_or_else(|| Value::from("function"), to_template);
    let deferred = tool.get("defer_loading").map_or(Value::from(()), to_template);
    Ok(Dict::collect([("type", kind), ("function", function(tool)?), ("defer_loading", deferred)]))
}

fn function(tool: &json::Value<'_>) -> Result<Value, EncodeError> {
    let function = tool.get("function").and_then(json::Value::as_object);
    let Some((tool, function)) = tool.as_object().zip(function) else { return Err(refused("a tool has no function")) };
    let member = |key: &'static str| (key, function.get(key).map_or(Value::from(()), to_template));
    let parameters = function.get("parameters").map_or(Value::from(()), |schema| {
        let mut schema = schema.clone();
        schema::name_types(&mut schema);
        to_template(&schema)
    });
    let strict = function.get("strict").map_or(Value::from(false), to_template);
    let members = [member("description"), member("name"), ("parameters", parameters), ("strict", strict)];
    let deferred = present(function, "defer_loading").or_else(|| present(tool, "defer_loading"));
    Ok(Dict::collect(members.into_iter().chain(deferred)))
}

mod schema {
    //! Names of types that JSON Schema doesn't know, as SGLang's `normalize_json_schema_types` makes them ones it does.

    use request::json::Value;

    const STANDARD: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    /// Other names, whole.
    const NAMES: [(&str, &[&str]); 5] = [
        (
            "string",
            &[
                "str",
                "text",
                "varchar",
                "char",
                "enum",
                "uuid",
                "date",
                "datetime",
                "time",
                "timestamp",
                "binary",
                "blob",
                "bytea",
                "bytes",
                "varbinary",
            ],
        ),
        ("boolean", &["bool"]),
        ("integer", &["bigint", "smallint", "tinyint"]),
        ("number", &["double", "decimal", "real", "numeric"]),
        ("array", &["arr", "tuple", "set"]),
    ];
    /// Beginnings of names, where the name ends there or something that is no letter follows.
    const BEGINNINGS: [(&str, &[&str]); 4] = [
        ("integer", &["int", "uint", "long", "short", "unsigned"]),
        ("number", &["num", "float"]),
        ("array", &["list"]),
        ("object", &["dict"]),
    ];
    const OF_SCHEMAS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
    const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
    const SCHEMAS: [&str; 10] = [
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    ];

    /// Rewrites every `type` within a schema.
    pub(super) fn name_types(schema: &mut Value<'_>) {
        let object = match schema {
            Value::Array(items) => return items.iter_mut().for_each(name_types),
            Value::Object(object) => object,
            _ => return,
        };
        match object.get_mut("type") {
            Some(Value::Str(name)) => {
                if let Some(known) = named(name) {
                    *name = known.into();
                }
            }
            Some(Value::Array(names)) => {
                let mut kept: Vec<Value<'_>> = Vec::with_capacity(names.len());
                for mut name in std::mem::take(names) {
                    if let Some(known) = name.as_str().and_then(named) {
                        name = Value::Str(known.into());
                    }
                    if !kept.contains(&name) {
                        kept.push(name);
                    }
                }
                *names = kept;
            }
            _ => {}
        }
        for key in OF_SCHEMAS {
            if let Some(Value::Object(within)) = object.get_mut(key) {
                let keys: Vec<String> = within.iter().map(|(key, _)| key.to_owned()).collect();
                keys.iter().filter_map(|key| within.get_mut(key).map(name_types)).for_each(drop);
            }
        }
        for key in LISTS {
            if let Some(Value::Array(items)) = object.get_mut(key) {
                items.iter_mut().for_each(name_types);
            }
        }
        for key in SCHEMAS {
            if let Some(within) = object.get_mut(key) {
                name_types(within);
            }
        }
    }

    /// The standard name for one that isn't.
    fn named(name: &str) -> Option<&'static str> {
        if STANDARD.contains(&name) {
            return None;
        }
        let base = name.split('(').next().unwrap_or_default().trim().to_lowercase();
        let standard = STANDARD.into_iter().find(|standard| *standard == base);
        let whole = || NAMES.into_iter().find(|(_, names)| names.contains(&base.as_str())).map(|(known, _)| known);
        let map = || (base == "map").then_some("object");
        let begins = |start: &&str| {
            base.strip_prefix(start).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(|next: char| next.is_ascii_digit() || "[<( \t".contains(next))
            })
        };
        let beginning = || BEGINNINGS.into_iter().find(|(_, starts)| starts.iter().any(begins)).map(|(known, _)| known);
        standard.or_else(whole).or_else(map).or_else(beginning)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn names_of_types_are_those_of_the_standard() {
            for (name, expected) in [
                ("varchar(255)", "string"),
                ("Int32", "integer"),
                ("list[str]", "array"),
                ("map", "object"),
                ("internal", "internal"),
                ("list_price", "list_price"),
                ("String", "string"),
                ("object", "object"),
            ] {
                assert_eq!(named(name).unwrap_or(name), expected);
            }
        }
    }
}
