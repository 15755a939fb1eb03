//! Chats of other APIs become the chats that vLLM makes of them: `data/README.md` says how the expected ones were made.

use request::{
    Chat, Prompt, Request,
    json::{self, Object, Value},
    parse,
};

#[test]
fn anthropic_messages_become_the_chat_that_vllm_renders() {
    check_all("/v1/messages", include_str!("data/anthropic.jsonl"));
}

#[test]
fn responses_become_the_chat_that_vllm_renders() {
    check_all("/v1/responses", include_str!("data/responses.jsonl"));
}

fn check_all(path: &str, cases: &str) {
    assert!(cases.lines().count() > 15);
    for line in cases.lines() {
        let case = json::parse(line.as_bytes()).expect("the data is JSON");
        let [name, body] = ["name", "body"].map(|key| case.get(key).and_then(Value::as_str).expect("a text"));
        let expected = case.get("expected").and_then(Value::as_object).expect("an object");
        let request = parse(path, body.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why}"));
        for (key, value) in expected.iter() {
            let value = match value {
                Value::Array(items) if key == "messages" => {
                    Value::Array(items.iter().map(with_parsed_arguments).collect())
                }
                other => other.clone(),
            };
            assert_eq!(show(&member(&request, key)), show(&value), "{name}: {key}");
        }
    }
}

/// What the request holds of an expected member.
fn member<'a>(request: &Request<'a>, key: &str) -> Value<'a> {
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat expected") };
    let text = |text: &Option<std::borrow::Cow<'a, str>>| text.clone().map_or(Value::Null, Value::Str);
    match key {
        "messages" => Value::Array(chat.messages.iter().map(with_parsed_arguments).collect()),
        "tools" => chat.tools.clone().map_or(Value::Null, Value::Array),
        "effort" => text(&chat.reasoning_effort),
        "salt" => text(&request.cache_salt),
        "max" => request.max_tokens.map_or(Value::Null, |max| Value::Int(max.to_string().into())),
        "stream" => Value::Bool(request.stream),
        "none" => Value::Bool(chat.tool_choice_none),
        "continue" => Value::Bool(continues(chat)),
        other => panic!("{other} is not compared"),
    }
}

fn continues(chat: &Chat<'_>) -> bool {
    assert_ne!(chat.continue_final_message, chat.add_generation_prompt);
    chat.continue_final_message
}

/// Arguments of calls that are JSON in a text, as vLLM parses them before it renders.
fn with_parsed_arguments<'a>(message: &Value<'a>) -> Value<'a> {
    let mut message = message.clone();
    let Value::Object(object) = &mut message else { return message };
    let Some(Value::Array(calls)) = object.get_mut("tool_calls") else { return message };
    for call in calls.iter_mut() {
        let Value::Object(call) = call else { continue };
        let Some(Value::Object(function)) = call.get_mut("function") else { continue };
        if let Some(Value::Str(written)) = function.get("arguments").cloned() {
            let parsed = show(&json::parse(written.as_bytes()).expect("arguments are JSON"));
            function.insert("arguments".into(), Value::Str(parsed.into()));
        } else if let Some(arguments) = function.get("arguments").cloned() {
            function.insert("arguments".into(), Value::Str(show(&arguments).into()));
        }
    }
    message
}

/// JSON with the members of objects sorted (the order of a message's own members doesn't reach a template), but those
/// of arguments and schemas as they stand.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| show(item)).collect::<Vec<_>>().join(","))
        }
        Value::Object(object) => {
            let mut members: Vec<String> = object.iter().map(|(key, value)| format!("{key}:{}", show(value))).collect();
            if is_message_or_call(object) {
                members.sort();
            }
            format!("{{{}}}", members.join(","))
        }
        Value::Str(text) => format!("{text:?}"),
        Value::Int(digits) => digits.to_string(),
        other => format!("{other:?}"),
    }
}

fn is_message_or_call(object: &Object<'_>) -> bool {
    object.get("role").is_some() || object.get("function").is_some()
}
