//! `/v1/chat/completions` as SGLang reads it.
//!
//! In: the body's members; out: a [`Request`]. `input_ids` go before the messages; tools are those that `tool_choice`
//! leaves; who asks for reasoning, or for none, sets the template's `thinking` and `enable_thinking`, unless
//! `chat_template_kwargs` do; an effort among those goes before the body's.

use std::borrow::Cow;

use super::{plain, request};
use crate::{
    Api, Chat, NotUnderstood, Prompt, Request,
    chat::{check_message, tools},
    fields::{Fields, wrong_type},
    inputs,
    json::{Object, Value},
};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let messages = body.list("messages")?.filter(|messages| !messages.is_empty()).ok_or(NotUnderstood::NoMessages)?;
    let (stream, include_usage) = body.stream()?;
    let max_completion_tokens = body.count("max_completion_tokens")?;
    let max_tokens = body.count("max_tokens")?;
    let prompt = match body.value("input_ids")? {
        Some(Value::Array(ids)) => Prompt::Tokens(vec![inputs::ids("input_ids", &ids)?]),
        Some(other) => return Err(wrong_type("input_ids", "a list", &other)),
        None => Prompt::Chat(chat(&mut body, messages)?),
    };
    // As Python's `or`: a zero sets no bound.
    let max_tokens = max_completion_tokens.filter(|bound| *bound > 0).or(max_tokens);
    Ok(Request { stream, include_usage, max_tokens, ..request(Api::ChatCompletions, body, prompt)? })
}

fn chat<'a>(body: &mut Fields<'a>, messages: Vec<Value<'a>>) -> Result<Chat<'a>, NotUnderstood> {
    for (at, message) in messages.iter().enumerate() {
        check_message("messages", at, message)?;
    }
    let mut template_kwargs = body.object("chat_template_kwargs")?.unwrap_or_default();
    let effort = effort(body, &mut template_kwargs)?;
    Ok(Chat {
        tools: chosen_tools(body)?,
        continue_final_message: body.truth("continue_final_message", false)?,
        // An effort within the arguments is taken out of them, and counts.
        reasoning_effort: match template_kwargs.take("reasoning_effort") {
            Some(Value::Str(effort)) => Some(effort),
            Some(Value::Null) | None => effort,
            Some(other) => return Err(wrong_type("chat_template_kwargs.reasoning_effort", "a string", &other)),
        },
        template_kwargs,
        ..plain(messages)
    })
}

/// The effort, of `reasoning` or by its own name; sets what it means for templates.
fn effort<'a>(body: &mut Fields<'a>, kwargs: &mut Object<'a>) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
    let own = body.text("reasoning_effort")?;
    // Anything but an object says nothing.
    let reasoning = body.value("reasoning")?.filter(|reasoning| reasoning.as_object().is_some());
    let mut reasoning = Fields::of("reasoning".to_owned(), reasoning.unwrap_or(Value::Object(Object::default())))?;
    let within = match reasoning.text("effort")? {
        None => reasoning.text("reasoning_effort")?,
        effort => effort,
    };
    let enabled = match reasoning.value("enabled")? {
        None => reasoning.value("enable")?,
        enabled => enabled,
    };
    let effort = within.or(own);
    let thinking = match &effort {
        Some(effort) => Some(effort != "none"),
        None => enabled.as_ref().is_some_and(is_on).then_some(true),
    };
    if let Some(thinking) = thinking {
        set_default(kwargs, "thinking", thinking);
        set_default(kwargs, "enable_thinking", thinking);
    }
    Ok(effort)
}

fn is_on(value: &Value<'_>) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Int(digits) => digits != "0" && digits != "-0",
        Value::Float(number) => *number != 0.0,
        Value::Str(word) => matches!(word.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "y" | "on"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

fn set_default(kwargs: &mut Object<'_>, key: &'static str, truth: bool) {
    if kwargs.get(key).is_none() {
        kwargs.insert(key.into(), Value::Bool(truth));
    }
}

/// The tools that the template sees: none if none may be chosen, one if that one has to be, else all.
fn chosen_tools<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let all = tools(body)?.filter(|tools| !tools.is_empty());
    Ok(match body.value("tool_choice")? {
        Some(Value::Str(word)) if word == "none" => None,
        Some(choice @ Value::Object(_)) => {
            let name = choice.get("function").and_then(|function| function.get("name")).and_then(Value::as_str);
            let named: Vec<Value<'a>> = all.into_iter().flatten().filter(|tool| name_of(tool) == name).collect();
            if named.is_empty() {
                return Err(NotUnderstood::WrongType {
                    key: "tool_choice.function.name".to_owned(),
                    expected: "a tool's name",
                    found: "another",
                });
            }
            Some(named)
        }
        _ => all,
    })
}

fn name_of<'t>(tool: &'t Value<'_>) -> Option<&'t str> {
    tool.get("function")?.get("name")?.as_str()
}
