//! The pick reaches the engine: the one that the picker chose is the one that serves, and it is the one that is warm.

use super::envoy::Form;
use super::lab;
use super::scripted;
use super::stage::{Stage, chat};

const DESTINATION: &str = "x-gateway-destination-endpoint";

/// Three engines, some requests: each engine hears exactly what the picker sent there, and the header that names it.
#[track_caller]
fn check_served_as_picked(test: &str, form: Form) {
    let engines: Vec<_> = (0..3).map(|_| scripted::Engine::plain()).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let stage = Stage::start(test, form, &addresses);
    for request in 0..12 {
        // One prefix, so that a gateway which went its own way would be seen: the picks stay with one engine.
        let shared = "Answer briefly and politely. ".repeat(200);
        assert_eq!(stage.post("/v1/chat/completions", &chat("qwen3", &format!("{shared}{request}"))).status, 200);
    }
    let mut total = 0;
    for engine in &engines {
        let heard = engine.heard();
        assert_eq!(heard.len() as f64, stage.picker.picks_of(engine.address), "served there and picked there");
        for request in &heard {
            assert_eq!(request.header(DESTINATION), Some(engine.address.to_string().as_str()));
        }
        total += heard.len();
    }
    assert_eq!(total, 12);
    let most = engines.iter().map(|engine| engine.heard().len()).max();
    assert_eq!(most, Some(12), "the engine that has the prefix serves all of them");
}

#[test]
fn the_header_alone_decides_where_a_request_goes() {
    check_served_as_picked("by_header", Form::OriginalDst);
}

#[test]
fn the_metadata_alone_decides_where_a_request_goes_and_equals_the_header() {
    check_served_as_picked("by_metadata", Form::OverrideHost);
}

#[test]
fn a_destination_that_the_client_names_is_replaced() {
    let (right, wrong) = (scripted::Engine::plain(), scripted::Engine::plain());
    let stage = Stage::start("spoofed", Form::OriginalDst, &[right.address]);
    let spoofed = wrong.address.to_string();
    let body = chat("qwen3", "hello");
    let reply =
        super::client::ask(stage.port, "POST", "/v1/chat/completions", &[(DESTINATION, &spoofed)], body.as_bytes());
    assert_eq!(reply.status, 200);
    assert_eq!((right.heard().len(), wrong.heard().len()), (1, 0));
    let named: Vec<_> = right.heard()[0].headers.iter().filter(|(name, _)| name == DESTINATION).cloned().collect();
    assert_eq!(named, [(DESTINATION.to_owned(), right.address.to_string())]);
}

#[test]
fn a_shared_prefix_goes_to_the_replica_that_has_it_and_is_reused_there() {
    let folder = super::program::folder("warm_engines");
    let engines: Vec<_> = (0..3).map(|_| lab::Engine::start(&folder)).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let stage = Stage::start_with("warm", Form::OriginalDst, &addresses, &[&lab::model_flag()], |config| config);
    let instruction =
        |number: u32| format!("You are assistant {number}. {}", "Follow the rules of the house. ".repeat(100));
    let ask = |content: &str| {
        let reply = stage.post("/v1/chat/completions", &chat(lab::MODEL, content));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let engine = reply.header("x-engine-id").expect("the engine names itself").to_owned();
        let answer: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
        (engine, answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0))
    };
    for number in 0..6 {
        let (first, cached) = ask(&format!("{} What is one?", instruction(number)));
        assert_eq!(cached, 0, "nobody has seen instruction {number}");
        let (second, cached) = ask(&format!("{} And what is two?", instruction(number)));
        assert_eq!(second, first, "instruction {number} is warm there");
        assert!(cached >= 600, "the instruction was reused: {cached} tokens");
    }
    // What was foretold, and what the engines say, are the same thing.
    let metrics = stage.picker.metrics();
    let answers = metrics.sum("warmpath_answers_with_cached_tokens_total", &[]);
    assert_eq!(answers, 12.0);
    assert_eq!(metrics.sum("warmpath_prompt_token_parity_total", &["parity=\"equal\""]), 12.0);
    assert_eq!(
        metrics.sum("warmpath_predicted_cached_tokens_total", &[]),
        metrics.sum("warmpath_reused_tokens_total", &[])
    );
}
