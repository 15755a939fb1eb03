//! What a client says of itself: believed as the operator says, and another model only with its name put back.

use std::fs;

use super::client::{Reply, ask};
use super::envoy::Form;
use super::program::folder;
use super::scripted::{Engine, Heard, Saying, completion};
use super::stage::{CHAT, Stage, chat, streamed_chat};

const REWRITE: &str = "x-gateway-model-name-rewrite";

/// An engine whose answers hold the model that it was asked for.
fn engine() -> Engine {
    Engine::scripted(|heard: &Heard| {
        let body: serde_json::Value = serde_json::from_slice(&heard.body).expect("JSON");
        let named = completion(12, None).replace("qwen3", body["model"].as_str().expect("a model"));
        match body["stream"] == true {
            // Cut within the name.
            true => Saying::Pieces(
                format!("data: {named}\n\ndata: [DONE]\n\n").as_bytes().chunks(7).map(<[u8]>::to_vec).collect(),
            ),
            false => Saying::Json(named),
        }
    })
}

fn start(test: &str, engine: &Engine, trust: &str, modes: &'static str) -> Stage {
    let config = folder(&format!("{test}_config")).join("config.yaml");
    let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {{trust: {trust}}}\n");
    fs::write(&config, text).expect("the config can be written");
    let flags = ["--config-file", config.to_str().expect("a path in UTF-8")];
    Stage::start_with(test, Form::OriginalDst, &[engine.address], &flags, |c| c.replace("FULL_DUPLEX_STREAMED", modes))
}

fn post(stage: &Stage, body: &str) -> Reply {
    let headers = [
        ("content-type", "application/json"),
        ("accept-encoding", "gzip"),
        ("x-llm-d-inference-objective", "batch"),
        ("x-session-id", "s"),
        (REWRITE, "a/longer-name-of-a-model"),
    ];
    ask(stage.port, "POST", CHAT, &headers, body.as_bytes())
}

#[test]
fn what_is_not_trusted_does_not_reach_the_engine() {
    let engine = engine();
    let stage = start("said_untrusted", &engine, "[objective]", "FULL_DUPLEX_STREAMED");
    let body = chat("qwen3", "hi");
    assert_eq!(post(&stage, &body).text(), completion(12, None));
    let heard = &engine.heard()[0];
    assert_eq!(heard.header("x-llm-d-inference-objective"), Some("batch"));
    assert_eq!((heard.header("x-session-id"), heard.header(REWRITE)), (None, None));
    assert_eq!(heard.body, body.as_bytes());
    assert_eq!(heard.header("accept-encoding"), Some("gzip"));
}

#[track_caller]
fn check_rewrite(test: &str, modes: &'static str) {
    let engine = engine();
    let stage = start(test, &engine, "[model_rewrite, session]", modes);
    for body in [chat("qwen3", "hi \"model\":\"qwen3\""), streamed_chat("qwen3", "hi \"model\":\"qwen3\"")] {
        let answer = post(&stage, &body).text();
        let plain = completion(12, None);
        assert_eq!(answer.replace("data: [DONE]", "").replace("data: ", "").trim(), plain, "{test}");
    }
    for (heard, body) in engine
        .heard()
        .iter()
        .zip([chat("qwen3", "hi \"model\":\"qwen3\""), streamed_chat("qwen3", "hi \"model\":\"qwen3\"")])
    {
        let renamed = body.replace("\"model\":\"qwen3\"", "\"model\":\"a/longer-name-of-a-model\"");
        assert_eq!(String::from_utf8_lossy(&heard.body), renamed, "{test}");
        assert_eq!(heard.header("x-session-id"), Some("s"));
        assert_eq!((heard.header("x-llm-d-inference-objective"), heard.header("accept-encoding")), (None, None));
    }
}

#[test]
fn another_model_is_asked_for_and_the_clients_name_is_put_back() {
    check_rewrite("said_rewrite", "FULL_DUPLEX_STREAMED");
}

#[test]
fn the_same_where_bodies_are_buffered() {
    check_rewrite("said_rewrite_buffered", "BUFFERED");
}

/// kubernetes-sigs/gateway-api-inference-extension#1192: bodies and keys were in the log.
#[test]
fn neither_prompts_nor_keys_are_in_the_log() {
    let engine = engine();
    let stage = start("said_secrets", &engine, "[objective]", "FULL_DUPLEX_STREAMED");
    let (prompt, key) = ("prompt-that-nobody-may-read", "Bearer key-that-nobody-may-read");
    let whole = chat("qwen3", prompt);
    let bodies =
        [&whole[..], &whole[..whole.len() - 2], &whole.replace(":[", ":{"), &whole.replace("user", "user\u{0}")];
    for body in bodies {
        let headers = [("content-type", "application/json"), ("authorization", key), ("x-api-key", key)];
        ask(stage.port, "POST", CHAT, &headers, body.as_bytes());
    }
    let log = stage.picker.program.log();
    assert!(log.lines().count() >= bodies.len(), "each decision is in it");
    for secret in [prompt, "key-that-nobody-may-read"] {
        assert!(!log.contains(secret), "{log}");
    }
}
