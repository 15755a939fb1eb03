//! Gateways that buffer bodies (Envoy AI Gateway's `buffered`) wait for the answer to the headers first: the picker
//! gives it, and picks when the body is there.

use super::envoy::Form;
use super::scripted::{Engine, completion};
use super::stage::{Stage, chat};

#[track_caller]
fn check_buffered(test: &str, form: Form) {
    let engines: Vec<_> = (0..3).map(|_| Engine::plain()).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let buffered = |config: String| config.replace("FULL_DUPLEX_STREAMED", "BUFFERED");
    let stage = Stage::start_with(test, form, &addresses, &[], buffered);
    let body = chat("qwen3", &"one and the same ".repeat(1_000));
    for _ in 0..6 {
        let reply = stage.post("/v1/chat/completions", &body);
        assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
    }
    for engine in &engines {
        let heard = engine.heard();
        assert!(heard.iter().all(|heard| heard.body == body.as_bytes()), "the body arrives as it was sent");
        assert_eq!(heard.len() as f64, stage.picker.picks_of(engine.address), "served there and picked there");
    }
    let most = engines.iter().map(|engine| engine.heard().len()).max();
    assert_eq!(most, Some(6), "the body was read: all go where the prefix is");
    assert_eq!(stage.picker.in_flight(), 0.0);
}

#[test]
fn buffered_bodies_do_not_stall_by_header() {
    check_buffered("buffered_by_header", Form::OriginalDst);
}

#[test]
fn buffered_bodies_do_not_stall_by_metadata() {
    check_buffered("buffered_by_metadata", Form::OverrideHost);
}

#[test]
fn a_request_without_a_body_does_not_stall_where_bodies_are_buffered() {
    let engine = Engine::plain();
    let buffered = |config: String| config.replace("FULL_DUPLEX_STREAMED", "BUFFERED");
    let stage = Stage::start_with("buffered_get", Form::OriginalDst, &[engine.address], &[], buffered);
    let reply = super::client::ask(stage.port, "GET", "/v1/models", &[], b"");
    assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
}
