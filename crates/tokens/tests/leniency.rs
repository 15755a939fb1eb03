//! Bodies that Python takes and strict readers don't, all the way to the text: numbers of any size, keys twice or in any
//! order, deep nesting, surrogates, large data. Each case: a body, and the text that the engine's Python makes of it.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokens::{Context, Encoded, Files, Tokenizer};

/// 2025-03-05T04:06:07Z.
const CLOCK: Duration = Duration::from_secs(1_741_147_567);

/// A model of one letter a token, with a template.
fn of_template(template: &str) -> Tokenizer {
    let files = Files {
        tokenizer_json: include_bytes!("data/tiny_tokenizer.json").to_vec(),
        tokenizer_config: Some(json!({ "chat_template": template }).to_string().into_bytes()),
        ..Files::default()
    };
    Tokenizer::load(files).expect("the tiny tokenizer loads")
}

/// The text, or why there is none.
fn encode(tokenizer: &Tokenizer, body: &str) -> Result<Encoded, String> {
    let request = request::parse("/v1/chat/completions", body.as_bytes()).map_err(|error| error.to_string())?;
    let context = Context::at(SystemTime::UNIX_EPOCH + CLOCK);
    tokenizer.encode(&request.prompt, &context).map_err(|error| error.to_string())
}

fn check(template: &str, body: &str, expected: &str) {
    let encoded = encode(&of_template(template), body);
    assert_eq!(encoded.map(|encoded| encoded.rendered), Ok(Some(expected.to_owned())), "{body}");
}

fn chat(more: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}]{more}}}"#)
}

fn with_arguments(arguments: &str) -> String {
    let quoted = serde_json::Value::from(arguments);
    format!(
        r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"type": "function", "function": {{"name": "f", "arguments": {quoted}}}}}]}}]}}"#
    )
}

const PARAMETERS: &str = "{{ tools[0].function.parameters|tojson }}|{{ tools[0].function.parameters }}";

const ARGUMENTS: &str = "{{ messages[0].tool_calls[0].function.arguments|tojson }}";

const NUMBERS: &str =
    r#"{"a":-0,"b":18446744073709551616,"c":1e400,"d":-1e400,"e":NaN,"f":0.10,"g":1E5,"h":-0.0,"i":1e-7}"#;

/// llm-d/llm-d-router#2518: a number that changes changes the prompt.
#[test]
fn numbers_of_any_size_reach_the_text_as_python_prints_them() {
    let json = r#"{"a": 0, "b": 18446744073709551616, "c": Infinity, "d": -Infinity, "e": NaN, "f": 0.1, "g": 100000.0, "h": -0.0, "i": 1e-07}"#;
    let python = "{'a': 0, 'b': 18446744073709551616, 'c': inf, 'd': -inf, 'e': nan, 'f': 0.1, 'g': 100000.0, 'h': -0.0, 'i': 1e-07}";
    let tools = format!(r#", "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {NUMBERS}}}}}]"#);
    check(PARAMETERS, &chat(&tools), &format!("{json}|{python}"));
    check(ARGUMENTS, &with_arguments(NUMBERS), json);
    let documents = format!(r#", "documents": [{NUMBERS}], "chat_template_kwargs": {{"x": {NUMBERS}}}"#);
    check("{{ documents|tojson }}{{ x|tojson }}", &chat(&documents), &format!("[{json}]{json}"));
}

/// ENTERPILOT/GoModel#870: of equal keys the last value counts, and it stands where the first one stood.
#[test]
fn keys_that_stand_twice_reach_the_text_once() {
    let twice = r#"{"a":1,"b":{"x":1,"x":2},"a":3}"#;
    let once = r#"{"a": 3, "b": {"x": 2}}"#;
    let tools = format!(r#", "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {twice}}}}}]"#);
    check("{{ tools[0].function.parameters|tojson }}", &chat(&tools), once);
    check(ARGUMENTS, &with_arguments(twice), once);
    check(
        "{{ messages|tojson }}",
        r#"{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "system", "content": "b", "role": "user", "content": "c"}]}"#,
        r#"[{"role": "user", "content": "c"}]"#,
    );
}

#[test]
fn the_order_of_a_bodys_members_changes_nothing() {
    let members = [
        r#""model": "m""#,
        r#""messages": [{"content": "hi", "role": "user"}]"#,
        r#""tools": [{"function": {"parameters": {"z": 1, "a": 2}, "name": "f"}, "type": "function"}]"#,
        r#""chat_template_kwargs": {"x": 1}"#,
        r#""documents": [{"t": 1}]"#,
        r#""add_generation_prompt": false"#,
    ];
    let tokenizer =
        of_template("{{ tools|tojson }}{{ messages|tojson }}{{ x }}{{ documents|tojson }}{{ add_generation_prompt }}");
    let expected = r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"z": 1, "a": 2}}}][{"role": "user", "content": "hi"}]1[{"t": 1}]False"#;
    for first in 0..members.len() {
        let mut order = members.to_vec();
        order.rotate_left(first);
        for order in [order.clone(), order.into_iter().rev().collect()] {
            let body = format!("{{{}}}", order.join(","));
            let encoded = encode(&tokenizer, &body);
            assert_eq!(encoded.map(|encoded| encoded.rendered), Ok(Some(expected.to_owned())), "{body}");
        }
    }
}

/// bug-ops/mcp-execution#303: what is read is rendered too, on a stack as small as tokio's.
#[test]
fn what_nests_deeply_is_rendered_without_much_stack() {
    const AROUND: usize = 5; // the body, `tools`, the tool, `function` and `parameters`' own object
    for depth in [150, request::json::MAX_DEPTH - AROUND] {
        let nested = |space: &str| format!("{}1{}", format!(r#"{{"a":{space}"#).repeat(depth), "}".repeat(depth));
        let tools = format!(
            r#", "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {}}}}}]"#,
            nested("")
        );
        let body = chat(&tools);
        let python = format!("{}1{}", "{'a': ".repeat(depth), "}".repeat(depth));
        let render = || {
            check(PARAMETERS, &body, &format!("{}|{python}", nested(" ")));
            let indented = encode(&of_template("{{ tools|tojson(indent=1) }}"), &body).map(|encoded| encoded.rendered);
            assert!(indented.is_ok_and(|text| text.is_some_and(|text| text.len() > depth * depth)));
            assert!(encode(&Tokenizer::estimate(), &body).is_ok());
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, render);
            thread.expect("a thread starts").join().expect("it renders");
        });
    }
}

#[test]
fn half_a_surrogate_pair_is_no_prompt_wherever_it_stands() {
    let tokenizer = of_template("{{ messages|tojson }}{{ tools|tojson }}{{ documents|tojson }}{{ x }}");
    for more in [
        r#", "tools": [{"type": "function", "function": {"name": "f", "description": "\ud800"}}]"#,
        r#", "documents": [{"\udfff": 1}]"#,
        r#", "chat_template_kwargs": {"x": "\udc00"}"#,
    ] {
        let why = encode(&tokenizer, &chat(more)).expect_err(more);
        assert!(why.contains("half of a surrogate pair"), "{more}: {why}");
    }
    let call = with_arguments(r#"{"a": ["\ud800"]}"#);
    let why = encode(&of_template(ARGUMENTS), &call).expect_err("arguments are text too");
    assert!(why.contains("half of a surrogate pair"), "{why}");
    // Beside the prompt it means nothing, and in pairs it is a letter.
    let beside = chat(
        r#", "user": "\ud800", "metadata": {"\udfff": ["\ud800"]}, "chat_template_kwargs": {"x": "\ud83d\ude00"}"#,
    );
    check("{{ x }}", &beside, "😀");
}

/// vLLM takes arguments that aren't JSON for none; those that its Python fails on otherwise it doesn't.
#[test]
fn arguments_that_cannot_be_read_are_none_or_no_prompt() {
    for broken in ["", "{", "[1]", "{\"a\": 01}", "{'a': 1}", "nothing"] {
        check(ARGUMENTS, &with_arguments(broken), "{}");
    }
    let deep = format!("{}1{}", r#"{"a":"#.repeat(600), "}".repeat(600));
    let long = format!(r#"{{"a": {}}}"#, "1".repeat(4301));
    for unheld in [deep, long] {
        let why = encode(&of_template(ARGUMENTS), &with_arguments(&unheld)).expect_err("no plausible prompt");
        assert!(why.contains("too deeply or hold too long"), "{why}");
    }
}

/// llm-d/llm-d-router#2197: an image's data is neither decoded nor tokenized, and tells requests apart.
#[test]
fn twenty_megabytes_of_an_image_are_no_tokens() {
    let body = |data: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": [{{"type": "text", "text": "hi"}}, {{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{data}"}}}}]}}]}}"#
        )
    };
    let large = "iVBORw0KGgoA".repeat(1_747_626);
    let tokenizer = of_template("{% for m in messages %}{% for c in m.content %}{{ c.type }} {% endfor %}{% endfor %}");
    let (small, large) =
        (encode(&tokenizer, &body("iVBO")).expect("a prompt"), encode(&tokenizer, &body(&large)).expect("a prompt"));
    assert_eq!(large.rendered.as_deref(), Some("text image "));
    assert_eq!(large.prompts, small.prompts);
    assert_eq!((large.media.len(), large.multimodal), (1, true));
    assert_ne!(large.media, small.media);
}

/// The same without the model's files: what was estimated by the bytes of images outweighed all else.
#[test]
fn an_estimate_holds_an_image_as_a_hash() {
    let estimate = |parts: &str| {
        let body =
            format!(r#"{{"messages": [{{"role": "user", "content": [{{"type": "text", "text": "hi"}}, {parts}]}}]}}"#);
        encode(&Tokenizer::estimate(), &body).expect("an estimate")
    };
    let image = |data: &str| {
        estimate(&format!(r#"{{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{data}"}}}}"#))
    };
    let large = image(&"iVBORw0KGgoA".repeat(1_747_626));
    assert!(large.tokens() < 40 && large.multimodal, "{} tokens", large.tokens());
    assert_eq!(image("AAAA").prompts, image("AAAA").prompts);
    assert_ne!(image("AAAA").prompts, image("AAAB").prompts);
    assert_eq!(image("AAAA").tokens(), large.tokens());
    let file = estimate(&format!(r#"{{"type": "file", "file": {{"file_data": "{}"}}}}"#, "A".repeat(100_000)));
    assert!(file.tokens() < 40 && !file.multimodal, "{} tokens", file.tokens());
    let text = estimate(r#"{"type": "text", "text": "a picture of image_url"}, "and more""#);
    assert!(!text.multimodal && text.rendered.is_some_and(|text| text.contains("a picture of image_url")));
}

#[test]
fn a_date_in_the_prompt_is_that_of_the_clock_handed_in() {
    let tokenizer = of_template("Today: {{ strftime_now('%d %b %Y') }}");
    let body = chat("");
    let request = request::parse("/v1/chat/completions", body.as_bytes()).expect("a chat");
    let at = |seconds: u64| {
        let context = Context::at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        tokenizer.encode(&request.prompt, &context).expect("a prompt").rendered
    };
    assert_eq!(at(CLOCK.as_secs()).as_deref(), Some("Today: 05 Mar 2025"));
    let midnight = 1_741_219_200;
    assert_eq!(at(midnight - 1).as_deref(), Some("Today: 05 Mar 2025"));
    assert_eq!(at(midnight).as_deref(), Some("Today: 06 Mar 2025"));
}
