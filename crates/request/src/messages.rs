//! Anthropic's `/v1/messages`: a chat in blocks.
//!
//! In: the body's members; out: the chat that vLLM makes of them before it renders (its
//! `entrypoints/anthropic/serving.py`): system texts joined, thinking as reasoning, tool uses as calls, tool results as
//! messages of their own. System messages within the conversation stay where they are, which vLLM does unless the
//! template refuses them. Blocks of unknown types are passed over.

use std::borrow::Cow;

use crate::{
    Api, Chat, NotUnderstood, Prompt, Request,
    fields::{Fields, wrong_type},
    json::{Object, Value},
};

/// Claude Code's first line, which holds a hash of each request; vLLM drops it.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let mut chat = Vec::new();
    if let Some(system) = body.value("system")? {
        push_system(&mut chat, system_text("system", system)?);
    }
    let messages = body.list("messages")?.filter(|messages| !messages.is_empty()).ok_or(NotUnderstood::NoMessages)?;
    for (at, message) in messages.into_iter().enumerate() {
        convert(format!("messages[{at}]"), message, &mut chat)?;
    }
    let stream = body.truth("stream", false)?;
    let reasoning_effort = reasoning_effort(&mut body)?;
    let tool_choice = member(&mut body, "tool_choice", "type")?;
    Ok(Request {
        api: Api::Messages,
        model: body.model()?,
        stream,
        // Anthropic's streams always tell.
        include_usage: stream,
        cache_salt: body.cache_salt()?,
        adapter: None,
        truncation: None,
        fills_cache: true,
        max_tokens: body.count("max_tokens")?,
        prompt: Prompt::Chat(Chat {
            messages: chat,
            tools: tools(&mut body)?,
            documents: None,
            template_kwargs: body.object("chat_template_kwargs")?.unwrap_or_default(),
            template: None,
            add_generation_prompt: true,
            continue_final_message: false,
            add_special_tokens: false,
            reasoning_effort,
            tool_choice_none: tool_choice.is_some_and(|choice| choice == "none"),
            by_responses: false,
        }),
    })
}

/// The text `inner` of the object `key`.
fn member<'a>(body: &mut Fields<'a>, key: &str, inner: &str) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
    let place = body.place_of(key);
    match body.value(key)? {
        None => Ok(None),
        Some(value) => Fields::of(place, value)?.text(inner),
    }
}

/// Thinking that is switched off wins over the effort asked for.
fn reasoning_effort<'a>(body: &mut Fields<'a>) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
    let effort = member(body, "output_config", "effort")?;
    let thinking = member(body, "thinking", "type")?;
    Ok(if thinking.is_some_and(|thinking| thinking == "disabled") { Some("none".into()) } else { effort })
}

fn push_system<'a>(chat: &mut Vec<Value<'a>>, text: Option<Cow<'a, str>>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        chat.push(Value::Object(Object::from([("role", Value::Str("system".into())), ("content", Value::Str(text))])));
    }
}

/// A text, or the texts of a list of blocks joined.
fn system_text<'a>(place: &str, system: Value<'a>) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
    let blocks = match system {
        Value::Str(text) => return Ok(Some(text)),
        Value::Array(blocks) => blocks,
        other => return Err(wrong_type(place, "a string or a list", &other)),
    };
    let mut texts = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::of(format!("{place}[{at}]"), block)?;
        refuse_tool_change(&mut block)?;
        if block.is("text") {
            texts.extend(block.text("text")?.filter(|text| !text.starts_with(BILLING_HEADER)));
        }
    }
    Ok(match texts.len() {
        0 | 1 => texts.pop(),
        _ => Some(Cow::Owned(texts.concat())),
    })
}

fn refuse_tool_change(block: &mut Fields<'_>) -> Result<(), NotUnderstood> {
    if block.is("tool_addition") || block.is("tool_removal") {
        return Err(NotUnderstood::Unsupported { key: block.place_of("type"), what: "a change of tools" });
    }
    Ok(())
}

/// What the blocks of one message become.
#[derive(Default)]
struct Turn<'a> {
    parts: Vec<Value<'a>>,
    calls: Vec<Value<'a>>,
    reasoning: Option<String>,
}

fn convert<'a>(place: String, message: Value<'a>, chat: &mut Vec<Value<'a>>) -> Result<(), NotUnderstood> {
    let mut message = Fields::of(place, message)?;
    let role = message.needed_text("role")?;
    let place = message.place_of("content");
    let content = message.value("content")?.unwrap_or(Value::Null);
    let user = match role.as_ref() {
        "system" => {
            let text = system_text(&place, content)?.filter(|text| !text.starts_with(BILLING_HEADER));
            push_system(chat, text);
            return Ok(());
        }
        "user" => true,
        "assistant" => false,
        _ => {
            let key = message.place_of("role");
            return Err(NotUnderstood::WrongType { key, expected: "user, assistant or system", found: "another" });
        }
    };
    let mut converted = Object::from([("role", Value::Str(role))]);
    match content {
        Value::Str(text) => converted.insert("content".into(), Value::Str(text)),
        Value::Array(blocks) => {
            let mut turn = Turn::default();
            for (at, block) in blocks.into_iter().enumerate() {
                turn.add(Fields::of(format!("{place}[{at}]"), block)?, user, chat)?;
            }
            turn.finish(&mut converted);
        }
        other => return Err(wrong_type(&place, "a string or a list", &other)),
    }
    if !user || converted.get("content").is_some() {
        chat.push(Value::Object(converted));
    }
    Ok(())
}

impl<'a> Turn<'a> {
    /// Adds a block. A user's tool results become messages of their own at once.
    fn add(&mut self, mut block: Fields<'a>, user: bool, chat: &mut Vec<Value<'a>>) -> Result<(), NotUnderstood> {
        refuse_tool_change(&mut block)?;
        if block.is("text") {
            self.parts.extend(block.text("text")?.filter(|text| !text.is_empty()).map(text_part));
        } else if block.is("image") {
            self.parts.extend(image_part(&mut block)?);
        } else if block.is("thinking") {
            if let Some(thinking) = block.text("thinking")? {
                self.reasoning.get_or_insert_default().push_str(&thinking);
            }
        } else if block.is("tool_use") {
            self.calls.push(call(&mut block)?);
        } else if block.is("tool_result") && user {
            tool_result(&mut block, chat)?;
        } else if block.is("tool_result") {
            let result = block.text("content")?.unwrap_or_default();
            self.parts.push(text_part(Cow::Owned(format!("Tool result: {result}"))));
        }
        Ok(())
    }

    fn finish(mut self, message: &mut Object<'a>) {
        if let Some(reasoning) = self.reasoning {
            message.insert("reasoning".into(), Value::Str(reasoning.into()));
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), Value::Array(self.calls));
        }
        // A single text stands for itself.
        let single = if let [Value::Object(part)] = &mut self.parts[..] { part.take("text") } else { None };
        if let Some(text) = single {
            message.insert("content".into(), text);
        } else if !self.parts.is_empty() {
            message.insert("content".into(), Value::Array(self.parts));
        }
    }
}

pub(crate) fn text_part(text: Cow<'_, str>) -> Value<'_> {
    Value::Object(Object::from([("type", Value::Str("text".into())), ("text", Value::Str(text))]))
}

/// An image block as a part with a URL; nothing if it has no source.
fn image_part<'a>(block: &mut Fields<'a>) -> Result<Option<Value<'a>>, NotUnderstood> {
    let place = block.place_of("source");
    let Some(source) = block.object("source")?.filter(|source| !source.is_empty()) else { return Ok(None) };
    let mut source = Fields::of(place, Value::Object(source))?;
    let url = if source.is("url") {
        source.text("url")?.unwrap_or_default()
    } else {
        let media = source.text("media_type")?.unwrap_or("image/jpeg".into());
        let data = source.text("data")?.unwrap_or_default();
        Cow::Owned(format!("data:{media};base64,{data}"))
    };
    let url = Value::Object(Object::from([("url", Value::Str(url))]));
    Ok(Some(Value::Object(Object::from([("type", Value::Str("image_url".into())), ("image_url", url)]))))
}

/// A tool use as a call. vLLM prints the input as JSON and parses it again before rendering: it stays an object here.
pub(crate) fn call<'a>(block: &mut Fields<'a>) -> Result<Value<'a>, NotUnderstood> {
    let id = block.text("id")?.unwrap_or_default();
    let name = block.text("name")?.unwrap_or_default();
    let arguments = Value::Object(block.object("input")?.unwrap_or_default());
    let function = Object::from([("name", Value::Str(name)), ("arguments", arguments)]);
    Ok(Value::Object(Object::from([
        ("id", Value::Str(id)),
        ("type", Value::Str("function".into())),
        ("function", Value::Object(function)),
    ])))
}

/// A tool's result: its texts joined by newlines as one message, images and references each as a further one.
fn tool_result<'a>(block: &mut Fields<'a>, chat: &mut Vec<Value<'a>>) -> Result<(), NotUnderstood> {
    let id = Value::Str(block.text("tool_use_id")?.unwrap_or_default());
    let place = block.place_of("content");
    let (mut texts, mut images, mut references) = (Vec::new(), Vec::new(), Vec::new());
    match block.value("content")? {
        None => {}
        Some(Value::Str(text)) => texts.push(text),
        Some(Value::Array(items)) => {
            for (at, item) in items.into_iter().enumerate() {
                let mut item = Fields::of(format!("{place}[{at}]"), item)?;
                if item.is("text") {
                    texts.push(item.text("text")?.unwrap_or_default());
                } else if item.is("image") {
                    images.extend(image_part(&mut item)?);
                } else if item.is("tool_reference") {
                    let name = item.text("tool_name")?.filter(|name| !name.is_empty());
                    references.extend(name.or(item.text("name")?).filter(|name| !name.is_empty()).map(reference));
                }
            }
        }
        Some(other) => return Err(wrong_type(&place, "a string or a list", &other)),
    }
    let text = match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default(),
        _ => Cow::Owned(texts.join("\n")),
    };
    chat.push(tool_message(id.clone(), Value::Str(text)));
    if !images.is_empty() {
        let content = Value::Array(images);
        chat.push(Value::Object(Object::from([("role", Value::Str("user".into())), ("content", content)])));
    }
    if !references.is_empty() {
        chat.push(tool_message(id, Value::Array(references)));
    }
    Ok(())
}

fn tool_message<'a>(id: Value<'a>, content: Value<'a>) -> Value<'a> {
    Value::Object(Object::from([("role", Value::Str("tool".into())), ("tool_call_id", id), ("content", content)]))
}

pub(crate) fn reference(name: Cow<'_, str>) -> Value<'_> {
    Value::Object(Object::from([("type", Value::Str("tool_reference".into())), ("name", Value::Str(name))]))
}

/// Tools in the shape of chat completions. A schema without a type is an object's.
fn tools<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let Some(tools) = body.list("tools")? else { return Ok(None) };
    let convert = |(at, tool)| {
        let mut tool = Fields::of(format!("tools[{at}]"), tool)?;
        let mut function = Object::from([("name", Value::Str(tool.needed_text("name")?))]);
        if let Some(description) = tool.text("description")? {
            function.insert("description".into(), Value::Str(description));
        }
        let schema = tool.value("input_schema")?.unwrap_or(Value::Null);
        let mut schema = Fields::of(tool.place_of("input_schema"), schema)?.into_object();
        if schema.get("type").is_none() {
            schema.insert("type".into(), Value::Str("object".into()));
        }
        function.insert("parameters".into(), Value::Object(schema));
        for key in ["strict", "defer_loading"] {
            if let Some(value) = tool.value(key)? {
                function.insert(key.into(), value);
            }
        }
        let members = [("type", Value::Str("function".into())), ("function", Value::Object(function))];
        Ok(Value::Object(Object::from(members)))
    };
    tools.into_iter().enumerate().map(convert).collect::<Result<_, _>>().map(Some)
}
