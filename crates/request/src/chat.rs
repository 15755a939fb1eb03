//! `/v1/chat/completions`: messages for a chat template.
//!
//! In: the body's members; out: a [`Request`] whose messages, tools and documents have the shape that vLLM's validation
//! asks for. The messages are not cleaned up here: that depends on the engine and the template.

use crate::{
    Api, Chat, End, NotUnderstood, Prompt, Request,
    fields::{Fields, wrong_type},
    json::Value,
};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let messages = body.list("messages")?;
    let (stream, include_usage) = body.stream()?;
    let max_completion_tokens = body.count("max_completion_tokens")?;
    let max_tokens = body.count("max_tokens")?;
    Ok(Request {
        api: Api::ChatCompletions,
        model: body.model()?,
        stream,
        include_usage,
        cache_salt: body.cache_salt()?,
        adapter: None,
        truncation: body.truncation(End::Last)?,
        fills_cache: true,
        max_tokens: max_completion_tokens.or(max_tokens),
        prompt: Prompt::Chat(chat(&mut body, messages, true)?),
    })
}

/// Reads what belongs to a chat, with the messages given. `add_generation_prompt` is the API's default.
pub(crate) fn chat<'a>(
    body: &mut Fields<'a>,
    messages: Option<Vec<Value<'a>>>,
    add_generation_prompt: bool,
) -> Result<Chat<'a>, NotUnderstood> {
    let messages = messages.ok_or(NotUnderstood::NoMessages)?;
    for (at, message) in messages.iter().enumerate() {
        check_message("messages", at, message)?;
    }
    Ok(Chat {
        messages,
        tools: tools(body)?,
        documents: documents(body)?,
        template_kwargs: body.object("chat_template_kwargs")?.unwrap_or_default(),
        template: body.text("chat_template")?,
        add_generation_prompt: body.truth("add_generation_prompt", add_generation_prompt)?,
        continue_final_message: body.truth("continue_final_message", false)?,
        add_special_tokens: body.truth("add_special_tokens", false)?,
        reasoning_effort: body.text("reasoning_effort")?,
        tool_choice_none: body.value("tool_choice")?.is_some_and(|choice| choice.as_str() == Some("none")),
        by_responses: false,
    })
}

/// A message is an object with a string `role`; its `content` is text, a list of texts and objects, or nothing; its
/// `tool_calls` are a list of objects with a `function`, or nothing.
pub(crate) fn check_message(list: &str, at: usize, message: &Value<'_>) -> Result<(), NotUnderstood> {
    let key = |member: &str| format!("{list}[{at}]{member}");
    let object = message.as_object().ok_or_else(|| wrong_type(&key(""), "an object", message))?;
    let role = object.get("role").unwrap_or(&Value::Null);
    role.as_str().ok_or_else(|| wrong_type(&key(".role"), "a string", role))?;
    match object.get("content") {
        None | Some(Value::Null | Value::Str(_)) => {}
        Some(Value::Array(parts)) => {
            for (part_at, part) in parts.iter().enumerate() {
                if !matches!(part, Value::Str(_) | Value::Object(_)) {
                    return Err(wrong_type(&key(&format!(".content[{part_at}]")), "a string or an object", part));
                }
            }
        }
        Some(other) => return Err(wrong_type(&key(".content"), "a string or a list", other)),
    }
    match object.get("tool_calls") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(calls)) => calls
            .iter()
            .enumerate()
            .try_for_each(|(call_at, call)| check_function(&key(&format!(".tool_calls[{call_at}]")), call)),
        Some(other) => Err(wrong_type(&key(".tool_calls"), "a list", other)),
    }
}

pub(crate) fn tools<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let tools = body.list("tools")?;
    for (at, tool) in tools.iter().flatten().enumerate() {
        check_function(&format!("tools[{at}]"), tool)?;
    }
    Ok(tools)
}

fn documents<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let documents = body.list("documents")?;
    for (at, document) in documents.iter().flatten().enumerate() {
        document.as_object().ok_or_else(|| wrong_type(&format!("documents[{at}]"), "an object", document))?;
    }
    Ok(documents)
}

/// Tools and calls of tools hold a `function` with a string `name`.
fn check_function(key: &str, value: &Value<'_>) -> Result<(), NotUnderstood> {
    let object = value.as_object().ok_or_else(|| wrong_type(key, "an object", value))?;
    let function = object.get("function").unwrap_or(&Value::Null);
    let named = function.as_object().ok_or_else(|| wrong_type(&format!("{key}.function"), "an object", function))?;
    let name = named.get("name").unwrap_or(&Value::Null);
    name.as_str().ok_or_else(|| wrong_type(&format!("{key}.function.name"), "a string", name))?;
    Ok(())
}
