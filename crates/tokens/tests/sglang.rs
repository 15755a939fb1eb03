//! A request's messages and tools on their way into a template, as SGLang hands them over.
//!
//! Each case: a `chat_template`, a request body, and the text that comes out, reasoned from SGLang's
//! `entrypoints/openai/protocol.py`, `serving_chat.py`, `entrypoints/anthropic/serving.py`,
//! `entrypoints/openai/serving_responses.py` and `parser/jinja_template_utils.py` (2026).

use std::time::SystemTime;

use request::Engine;
use serde_json::{Value, json};
use tokens::{Context, EncodeError, Files, Tokenizer};

const SHOW: &str = "{{ messages|tojson }}";

/// The same, for a template that SGLang takes for one that wants parts.
const SHOW_PARTS: &str =
    "{% for message in messages %}{% for c in message.content %}{% endfor %}{% endfor %}{{ messages|tojson }}";

fn render_at(path: &str, template: &Value, body: &str) -> Result<String, EncodeError> {
    let files = Files {
        tokenizer_json: include_bytes!("data/tiny_tokenizer.json").to_vec(),
        tokenizer_config: Some(json!({"chat_template": template}).to_string().into_bytes()),
        ..Files::default()
    };
    let tokenizer = Tokenizer::load(files).expect("the tiny tokenizer loads");
    let request = request::parse_for(Engine::Sglang, path, body.as_bytes()).expect("a chat");
    let context = Context { engine: Engine::Sglang, ..Context::at(SystemTime::UNIX_EPOCH) };
    tokenizer.encode(&request.prompt, &context).map(|encoded| encoded.rendered.unwrap_or_default())
}

fn render(template: &str, body: &str) -> Result<String, EncodeError> {
    render_at("/v1/chat/completions", &template.into(), body)
}

fn check(template: &str, body: &str, expected: &str) {
    assert_eq!(render(template, body), Ok(expected.to_owned()), "{body}");
}

fn refused(body: &str) {
    assert!(matches!(render(SHOW, body), Err(EncodeError::Messages(_))), "{body}");
}

fn then_user(message: &str) -> String {
    format!(r#"{{"messages": [{message}, {{"role": "user", "content": "q"}}]}}"#)
}

fn cleaned(message: &str) -> String {
    format!(r#"[{message}, {{"role": "user", "content": "q"}}]"#)
}

#[test]
fn texts_of_parts_stand_apart_by_spaces() {
    check(
        SHOW,
        &then_user(r#"{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#),
        &cleaned(r#"{"role": "user", "content": "a b"}"#),
    );
    check(SHOW, &then_user(r#"{"role": "system", "content": []}"#), &cleaned(r#"{"role": "system", "content": ""}"#));
    check(
        SHOW,
        &then_user(
            r#"{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "a"}]}"#,
        ),
        &cleaned(r#"{"role": "user", "content": "a"}"#),
    );
}

#[test]
fn parts_stay_parts_where_the_template_loops_over_them_or_names_images() {
    let body = then_user(
        r#"{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "a"}]}"#,
    );
    let expected = cleaned(r#"{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}"#);
    check(SHOW_PARTS, &body, &expected);
    check("{#- image #}{{ messages|tojson }}", &body, &expected);
    // A text stays a text, and a tool's texts become one.
    check(
        SHOW_PARTS,
        &then_user(
            r#"{"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#,
        ),
        &cleaned(r#"{"role": "tool", "tool_call_id": "1", "content": "a b"}"#),
    );
    check(
        SHOW_PARTS,
        &then_user(r#"{"role": "system", "content": "s"}"#),
        &cleaned(r#"{"role": "system", "content": "s"}"#),
    );
}

#[test]
fn calls_have_all_their_members_and_arguments_are_objects() {
    check(
        SHOW,
        &then_user(
            r#"{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 123456789012345678901}"}}]}"#,
        ),
        &cleaned(
            r#"{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "index": null, "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 1.2345678901234568e+20}}}]}"#,
        ),
    );
    for arguments in ["", "1", "[]", "{", r#"{\"a\": NaN}"#] {
        refused(&then_user(&format!(
            r#"{{"role": "assistant", "tool_calls": [{{"function": {{"name": "f", "arguments": "{arguments}"}}}}]}}"#
        )));
    }
}

#[test]
fn messages_hold_what_sglang_knows_in_its_order() {
    check(
        SHOW,
        &then_user(
            r#"{"reasoning_content": "r", "reasoning": "n", "name": "x", "content": "a", "role": "Assistant", "refusal": "no"}"#,
        ),
        &cleaned(r#"{"role": "assistant", "content": "a", "name": "x", "reasoning_content": "r"}"#),
    );
    check(
        SHOW,
        &then_user(r#"{"role": "user", "name": "x", "content": "a"}"#),
        &cleaned(r#"{"role": "user", "content": "a"}"#),
    );
    check(
        SHOW,
        &then_user(r#"{"role": "developer", "content": "d"}"#),
        &cleaned(r#"{"role": "developer", "content": "d"}"#),
    );
    refused(&then_user(r#"{"role": "moderator", "content": "d"}"#));
    refused(&then_user(r#"{"role": "user"}"#));
    refused(&then_user(r#"{"role": "user", "content": [{"type": "input_text", "text": "a"}]}"#));
}

#[test]
fn the_assistants_last_word_is_continued_or_said_by_the_user() {
    let show =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<go>{% endif %}";
    let chat = r#""messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": " so", "reasoning_content": "r"}]"#;
    check(show, &format!("{{{chat}}}"), "<user>q<user> so<go>");
    check(show, &format!(r#"{{{chat}, "continue_final_message": true}}"#), "<user>q<go> so");
    check(
        show,
        &format!(r#"{{{chat}, "add_generation_prompt": true, "continue_final_message": true}}"#),
        "<user>q<go> so",
    );
}

#[test]
fn tools_are_printed_with_every_member() {
    let chat = |tools: &str| format!(r#"{{"messages": [{{"role": "user", "content": "q"}}], "tools": {tools}}}"#);
    check(
        "{{ tools|tojson }}",
        &chat(
            r#"[{"type": "function", "function": {"parameters": {"type": "object", "properties": {"a": {"type": "varchar(9)"}}}, "name": "f", "x": 1}}]"#,
        ),
        r#"[{"type": "function", "function": {"description": null, "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}, "strict": false}, "defer_loading": null}]"#,
    );
    check(
        "{{ tools|tojson }}",
        &chat(r#"[{"defer_loading": true, "function": {"name": "f", "strict": true, "description": "d"}}]"#),
        r#"[{"type": "function", "function": {"description": "d", "name": "f", "parameters": null, "strict": true, "defer_loading": true}, "defer_loading": true}]"#,
    );
    // Mistral's templates and others fail on wrapped functions.
    check(
        "{% if tools[0].function is defined %}{{ raise_exception('wrapped') }}{% endif %}{{ tools[0].name }}",
        &chat(r#"[{"function": {"name": "f"}}]"#),
        "f",
    );
    check("{{ tools is none }}", &chat("[]"), "True");
}

#[test]
fn the_templates_arguments_are_all_there_or_refused() {
    let chat = |kwargs: &str| {
        format!(r#"{{"messages": [{{"role": "user", "content": "q"}}], "chat_template_kwargs": {kwargs}}}"#)
    };
    check("{{ a is none }}{{ b }}", &chat(r#"{"a": null, "b": "auto"}"#), "Trueauto");
    check("{{ documents }}", &chat(r#"{"documents": [1]}"#), "[1]");
    check("{{ padding is defined }}", &chat(r#"{"padding": true}"#), "False");
    for name in ["messages", "tools", "add_generation_prompt", "tokenize"] {
        refused(&chat(&format!(r#"{{"{name}": null}}"#)));
    }
    assert_eq!(render("x", &chat(r#"{"chat_template": "t"}"#)), Err(EncodeError::RequestTemplate));
}

#[test]
fn of_named_templates_the_first_counts() {
    let named = json!([{"name": "b", "template": "first"}, {"name": "default", "template": "second"}]);
    let body = r#"{"messages": [{"role": "user", "content": "q"}]}"#;
    assert_eq!(render_at("/v1/chat/completions", &named, body), Ok("first".to_owned()));
}

#[test]
fn anthropics_blocks_become_a_chat() {
    let check = |body: &str, expected: &str| {
        assert_eq!(render_at("/v1/messages", &SHOW.into(), body), Ok(expected.to_owned()), "{body}");
    };
    check(
        r#"{"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "messages": [
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"k": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]},
                {"type": "text", "text": "q"}]}]}"#,
        r#"[{"role": "system", "content": "a\nb"}, {"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "index": null, "type": "function", "function": {"name": "f", "arguments": {"k": 1}}}]}, {"role": "tool", "content": "r", "tool_call_id": "1"}, {"role": "user", "content": "q"}]"#,
    );
}

#[test]
fn responses_items_become_a_chat() {
    let check = |body: &str, expected: &str| {
        assert_eq!(render_at("/v1/responses", &SHOW.into(), body), Ok(expected.to_owned()), "{body}");
    };
    check(
        r#"{"instructions": "i", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
            {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "o"}]}"#,
        r#"[{"role": "system", "content": "i"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [{"id": "1", "index": null, "type": "function", "function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "o", "tool_call_id": "1"}]"#,
    );
}
