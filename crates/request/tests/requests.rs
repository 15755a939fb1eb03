//! Bodies in, what was understood out. The odd ones follow public bug reports of inference gateways and engines; each
//! names its own.

use std::borrow::Cow;

use request::{Api, Engine, NotUnderstood, Prompt, Request, json::Value, parse, parse_for};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// `expected` is a line as [`show`] and [`refusal`] write it.
fn check(path: &str, body: &str, expected: &str) {
    check_bytes(path, body.as_bytes(), expected);
}

fn check_bytes(path: &str, body: &[u8], expected: &str) {
    let understood = parse(path, body);
    let line = understood.as_ref().map(show).unwrap_or_else(refusal);
    assert_eq!(line, expected, "{}", String::from_utf8_lossy(&body[..body.len().min(500)]));
}

/// Only what differs from the defaults, then the prompt.
fn show(request: &Request<'_>) -> String {
    let mut line = vec![request.api.as_str().to_owned()];
    let mut say = |name: &str, value: Option<String>| line.extend(value.map(|value| format!("{name}={value}")));
    say("model", request.model.as_ref().map(Cow::to_string));
    say("stream", request.stream.then(|| if request.include_usage { "with usage" } else { "without usage" }.into()));
    say("salt", request.cache_salt.as_ref().map(Cow::to_string));
    say("max", request.max_tokens.map(|max| max.to_string()));
    say("adapter", request.adapter.as_ref().map(Cow::to_string));
    say("read", request.truncation.map(|cut| format!("{:?} {:?}", cut.tokens, cut.kept)));
    say("only looks", (!request.fills_cache).then(String::new));
    match &request.prompt {
        Prompt::Texts { texts, add_special_tokens } => {
            say("bare", (!add_special_tokens).then(String::new));
            say("texts", Some(format!("{texts:?}")));
        }
        Prompt::Tokens(ids) => say("ids", Some(format!("{ids:?}"))),
        Prompt::Chat(chat) => {
            let count = |list: &Option<Vec<Value<'_>>>| list.as_ref().map(|list| list.len().to_string());
            let roles: Vec<_> = chat.messages.iter().filter_map(|message| message.get("role")?.as_str()).collect();
            say("tools", count(&chat.tools));
            say("documents", count(&chat.documents));
            say("template", chat.template.as_ref().map(Cow::to_string));
            say("effort", chat.reasoning_effort.as_ref().map(Cow::to_string));
            let kwargs: Vec<_> = chat.template_kwargs.iter().map(|(key, _)| key).collect();
            say("kwargs", (!kwargs.is_empty()).then(|| kwargs.join("+")));
            say("no tool choice", chat.tool_choice_none.then(String::new));
            say("no generation prompt", (!chat.add_generation_prompt).then(String::new));
            say("continue", chat.continue_final_message.then(String::new));
            say("special tokens", chat.add_special_tokens.then(String::new));
            say("roles", Some(roles.join(",")));
        }
    }
    line.join(" ")
}

fn refusal(why: &NotUnderstood) -> String {
    format!("{}: {why}", why.as_str())
}

#[test]
fn a_chat_needs_no_prompt() {
    // kubernetes-sigs/gateway-api-inference-extension#790
    check(
        CHAT,
        r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]}"#,
        "chat_completions model=m roles=system,user",
    );
}

#[test]
fn keys_may_stand_in_any_order() {
    check(
        CHAT,
        r#"{"stream_options":{"include_usage":true},"messages":[{"content":"hi","role":"user"}],
            "tools":[{"function":{"parameters":{"type":"object"},"name":"f"},"type":"function"}],"stream":true,
            "cache_salt":"s","tool_choice":"none","max_tokens":5,"max_completion_tokens":7,"model":"m"}"#,
        "chat_completions model=m stream=with usage salt=s max=7 tools=1 no tool choice= roles=user",
    );
}

#[test]
fn what_steers_the_template_is_kept() {
    check(
        CHAT,
        r#"{"messages":[{"role":"user","content":"1+1=?"},{"role":"assistant","content":"It is"}],
            "add_generation_prompt":false,"continue_final_message":true,"add_special_tokens":true,
            "chat_template":"{{ messages }}","chat_template_kwargs":{"enable_thinking":false,"x":1},
            "reasoning_effort":"low","documents":[{"title":"t","text":"x"}]}"#,
        "chat_completions documents=1 template={{ messages }} effort=low kwargs=enable_thinking+x \
         no generation prompt= continue= special tokens= roles=user,assistant",
    );
    let nulls = r#"{"messages":[{"role":"user","content":null}],"tools":null,"documents":null,"chat_template":null,
        "chat_template_kwargs":null,"stream":null,"stream_options":null,"cache_salt":null,"max_tokens":null}"#;
    check(CHAT, nulls, "chat_completions roles=user");
}

#[test]
fn members_that_nobody_knows_are_left_alone() {
    // vllm-project/vllm#15526, ai-dynamo/dynamo#10963
    let body = r#"{"model":"m","messages":[{"role":"developer","content":"d"},{"role":"user","name":"bob","content":[
        {"type":"text","text":"x"},{"type":"file","file":{"file_id":"f"}},
        {"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},"plain"]}],"stream":true,
        "stream_options":{"include_usage":true,"include_obfuscation":false},"service_tier":"auto",
        "reasoning_effort":"minimal","guided_json":{},"vllm_xargs":{"a":1},
        "response_format":{"type":"structural_tag","format":{}},"logit_bias":{"50256":-100},"stop":null,"n":null,
        "metadata":{"k":"v"},"prediction":null,"max_completion_tokens":5,"t":NaN,"surrogate":"\ud800"}"#;
    check(CHAT, body, "chat_completions model=m stream=with usage max=5 effort=minimal roles=developer,user");
}

#[test]
fn tool_calls_and_their_results_are_understood() {
    let body = r#"{"messages":[{"role":"user","content":"weather?"},
        {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function",
         "function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"sunny"},{"role":"assistant","tool_calls":null}]}"#;
    check(CHAT, body, "chat_completions roles=user,assistant,tool,assistant");
}

#[test]
fn prompts_come_in_four_shapes() {
    // llm-d/llm-d-router#860
    check(COMPLETIONS, r#"{"model":"m","prompt":"abc def"}"#, r#"completions model=m max=16 texts=["abc def"]"#);
    check(COMPLETIONS, r#"{"prompt":["abc def","xyz"]}"#, r#"completions max=16 texts=["abc def", "xyz"]"#);
    check(COMPLETIONS, r#"{"prompt":[1,2,3],"max_tokens":0}"#, "completions max=0 ids=[[1, 2, 3]]");
    check(
        COMPLETIONS,
        r#"{"prompt":[[1,2],[3]],"stream":true}"#,
        "completions stream=without usage max=16 ids=[[1, 2], [3]]",
    );
    check(COMPLETIONS, r#"{"prompt":"a","add_special_tokens":false}"#, r#"completions max=16 bare= texts=["a"]"#);
    check(COMPLETIONS, r#"{"prompt":[""]}"#, r#"completions max=16 texts=[""]"#);
}

#[test]
fn prompts_of_other_shapes_are_named() {
    let not = |prompt: &str, why: &str| check(COMPLETIONS, &format!(r#"{{"prompt":{prompt}}}"#), why);
    not("null", "no_prompt: `prompt` is absent or empty");
    not("\"\"", "no_prompt: `prompt` is absent or empty");
    not("[]", "no_prompt: `prompt` is absent or empty");
    not("[[]]", "no_prompt: `prompt` is absent or empty");
    not("[[1],[]]", "no_prompt: `prompt` is absent or empty");
    not("{\"x\":1}", "bad_prompt: `prompt` should be a string or a list, but is an object");
    not("5", "bad_prompt: `prompt` should be a string or a list, but is an integer");
    let item = |at: usize, found: &str| {
        format!("bad_prompt: `prompt` should hold strings, token ids or lists of token ids, but item {at} is {found}")
    };
    not("[1,\"a\"]", &item(1, "a string"));
    not("[\"a\",1]", &item(0, "a string"));
    not("[-1]", &item(0, "an integer"));
    not("[4294967296]", &item(0, "an integer"));
    not("[1.5]", &item(0, "a number"));
    not("[[1],2]", &item(1, "an integer"));
    not("[1,[2]]", &item(1, "a list"));
    not("[[\"a\"]]", &item(0, "a string"));
    not("[null]", &item(0, "null"));
    check(COMPLETIONS, r#"{"model":"m"}"#, "no_prompt: `prompt` is absent or empty");
    check(COMPLETIONS, r#"{"prompt_embeds":"AAAA"}"#, "prompt_embeds: `prompt_embeds` holds no text to compare");
    check(COMPLETIONS, r#"{"prompt":"x","prompt_embeds":[]}"#, r#"completions max=16 texts=["x"]"#);
}

#[test]
fn types_are_as_lax_as_the_engines() {
    // What pydantic 2.13 makes of vLLM's `CompletionRequest`; compared with it over 8,000 generated bodies.
    let is = |prompt: &str, ids: &str| {
        check(COMPLETIONS, &format!(r#"{{"prompt":{prompt}}}"#), &format!("completions max=16 {ids}"))
    };
    is(r#"["1","2"]"#, r#"texts=["1", "2"]"#);
    is(r#"[1,"2"]"#, "ids=[[1, 2]]");
    is(r#"[" 7 ","1.0",true,1e3]"#, "ids=[[7, 1, 1, 1000]]");
    is(r#"[["1"],[0.0]]"#, "ids=[[1], [0]]");
    let streamed =
        |word: &str, expected: &str| check(COMPLETIONS, &format!(r#"{{"prompt":"x","stream":{word}}}"#), expected);
    for yes in ["true", "1", "1.0", "\"yes\"", "\"On\"", "\"t\""] {
        streamed(yes, r#"completions stream=without usage max=16 texts=["x"]"#);
    }
    for no in ["false", "null", "0", "0.0", "\"No\"", "\"off\""] {
        streamed(no, r#"completions max=16 texts=["x"]"#);
    }
    streamed("\"maybe\"", "wrong_type: `stream` should be a bool, but is a string");
    streamed("2", "wrong_type: `stream` should be a bool, but is an integer");
    check(COMPLETIONS, r#"{"prompt":"x","max_tokens":"5"}"#, r#"completions max=5 texts=["x"]"#);
    check(
        COMPLETIONS,
        r#"{"prompt":"x","max_tokens":-1}"#,
        "wrong_type: `max_tokens` should be an integer from 0, but is an integer",
    );
}

#[test]
fn numbers_of_any_size_do_no_harm() {
    // llm-d/llm-d-router#2518
    check(
        COMPLETIONS,
        r#"{"model":"m","prompt":"hi","seed":9007199254740993,"x":18446744073709551616,"t":1e400,"f":0.10}"#,
        r#"completions model=m max=16 texts=["hi"]"#,
    );
}

#[test]
fn of_equal_keys_the_engine_takes_the_last() {
    // ENTERPILOT/GoModel#870
    check(
        CHAT,
        r#"{"model":"lora-a","messages":[],"messages":[{"role":"user","content":"hi"}],"stream":true,"model":"lora-b","stream":false}"#,
        "chat_completions model=lora-b roles=user",
    );
}

#[test]
fn a_deep_body_does_no_harm() {
    // bug-ops/mcp-execution#303
    let schema = format!("{}1{}", r#"{"a":"#.repeat(150), "}".repeat(150));
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}"#);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"tools":[{tool}]}}"#);
    check(CHAT, &body, "chat_completions model=m tools=1 roles=user");
    let endless = format!(r#"{{"model":"m","x":{}"#, "[".repeat(100_000));
    check(CHAT, &endless, "too_deep: the body nests lists and objects more than 512 deep");
}

#[test]
fn a_model_may_be_missing() {
    // llm-d/llm-d-router#1426
    for model in ["", r#""model":null,"#, r#""model":"","#] {
        let body = format!(r#"{{{model}"messages":[{{"role":"user","content":"hi"}}]}}"#);
        check(CHAT, &body, "chat_completions roles=user");
    }
}

#[test]
fn salts_are_told_apart() {
    // kubernetes-sigs/gateway-api-inference-extension#1646
    check(COMPLETIONS, r#"{"prompt":"p","cache_salt":"a"}"#, r#"completions salt=a max=16 texts=["p"]"#);
    check(COMPLETIONS, r#"{"prompt":"p"}"#, r#"completions max=16 texts=["p"]"#);
    check(
        COMPLETIONS,
        r#"{"prompt":"p","cache_salt":""}"#,
        "wrong_type: `cache_salt` should be a string that isn't empty, but is an empty one",
    );
    check(
        COMPLETIONS,
        r#"{"prompt":"p","cache_salt":7}"#,
        "wrong_type: `cache_salt` should be a string, but is an integer",
    );
}

#[test]
fn wrong_types_are_named_and_never_a_panic() {
    // llm-d/llm-d#1363 and its kind
    let not = |body: &str, why: &str| check(CHAT, body, why);
    not("[]", "not_an_object: the body should be a JSON object, but is a list");
    not("\"x\"", "not_an_object: the body should be a JSON object, but is a string");
    not("5", "not_an_object: the body should be a JSON object, but is an integer");
    not("null", "not_an_object: the body should be a JSON object, but is null");
    not("{}", "no_messages: `messages` is absent or empty");
    // ai-dynamo/dynamo#2064
    not(r#"{"messages":null}"#, "no_messages: `messages` is absent or empty");
    let typed = |rest: &str, key: &str, expected: &str, found: &str| {
        let body = format!(r#"{{"messages":{rest}}}"#);
        not(&body, &format!("wrong_type: `{key}` should be {expected}, but is {found}"));
    };
    typed(r#""hi""#, "messages", "a list", "a string");
    typed("[null]", "messages[0]", "an object", "null");
    typed(r#"[{"content":"x"}]"#, "messages[0].role", "a string", "null");
    typed(r#"[{"role":5,"content":"x"}]"#, "messages[0].role", "a string", "an integer");
    typed(r#"[{"role":"user","content":5}]"#, "messages[0].content", "a string or a list", "an integer");
    typed(r#"[{"role":"user","content":["",5]}]"#, "messages[0].content[1]", "a string or an object", "an integer");
    typed(r#"[{"role":"assistant","content":"x","tool_calls":"y"}]"#, "messages[0].tool_calls", "a list", "a string");
    typed(r#"[{"role":"a","tool_calls":[null]}]"#, "messages[0].tool_calls[0]", "an object", "null");
    typed(r#"[{"role":"a","tool_calls":[{}]}]"#, "messages[0].tool_calls[0].function", "an object", "null");
    let user = r#"[{"role":"user","content":"x"}]"#;
    let beside = |member: &str, key: &str, expected: &str, found: &str| {
        typed(&format!("{user},{member}"), key, expected, found);
    };
    beside(r#""model":5"#, "model", "a string", "an integer");
    beside(r#""tools":{}"#, "tools", "a list", "an object");
    beside(r#""tools":[null]"#, "tools[0]", "an object", "null");
    beside(r#""tools":[{"type":"function"}]"#, "tools[0].function", "an object", "null");
    beside(r#""tools":[{"function":{"name":1}}]"#, "tools[0].function.name", "a string", "an integer");
    beside(r#""documents":["d"]"#, "documents[0]", "an object", "a string");
    beside(r#""chat_template_kwargs":"no""#, "chat_template_kwargs", "an object", "a string");
    beside(r#""chat_template":1.5"#, "chat_template", "a string", "a number");
    beside(r#""stream_options":true"#, "stream_options", "an object", "a bool");
}

#[test]
fn text_that_no_tokenizer_takes_is_named() {
    let why = |key: &str| format!("lone_surrogate: `{key}` holds half of a surrogate pair, which is no text");
    check(COMPLETIONS, r#"{"prompt":"a\ud800"}"#, &why("prompt"));
    check(CHAT, r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\udfff"}]}]}"#, &why("messages"));
    check(COMPLETIONS, r#"{"prompt":"\ud83d\ude00"}"#, "completions max=16 texts=[\"😀\"]");
}

#[test]
fn bodies_that_are_not_json_are_named() {
    // Cyrax321/CONTINUUM#505; and Python reads a byte order mark.
    check_bytes(
        COMPLETIONS,
        b"{\"model\":\"m\",\"prompt\":\"\xff\xfe\"}",
        "not_json: the body is not JSON: this is not UTF-8 (byte 23)",
    );
    check(COMPLETIONS, "\u{feff}{\"model\":\"m\",\"prompt\":\"hi\"}", r#"completions model=m max=16 texts=["hi"]"#);
    check(COMPLETIONS, "", "no_body: the body is empty");
    check(COMPLETIONS, "{\"prompt\":", "not_json: the body is not JSON: a value should stand here (byte 10)");
    check(COMPLETIONS, "prompt=hi", "not_json: the body is not JSON: a value should stand here (byte 0)");
}

#[test]
fn paths_are_known_with_prefix_query_and_sub_path() {
    // llm-d/llm-d-router#1515
    let api = |path: &str, expected: Option<Api>| assert_eq!(Api::of(path), expected, "{path}");
    api("/v1/chat/completions", Some(Api::ChatCompletions));
    api("/v1/chat/completions?api-version=2024-02-01", Some(Api::ChatCompletions));
    api("/v1/chat/completions/render", Some(Api::ChatCompletions));
    api("/v1/completions/render", Some(Api::Completions));
    api("/team-a/llama/v1/completions", Some(Api::Completions));
    api("/v1/v1/completions", Some(Api::Completions));
    api("/anthropic/v1/messages/count_tokens", Some(Api::Messages));
    for rerank in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        api(rerank, Some(Api::Rerank));
    }
    for all in Api::ALL {
        api(all.path(), Some(all));
    }
    for other in ["/", "", "/v1/models", "/v1/audio/transcriptions", "/v1/completionsx", "/v1/chat", "/completions"] {
        api(other, None);
    }
    api("/other?next=/v1/completions", None);
    check("/v1/models", "{}", "unknown_path: no known API has this path");
}

#[test]
fn paths_that_only_look_fill_no_cache() {
    let chat = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    check("/v1/chat/completions/render", chat, "chat_completions only looks= roles=user");
    check("/v1/completions/render?x=1", r#"{"prompt":"p"}"#, r#"completions max=16 only looks= texts=["p"]"#);
    check("/v1/messages/count_tokens", chat, "messages only looks= roles=user");
    check("/tokenize", chat, "tokenize only looks= roles=user");
    check("/tokenize", r#"{"model":"m","prompt":"hi"}"#, r#"tokenize model=m only looks= texts=["hi"]"#);
    check("/tokenize", r#"{"prompt":"","add_special_tokens":false}"#, r#"tokenize only looks= bare= texts=[""]"#);
    check("/tokenize", r#"{"prompt":[1]}"#, "wrong_type: `prompt` should be a string, but is a list");
    check("/tokenize", "{}", "no_prompt: `prompt` is absent or empty");
}

#[test]
fn embeddings_take_what_completions_take_and_chats() {
    let path = "/v1/embeddings";
    check(path, r#"{"model":"e","input":"a b"}"#, r#"embeddings model=e texts=["a b"]"#);
    check(path, r#"{"input":["a","b"],"dimensions":8,"cache_salt":"s"}"#, r#"embeddings salt=s texts=["a", "b"]"#);
    check(path, r#"{"input":[[1,2],[3]],"add_special_tokens":false}"#, "embeddings ids=[[1, 2], [3]]");
    check(path, r#"{"input":[7]}"#, "embeddings ids=[[7]]");
    check(path, r#"{"messages":[{"role":"user","content":"hi"}]}"#, "embeddings no generation prompt= roles=user");
    check(path, r#"{"input":[{"role":"user","content":"hi"}]}"#, "embeddings no generation prompt= roles=user");
    check(
        path,
        r#"{"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true}"#,
        "embeddings roles=user",
    );
    check(path, "{}", "no_prompt: `input` is absent or empty");
    check(path, r#"{"input":[]}"#, "no_prompt: `input` is absent or empty");
    check(path, r#"{"messages":[]}"#, "embeddings no generation prompt= roles=");
    check(path, r#"{"input":{"text":"a"}}"#, "bad_prompt: `input` should be a string or a list, but is an object");
    check(
        path,
        r#"{"messages":[[{"role":"user","content":"hi"}]]}"#,
        "wrong_type: `messages[0]` should be an object, but is a list",
    );
}

#[test]
fn scores_and_rerankings_hold_texts() {
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let body = r#"{"model":"r","query":"q","documents":["d1","d2"],"top_n":1}"#;
        check(path, body, r#"rerank model=r texts=["q", "d1", "d2"]"#);
    }
    for (left, right) in [("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2")] {
        check("/score", &format!(r#"{{"{left}":["a","b"],"{right}":"c"}}"#), r#"score texts=["a", "b", "c"]"#);
    }
    check("/v1/score", r#"{"text_1":"a"}"#, "no_prompt: `text_1` is absent or empty");
    check("/rerank", r#"{"documents":["d"]}"#, "no_prompt: `query` is absent or empty");
    check(
        "/rerank",
        r#"{"query":"q","documents":[{"content":[]}]}"#,
        "bad_prompt: `documents` should hold strings, token ids or lists of token ids, but item 0 is an object",
    );
}

#[test]
fn odd_anthropic_messages_are_named() {
    let path = "/v1/messages";
    let user = r#"{"role":"user","content":"hi"}"#;
    check(path, "{}", "no_messages: `messages` is absent or empty");
    check(path, r#"{"system":"s","messages":[]}"#, "no_messages: `messages` is absent or empty");
    let typed = |messages: &str, key: &str, expected: &str, found: &str| {
        let why = format!("wrong_type: `{key}` should be {expected}, but is {found}");
        check(path, &format!(r#"{{"messages":{messages}}}"#), &why);
    };
    typed("[5]", "messages[0]", "an object", "an integer");
    typed(r#"[{"content":"x"}]"#, "messages[0].role", "a string", "null");
    typed(r#"[{"role":"tool","content":"x"}]"#, "messages[0].role", "user, assistant or system", "another");
    typed(r#"[{"role":"user"}]"#, "messages[0].content", "a string or a list", "null");
    typed(r#"[{"role":"user","content":["x"]}]"#, "messages[0].content[0]", "an object", "a string");
    typed(
        r#"[{"role":"user","content":[{"type":"text","text":5}]}]"#,
        "messages[0].content[0].text",
        "a string",
        "an integer",
    );
    typed(
        &format!(r#"[{user}],"tools":[{{"type":"web_search_20250305","name":"web_search"}}]"#),
        "tools[0].input_schema",
        "an object",
        "null",
    );
    typed(&format!(r#"[{user}],"system":7"#), "system", "a string or a list", "an integer");
    check(
        path,
        r#"{"messages":[{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}}]}]}"#,
        "unsupported: `messages[0].content[0].type` is a change of tools, which is not read here",
    );
    // llm-d/llm-d-router#1508: unknown blocks do not fail.
    check(
        path,
        r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"document","source":{}},{"type":"text","text":"x"}]}]}"#,
        "messages model=m stream=with usage max=9 roles=user",
    );
}

#[test]
fn odd_responses_are_named() {
    let path = "/v1/responses";
    check(
        path,
        r#"{"model":"m","input":"hi","stream":true,"max_output_tokens":9}"#,
        "responses model=m stream=with usage max=9 roles=user",
    );
    check(path, "{}", "no_prompt: `input` is absent or empty");
    check(path, r#"{"input":[]}"#, "no_prompt: `input` is absent or empty");
    check(path, r#"{"input":5}"#, "wrong_type: `input` should be a string or a list, but is an integer");
    check(
        path,
        r#"{"input":"hi","previous_response_id":"resp_1"}"#,
        "unsupported: `previous_response_id` is a reference to what is not in the body, which is not read here",
    );
    let item = |item: &str, why: &str| check(path, &format!(r#"{{"input":[{item}]}}"#), why);
    item("5", "wrong_type: `input[0]` should be an object, but is an integer");
    item(
        r#"{"type":"item_reference","id":"x"}"#,
        "unsupported: `input[0].type` is an unknown kind of item, which is not read here",
    );
    item(
        r#"{"type":"reasoning","summary":[],"encrypted_content":"AA"}"#,
        "unsupported: `input[0].encrypted_content` is encrypted, which is not read here",
    );
    item(
        r#"{"type":"function_call","name":"f","call_id":"c"}"#,
        "wrong_type: `input[0].arguments` should be a string, but is null",
    );
    item(
        r#"{"type":"function_call_output","call_id":"c","output":5}"#,
        "wrong_type: `input[0].content` should be a string or a list, but is an integer",
    );
    item(r#"{"role":5,"content":"x"}"#, "wrong_type: `input[0].role` should be a string, but is an integer");
    check("/v1/responses/resp_1/cancel", "", "no_body: the body is empty");
}

#[test]
fn strings_without_escapes_are_not_copied() {
    let body = br#"{"model":"m","prompt":["plain","esc\n"]}"#;
    let request = parse(COMPLETIONS, body).unwrap();
    assert!(matches!(request.model, Some(Cow::Borrowed("m"))));
    let Prompt::Texts { texts, .. } = &request.prompt else { panic!("texts expected") };
    assert!(matches!(&texts[..], [Cow::Borrowed("plain"), Cow::Owned(_)]));
}

proptest::proptest! {
    /// Valid JSON of any types under the keys that matter: an answer, never a panic.
    #[test]
    fn any_types_under_known_keys_are_answered(members in proptest::collection::vec((0..KEYS.len(), value(3)), 0..8)) {
        let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{}\":{value}", KEYS[*key])).collect();
        let body = format!("{{{}}}", members.join(","));
        for path in Api::ALL.map(Api::path) {
            if let Err(why) = parse(path, body.as_bytes()) {
                proptest::prop_assert!(!matches!(why, NotUnderstood::NotJson(_) | NotUnderstood::UnknownPath), "{body}");
                proptest::prop_assert!(why.as_str().bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()));
            }
        }
    }
}

const KEYS: [&str; 14] = [
    "model",
    "messages",
    "prompt",
    "prompt_embeds",
    "stream",
    "stream_options",
    "cache_salt",
    "max_tokens",
    "tools",
    "documents",
    "chat_template_kwargs",
    "chat_template",
    "add_special_tokens",
    "tool_choice",
];

/// JSON text of a value up to `depth` deep, with members that mean something.
fn value(depth: u32) -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::{collection::vec, prelude::*, sample::select};
    let leaf = select(vec![
        "null",
        "true",
        "0",
        "1",
        "-7",
        "1.5",
        "1e400",
        "NaN",
        "\"\"",
        "\"user\"",
        "\"assistant\"",
        "\"text\"",
        "\"function\"",
        "\"tool_result\"",
        "\"function_call\"",
        "\"reasoning\"",
        "\"\\ud800\"",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(depth, 24, 4, |inner| {
        let key = select(vec![
            "role",
            "content",
            "tool_calls",
            "function",
            "name",
            "type",
            "text",
            "call_id",
            "arguments",
            "source",
            "tools",
        ]);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((key, inner), 0..4).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

#[test]
fn no_messages_are_left_to_the_engine_to_judge() {
    check(CHAT, r#"{"model":"m","messages":[]}"#, "chat_completions model=m roles=");
}

#[test]
fn how_much_of_a_prompt_is_read_is_known() {
    check(
        COMPLETIONS,
        r#"{"prompt":"a","truncate_prompt_tokens":5}"#,
        r#"completions max=16 read=Some(5) Last texts=["a"]"#,
    );
    check(
        COMPLETIONS,
        r#"{"prompt":"a","truncate_prompt_tokens":-1}"#,
        r#"completions max=16 read=None Last texts=["a"]"#,
    );
    check(
        "/v1/embeddings",
        r#"{"input":"a","truncate_prompt_tokens":"5"}"#,
        r#"embeddings read=Some(5) First texts=["a"]"#,
    );
    check(
        "/v1/embeddings",
        r#"{"input":"a","truncate_prompt_tokens":5,"truncation_side":"left"}"#,
        r#"embeddings read=Some(5) Last texts=["a"]"#,
    );
    check(COMPLETIONS, r#"{"prompt":"a","truncation_side":"left"}"#, r#"completions max=16 texts=["a"]"#);
    check(
        COMPLETIONS,
        r#"{"prompt":"a","truncate_prompt_tokens":-2}"#,
        "wrong_type: `truncate_prompt_tokens` should be an integer from -1, but is an integer",
    );
}

/// As [`check`], for SGLang.
fn check_sglang(path: &str, body: &str, expected: &str) {
    let understood = parse_for(Engine::Sglang, path, body.as_bytes());
    assert_eq!(understood.as_ref().map(show).unwrap_or_else(refusal), expected, "{body}");
}

#[test]
fn sglang_leaves_aside_what_it_does_not_know() {
    check_sglang(
        CHAT,
        r#"{"model":"m","messages":[{"role":"user","content":"x"}],"documents":[{}],"chat_template":"t",
            "add_generation_prompt":false,"add_special_tokens":true,"truncate_prompt_tokens":1}"#,
        "chat_completions model=m roles=user",
    );
    check_sglang(COMPLETIONS, r#"{"prompt":"a","add_special_tokens":false}"#, r#"completions max=16 texts=["a"]"#);
    check_sglang(CHAT, r#"{"messages":[]}"#, "no_messages: `messages` is absent or empty");
}

#[test]
fn sglang_parts_its_caches_by_salt_key_and_adapter() {
    let chat = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{more}}}"#);
    check_sglang(CHAT, &chat(r#""cache_salt":"a","extra_key":"b""#), "chat_completions salt=ab roles=user");
    check_sglang(CHAT, &chat(r#""extra_key":"b","cache_salt":"""#), "chat_completions salt=b roles=user");
    check_sglang(CHAT, &chat(r#""lora_path":"sql""#), "chat_completions adapter=sql roles=user");
    check(CHAT, &chat(r#""extra_key":"b","lora_path":"sql""#), "chat_completions roles=user");
}

#[test]
fn sglang_takes_ids_before_messages() {
    check_sglang(
        CHAT,
        r#"{"messages":[{"role":"user","content":"x"}],"input_ids":[1,2]}"#,
        "chat_completions ids=[[1, 2]]",
    );
}

#[test]
fn sglang_shows_only_tools_that_may_be_chosen() {
    let chat = |choice: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"function":{{"name":"f"}}}},{{"function":{{"name":"g"}}}}]{choice}}}"#
        )
    };
    check_sglang(CHAT, &chat(""), "chat_completions tools=2 roles=user");
    check_sglang(CHAT, &chat(r#","tool_choice":"required""#), "chat_completions tools=2 roles=user");
    check_sglang(CHAT, &chat(r#","tool_choice":"none""#), "chat_completions roles=user");
    check_sglang(CHAT, &chat(r#","tool_choice":{"function":{"name":"g"}}"#), "chat_completions tools=1 roles=user");
}

#[test]
fn sglang_turns_an_effort_into_arguments_of_the_template() {
    let chat = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{more}}}"#);
    let thinks = "kwargs=thinking+enable_thinking roles=user";
    check_sglang(CHAT, &chat(r#""reasoning_effort":"low""#), &format!("chat_completions effort=low {thinks}"));
    check_sglang(CHAT, &chat(r#""reasoning":{"effort":"none"}"#), &format!("chat_completions effort=none {thinks}"));
    check_sglang(CHAT, &chat(r#""reasoning":{"enabled":true}"#), &format!("chat_completions {thinks}"));
    check_sglang(CHAT, &chat(r#""reasoning":{"enabled":false}"#), "chat_completions roles=user");
    check_sglang(
        CHAT,
        &chat(r#""reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high","thinking":false}"#),
        "chat_completions effort=high kwargs=reasoning_effort+thinking+enable_thinking roles=user",
    );
}
