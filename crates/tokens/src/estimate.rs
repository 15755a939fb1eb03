//! An estimate, for models whose files aren't at hand.
//!
//! In: a prompt; out: one id for every four bytes of a canonical text of it. Equal beginnings of canonical text have
//! equal ids, so that prefixes can be followed; nothing else about the ids means anything. An image, a sound or a file stands
//! there as a hash of its address or data: what it costs the engine isn't known here, and its bytes are no text.

use std::fmt::Write;

use request::{
    Chat, Prompt,
    json::{Object, Value},
};

use crate::{
    Context, EncodeError, Encoded,
    media::{Modality, hash_of},
    truncation,
};

const BYTES_A_TOKEN: usize = 4;

pub(crate) fn encode(prompt: &Prompt<'_>, context: &Context) -> Result<Encoded, EncodeError> {
    let mut encoded = match prompt {
        Prompt::Chat(chat) if chat.messages.is_empty() => {
            return Err(EncodeError::Messages("there are no messages".into()));
        }
        Prompt::Chat(chat) => {
            let text = canonical(chat, context);
            let multimodal = chat.messages.iter().any(|message| parts(message).any(is_media));
            let prompts = vec![ids(&text)];
            Encoded { prompts, rendered: Some(text), estimated: true, multimodal, ..Encoded::default() }
        }
        Prompt::Texts { texts, .. } => {
            Encoded { prompts: texts.iter().map(|text| ids(text)).collect(), estimated: true, ..Encoded::default() }
        }
        Prompt::Tokens(prompts) => Encoded { prompts: prompts.clone(), ..Encoded::default() },
    };
    truncation::shorten(&mut encoded, context.truncation);
    Ok(encoded)
}

fn ids(text: &str) -> Vec<u32> {
    text.as_bytes()
        .chunks(BYTES_A_TOKEN)
        .map(|chunk| {
            let mut bytes = [0; BYTES_A_TOKEN];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(bytes)
        })
        .collect()
}

/// What most templates put first stands first: tools, documents, arguments; then the messages in order, role and
/// content before their other members.
fn canonical(chat: &Chat<'_>, context: &Context) -> String {
    let mut text = String::new();
    let tools =
        chat.tools.as_deref().filter(|_| !(chat.tool_choice_none && context.exclude_tools_when_tool_choice_none));
    for (name, list) in [("tools", tools), ("documents", chat.documents.as_deref())] {
        for item in list.unwrap_or_default() {
            text.push_str(name);
            write(&mut text, item);
            text.push('\n');
        }
    }
    for (name, value) in chat.template_kwargs.iter() {
        text.push_str(name);
        text.push('=');
        write(&mut text, value);
        text.push('\n');
    }
    for message in &chat.messages {
        write_message(&mut text, message);
    }
    text
}

fn write_message(text: &mut String, message: &Value<'_>) {
    let Some(object) = message.as_object() else { return write(text, message) };
    for key in ["role", "content"] {
        if let Some(value) = object.get(key).filter(|value| **value != Value::Null) {
            match value {
                Value::Str(plain) => text.push_str(plain),
                Value::Array(parts) => parts.iter().for_each(|part| write_part(text, part)),
                other => write(text, other),
            }
            text.push('\n');
        }
    }
    let mut others: Vec<_> = object.iter().filter(|(key, _)| !matches!(*key, "role" | "content")).collect();
    others.sort_by_key(|(key, _)| *key);
    for (key, value) in others {
        text.push_str(key);
        text.push('=');
        write(text, value);
        text.push('\n');
    }
}

/// A content's parts that are objects.
fn parts<'m, 'a>(message: &'m Value<'a>) -> impl Iterator<Item = &'m Object<'a>> {
    let content = message.get("content").and_then(Value::as_array).unwrap_or_default();
    content.iter().filter_map(Value::as_object)
}

fn is_media(part: &Object<'_>) -> bool {
    part.iter().any(|(key, value)| {
        let name = if key == "type" { value.as_str().unwrap_or_default() } else { key };
        Modality::of(name).is_some()
    })
}

fn write_part(text: &mut String, part: &Value<'_>) {
    let holds_text = |part: &Object<'_>| ["text", "thinking", "refusal"].iter().any(|key| part.get(key).is_some());
    match part.as_object() {
        // Writing to a String can't fail.
        Some(object) if is_media(object) || !holds_text(object) => drop(write!(text, "[{:016x}],", hash_of(part))),
        _ => {
            write(text, part);
            text.push(',');
        }
    }
}

fn write(text: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Int(digits) => text.push_str(digits),
        // Writing to a String can't fail.
        Value::Float(number) => drop(write!(text, "{number}")),
        Value::Str(plain) => drop(write!(text, "{plain:?}")),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(text, item);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(object) => {
            text.push('{');
            for (key, value) in object.iter() {
                text.push_str(key);
                text.push(':');
                write(text, value);
                text.push(',');
            }
            text.push('}');
        }
    }
}
