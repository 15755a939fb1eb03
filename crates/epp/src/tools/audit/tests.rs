//! Requests to Qwen3 in, what is found out as a line of text out.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::*;

fn qwen3() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3")
}

fn audit(bodies: &[&str], form: Form) -> String {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    audit_by(TOKENIZER.get_or_init(|| models::tokenizer_in(&qwen3()).expect("the fixture loads")), 16, bodies, form)
}

/// Of a model that is shown images: a word a token, `I` for an image, a block of two tokens.
fn audit_images(bodies: &[&str], form: Form) -> String {
    let template = "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %} I {% else %} {{ c.text }} {% endif %}{% \
                    endfor %}{% endfor %}";
    let tokenizer = r#"{"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordLevel","vocab":{"a":0,"b":1,"?":2,"I":3},"unk_token":"?"}}"#;
    let tokenizer = Tokenizer::load(tokens::Files {
        tokenizer_json: tokenizer.into(),
        tokenizer_config: Some(serde_json::json!({ "chat_template": template }).to_string().into()),
        ..tokens::Files::default()
    });
    audit_by(&tokenizer.expect("a tokenizer"), 2, bodies, form)
}

fn audit_by(tokenizer: &Tokenizer, block_size: u32, bodies: &[&str], form: Form) -> String {
    let reading = Reading {
        model: qwen3(),
        path: None,
        name: None,
        revision: String::new(),
        adapter: String::new(),
        tenant: String::new(),
        engine: request::Engine::Vllm,
        block_size: NonZeroU32::new(block_size).expect("not zero"),
    };
    let name = |at: usize| format!("{}.json", char::from(b'a' + at as u8));
    let bodies: Vec<_> = bodies.iter().enumerate().map(|(at, body)| (name(at), body.as_bytes().to_vec())).collect();
    compared(tokenizer, &reading, &bodies, form, SystemTime::UNIX_EPOCH)
        .unwrap_or_else(|problem| format!("! {problem}"))
}

/// `tokens/blocks shared; where they part; why`.
#[track_caller]
fn check(a: &str, b: &str, expected: &str) {
    assert_eq!(said(&audit(&[a, b], Form::Json)), expected);
}

fn said(report: &str) -> String {
    let report: Value = serde_json::from_str(report).expect("JSON");
    let pair = &report["pairs"][0];
    let parting = match &pair["parting"] {
        Value::Null => "-".to_owned(),
        parting if parting["message_part"] == "content" => {
            format!("{} {} {}", parting["message"], parting["role"], parting["message_character"])
        }
        parting => format!("{} {} {}", parting["message"], parting["role"], parting["message_part"]),
    };
    let why: Vec<&str> =
        pair["why"].as_array().expect("a list").iter().filter_map(|why| why["reason"].as_str()).collect();
    let said = format!("{}/{}; {}; {}", pair["tokens_shared"], pair["blocks_shared"], parting, why.join(" "));
    said.replace('"', "")
}

/// A chat of these `role: content` messages, with more members.
fn chat(messages: &[(&str, &str)], more: &str) -> String {
    let messages: Vec<Value> =
        messages.iter().map(|(role, content)| serde_json::json!({ "role": role, "content": content })).collect();
    format!("{{\"model\":\"qwen3\",\"messages\":{}{more}}}", Value::from(messages))
}

fn tool(name: &str, description: &str) -> String {
    format!(
        "{{\"type\":\"function\",\"function\":{{\"name\":\"{name}\",\"description\":\"{description}\",\"parameters\":{{}}}}}}"
    )
}

const KIND: &str = "You are kind. You are kind. You are kind. You are kind. You are kind. You are kind. You are kind. You \
                    are kind. You are kind. You are kind. You are kind. You are kind. You are kind. You are kind. You are \
                    kind. You are kind. You are kind. You are kind. You are kind. You are kind. ";

/// ai-dynamo/dynamo#9301: the next turn extends the last one.
#[test]
fn a_next_turn_goes_on_where_the_last_one_ended() {
    let turn_1 = chat(&[("system", KIND), ("user", "Q1")], "");
    let turn_2 = chat(&[("system", KIND), ("user", "Q1"), ("assistant", "A1 with text."), ("user", "Q2")], "");
    check(&turn_1, &turn_2, "96/6; -; continuation");
    check(&turn_2, &turn_1, "96/6; -; continuation");
    check(&turn_1, &turn_1, "96/6; -; same");
}

/// Each as a message of its own: `=x` shows the image x, all else is text.
fn shows(parts: &str) -> String {
    let messages = parts.split(' ').map(|part| match part.strip_prefix('=') {
        Some(url) => serde_json::json!({ "type": "image_url", "image_url": { "url": url } }),
        None => serde_json::json!({ "type": "text", "text": part }),
    });
    let messages: Vec<Value> = messages.map(|part| serde_json::json!({ "role": "user", "content": [part] })).collect();
    format!("{{\"model\":\"m\",\"messages\":{}}}", Value::from(messages))
}

#[test]
fn an_image_parts_prompts_where_it_stands() {
    let check = |a: &str, b: &str, expected: &str| {
        let report = audit_images(&[&shows(a), &shows(b)], Form::Json);
        assert_eq!(said(&report), expected, "{report}");
    };
    check("a b a =1 b", "a b a =1 b", "5/2; -; same");
    check("a b a =1 b", "a b a =2 b", "3/1; 3 user before_content; other_media");
    check("a =1 a =2", "a =1 a =3 b", "3/1; 3 user before_content; other_media");
    check("a =1 a =2", "a =1 a b", "3/1; 3 user before_content; message_text");
    check("a =1 a", "a =1 a =2", "3/1; -; continuation");
    let text = audit_images(&[&shows("a b =1"), &shows("a b =2")], Form::Text { colour: false });
    assert!(text.contains("Another image, sound or film stands there in message 3 (user)."), "{text}");
    // Qwen3 shows none: where an image would stand isn't known.
    check_qwen3_shows_none();
}

fn check_qwen3_shows_none() {
    let (one, two) = (shows("a b =1"), shows("a b =2"));
    check(&one, &two, "0/0; -; other_media");
    check(&one, &one, "20/1; -; same");
}

#[test]
fn what_passes_in_a_system_message_is_named() {
    let at = |text: &str| chat(&[("system", text), ("user", "Hi")], "");
    check(
        &at("You are kind. It is 2026-11-30 01:57:01 now. Be brief."),
        &at("You are kind. It is 2026-11-30 02:10:44 now. Be brief."),
        "22/1; 0 system 32; timestamp",
    );
    check(&at("Session 3f2504e0-4f89."), &at("Session 9b2504e0-4f89."), "5/0; 0 system 8; id");
    check(&at("You are kind."), &at("You are  kind."), "5/0; 0 system 8; white_space");
    check(&at("You are kind."), &at("You are terse."), "5/0; 0 system 8; message_text");
}

/// llm-d/llm-d-router#1554: tools come first in the prompt.
#[test]
fn tools_part_prompts_early() {
    let with = |tools: &[String]| chat(&[("user", "hi")], &format!(",\"tools\":[{}]", tools.join(",")));
    use std::slice::from_ref;
    let (a, b) = (tool("a", ""), tool("b", ""));
    check(&with(from_ref(&a)), &with(from_ref(&b)), "51/3; null null null; tools_other");
    check(&with(&[a.clone(), b.clone()]), &with(&[b.clone(), a.clone()]), "51/3; null null null; tools_order");
    check(&with(from_ref(&a)), &with(&[tool("a", "x")]), "56/3; null null null; tools_changed");
    check(&with(&[a]), &chat(&[("user", "hi")], ""), "1/0; null null null; tools_other");
    check(&with(&[]), &chat(&[("user", "hi")], ""), "9/0; -; same");
}

/// vllm-project/vllm#28089: `enable_thinking` changes the prompt's end.
#[test]
fn arguments_of_the_template_are_named() {
    let with = |more: &str| chat(&[("system", "You are an AI"), ("user", "1+1=?")], more);
    let off = with(",\"chat_template_kwargs\":{\"enable_thinking\":false}");
    check(&off, &with(""), "21/1; -; template_arguments");
    check(&with(",\"chat_template_kwargs\":{\"foo\":1}"), &with(""), "21/1; -; same");
    let next = chat(
        &[("system", "You are an AI"), ("user", "1+1=?"), ("assistant", "2"), ("user", "2+2=?")],
        ",\"chat_template_kwargs\":{\"enable_thinking\":false}",
    );
    check(&off, &next, "21/1; 1 user behind_content; generation_prompt");
}

#[test]
fn reasoning_that_the_template_drops_is_named() {
    let call = r#"{"role":"assistant","content":"","reasoning":"I look it up.","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"1","content":"42"}"#;
    let turn = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"Q"}},{call},{result}{more}]}}"#);
    let later = turn(r#",{"role":"assistant","content":"It is 42."},{"role":"user","content":"Sure?"}"#);
    let within = turn("")
        .replace(r#""content":"","reasoning":"I look it up.""#, r#""content":"<think>\n\nI look.\n</think>\n\nSo.""#);
    let within_later = later
        .replace(r#""content":"","reasoning":"I look it up.""#, r#""content":"<think>\n\nI look.\n</think>\n\nSo.""#);
    check(&within, &within_later, "9/0; 1 assistant before_content; reasoning_dropped");
    check(&turn(""), &later, "9/0; 1 assistant before_content; reasoning_dropped");
}

#[test]
fn nothing_is_shared_across_a_border() {
    let salted = |salt: &str| chat(&[("user", "hi")], &format!(",\"cache_salt\":\"{salt}\""));
    check(&salted("a"), &salted("b"), "0/0; -; other_cache_salt");
    check(&salted("a"), &salted("a"), "9/0; -; same");
    let other = chat(&[("user", "ho")], "").replace("qwen3", "other");
    check(&chat(&[("user", "hi")], ""), &other, "0/0; 0 user 1; other_model");
}

#[test]
fn what_differs_in_a_history_is_named() {
    let base = [
        ("system", "Be kind."),
        ("user", "Q1"),
        ("assistant", "A1"),
        ("user", "Q2"),
        ("assistant", "A2"),
        ("user", "Q3"),
    ];
    let whole = chat(&base, "");
    let cut: Vec<_> = base.iter().take(1).chain(base.iter().skip(3)).copied().collect();
    check(&whole, &chat(&cut, ""), "12/0; 1 user 1; history_cut");
    let mut edited = base;
    edited[2].1 = "A1!";
    let mut other_role = base;
    other_role[1].0 = "assistant";
    check(&whole, &chat(&other_role, ""), "9/0; 1 user before_content; message_role");
    check(&whole, &chat(&edited, ""), "20/1; 2 assistant 2; message_text");
    let call = |city: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"Q"}},{{"role":"assistant","content":"ok","tool_calls":[{{"id":"1","type":"function","function":{{"name":"f","arguments":"{{\"city\":\"{city}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"1","content":"x"}}]}}"#
        )
    };
    check(&call("Rome"), &call("Oslo"), "26/1; 1 assistant behind_content; message_tool_calls");
}

#[test]
fn plain_prompts_are_compared_too() {
    let text = |text: &str| format!("{{\"prompt\":\"{text}\"}}");
    check(&text("one two three"), &text("one two four"), "2/0; null null null; prompt_text");
    check(&text("one two"), &text("one two three"), "2/0; -; continuation");
    check(&text("[1]"), "{\"prompt\":[58,7,8]}", "1/0; null null null; token_ids");
    check(&text("x"), "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "0/0; null null null; other_kind");
}

#[test]
fn a_person_sees_the_spot() {
    let at = |text: &str| chat(&[("system", text), ("user", "Hi")], "");
    let text = audit(
        &[&at("東京\tis nice. Now: 01:57."), &at("東京\tis nice. Now: 02:10."), &at("東京 is big.")],
        Form::Text { colour: false },
    );
    let expected = "\
a.json  28 tokens, 1 whole block of 16
b.json  28 tokens, 1 whole block of 16
c.json  19 tokens, 1 whole block of 16

a.json and b.json
  share  12 tokens, 0 whole blocks: 43% of a.json, 43% of b.json
  part   after 12 tokens, 37 characters: in message 1 of 2 (system), after 18 characters of its content
         a.json  …t|>system␊東京␉is nice. Now: 01:57.<|im_end|>␊<|im_start|>
         b.json  …t|>system␊東京␉is nice. Now: 02:10.<|im_end|>␊<|im_start|>
                                                ^
  why    A date or time stands in the system message (message 1) and changes: what comes after it is never shared. \
Put it at the end, or leave it out.

a.json and c.json
  share  5 tokens, 0 whole blocks: 18% of a.json, 26% of c.json
  part   after 5 tokens, 21 characters: in message 1 of 2 (system), after 2 characters of its content
         a.json  <|im_start|>system␊東京␉is nice. Now: 01:57.<|im_en
         c.json  <|im_start|>system␊東京 is big.<|im_end|>␊<|im_star
                                        ^
  why    The system message (message 1) says something else.

Common to all 3: 5 tokens, 0 whole blocks.
";
    let (findings, caveat) = text.rsplit_once("\nA shared beginning is not yet a cache hit").expect("it says so");
    assert_eq!(findings, expected);
    assert!(caveat.ends_with("anew.\n"));
}

#[test]
fn the_same_chat_by_another_api_is_the_same_prompt() {
    let anthropic =
        r#"{"model":"qwen3","system":"Be kind.","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#;
    let responses = r#"{"model":"qwen3","instructions":"Be kind.","input":"Hi"}"#;
    let chat = chat(&[("system", "Be kind."), ("user", "Hi")], "");
    check(&chat, anthropic, "17/1; -; same");
    check(&chat, responses, "17/1; -; same");
}

#[test]
fn the_message_at_the_spot_is_found_in_a_long_chat() {
    let turns = |changed: &str| {
        let contents: Vec<String> =
            (0..400).map(|at| if at == 301 { changed.to_owned() } else { format!("turn {at}") }).collect();
        let roles = ["user", "assistant"].into_iter().cycle();
        chat(&roles.zip(contents.iter().map(String::as_str)).collect::<Vec<_>>(), "")
    };
    check(&turns("one thing"), &turns("one other thing"), "2904/181; 301 assistant 4; message_text");
}

#[test]
fn several_prompts_in_one_request_are_not_compared() {
    let text = audit(&["{\"prompt\":\"a\"}", "{\"prompt\":[\"a\",\"b\"]}"], Form::Json);
    assert_eq!(text, "! b.json: holds 2 prompts; requests of one prompt can be compared");
}
