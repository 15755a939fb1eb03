//! Messages as vLLM hands them to a chat template.
//!
//! In: the messages and tools of a request; out: the values a template sees, following vLLM's
//! `entrypoints/chat_utils.py`: parts joined by newlines, or kept as a list where the template loops over them; no
//! content is empty content; tool calls' arguments parsed; reasoning under both its names. What vLLM answers with an
//! error is an error here.

use std::borrow::Cow;

use minijinja::Value;
use request::json::{self, Object};

use crate::{
    EncodeError,
    media::{Modality, content_hash},
    template::{ContentFormat, Dict, List, to_template},
};

/// A cleaned-up chat.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Value>,
    /// The text that `continue_final_message` continues, of the last message.
    pub(crate) final_text: Option<String>,
    /// Hashes of what isn't text, in order.
    pub(crate) media: Vec<u64>,
}

/// A message's content on its way to the template.
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// One part of a content that stays a list.
enum Part {
    Text(String),
    Media(Modality),
    ToolReference(Value),
}

/// What a part of the request was read as.
enum Read {
    Nothing,
    Text(String),
    Media(Modality),
    ToolReference(Value),
}

/// Cleans up the messages. With `tag`, the last message's text has it appended, so that the rendered text can be cut
/// there.
pub(crate) fn clean(
    messages: &[json::Value<'_>],
    format: ContentFormat,
    tag: Option<&str>,
) -> Result<Conversation, EncodeError> {
    let mut conversation = Conversation { messages: Vec::with_capacity(messages.len()), ..Conversation::default() };
    for (at, message) in messages.iter().enumerate() {
        let Some(message) = message.as_object() else { return Err(refused("a message isn't an object")) };
        let tag = tag.filter(|_| at + 1 == messages.len());
        let cleaned = clean_message(message, format, tag, &mut conversation)?;
        conversation.messages.push(cleaned);
    }
    Ok(conversation)
}

/// Tools as vLLM's models print them: the known fields first, missing ones null, the others in the client's order.
pub(crate) fn tools(tools: &[json::Value<'_>]) -> Result<Option<Value>, EncodeError> {
    let tools: Vec<Value> = tools.iter().map(tool).collect::<Result<_, _>>()?;
    Ok((!tools.is_empty()).then(|| List::collect(tools)))
}

fn tool(tool: &json::Value<'_>) -> Result<Value, EncodeError> {
    let Some(tool) = tool.as_object() else { return Err(refused("a tool isn't an object")) };
    let Some(function) = tool.get("function").and_then(json::Value::as_object) else {
        return Err(refused("a tool has no function"));
    };
    let known = ["name", "description", "parameters"];
    let described = known
        .iter()
        .map(|key| (*key, function.get(key).map_or(Value::from(()), to_template)))
        .chain(others(function, &known));
    let kind = tool.get("type").map_or_else(|| Value::from("function"), to_template);
    let fields = [("type", kind), ("function", Dict::collect(described))];
    Ok(Dict::collect(fields.into_iter().chain(others(tool, &["type", "function"]))))
}

fn others<'o>(object: &'o Object<'_>, known: &'o [&str]) -> impl Iterator<Item = (&'o str, Value)> {
    object.iter().filter(|(key, _)| !known.contains(key)).map(|(key, value)| (key, to_template(value)))
}

fn clean_message(
    message: &Object<'_>,
    format: ContentFormat,
    tag: Option<&str>,
    conversation: &mut Conversation,
) -> Result<Value, EncodeError> {
    let Some(role) = message.get("role").and_then(json::Value::as_str) else {
        return Err(refused("a message has no role"));
    };
    let mut content = content(message.get("content"), format, &mut conversation.media)?;
    if role == "tool" {
        content = joined_if_text(content);
    }
    if let Some(tag) = tag {
        conversation.final_text = Some(append(&mut content, tag)?);
    }
    let mut fields = vec![("role", Value::from(role)), ("content", content.into_value())];
    match role {
        "assistant" => assistant_fields(message, &mut fields)?,
        "tool" => fields.extend(message.get("tool_call_id").map(|id| ("tool_call_id", to_template(id)))),
        _ => {}
    }
    for key in ["name", "task"] {
        fields.extend(message.get(key).and_then(json::Value::as_str).map(|text| (key, Value::from(text))));
    }
    if role == "developer" {
        fields.push(("tools", message.get("tools").map_or(Value::from(()), to_template)));
    }
    Ok(Dict::collect(fields))
}

fn assistant_fields(message: &Object<'_>, fields: &mut Vec<(&str, Value)>) -> Result<(), EncodeError> {
    if let Some(calls) = message.get("tool_calls").and_then(json::Value::as_array).filter(|calls| !calls.is_empty()) {
        let calls: Vec<Value> = calls.iter().map(tool_call).collect::<Result<_, _>>()?;
        fields.push(("tool_calls", List::collect(calls)));
    }
    if let Some(reasoning) = message.get("reasoning").filter(|reasoning| **reasoning != json::Value::Null) {
        let reasoning = to_template(reasoning);
        fields.push(("reasoning", reasoning.clone()));
        fields.push(("reasoning_content", reasoning));
    }
    Ok(())
}

fn tool_call(call: &json::Value<'_>) -> Result<Value, EncodeError> {
    let Some(call) = call.as_object() else { return Err(refused("a tool call isn't an object")) };
    let Some(function) = call.get("function").and_then(json::Value::as_object) else {
        return Err(refused("a tool call has no function"));
    };
    let arguments = match function.get("arguments") {
        Some(json::Value::Str(text)) => parsed(text),
        Some(value @ (json::Value::Object(_) | json::Value::Array(_))) => to_template(value),
        _ => Dict::empty(),
    };
    let mut function: Vec<(&str, Value)> = function.iter().map(|(key, value)| (key, to_template(value))).collect();
    match function.iter_mut().find(|(key, _)| *key == "arguments") {
        Some((_, value)) => *value = arguments,
        None => function.push(("arguments", arguments)),
    }
    let function = Dict::collect(function);
    Ok(Dict::collect(
        call.iter().map(|(key, value)| (key, if key == "function" { function.clone() } else { to_template(value) })),
    ))
}

/// Arguments that aren't JSON count as none.
fn parsed(arguments: &str) -> Value {
    match json::parse(arguments.as_bytes()) {
        Ok(value) => to_template(&value),
        Err(_) => Dict::empty(),
    }
}

fn content(
    content: Option<&json::Value<'_>>,
    format: ContentFormat,
    media: &mut Vec<u64>,
) -> Result<Content, EncodeError> {
    let parts = match content {
        None | Some(json::Value::Null) => &[],
        Some(json::Value::Str(text)) => return Ok(whole(text, format)),
        Some(json::Value::Array(parts)) => parts.as_slice(),
        Some(_) => return Err(refused("a content is neither text nor a list of parts")),
    };
    match format {
        ContentFormat::Openai => {
            let mut kept = Vec::with_capacity(parts.len());
            for part in parts {
                kept.extend(match read_part(part, media)? {
                    Read::Nothing => None,
                    Read::Text(text) => Some(Part::Text(text)),
                    Read::Media(modality) => Some(Part::Media(modality)),
                    Read::ToolReference(name) => Some(Part::ToolReference(name)),
                });
            }
            Ok(Content::Parts(kept))
        }
        ContentFormat::String => {
            let mut text = String::new();
            let mut first = true;
            for part in parts {
                let piece = match read_part(part, media)? {
                    Read::Text(piece) => piece,
                    Read::ToolReference(name) => name.to_string(),
                    Read::Nothing | Read::Media(_) => continue,
                };
                // vLLM skips what is falsy to Python.
                if piece.is_empty() {
                    continue;
                }
                if !first {
                    text.push('\n');
                }
                first = false;
                text.push_str(&piece);
            }
            Ok(Content::Text(text))
        }
    }
}

fn whole(text: &str, format: ContentFormat) -> Content {
    match format {
        ContentFormat::String => Content::Text(text.to_owned()),
        ContentFormat::Openai => Content::Parts(vec![Part::Text(text.to_owned())]),
    }
}

fn read_part(part: &json::Value<'_>, media: &mut Vec<u64>) -> Result<Read, EncodeError> {
    let part = match part {
        json::Value::Str(text) => return Ok(Read::Text(text.clone().into_owned())),
        json::Value::Object(part) => part,
        _ => return Err(refused("a content part is neither text nor an object")),
    };
    let kind = match part.get("type") {
        Some(json::Value::Str(kind)) => Some(kind.as_ref()),
        None | Some(json::Value::Null) => None,
        Some(_) => return Err(refused("a content part's type isn't text")),
    };
    let uuid = part.get("uuid").filter(|uuid| **uuid != json::Value::Null);
    match kind {
        Some("text" | "input_text" | "output_text") if uuid.is_none() => text_of(part, "text"),
        Some("refusal") if uuid.is_none() => text_of(part, "refusal"),
        Some("thinking") if uuid.is_none() => text_of(part, "thinking"),
        Some("tool_reference") => Ok(Read::ToolReference(part.get("name").map_or(Value::from(()), to_template))),
        _ => {
            let key = kind.filter(|kind| Modality::of(kind).is_some()).or_else(|| named_by_key(part, kind, uuid));
            let Some((key, modality)) = key.and_then(|key| Some((key, Modality::of(key)?))) else {
                return Err(refused("a content part of a type that the engine doesn't know"));
            };
            media.push(content_hash(modality, uuid.unwrap_or_else(|| shown(part, key))));
            Ok(Read::Media(modality))
        }
    }
}

/// Without a type, or with a name of the client's own, a part is what its keys say.
fn named_by_key<'p>(part: &'p Object<'_>, kind: Option<&str>, uuid: Option<&json::Value<'_>>) -> Option<&'p str> {
    if kind.is_some() && uuid.is_none() {
        return None;
    }
    part.iter().map(|(key, _)| key).find(|key| Modality::of(key).is_some())
}

/// The address or the data of a part.
fn shown<'p, 'a>(part: &'p Object<'a>, kind: &str) -> &'p json::Value<'a> {
    const NOTHING: json::Value<'static> = json::Value::Null;
    let key = if kind == "input_image" { "image_url" } else { kind };
    match part.get(key) {
        Some(json::Value::Object(object)) => object.get("url").unwrap_or_else(|| part.get(key).unwrap_or(&NOTHING)),
        Some(value) => value,
        None => &NOTHING,
    }
}

fn text_of(part: &Object<'_>, key: &str) -> Result<Read, EncodeError> {
    match part.get(key) {
        Some(json::Value::Str(text)) => Ok(Read::Text(text.clone().into_owned())),
        None | Some(json::Value::Null) => Ok(Read::Nothing),
        Some(_) => Err(refused("a text part's text isn't text")),
    }
}

/// A tool's answer in parts becomes one text, unless it holds more than text.
fn joined_if_text(content: Content) -> Content {
    match content {
        Content::Parts(parts) if parts.iter().all(|part| matches!(part, Part::Text(_))) => {
            let texts: Vec<String> = parts
                .into_iter()
                .filter_map(|part| match part {
                    Part::Text(text) => Some(text),
                    _ => None,
                })
                .collect();
            Content::Text(texts.join("\n"))
        }
        other => other,
    }
}

/// Appends to the text that a continuation continues, and gives that text.
fn append(content: &mut Content, tag: &str) -> Result<String, EncodeError> {
    let text = match content {
        Content::Text(text) => Some(text),
        Content::Parts(parts) => parts.iter_mut().rev().find_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        }),
    };
    let Some(text) = text else { return Err(refused("continue_final_message, but the last message has no text")) };
    let whole = text.clone();
    text.push_str(tag);
    Ok(whole)
}

impl Content {
    fn into_value(self) -> Value {
        match self {
            Content::Text(text) => Value::from(text),
            Content::Parts(parts) => List::collect(parts.into_iter().map(Part::into_value)),
        }
    }
}

impl Part {
    fn into_value(self) -> Value {
        match self {
            Part::Text(text) => Dict::collect([("type", Value::from("text")), ("text", Value::from(text))]),
            Part::Media(modality) => Dict::collect([("type", Value::from(modality.name()))]),
            Part::ToolReference(name) => Dict::collect([("type", Value::from("tool_reference")), ("name", name)]),
        }
    }
}

fn refused(why: &'static str) -> EncodeError {
    EncodeError::Messages(Cow::Borrowed(why))
}
