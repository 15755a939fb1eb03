//! `/v1/responses`: items instead of messages.
//!
//! In: the body's members; out: the chat that vLLM makes of them before it renders (its
//! `entrypoints/openai/responses/utils.py`): instructions first, then each item as a message or as a part of the
//! assistant's message before it. What depends on responses that the engine stored is named: it isn't in the body.

use std::borrow::Cow;

use crate::{
    Api, Chat, NotUnderstood, Prompt, Request,
    chat::check_message,
    fields::{Fields, wrong_type},
    json::{Object, Value},
};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    refuse_references(&body)?;
    let mut chat = Conversation::default();
    if let Some(instructions) = body.text("instructions")?.filter(|instructions| !instructions.is_empty()) {
        chat.push([("role", Value::Str("system".into())), ("content", Value::Str(instructions))]);
    }
    let mut unfinished = false;
    match body.value("input")? {
        None => return Err(NotUnderstood::NoPrompt { key: "input" }),
        Some(Value::Str(text)) => chat.push([("role", Value::Str("user".into())), ("content", Value::Str(text))]),
        Some(Value::Array(items)) => {
            unfinished = items.last().is_some_and(is_unfinished);
            for (at, item) in items.into_iter().enumerate() {
                chat.add(at, item)?;
            }
        }
        Some(other) => return Err(wrong_type("input", "a string or a list", &other)),
    }
    if chat.messages.is_empty() {
        return Err(NotUnderstood::NoPrompt { key: "input" });
    }
    let stream = body.truth("stream", false)?;
    let reasoning = body.object("reasoning")?.unwrap_or_default();
    let reasoning_effort = Fields::of("reasoning".to_owned(), Value::Object(reasoning))?.text("effort")?;
    Ok(Request {
        api: Api::Responses,
        model: body.model()?,
        stream,
        // The last event of such a stream always tells.
        include_usage: stream,
        cache_salt: body.cache_salt()?,
        adapter: None,
        truncation: None,
        fills_cache: true,
        max_tokens: body.count("max_output_tokens")?,
        prompt: Prompt::Chat(Chat {
            messages: chat.messages,
            tools: tools(&mut body)?,
            documents: None,
            template_kwargs: body.object("chat_template_kwargs")?.unwrap_or_default(),
            template: None,
            add_generation_prompt: !unfinished,
            continue_final_message: unfinished,
            add_special_tokens: false,
            reasoning_effort,
            tool_choice_none: body.value("tool_choice")?.is_some_and(|choice| choice.as_str() == Some("none")),
            by_responses: true,
        }),
    })
}

/// What refers to something that the engine stored can't be read here.
pub(crate) fn refuse_references(body: &Fields<'_>) -> Result<(), NotUnderstood> {
    const REFERENCES: [&str; 3] = ["previous_response_id", "previous_input_messages", "prompt"];
    match REFERENCES.into_iter().find(|key| body.has(key)) {
        None => Ok(()),
        Some(key) => {
            Err(NotUnderstood::Unsupported { key: key.to_owned(), what: "a reference to what is not in the body" })
        }
    }
}

/// A last message or reasoning that the model is to go on with.
fn is_unfinished(item: &Value<'_>) -> bool {
    let kind = item.get("type").map_or(Some("message"), Value::as_str);
    let status = item.get("status").and_then(Value::as_str);
    matches!(kind, Some("message" | "reasoning")) && matches!(status, Some("in_progress" | "incomplete"))
}

#[derive(Default)]
struct Conversation<'a> {
    messages: Vec<Value<'a>>,
}

impl<'a> Conversation<'a> {
    fn push<const N: usize>(&mut self, members: [(&'static str, Value<'a>); N]) {
        self.messages.push(Value::Object(Object::from(members)));
    }

    /// The message before, if it is the assistant's.
    fn assistant(&mut self) -> Option<&mut Object<'a>> {
        match self.messages.last_mut() {
            Some(Value::Object(message)) if message.get("role").and_then(Value::as_str) == Some("assistant") => {
                Some(message)
            }
            _ => None,
        }
    }

    /// Sets what the assistant's message before lacks, or begins a new one.
    fn complete(&mut self, key: &'static str, value: Value<'a>) {
        match self.assistant() {
            Some(message) if message.get(key).is_none_or(Value::is_null) => message.insert(key.into(), value),
            _ => self.push([("role", Value::Str("assistant".into())), (key, value)]),
        }
    }

    fn add(&mut self, at: usize, item: Value<'a>) -> Result<(), NotUnderstood> {
        let mut item = Fields::of(format!("input[{at}]"), item)?;
        if item.is("function_call") {
            let namespace = item.text("namespace")?.filter(|namespace| !namespace.is_empty());
            let name = flat_name(namespace.as_deref(), item.needed_text("name")?);
            let arguments = Value::Str(item.needed_text("arguments")?);
            let id = item.needed_text("call_id")?;
            self.call(id, name, arguments);
        } else if item.is("custom_tool_call") {
            let input = Value::Str(item.text("input")?.unwrap_or_default());
            let arguments = Value::Object(Object::from([("input", input)]));
            let name = item.needed_text("name")?;
            let id = item.needed_text("call_id")?;
            self.call(id, name, arguments);
        } else if item.is("reasoning") {
            let reasoning = reasoning_text(&mut item)?;
            self.complete("reasoning", Value::Str(reasoning));
        } else if item.is("function_call_output") || item.is("custom_tool_call_output") {
            let id = Value::Str(item.needed_text("call_id")?);
            let output = item.value("output")?.unwrap_or(Value::Null);
            self.push([("role", Value::Str("tool".into())), ("content", output), ("tool_call_id", id)]);
            self.messages.last().map_or(Ok(()), |message| check_message("input", at, message))?;
        } else if item.has("role") {
            self.message(at, item)?;
        } else {
            return Err(NotUnderstood::Unsupported { key: item.place_of("type"), what: "an unknown kind of item" });
        }
        Ok(())
    }

    /// A message goes on as it is, but of the assistant's only the first text is kept.
    fn message(&mut self, at: usize, item: Fields<'a>) -> Result<(), NotUnderstood> {
        let mut item = item.into_object();
        if item.get("role").and_then(Value::as_str) == Some("assistant")
            && let Some(text) = first_text(&mut item)
        {
            self.complete("content", text);
            return Ok(());
        }
        let message = Value::Object(item);
        check_message("input", at, &message)?;
        self.messages.push(message);
        Ok(())
    }

    fn call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, arguments: Value<'a>) {
        let function = Object::from([("name", Value::Str(name)), ("arguments", arguments)]);
        let call = Value::Object(Object::from([
            ("id", Value::Str(id)),
            ("function", Value::Object(function)),
            ("type", Value::Str("function".into())),
        ]));
        match self.assistant().and_then(|message| message.get_mut("tool_calls")) {
            Some(Value::Array(calls)) => calls.push(call),
            _ => self.complete("tool_calls", Value::Array(vec![call])),
        }
    }
}

/// The content, if it is text, or the text of its first part.
fn first_text<'a>(message: &mut Object<'a>) -> Option<Value<'a>> {
    match message.get_mut("content")? {
        text @ Value::Str(_) => Some(std::mem::replace(text, Value::Null)),
        Value::Array(parts) => match parts.first_mut()? {
            Value::Object(part) if part.get("text")?.as_str().is_some() => part.take("text"),
            _ => None,
        },
        _ => None,
    }
}

/// The first text of the content, else of the summary, else nothing.
fn reasoning_text<'a>(item: &mut Fields<'a>) -> Result<Cow<'a, str>, NotUnderstood> {
    if item.text("encrypted_content")?.is_some_and(|content| !content.is_empty()) {
        let key = item.place_of("encrypted_content");
        return Err(NotUnderstood::Unsupported { key, what: "encrypted" });
    }
    for key in ["content", "summary"] {
        if let Some(first) = item.list(key)?.and_then(|parts| parts.into_iter().next()) {
            return Fields::of(format!("{}[0]", item.place_of(key)), first)?.needed_text("text");
        }
    }
    Ok(Cow::Borrowed(""))
}

/// A tool's name within its namespace, as the model is shown it.
fn flat_name<'a>(namespace: Option<&str>, name: Cow<'a, str>) -> Cow<'a, str> {
    namespace.map_or(name.clone(), |namespace| Cow::Owned(format!("{namespace}__{name}")))
}

/// The functions that the model is shown, in the shape of chat completions; other kinds of tools are never rendered.
pub(crate) fn tools<'a>(body: &mut Fields<'a>) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
    let Some(tools) = body.list("tools")?.filter(|tools| !tools.is_empty()) else { return Ok(None) };
    let mut functions = Vec::new();
    for (at, tool) in tools.into_iter().enumerate() {
        let mut tool = Fields::of(format!("tools[{at}]"), tool)?;
        if tool.is("function") && tool.has("name") {
            functions.push(function(&mut tool, None)?);
        } else if tool.is("custom") {
            functions.push(custom(&mut tool)?);
        } else if tool.is("namespace") {
            let namespace = tool.needed_text("name")?;
            for (inner_at, inner) in tool.list("tools")?.unwrap_or_default().into_iter().enumerate() {
                let mut inner = Fields::of(format!("{}[{inner_at}]", tool.place_of("tools")), inner)?;
                if inner.is("function") {
                    functions.push(function(&mut inner, Some(&namespace))?);
                }
            }
        }
    }
    Ok(Some(functions))
}

fn function<'a>(tool: &mut Fields<'a>, namespace: Option<&str>) -> Result<Value<'a>, NotUnderstood> {
    let name = flat_name(namespace, tool.needed_text("name")?);
    let mut function = Object::from([("name", Value::Str(name))]);
    for key in ["description", "parameters", "strict", "defer_loading"] {
        if let Some(value) = tool.value(key)? {
            function.insert(key.into(), value);
        }
    }
    Ok(wrapped(function))
}

/// A tool of free text is shown as a function of one string.
fn custom<'a>(tool: &mut Fields<'a>) -> Result<Value<'a>, NotUnderstood> {
    let mut function = Object::from([("name", Value::Str(tool.needed_text("name")?))]);
    if let Some(description) = tool.text("description")? {
        function.insert("description".into(), Value::Str(description));
    }
    function.insert("parameters".into(), Value::Object(payload_schema()));
    Ok(wrapped(function))
}

fn payload_schema<'a>() -> Object<'a> {
    let text = |text: &'static str| Value::Str(text.into());
    let described = [("type", text("string")), ("description", text("The freeform text payload for this tool."))];
    Object::from([
        ("type", text("object")),
        ("properties", Value::Object(Object::from([("input", Value::Object(Object::from(described)))]))),
        ("required", Value::Array(vec![text("input")])),
        ("additionalProperties", Value::Bool(false)),
    ])
}

fn wrapped(function: Object<'_>) -> Value<'_> {
    Value::Object(Object::from([("type", Value::Str("function".into())), ("function", Value::Object(function))]))
}
