//! A request's messages, tools and settings on their way into a template, as vLLM and transformers hand them over.
//!
//! Each case: a `chat_template`, a request body, and the text that comes out. Sources: vLLM 0.32's
//! `renderers/chat_utils.py` and `renderers/hf.py`, transformers' `chat_template_utils.py`, and public bug reports
//! that the tests name.

use std::time::SystemTime;

use serde_json::{Value, json};
use tokens::{Context, EncodeError, Encoded, Fault, Files, LoadError, Tokenizer};

const SHOW: &str = "{{ messages|tojson }}";

/// The same, for a template that vLLM takes for one that wants parts.
const SHOW_PARTS: &str = "{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}{{ messages|tojson }}";

fn tokenizer_json() -> Vec<u8> {
    include_bytes!("data/tiny_tokenizer.json").to_vec()
}

fn load(config: &Value) -> Tokenizer {
    let files = Files {
        tokenizer_json: tokenizer_json(),
        tokenizer_config: Some(config.to_string().into_bytes()),
        ..Files::default()
    };
    Tokenizer::load(files).expect("the tiny tokenizer loads")
}

fn encode_with(tokenizer: &Tokenizer, body: &str, context: &Context) -> Result<Encoded, EncodeError> {
    let request = request::parse("/v1/chat/completions", body.as_bytes()).expect("a chat");
    tokenizer.encode(&request.prompt, context)
}

fn context() -> Context {
    Context::at(SystemTime::UNIX_EPOCH)
}

fn encode(config: &Value, body: &str) -> Result<Encoded, EncodeError> {
    encode_with(&load(config), body, &context())
}

fn check(template: &str, body: &str, expected: &str) {
    let encoded = encode(&json!({"chat_template": template}), body);
    assert_eq!(encoded.map(|encoded| encoded.rendered), Ok(Some(expected.to_owned())), "{body}");
}

fn refused(template: &str, body: &str) {
    let encoded = encode(&json!({"chat_template": template}), body);
    assert!(matches!(encoded, Err(EncodeError::Messages(_))), "{body}: {encoded:?}");
}

fn messages(messages: &str) -> String {
    format!(r#"{{"messages": [{messages}]}}"#)
}

#[test]
fn content_is_one_text() {
    let check = |message, expected| check(SHOW, &messages(message), expected);
    check(r#"{"role": "user", "content": "a"}"#, r#"[{"role": "user", "content": "a"}]"#);
    check(r#"{"role": "assistant", "content": null}"#, r#"[{"role": "assistant", "content": ""}]"#);
    check(r#"{"role": "assistant"}"#, r#"[{"role": "assistant", "content": ""}]"#);
    check(r#"{"role": "user", "content": []}"#, r#"[{"role": "user", "content": ""}]"#);
    check(
        r#"{"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"type": "text", "text": ""}, {"type": "text", "text": null}, {"type": "input_text", "text": " c "}]}"#,
        r#"[{"role": "user", "content": "a\nb\n c "}]"#,
    );
    check(
        r#"{"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "refusal", "refusal": "r"}, {"type": "output_text", "text": "o"}]}"#,
        r#"[{"role": "assistant", "content": "t\nr\no"}]"#,
    );
}

#[test]
fn content_is_a_list_where_the_template_loops_over_it() {
    let check = |message, expected| check(SHOW_PARTS, &messages(message), expected);
    check(r#"{"role": "user", "content": "a"}"#, r#"[{"role": "user", "content": [{"type": "text", "text": "a"}]}]"#);
    check(r#"{"role": "assistant", "content": null}"#, r#"[{"role": "assistant", "content": []}]"#);
    check(
        r#"{"role": "user", "content": ["a", {"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "text", "text": ""}]}"#,
        r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}, {"type": "text", "text": ""}]}]"#,
    );
    check(
        r#"{"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#,
        r#"[{"role": "tool", "content": "a\nb", "tool_call_id": "1"}]"#,
    );
    check(
        r#"{"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "f"}]}"#,
        r#"[{"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "f"}]}]"#,
    );
}

/// ai-dynamo/dynamo#4380, vllm-project/vllm#9358: parts are trimmed each on its own, images keep their place.
#[test]
fn parts_reach_a_template_that_loops_over_them() {
    let template = "{% for m in messages %}<{{ m.role }}>{% for c in m['content'] %}{% if c.type == 'image' %}<img>{% else %}{{ c.text|trim }}{% endif %}{% endfor %}{% endfor %}";
    check(
        template,
        &messages(
            r#"{"role": "user", "content": [{"type": "text", "text": "  one "}, {"type": "text", "text": "two"}]}"#,
        ),
        "<user>onetwo",
    );
    let body = messages(
        r#"{"role": "user", "content": [{"type": "text", "text": "  one "}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "two"}]}"#,
    );
    check(template, &body, "<user>one<img>two");
}

#[test]
fn what_isnt_text_is_told_by_content() {
    let media = |message: &str| {
        let encoded = encode(&json!({"chat_template": SHOW}), &messages(message)).unwrap();
        assert_eq!(encoded.multimodal, !encoded.media.is_empty());
        encoded.media.iter().map(|medium| medium.hash).collect::<Vec<_>>()
    };
    let image = |url: &str| {
        media(&format!(
            r#"{{"role": "user", "content": ["x", {{"type": "image_url", "image_url": {{"url": "{url}"}}}}]}}"#
        ))
    };
    assert!(media(r#"{"role": "user", "content": "x"}"#).is_empty());
    assert_eq!(image("http://a").len(), 1);
    assert_eq!(image("http://a"), image("http://a"));
    assert_ne!(image("http://a"), image("http://b"));
    let plain = media(r#"{"role": "user", "content": [{"image_url": "http://a"}]}"#);
    assert_eq!(plain, image("http://a"));
    let input = media(r#"{"role": "user", "content": [{"type": "input_image", "image_url": "http://a"}]}"#);
    assert_eq!(input, image("http://a"));
    let video = media(r#"{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "http://a"}}]}"#);
    assert_ne!(video, image("http://a"));
    let sound = r#"{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}"#;
    let named = r#"{"type": "image_url", "image_url": {"url": "http://a"}, "uuid": "1"}"#;
    let named_too = r#"{"type": "image_url", "image_url": null, "uuid": "1"}"#;
    let both = media(&format!(r#"{{"role": "user", "content": [{sound}, {named}]}}"#));
    assert_eq!(both.len(), 2);
    assert_eq!(both[1..], media(&format!(r#"{{"role": "user", "content": [{named_too}]}}"#)));
    assert_ne!(both[1..], image("http://a"));
}

#[test]
fn what_the_engine_refuses_is_refused() {
    let refused = |message| refused(SHOW, &messages(message));
    refused(r#"{"role": "user", "content": [{"type": "hologram", "hologram": "x"}]}"#);
    refused(r#"{"role": "user", "content": [{"nothing": "known"}]}"#);
}

#[test]
fn tool_calls_have_their_arguments_parsed() {
    let check = |arguments: &str, expected: &str| {
        check(
            SHOW,
            &messages(&format!(
                r#"{{"role": "assistant", "content": null, "tool_calls": [{{"id": "1", "type": "function", "function": {{"name": "f"{arguments}}}}}]}}"#
            )),
            &format!(
                r#"[{{"role": "assistant", "content": "", "tool_calls": [{{"id": "1", "function": {{"arguments": {expected}, "name": "f"}}, "type": "function"}}]}}]"#
            ),
        );
    };
    check(r#", "arguments": "{\"b\":1,\"a\":[1.50, 1e3, null]}""#, r#"{"b": 1, "a": [1.5, 1000.0, null]}"#);
    check(r#", "arguments": {"b": 1}"#, r#"{"b": 1}"#);
    check(r#", "arguments": "[1]""#, "{}");
    check(r#", "arguments": "5""#, "{}");
    check(r#", "arguments": "null""#, "{}");
    check(r#", "arguments": [1]"#, "{}");
    check(r#", "arguments": """#, "{}");
    check(r#", "arguments": "{not json""#, "{}");
    check(r#", "arguments": null"#, "{}");
    check(r#", "arguments": 5"#, "{}");
    check("", "{}");
}

#[test]
fn members_that_vllm_keeps_are_kept_and_no_others() {
    let check = |message, expected| check(SHOW, &messages(message), expected);
    check(
        r#"{"role": "assistant", "content": "a", "reasoning": "r", "tool_calls": [], "name": "n", "other": 1}"#,
        r#"[{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r", "name": "n"}]"#,
    );
    check(
        r#"{"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": null, "reasoning": null}"#,
        r#"[{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}]"#,
    );
    check(
        r#"{"role": "assistant", "content": "a", "reasoning_content": "old", "reasoning": ""}"#,
        r#"[{"role": "assistant", "content": "a", "reasoning": "", "reasoning_content": ""}]"#,
    );
    check(
        r#"{"role": "assistant", "content": "a", "reasoning_content": null}"#,
        r#"[{"role": "assistant", "content": "a"}]"#,
    );
    check(
        r#"{"role": "user", "content": "a", "reasoning": "r", "name": 5, "tool_call_id": "1"}"#,
        r#"[{"role": "user", "content": "a"}]"#,
    );
    check(
        r#"{"role": "tool", "content": "a", "tool_call_id": "1", "name": "f"}"#,
        r#"[{"role": "tool", "content": "a", "tool_call_id": "1", "name": "f"}]"#,
    );
}

#[test]
fn tool_calls_have_their_known_members_first() {
    check(
        SHOW,
        &messages(
            r#"{"role": "assistant", "tool_calls": [{"x": 1, "type": "function", "function": {"y": 2, "name": "f", "arguments": "{}"}, "index": 0, "id": "1"}]}"#,
        ),
        r#"[{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f", "y": 2}, "type": "function", "x": 1, "index": 0}]}]"#,
    );
    refused(SHOW, &messages(r#"{"role": "assistant", "tool_calls": [{"type": "custom", "function": {"name": "f"}}]}"#));
}

#[test]
fn a_template_that_wants_parts_gets_what_vllm_does_not_know_of_them() {
    check(
        SHOW_PARTS,
        &messages(
            r#"{"role": "user", "content": [{"cache_control": {"a": 1}, "text": "a", "name": "n", "type": "text", "x": null}, {"type": "image_url", "image_url": {"url": "http://x"}, "x": 1}, {"type": "thinking", "thinking": "t", "closed": true}]}"#,
        ),
        r#"[{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"a": 1}, "x": null}, {"type": "image", "x": 1}, {"type": "text", "text": "t"}]}]"#,
    );
}

#[test]
fn developers_are_system_for_a_template_that_does_not_know_them() {
    let developer = r#"{"role": "developer", "content": "d", "tools": [1]}"#;
    let system = r#"{"role": "system", "content": "s", "name": "n"}"#;
    let user = r#"{"role": "user", "content": "u"}"#;
    let known = r#"[{"role": "developer", "content": "d", "tools": [1]}]"#;
    check(&format!("{{# 'developer' #}}{SHOW}"), &messages(developer), known);
    check(&format!("{{# \"developer\" #}}{SHOW}"), &messages(developer), known);
    let check = |list: &[&str], expected| check(SHOW, &messages(&list.join(",")), expected);
    check(&[developer], r#"[{"role": "system", "content": "d"}]"#);
    check(&[developer, user], r#"[{"role": "system", "content": "d"}, {"role": "user", "content": "u"}]"#);
    check(&[user, developer], r#"[{"role": "system", "content": "d"}, {"role": "user", "content": "u"}]"#);
    check(&[system, user, developer], r#"[{"role": "system", "content": "s\n\nd"}, {"role": "user", "content": "u"}]"#);
    let nothing = r#"{"role": "developer", "content": ""}"#;
    check(&[nothing, user, system], r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]"#);
    // Without developers nothing is moved.
    check(&[user, system], r#"[{"role": "user", "content": "u"}, {"role": "system", "content": "s", "name": "n"}]"#);
}

#[test]
fn developers_in_parts_become_one_text_only_where_they_are_moved() {
    let developer = r#"{"role": "developer", "content": ["a", {"type": "text", "text": ""}, "b"]}"#;
    let user = r#"{"role": "user", "content": "u"}"#;
    let check = |list: &[&str], expected| check(SHOW_PARTS, &messages(&list.join(",")), expected);
    check(
        &[developer, user],
        r#"[{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]"#,
    );
    check(
        &[user, developer],
        r#"[{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]"#,
    );
}

#[test]
fn the_line_that_changes_with_every_request_is_left_out_of_instructions() {
    let header = "x-anthropic-billing-header: cch=1;";
    let message = |role: &str, content: &str| messages(&format!(r#"{{"role": "{role}", "content": {content}}}"#));
    let line = format!(r#""{header}\nYou are terse.""#);
    check(SHOW, &message("system", &line), r#"[{"role": "system", "content": "You are terse."}]"#);
    check(SHOW, &message("system", &format!(r#""{header}""#)), r#"[{"role": "system", "content": ""}]"#);
    check(
        SHOW,
        &message("system", &format!(r#""a {header}""#)),
        &format!(r#"[{{"role": "system", "content": "a {header}"}}]"#),
    );
    let parts = format!(r#"["{header}", {{"type": "text", "text": "{header}\n\nx"}}, "y"]"#);
    check(SHOW, &message("system", &parts), r#"[{"role": "system", "content": "\nx\ny"}]"#);
    let kept = r#"[{"role": "system", "content": [{"type": "text", "text": "\nx"}, {"type": "text", "text": "y"}]}]"#;
    check(SHOW_PARTS, &message("system", &parts), kept);
    let user = format!(r#"[{{"role": "user", "content": {line}}}]"#);
    check(SHOW, &message("user", &line), &user);
}

/// What a request says of reasoning, and arguments that vLLM takes for unset.
#[test]
fn who_asks_for_reasoning_gets_thinking() {
    let check = |rest: &str, expected| {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{rest}}}"#);
        check("{{ enable_thinking }}|{{ reasoning_effort }}|{{ x is defined }}", &body, expected);
    };
    check("", "||False");
    check(r#", "reasoning_effort": "low""#, "True|low|False");
    check(r#", "reasoning_effort": "none""#, "False|none|False");
    check(r#", "reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": false}"#, "False|high|False");
    check(r#", "reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": null}"#, "|high|False");
    check(r#", "chat_template_kwargs": {"enable_thinking": null, "x": "auto"}"#, "||False");
    check(r#", "chat_template_kwargs": {"reasoning_effort": "x", "x": 1}"#, "|x|True");
}

#[test]
fn tools_are_printed_as_vllms_models_print_them() {
    let check = |rest, expected| {
        check("{{ tools|tojson }}", &format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{rest}}}"#), expected)
    };
    check("", "null");
    check(r#", "tools": []"#, "null");
    check(r#", "tools": null"#, "null");
    check(
        r#", "tools": [{"function": {"strict": true, "parameters": {"z": 1, "a": 2}, "name": "f"}, "type": "function", "x": 1}]"#,
        r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"z": 1, "a": 2}, "strict": true}}]"#,
    );
    check(
        r#", "tools": [{"function": {"name": "f", "description": "d", "strict": null, "x": 1}, "cache_control": {}}]"#,
        r#"[{"type": "function", "function": {"name": "f", "description": "d", "parameters": null}}]"#,
    );
    check(
        r#", "tools": [{"defer_loading": true, "function": {"name": "f"}}]"#,
        r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": null, "defer_loading": true}, "defer_loading": true}]"#,
    );
    check(
        r#", "tools": [{"function": {"defer_loading": false, "name": "f", "strict": false}, "defer_loading": true}]"#,
        r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": null, "strict": false, "defer_loading": false}, "defer_loading": true}]"#,
    );
    check(
        r#", "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none""#,
        r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]"#,
    );
}

#[test]
fn tools_are_left_out_for_tool_choice_none_where_the_engine_is_set_so() {
    let body = r#"{"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}], "tool_choice": "none"}"#;
    let tokenizer = load(&json!({"chat_template": "{{ tools|tojson }}"}));
    let context = Context { exclude_tools_when_tool_choice_none: true, ..context() };
    assert_eq!(encode_with(&tokenizer, body, &context).unwrap().rendered.unwrap(), "null");
}

/// vllm-project/vllm#36907, nomic-ai/gpt4all#3305: tools and documents are always there, as None.
#[test]
fn the_context_is_as_transformers_makes_it() {
    let all = "{{ tools is defined }}{{ tools is none }}{{ documents is defined }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token is defined }}{{ eos_token is defined }}{{ enable_thinking is defined }}";
    let body = |rest: &str| format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{rest}}}"#);
    check(all, &body(""), "TrueTrueTrueTrueTrueFalseFalseFalse");
    check(all, &body(r#", "add_generation_prompt": false"#), "TrueTrueTrueTrueFalseFalseFalseFalse");
    let kwargs = r#", "chat_template_kwargs": {"enable_thinking": false, "x": [1], "add_generation_prompt": false, "bos_token": "B"}"#;
    check("{{ enable_thinking }}{{ x }}{{ add_generation_prompt }}{{ bos_token }}", &body(kwargs), "False[1]TrueB");
    check("{{ reasoning_effort is defined }}", &body(r#", "reasoning_effort": null"#), "False");
    check(
        "{{ reasoning_effort }}",
        &body(r#", "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}"#),
        "low",
    );
    check("{{ documents|tojson }}", &body(r#", "documents": [{"title": "t"}]"#), r#"[{"title": "t"}]"#);
    refused(all, &body(r#", "chat_template_kwargs": {"messages": []}"#));
    refused(all, &body(r#", "chat_template_kwargs": {"chat_template": "x"}"#));
}

/// huggingface/huggingface.js#518: tokens as text, as objects, and null.
#[test]
fn special_tokens_are_text_objects_or_absent() {
    let template =
        "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ unk_token }}|{{ additional_special_tokens }}";
    let config = json!({
        "chat_template": template, "bos_token": {"__type": "AddedToken", "content": "<b>"}, "eos_token": "<e>", "pad_token": null,
        "additional_special_tokens": ["<x>", {"content": "<y>"}],
    });
    let encoded = encode(&config, r#"{"messages": [{"role": "user", "content": "a"}]}"#).unwrap();
    assert_eq!(encoded.rendered.unwrap(), "<b>|<e>|False||['<x>', '<y>']");
}

/// vllm-project/vllm#36907, EleutherAI/lm-evaluation-harness#1578: a list of named templates.
#[test]
fn named_templates_are_chosen_by_tools() {
    let config = json!({"bos_token": "<s>", "chat_template": [
        {"name": "default", "template": "{{ bos_token }}D:{{ messages[0].content }}"},
        {"name": "tool_use", "template": "{{ bos_token }}T{{ tools|length }}:{{ messages[0].content }}"}]});
    let hi = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;
    let tools = r#"{"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": {"name": "f"}}]}"#;
    assert_eq!(encode(&config, hi).unwrap().rendered.unwrap(), "<s>D:hi");
    assert_eq!(encode(&config, tools).unwrap().rendered.unwrap(), "<s>T1:hi");
    let only_tools =
        json!({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]});
    assert_eq!(load(&only_tools).warnings()[..1], ["no chat template named \"default\", only tool_use, rag"]);
    assert_eq!(encode(&only_tools, tools).unwrap().rendered.unwrap(), "T");
    assert_eq!(encode(&only_tools, hi), Err(EncodeError::NoTemplate(vec!["tool_use".into(), "rag".into()])));
    assert_eq!(encode(&json!({}), hi), Err(EncodeError::NoTemplate(Vec::new())));
}

#[test]
fn a_template_file_goes_before_the_configuration() {
    let files = Files::gather(|name| {
        Ok(match name {
            "tokenizer.json" => Some(tokenizer_json()),
            "tokenizer_config.json" => Some(br#"{"chat_template": "config", "bos_token": "<s>"}"#.to_vec()),
            "chat_template.jinja" => Some(b"file{{ bos_token }}".to_vec()),
            _ => None,
        })
    });
    let tokenizer = Tokenizer::load(files.unwrap()).unwrap();
    let encoded = encode_with(&tokenizer, r#"{"messages": [{"role": "user", "content": "a"}]}"#, &context()).unwrap();
    assert_eq!(encoded.rendered.unwrap(), "file<s>");
}

#[test]
fn a_continued_message_ends_the_prompt() {
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}";
    let trimming = "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</{{ m.role }}>{% endfor %}";
    let dropping = "{% for m in messages %}<{{ m.role }}>{% endfor %}";
    let upper = "{% for m in messages %}{{ m.content|upper }}{% endfor %}";
    let parts = "{% for m in messages %}{% for c in m.content %}[{{ c.text }}]{% endfor %}{% endfor %}";
    let body = |text: &str, rest: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "{text}"}}], "add_generation_prompt": false, "continue_final_message": true{rest}}}"#
        )
    };
    check(template, &body("so ", ""), "<user>a</user><assistant>so ");
    check(trimming, &body("so ", ""), "<user>a</user><assistant>so");
    check(parts, &body("so", ""), "[a][so");
    refused("{% for m in messages %}{{ m['con' ~ 'tent'] }}{% endfor %}", &body("so", ""));
    refused(dropping, &body("so", ""));
    refused(upper, &body("so", ""));
    refused(template, &body("so", "").replace(r#""add_generation_prompt": false, "#, ""));
}

#[test]
fn a_template_in_the_request_runs_only_where_it_is_trusted() {
    let body = r#"{"messages": [{"role": "user", "content": "a"}], "chat_template": "own {{ messages[0].content }}"}"#;
    let tokenizer = load(&json!({"chat_template": "model's"}));
    assert_eq!(encode_with(&tokenizer, body, &context()), Err(EncodeError::RequestTemplate));
    let trusting = Context { trust_request_template: true, ..context() };
    assert_eq!(encode_with(&tokenizer, body, &trusting).unwrap().rendered.unwrap(), "own a");
}

/// ggml-org/llama.cpp#11402 and others: whose fault it is, and what the template said.
#[test]
fn a_template_that_gives_no_text_says_why() {
    let fault = |template: &str| {
        let body = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}"#;
        match encode(&json!({"chat_template": template}), body) {
            Err(EncodeError::Template(error)) => (error.fault, error.message, error.line),
            other => panic!("{other:?}"),
        }
    };
    let alternate = "{% for m in messages %}\n{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\n{{ raise_exception('Roles must alternate!') }}\n{% endif %}\n{% endfor %}";
    assert_eq!(fault(alternate), (Fault::Raised, "Roles must alternate!".into(), Some(3)));
    assert_eq!(fault("{{ messages[0].x.y }}").0, Fault::Failed);
    assert_eq!(fault("a\n{% foo %}"), (Fault::Syntax, "syntax error: unknown statement foo".into(), Some(2)));
    assert_eq!(
        fault("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}").0,
        Fault::TooManySteps
    );
    let broken = load(&json!({"chat_template": "{% foo %}"}));
    assert_eq!(broken.warnings()[..1], ["chat template \"default\": syntax error: unknown statement foo (line 1)"]);
}

#[test]
fn text_grows_only_so_far() {
    let template = "{% set ns = namespace(t='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}";
    let encoded = encode(&json!({"chat_template": template}), r#"{"messages": [{"role": "user", "content": "a"}]}"#);
    assert!(matches!(&encoded, Err(EncodeError::Template(error)) if error.fault == Fault::TooManySteps), "{encoded:?}");
}

/// robertknight/rten#391, huggingface/tokenizers#1541: files that aren't tokenizers are errors, not panics.
#[test]
fn files_that_are_no_model_are_named() {
    let load = |tokenizer: &[u8], config: Option<&[u8]>| {
        let files = Files {
            tokenizer_json: tokenizer.to_vec(),
            tokenizer_config: config.map(<[u8]>::to_vec),
            ..Files::default()
        };
        Tokenizer::load(files).map(|_| ())
    };
    assert_eq!(load(b"", None), Err(LoadError::NoTokenizer));
    for bad in [&b"404"[..], b"{}", b"[]", b"null", b"<html>", b"\xff\xfe", b"{\"version\": \"1.0\"}"] {
        assert!(matches!(load(bad, None), Err(LoadError::Tokenizer(_))), "{bad:?}");
    }
    for bad in [&b"404"[..], b"[]", b"", b"{"] {
        assert!(matches!(load(&tokenizer_json(), Some(bad)), Err(LoadError::Config(_))), "{bad:?}");
    }
    assert_eq!(load(&tokenizer_json(), None), Ok(()));
}

#[test]
fn an_estimate_follows_beginnings() {
    let encode = |body: &str| {
        let encoded = encode_with(&Tokenizer::estimate(), body, &context()).unwrap();
        assert!(encoded.estimated);
        encoded.prompts.concat()
    };
    let body = |second: &str| {
        format!(
            r#"{{"messages": [{{"role": "system", "content": "{}"}}, {{"content": "{second}", "role": "user"}}]}}"#,
            "s".repeat(400)
        )
    };
    let (a, b) = (encode(&body("aaaa")), encode(&body("bbbb")));
    let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    assert!((100..a.len()).contains(&shared), "{shared} of {}", a.len());
    assert_eq!(a, encode(&body("aaaa").replace(": ", ":")), "white space between members means nothing");
    let tools = r#"{"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}]}"#;
    assert_ne!(encode(tools)[0], encode(&messages(r#"{"role": "user", "content": "a"}"#))[0]);
}

#[test]
fn an_estimate_of_a_text_is_four_bytes_a_token() {
    let request = request::parse("/v1/completions", br#"{"prompt": ["12345678", "123456789", ""]}"#).unwrap();
    let encoded = Tokenizer::estimate().encode(&request.prompt, &context()).unwrap();
    assert_eq!(encoded.prompts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 0]);
    assert!(encoded.estimated);
}

#[test]
fn ids_of_the_clients_own_are_taken_as_they_are() {
    let request = request::parse("/v1/completions", br#"{"prompt": [[1, 2], [3]]}"#).unwrap();
    for tokenizer in [Tokenizer::estimate(), load(&json!({}))] {
        let encoded = tokenizer.encode(&request.prompt, &context()).unwrap();
        assert_eq!((encoded.prompts, encoded.estimated), (vec![vec![1, 2], vec![3]], false));
    }
}

#[test]
fn tools_among_the_arguments_go_before_the_requests_own() {
    let body = |tools: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "q"}}], "tools": [{{"function": {{"name": "f"}}}}], "chat_template_kwargs": {{"tools": {tools}}}}}"#
        )
    };
    check("{{ tools|tojson }}", &body(r#"[{"name": "g", "x": 1}]"#), r#"[{"name": "g", "x": 1}]"#);
    check("{{ tools[0].function.name }}", &body("null"), "f");
    refused("{{ tools }}", &body("[1]"));
    refused("{{ tools }}", &body(r#""g""#));
}

#[test]
fn no_messages_are_no_prompt() {
    refused(SHOW, r#"{"messages": []}"#);
}

#[test]
fn images_leave_a_placeholder_in_a_text() {
    let encoded = |model_type: &str, content: &str| {
        let files = Files {
            tokenizer_json: tokenizer_json(),
            tokenizer_config: Some(json!({"chat_template": SHOW}).to_string().into_bytes()),
            config: Some(json!({"model_type": model_type}).to_string().into_bytes()),
            ..Files::default()
        };
        let tokenizer = Tokenizer::load(files).expect("the tiny tokenizer loads");
        encode_with(&tokenizer, &messages(&format!(r#"{{"role": "user", "content": {content}}}"#)), &context())
    };
    let said = |text: &str| {
        Some(json!([{"role": "user", "content": text}]).to_string().replace("\":", "\": ").replace(",\"", ", \""))
    };
    let image = r#"{"type": "image_url", "image_url": {"url": "u"}}"#;
    let text = |text: &str| format!(r#"{{"type": "text", "text": "{text}"}}"#);

    let two = encoded("llama4", &format!("[{}, {image}, {image}]", text("look"))).unwrap();
    assert_eq!((two.rendered.clone(), two.inexact), (said("<|image|>\n<|image|>\nlook"), None));
    let there = encoded("llama4", &format!("[{image}, {}]", text("see <|image|>"))).unwrap();
    assert_eq!(there.rendered, said("see <|image|>"));
    assert!(matches!(
        encoded("llama4", &format!("[{image}, {}]", text("<|image|><|image|>"))),
        Err(EncodeError::Messages(_))
    ));
    let numbered = encoded("phi3_v", &format!("[{image}, {image}, {}]", text("x"))).unwrap();
    assert_eq!(numbered.rendered.clone(), said("<|image_1|>\n<|image_2|>\nx"));
    let unknown = encoded("new", &format!("[{image}, {}]", text("x"))).unwrap();
    assert_eq!(unknown.rendered.clone(), said("x"));
    assert!(unknown.inexact.is_some());

    let places = |encoded: &Encoded| {
        let text = encoded.rendered.clone().unwrap();
        let stands =
            encoded.media.iter().map(|medium| medium.place.map(|place| text[place.byte..].chars().take(11).collect()));
        stands.collect::<Vec<Option<String>>>()
    };
    let some = |texts: [&str; 2]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(places(&two), some(["<|image|>\\n", "<|image|>\\n"]));
    assert_eq!(places(&numbered), some(["<|image_1|>", "<|image_2|>"]));
    assert_eq!(places(&unknown), [None]);

    let embedded =
        |data: &str| encoded("new", &format!(r#"[{{"type": "prompt_embeds", "data": "{data}"}}, {}]"#, text("x")));
    let (one, other) = (embedded("AAAA").unwrap(), embedded("AAAB").unwrap());
    assert_eq!((&one.rendered, one.inexact, one.multimodal), (&said("<prompt_embeds>\nx"), None, true));
    assert_eq!(places(&one), [Some("<prompt_emb".to_owned())]);
    assert_ne!(one.media, other.media);
    assert!(matches!(embedded(""), Err(EncodeError::Messages(_))));
}
