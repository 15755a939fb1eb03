//! `lab engine` over loopback: what a client of a vLLM server sees.

#![allow(clippy::unwrap_used)] // What does not read or connect fails the test where it stands.

#[path = "on_loopback/engines.rs"]
mod engines;

use engines::{Engine, answer, check, events, get, metric, metrics, post};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn say(text: &str, more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": text}], "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A prompt of several blocks.
fn long_text(words: usize) -> String {
    (0..words).map(|word| format!("word {word} ")).collect()
}

#[tokio::test]
async fn a_chat_stream_has_vllms_events() {
    let engine = Engine::start(&["--enable-prompt-tokens-details"]).await;
    let body = say("Hello", json!({"max_tokens": 3, "stream": true, "stream_options": {"include_usage": true}}));
    check(
        &events(&engine, CHAT, &body).await,
        r#"
        {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}
        {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":"contain"},"logprobs":null,"finish_reason":null,"token_ids":null}]}
        {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":" arm"},"logprobs":null,"finish_reason":null,"token_ids":null}]}
        {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":" process"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}
        {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"m","choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}
        [DONE]"#,
    );
}

#[tokio::test]
async fn a_text_stream_has_vllms_events_and_no_usage_unless_asked_for() {
    let engine = Engine::start(&["--enable-prompt-tokens-details"]).await;
    let body = json!({"model": "m", "prompt": "Hello world", "max_tokens": 2, "ignore_eos": true, "stream": true, "return_token_ids": true});
    check(
        &events(&engine, TEXT, &body).await,
        r#"
        {"id":"cmpl-ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":" heavy","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":[9707,1879],"token_ids":[8811]}]}
        {"id":"cmpl-ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":" egg","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":[18636]}]}
        [DONE]"#,
    );
}

#[tokio::test]
async fn a_whole_answer_has_vllms_form() {
    let engine = Engine::start(&[]).await;
    let (status, answer) = post(&engine, CHAT, &say("Hello", json!({"max_tokens": 3}))).await;
    check(
        &format!("{status}\n{answer}"),
        r#"
        200
        {"id":"chatcmpl-ID","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"contain arm process","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}"#,
    );
}

#[tokio::test]
async fn several_prompts_are_several_choices() {
    let engine = Engine::start(&["--enable-prompt-tokens-details"]).await;
    let body = json!({"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 2, "ignore_eos": true});
    let (_, answer) = post(&engine, TEXT, &body).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let lengths: Vec<usize> = answer["choices"].as_array().unwrap().iter().map(|one| words(&one["text"])).collect();
    assert_eq!(lengths, [2, 2]);
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 5, "total_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}})
    );
}

fn words(text: &Value) -> usize {
    text.as_str().unwrap().split_whitespace().count()
}

#[tokio::test]
async fn usage_tells_whole_cached_blocks_and_never_the_whole_prompt() {
    let engine = Engine::start(&["--enable-prompt-tokens-details", "--block-size", "4"]).await;
    let ids = |length: u32| json!({"prompt": (0..length).collect::<Vec<_>>(), "max_tokens": 1, "ignore_eos": true});
    let mut told = Vec::new();
    for length in [15, 15, 16, 16, 17, 3] {
        let (_, answer) = post(&engine, TEXT, &ids(length)).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        told.push(answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap());
    }
    assert_eq!(told, [0, 12, 12, 12, 16, 0]);
}

#[tokio::test]
async fn an_earlier_turns_answer_is_reused_but_for_its_last_token() {
    let engine = Engine::start(&["--enable-prompt-tokens-details", "--block-size", "1"]).await;
    let first = say(&long_text(10), json!({"max_tokens": 20, "return_token_ids": true}));
    let (_, answer) = post(&engine, CHAT, &first).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let ids = |value: &Value| serde_json::from_value::<Vec<u64>>(value.clone()).unwrap();
    let mut computed = ids(&answer["prompt_token_ids"]);
    computed.extend(&ids(&answer["choices"][0]["token_ids"])[..19]);

    let mut second = first.clone();
    let messages = second["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": answer["choices"][0]["message"]["content"]}));
    messages.push(json!({"role": "user", "content": "And now?"}));
    let (_, answer) = post(&engine, CHAT, &second).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let prompt = ids(&answer["prompt_token_ids"]);
    assert!(prompt.starts_with(&computed), "{prompt:?} does not begin with {computed:?}");
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], computed.len());
}

#[tokio::test]
async fn salts_and_adapters_keep_their_blocks_to_themselves() {
    let engine = Engine::start(&["--enable-prompt-tokens-details", "--lora-modules", "la", "lb=path"]).await;
    let text = long_text(40);
    let mut told = Vec::new();
    for more in [
        json!({}),
        json!({}),
        json!({"cache_salt": "one"}),
        json!({"model": "la"}),
        json!({"model": "lb"}),
        json!({"model": "la", "cache_salt": "one"}),
        json!({"model": "la"}),
        json!({"cache_salt": "one"}),
    ] {
        let mut body = say(&text, json!({"max_tokens": 1}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (_, answer) = post(&engine, CHAT, &body).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        told.push(answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0);
    }
    assert_eq!(told, [false, true, false, false, false, false, true, true]);
}

#[tokio::test]
async fn answers_end_by_themselves_unless_told_to_go_on_and_not_before_min_tokens() {
    let engine = Engine::start(&[]).await;
    let mut told = Vec::new();
    for more in
        [json!({"ignore_eos": false}), json!({"ignore_eos": false, "min_tokens": 300}), json!({"max_tokens": 400})]
    {
        let (_, answer) = post(&engine, CHAT, &say("Hello", more)).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let choice = &answer["choices"][0];
        told.push((
            choice["finish_reason"].clone(),
            words(&choice["message"]["content"]),
            answer["usage"]["completion_tokens"].clone(),
        ));
    }
    assert_eq!(
        told,
        [(json!("stop"), 83, json!(84)), (json!("stop"), 300, json!(301)), (json!("length"), 400, json!(400))]
    );
}

#[tokio::test]
async fn a_bad_body_is_a_400_in_vllms_form() {
    let engine = Engine::start(&[]).await;
    for body in ["", "{\"model\":", "[]", "{\"model\": \"m\"}", "{\"messages\": 7}"] {
        let (status, answer) = engines::send(&engine, "POST", CHAT, "application/json", body).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let error = answer["error"].as_object().unwrap();
        assert_eq!((status, &error["type"], &error["code"]), (400, &json!("BadRequestError"), &json!(400)), "{body}");
        assert_eq!(error.keys().collect::<Vec<_>>(), ["message", "type", "param", "code"], "{body}");
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_in_vllms_words() {
    let engine = Engine::start(&["--max-model-len", "64"]).await;
    let mut told = String::new();
    for body in [
        "{\"model\": \"other\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}",
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 0}",
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 60}",
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 4, \"min_tokens\": 5}",
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"n\": 2}",
    ] {
        let (status, answer) = engines::send(&engine, "POST", CHAT, "application/json", body).await;
        told += &format!("{status} {answer}\n");
    }
    let (status, answer) = engines::send(&engine, "POST", CHAT, "text/plain", "{}").await;
    told += &format!("{status} {answer}\n");
    let (status, answer) = post(&engine, CHAT, &say(&long_text(40), json!({}))).await;
    told += &format!("{status} {answer}\n");
    for (method, path) in [("GET", CHAT), ("DELETE", "/health"), ("GET", "/v1/nothing"), ("POST", "/v1/embeddings")] {
        let (status, answer) = engines::send(&engine, method, path, "application/json", "").await;
        told += &format!("{status} {answer}\n");
    }
    check(&told, include_str!("data/refusals.txt"));
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let engine = Engine::start(&["--step-base-us", "2000"]).await;
    let body = say("Hello", json!({"max_tokens": 4000, "stream": true}));
    let mut streamed = engines::open(&engine, CHAT, &body).await;
    assert!(engines::first_bytes(&mut streamed).await.starts_with("data: "));
    let (other, bye) = (engine.clone(), say("Bye", json!({"max_tokens": 4000})));
    let whole = tokio::spawn(async move { post(&other, CHAT, &bye).await });
    engines::eventually(&engine, |page| metric(page, "vllm:num_requests_running") == 2.0).await;
    whole.abort();
    drop(streamed);
    let ended = engines::eventually(&engine, |page| {
        metric(page, "vllm:num_requests_running") == 0.0
            && metric(page, "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"") == 2.0
    });
    assert_eq!(metric(&ended.await, "vllm:kv_cache_usage_perc"), 0.0);
}

#[tokio::test]
async fn the_metrics_page_has_vllms_names_help_and_types_and_counts_what_was_served() {
    let engine = Engine::start(&["--block-size", "16", "--num-gpu-blocks-override", "512"]).await;
    for _ in 0..2 {
        post(&engine, CHAT, &say(&long_text(40), json!({"max_tokens": 5}))).await;
    }
    let page = metrics(&engine).await;
    let recorded = include_str!("data/vllm_metrics_heads.txt");
    for head in page.lines().filter(|line| line.starts_with('#')) {
        assert!(recorded.lines().any(|line| line == head), "vLLM has no such line: {head}");
    }
    let prompt = metric(&page, "vllm:prompt_tokens_total") / 2.0;
    let cached = ((prompt - 1.0) / 16.0).floor() * 16.0;
    for (name, value) in [
        ("vllm:prefix_cache_queries_total", 2.0 * prompt),
        ("vllm:prefix_cache_hits_total", cached),
        ("vllm:prompt_tokens_cached_total", cached),
        ("vllm:generation_tokens_total", 10.0),
        ("vllm:request_success_total{engine=\"0\",finished_reason=\"length\"", 2.0),
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:time_to_first_token_seconds_count", 2.0),
        ("vllm:inter_token_latency_seconds_count", 8.0),
        ("vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"+Inf\"", 2.0),
    ] {
        assert_eq!(metric(&page, name), value, "{name}");
    }
    let info = page.lines().find(|line| line.starts_with("vllm:cache_config_info{")).unwrap();
    for label in [
        "block_size=\"16\"",
        "num_gpu_blocks=\"512\"",
        "kv_cache_size_tokens=\"8192\"",
        "enable_prefix_caching=\"True\"",
    ] {
        assert!(info.contains(label), "{label} in {info}");
    }
}

#[tokio::test]
async fn the_picker_reads_the_metrics_page_as_a_vllms() {
    let flags =
        ["--block-size", "32", "--num-gpu-blocks-override", "320", "--step-base-us", "2000", "--max-num-seqs", "1"];
    let engine = Engine::start(&flags).await;
    let body = say("Hello", json!({"max_tokens": 4000, "stream": true}));
    let mut streams = [engines::open(&engine, CHAT, &body).await, engines::open(&engine, CHAT, &body).await];
    engines::first_bytes(&mut streams[0]).await;
    let page = engines::eventually(&engine, |page| metric(page, "vllm:num_requests_waiting") == 1.0).await;
    let load = engine::parse(&page, &engine::Dialect::vllm(), std::time::Instant::now()).unwrap();
    assert_eq!((load.running, load.waiting), (Some(1.0), Some(1.0)));
    assert!(load.kv_usage.is_some_and(|usage| usage > 0.0 && usage < 0.5), "{:?}", load.kv_usage);
    let cache = load.cache;
    assert_eq!((cache.block_size, cache.capacity_tokens, cache.prefix_caching), (Some(32), Some(10240), Some(true)));
}

#[tokio::test]
async fn a_reset_forgets_the_cache_and_is_refused_while_a_request_runs() {
    let engine = Engine::start(&["--enable-prompt-tokens-details", "--step-base-us", "2000"]).await;
    let cached = async || {
        let (_, answer) = post(&engine, CHAT, &say(&long_text(40), json!({"max_tokens": 1}))).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0
    };
    let before = [cached().await, cached().await];
    let reset = engines::send(&engine, "POST", "/reset_prefix_cache", "", "").await;
    let after = cached().await;
    assert_eq!((before, reset, after), ([false, true], (200, String::new()), false));

    let mut streamed = engines::open(&engine, CHAT, &say("Hi", json!({"max_tokens": 4000, "stream": true}))).await;
    engines::first_bytes(&mut streamed).await;
    assert_eq!(engines::send(&engine, "POST", "/reset_prefix_cache", "", "").await.0, 503);
}

#[tokio::test]
async fn engines_of_one_process_have_each_their_own_cache_and_name() {
    let engines = Engine::several(&["--enable-prompt-tokens-details"], &[Some("one"), None]).await;
    let mut told = Vec::new();
    for at in [0, 0, 1, 1] {
        let (headers, answer) =
            engines::answer(&engines[at], CHAT, &say(&long_text(40), json!({"max_tokens": 1}))).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0;
        told.push((cached, headers.get("x-engine-id").map(|name| name.to_str().unwrap().to_owned())));
    }
    let one = Some("one".to_owned());
    assert_eq!(told, [(false, one.clone()), (true, one), (false, None), (true, None)]);
}

#[tokio::test]
async fn models_health_and_version_answer() {
    let engine = Engine::start(&["--lora-modules", "la"]).await;
    let (status, models) = get(&engine, "/v1/models").await;
    let models: Value = serde_json::from_str(&models).unwrap();
    let told: Vec<_> = models["data"].as_array().unwrap().iter().map(|card| (&card["id"], &card["parent"])).collect();
    assert_eq!((status, told), (200, vec![(&json!("m"), &Value::Null), (&json!("la"), &json!("m"))]));
    assert_eq!(get(&engine, "/health").await, (200, String::new()));
    assert_eq!(get(&engine, "/version").await, (200, "{\"version\":\"0.32.0+warmpath.lab\"}".to_owned()));
}

#[tokio::test]
async fn checksums_tell_a_client_what_arrived_and_what_left() {
    let engine = Engine::start(&["--checksums"]).await;
    let sum = |bytes: &str| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes.as_bytes()));
    let whole = say("Hello", json!({"max_tokens": 2}));
    let (headers, body) = answer(&engine, CHAT, &whole).await;
    assert_eq!(headers["x-request-checksum"], sum(&whole.to_string()).as_str());
    assert_eq!(headers["x-answer-checksum"], sum(&body).as_str());

    let streamed = say("Hello", json!({"max_tokens": 2, "stream": true}));
    let (headers, body) = answer(&engine, CHAT, &streamed).await;
    assert_eq!(headers["x-request-checksum"], sum(&streamed.to_string()).as_str());
    let (events, seal) = body.split_once(": checksum ").unwrap();
    assert!(events.ends_with("data: [DONE]\n\n"));
    assert_eq!(seal.trim_end(), sum(events));
}

#[tokio::test]
async fn unless_asked_for_there_are_no_checksums() {
    let engine = Engine::start(&[]).await;
    let (headers, body) = answer(&engine, CHAT, &say("Hello", json!({"max_tokens": 2, "stream": true}))).await;
    assert!(!headers.contains_key("x-request-checksum"));
    assert!(body.ends_with("data: [DONE]\n\n"));
}
