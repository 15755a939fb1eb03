//! `/v1/responses` as SGLang turns them into a chat (its `entrypoints/openai/serving_responses.py`).
//!
//! In: the body's members; out: a [`Request`]. Each item is a message of its own; the assistant's that follow one another
//! become one, texts apart by an empty line. What depends on responses that the engine stored is named: it isn't in the
//! body.

use std::borrow::Cow;

use super::{plain, request};
use crate::{
    Api, Chat, NotUnderstood, Prompt, Request,
    chat::check_message,
    fields::{Fields, wrong_type},
    json::{self, Object, Value},
    responses,
};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    responses::refuse_references(&body)?;
    let mut chat = Vec::new();
    if let Some(instructions) = body.text("instructions")?.filter(|instructions| !instructions.is_empty()) {
        push(&mut chat, [("role", Value::Str("system".into())), ("content", Value::Str(instructions))]);
    }
    match body.value("input")? {
        None => return Err(NotUnderstood::NoPrompt { key: "input" }),
        Some(Value::Str(text)) => push(&mut chat, [("role", Value::Str("user".into())), ("content", Value::Str(text))]),
        Some(Value::Array(items)) => {
            for (at, item) in items.into_iter().enumerate() {
                add(at, item, &mut chat)?;
            }
        }
        Some(other) => return Err(wrong_type("input", "a string or a list", &other)),
    }
    if chat.is_empty() {
        return Err(NotUnderstood::NoPrompt { key: "input" });
    }
    let stream = body.truth("stream", false)?;
    let max_tokens = body.count("max_output_tokens")?;
    let reasoning = Value::Object(body.object("reasoning")?.unwrap_or_default());
    let prompt = Prompt::Chat(Chat {
        tools: match body.value("tool_choice")? {
            Some(Value::Str(word)) if word == "none" => None,
            _ => responses::tools(&mut body)?.filter(|tools| !tools.is_empty()),
        },
        reasoning_effort: Fields::of("reasoning".to_owned(), reasoning)?.text("effort")?,
        template_kwargs: body.object("chat_template_kwargs")?.unwrap_or_default(),
        by_responses: true,
        ..plain(merged(chat))
    });
    Ok(Request { stream, include_usage: stream, max_tokens, ..request(Api::Responses, body, prompt)? })
}

fn push<'a, const N: usize>(chat: &mut Vec<Object<'a>>, members: [(&'static str, Value<'a>); N]) {
    chat.push(Object::from(members));
}

fn text(text: &'static str) -> Value<'static> {
    Value::Str(text.into())
}

fn add<'a>(at: usize, item: Value<'a>, chat: &mut Vec<Object<'a>>) -> Result<(), NotUnderstood> {
    let mut item = Fields::of(format!("input[{at}]"), item)?;
    if item.is("function_call") {
        let id = match item.text("call_id")?.filter(|id| !id.is_empty()) {
            None => item.text("id")?,
            id => id,
        };
        let function = Object::from([
            ("name", Value::Str(item.needed_text("name")?)),
            ("arguments", arguments(item.value("arguments")?)),
        ]);
        let call = Object::from([
            ("id", id.map_or(Value::Null, Value::Str)),
            ("type", text("function")),
            ("function", Value::Object(function)),
        ]);
        let calls = Value::Array(vec![Value::Object(call)]);
        push(chat, [("role", text("assistant")), ("content", text("")), ("tool_calls", calls)]);
    } else if item.is("function_call_output") {
        let output = output(at, item.value("output")?)?;
        let id = Value::Str(item.needed_text("call_id")?);
        push(chat, [("role", text("tool")), ("tool_call_id", id), ("content", Value::Str(output))]);
    } else if item.is("reasoning") {
        let texts = reasoning(&mut item)?;
        if !texts.is_empty() {
            let reasoning = Value::Str(texts.join("\n").into());
            push(chat, [("role", text("assistant")), ("reasoning_content", reasoning), ("content", text(""))]);
        }
    } else if item.is("message") || !item.has("type") {
        chat.push(message(at, item.into_object())?);
    } else {
        return Err(NotUnderstood::Unsupported { key: item.place_of("type"), what: "an unknown kind of item" });
    }
    Ok(())
}

/// Arguments that aren't a JSON object count as none.
fn arguments(sent: Option<Value<'_>>) -> Value<'_> {
    match sent {
        Some(object @ Value::Object(_)) => object,
        Some(Value::Str(sent)) if matches!(json::parse(sent.as_bytes()), Ok(Value::Object(_))) => Value::Str(sent),
        _ => text("{}"),
    }
}

/// What a call gave: a text, or the texts of its parts with nothing between.
fn output(at: usize, sent: Option<Value<'_>>) -> Result<Cow<'_, str>, NotUnderstood> {
    match sent {
        None => Ok("".into()),
        Some(Value::Str(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            Ok(Cow::Owned(texts.collect()))
        }
        Some(other) => Err(wrong_type(&format!("input[{at}].output"), "a string or a list", &other)),
    }
}

/// The texts of the summary, else of the content.
fn reasoning<'a>(item: &mut Fields<'a>) -> Result<Vec<Cow<'a, str>>, NotUnderstood> {
    for key in ["summary", "content"] {
        let Some(parts) = item.list(key)?.filter(|parts| !parts.is_empty()) else { continue };
        let mut texts = Vec::new();
        for (at, part) in parts.into_iter().enumerate() {
            let part = Fields::of(format!("{}[{at}]", item.place_of(key)), part)?.text("text")?;
            texts.extend(part.filter(|text| !text.is_empty()));
        }
        return Ok(texts);
    }
    Ok(Vec::new())
}

/// A message without what belongs to the item alone; parts by their names in chats, or as one text.
fn message<'a>(at: usize, mut message: Object<'a>) -> Result<Object<'a>, NotUnderstood> {
    for key in ["id", "status", "type"] {
        message.take(key);
    }
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let in_one = matches!(role, "assistant" | "developer" | "system");
    if let Some(Value::Array(parts)) = message.get_mut("content") {
        let parts: Vec<Value<'a>> = std::mem::take(parts).into_iter().map(part).collect();
        let content = if in_one { Value::Str(texts(&parts).into()) } else { Value::Array(parts) };
        message.insert("content".into(), content);
    }
    let message = Value::Object(message);
    check_message("input", at, &message)?;
    match message {
        Value::Object(message) => Ok(message),
        other => Err(wrong_type(&format!("input[{at}]"), "an object", &other)),
    }
}

fn texts(parts: &[Value<'_>]) -> String {
    let texts = parts.iter().filter(|part| part.get("type").and_then(Value::as_str) == Some("text"));
    texts.map(|part| part.get("text").and_then(Value::as_str).unwrap_or_default()).collect::<Vec<_>>().join("\n\n")
}

fn part(part: Value<'_>) -> Value<'_> {
    let Value::Object(mut part) = part else { return part };
    match part.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text") => {
            let said = part.take("text").unwrap_or(text(""));
            Value::Object(Object::from([("type", text("text")), ("text", said)]))
        }
        Some("input_image") => {
            let url = match part.take("image_url") {
                Some(Value::Str(url)) => Value::Object(Object::from([("url", Value::Str(url))])),
                other => other.unwrap_or(Value::Null),
            };
            Value::Object(Object::from([("type", text("image_url")), ("image_url", url)]))
        }
        _ => Value::Object(part),
    }
}

/// The assistant's messages that follow one another, as one.
fn merged(messages: Vec<Object<'_>>) -> Vec<Value<'_>> {
    let is_assistant = |message: &Object<'_>| message.get("role").and_then(Value::as_str) == Some("assistant");
    let mut merged: Vec<Object<'_>> = Vec::new();
    for mut message in messages {
        let Some(before) = merged.last_mut().filter(|before| is_assistant(before) && is_assistant(&message)) else {
            merged.push(message);
            continue;
        };
        for (key, between) in [("reasoning_content", "\n"), ("content", "\n\n")] {
            if let Some(Value::Str(more)) = message.take(key).filter(|more| more.as_str() != Some("")) {
                let whole = match before.take(key) {
                    Some(Value::Str(first)) if !first.is_empty() => Cow::Owned(format!("{first}{between}{more}")),
                    _ => more,
                };
                before.insert(key.into(), Value::Str(whole));
            }
        }
        if let Some(Value::Array(more)) = message.take("tool_calls") {
            match before.get_mut("tool_calls") {
                Some(Value::Array(calls)) => calls.extend(more),
                _ => before.insert("tool_calls".into(), Value::Array(more)),
            }
        }
    }
    merged.into_iter().map(Value::Object).collect()
}
