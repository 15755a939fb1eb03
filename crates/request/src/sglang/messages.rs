//! Anthropic's `/v1/messages` as SGLang turns them into a chat (its `entrypoints/anthropic/serving.py`).
//!
//! In: the body's members; out: a [`Request`]. System texts stand on lines of their own; thinking is left out; a user's
//! tool results become messages of their own, with their texts and images in parts; neither effort nor the template's
//! arguments are read.

use std::borrow::Cow;

use super::{plain, request};
use crate::{
    Api, Chat, NotUnderstood, Prompt, Request,
    fields::{Fields, wrong_type},
    json::{Object, Value},
    messages::{call, reference, text_part},
};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let mut chat = Vec::new();
    match body.value("system")? {
        None => {}
        Some(Value::Str(text)) if text.is_empty() => {}
        Some(Value::Str(text)) => chat.push(message("system", Value::Str(text))),
        Some(Value::Array(blocks)) if blocks.is_empty() => {}
        Some(Value::Array(blocks)) => chat.push(message("system", Value::Str(system_text(blocks)?))),
        Some(other) => return Err(wrong_type("system", "a string or a list", &other)),
    }
    let messages = body.list("messages")?.filter(|messages| !messages.is_empty()).ok_or(NotUnderstood::NoMessages)?;
    for (at, message) in messages.into_iter().enumerate() {
        convert(format!("messages[{at}]"), message, &mut chat)?;
    }
    if chat.is_empty() {
        return Err(NotUnderstood::NoMessages);
    }
    let stream = body.truth("stream", false)?;
    let max_tokens = body.count("max_tokens")?;
    let prompt = Prompt::Chat(Chat { tools: chosen_tools(&mut body)?, ..plain(chat) });
    Ok(Request { stream, include_usage: stream, max_tokens, ..request(Api::Messages, body, prompt)? })
}

fn message<'a>(role: &'static str, content: Value<'a>) -> Value<'a> {
    Value::Object(Object::from([("role", Value::Str(role.into())), ("content", content)]))
}

fn system_text(blocks: Vec<Value<'_>>) -> Result<Cow<'_, str>, NotUnderstood> {
    let mut texts = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::of(format!("system[{at}]"), block)?;
        if block.is("text") {
            texts.extend(block.text("text")?.filter(|text| !text.is_empty()));
        }
    }
    Ok(joined(texts))
}

/// Texts on lines of their own.
fn joined(mut texts: Vec<Cow<'_, str>>) -> Cow<'_, str> {
    match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default(),
        _ => Cow::Owned(texts.join("\n")),
    }
}

fn convert<'a>(place: String, said: Value<'a>, chat: &mut Vec<Value<'a>>) -> Result<(), NotUnderstood> {
    let mut said = Fields::of(place, said)?;
    let role = said.needed_text("role")?;
    let user = role == "user";
    let place = said.place_of("content");
    let blocks = match said.value("content")? {
        Some(Value::Str(text)) => {
            chat.push(Value::Object(Object::from([("role", Value::Str(role)), ("content", Value::Str(text))])));
            return Ok(());
        }
        Some(Value::Array(blocks)) => blocks,
        other => return Err(wrong_type(&place, "a string or a list", &other.unwrap_or(Value::Null))),
    };
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for (at, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::of(format!("{place}[{at}]"), block)?;
        if block.is("text") {
            parts.extend(block.text("text")?.filter(|text| !text.is_empty()).map(text_part));
        } else if block.is("image") {
            parts.extend(image_part(&mut block)?);
        } else if block.is("tool_use") {
            calls.push(call(&mut block)?);
        } else if block.is("tool_result") {
            let (content, text) = result(&mut block)?;
            if user {
                let id = match block.text("tool_use_id")?.filter(|id| !id.is_empty()) {
                    None => block.text("id")?,
                    id => id,
                };
                chat.push(Value::Object(Object::from([
                    ("role", Value::Str("tool".into())),
                    ("tool_call_id", Value::Str(id.unwrap_or_default())),
                    ("content", content),
                ])));
            } else {
                parts.push(text_part(Cow::Owned(format!("Tool result: {text}"))));
            }
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return Ok(());
    }
    let mut converted = Object::from([("role", Value::Str(role))]);
    if !calls.is_empty() {
        converted.insert("tool_calls".into(), Value::Array(calls));
    }
    if !parts.is_empty() {
        converted.insert("content".into(), single(parts));
    }
    chat.push(Value::Object(converted));
    Ok(())
}

/// A single text stands for itself.
fn single(mut parts: Vec<Value<'_>>) -> Value<'_> {
    let text = if let [Value::Object(part)] = &mut parts[..] { part.take("text") } else { None };
    text.unwrap_or(Value::Array(parts))
}

/// A tool's result as the template sees it, and its texts alone.
fn result<'a>(block: &mut Fields<'a>) -> Result<(Value<'a>, Cow<'a, str>), NotUnderstood> {
    let place = block.place_of("content");
    let items = match block.value("content")? {
        None => return Ok((Value::Str("".into()), "".into())),
        Some(Value::Str(text)) => return Ok((Value::Str(text.clone()), text)),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong_type(&place, "a string or a list", &other)),
    };
    let (mut parts, mut texts) = (Vec::new(), Vec::new());
    for (at, item) in items.into_iter().enumerate() {
        let mut item = Fields::of(format!("{place}[{at}]"), item)?;
        if item.is("text") {
            if let Some(text) = item.text("text")?.filter(|text| !text.is_empty()) {
                parts.push(text_part(text.clone()));
                texts.push(text);
            }
        } else if item.is("image") {
            parts.extend(image_part(&mut item)?);
        } else if item.is("tool_reference") {
            let name = item.text("tool_name")?.filter(|name| !name.is_empty());
            parts.extend(name.or(item.text("name")?).filter(|name| !name.is_empty()).map(reference));
        }
    }
    let content = if parts.is_empty() { Value::Str("".into()) } else { single(parts) };
    Ok((content, joined(texts)))
}

/// An image with an address or with data; nothing else is one.
fn image_part<'a>(block: &mut Fields<'a>) -> Result<Option<Value<'a>>, NotUnderstood> {
    let place = block.place_of("source");
    let Some(source) = block.object("source")? else { return Ok(None) };
    let mut source = Fields::of(place, Value::Object(source))?;
    let url = if source.is("base64") {
        let media = source.text("media_type")?.unwrap_or("image/png".into());
        let data = source.text("data")?.filter(|data| !data.is_empty());
        data.map(|data| Cow::Owned(format!("data:{media};base64,{data}")))
    } else {
        source.text("url")?.filter(|url| !url.is_empty())
    };
    Ok(url.map(|url| {
        let url = Value::Object(Object::from([("url", Value::Str(url))]));
        Value::Object(Object::from([("type", Value::Str("image_url".into())), ("image_url", url)]))
    }))
}

fn chosen_tools<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let choice = body.object("tool_choice")?.unwrap_or_default();
    let mut choice = Fields::of("tool_choice".to_owned(), Value::Object(choice))?;
    let only = if choice.is("tool") { Some(choice.text("name")?) } else { None };
    let Some(all) = body.list("tools")?.filter(|tools| !tools.is_empty() && !choice.is("none")) else {
        return Ok(None);
    };
    let mut tools = Vec::new();
    for (at, tool) in all.into_iter().enumerate() {
        let mut tool = Fields::of(format!("tools[{at}]"), tool)?;
        let name = tool.needed_text("name")?;
        if only.as_ref().is_none_or(|only| only.as_deref() == Some(name.as_ref())) {
            tools.push(converted(&mut tool, name)?);
        }
    }
    Ok(Some(tools))
}

fn converted<'a>(tool: &mut Fields<'a>, name: Cow<'a, str>) -> Result<Value<'a>, NotUnderstood> {
    let description = Value::Str(tool.text("description")?.unwrap_or_default());
    let parameters = tool.value("input_schema")?.unwrap_or(Value::Null);
    let function = Object::from([("name", Value::Str(name)), ("description", description), ("parameters", parameters)]);
    let mut converted = Object::from([("type", Value::Str("function".into())), ("function", Value::Object(function))]);
    if let Some(deferred) = tool.value("defer_loading")? {
        converted.insert("defer_loading".into(), deferred);
    }
    Ok(Value::Object(converted))
}
