//! Gateways that buffer bodies (Envoy AI Gateway's `buffered`) wait for the answer to the headers first: the picker
//! gives it, and picks when the body is there. Streamed answers they buffer too, unless they may be asked not to.

use std::sync::mpsc::{self, Sender};

use super::client::Client;
use super::envoy::{Form, buffered};
use super::program::wait_until;
use super::scripted::{Engine, Saying, completion};
use super::stage::{Stage, chat, streamed_chat};

#[track_caller]
fn check_buffered(test: &str, form: Form) {
    let engines: Vec<_> = (0..3).map(|_| Engine::plain()).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
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
    let stage = Stage::start_with("buffered_get", Form::OriginalDst, &[engine.address], &[], buffered);
    let reply = super::client::ask(stage.port, "GET", "/v1/models", &[], b"");
    assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
}

const EVENTS: [&str; 2] = ["data: {\"choices\":[]}\n\n", "data: [DONE]\n\n"];
/// The picker has answered a request's headers and body, and its answer's headers.
const HEADERS_ANSWERED: u64 = 3;

/// A buffering gateway, and a streamed answer whose first event is with it.
fn start_streaming(test: &str, form: Form, overrides: &str) -> (Stage, Engine, Client, Sender<Vec<u8>>) {
    let edit = |config: String| {
        buffered(config)
            .replace("              message_timeout:", &format!("{overrides}              message_timeout:"))
    };
    let (engine, arrivals) = Engine::led();
    let stage = Stage::start_with(test, form, &[engine.address], &[], edit);
    let mut client = Client::connect(stage.port);
    client.send("POST", "/v1/chat/completions", &[("x-led", "yes")], streamed_chat("qwen3", "hello").as_bytes());
    let (gate, pieces) = mpsc::channel();
    arrivals.next().say(Saying::Gated(pieces));
    gate.send(EVENTS[0].into()).expect("the engine waits for it");
    (stage, engine, client, gate)
}

#[track_caller]
fn check_streamed(test: &str, form: Form, overrides: &str) {
    let (stage, _engine, mut client, gate) = start_streaming(test, form, overrides);
    let head = client.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    for event in EVENTS {
        // Its next one is written when this one has come.
        assert_eq!(client.chunk().as_deref(), Some(event.as_bytes()));
        if event == EVENTS[0] {
            gate.send(EVENTS[1].into()).expect("the engine waits for it");
        }
    }
    drop(gate);
    assert_eq!(client.chunk(), None);
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    assert_eq!(stage.envoy.stat("http.clients.ext_proc.spurious_msgs_received"), 0);
    // Whole answers stay whole, and the picker reads them.
    let reply = stage.post("/v1/chat/completions", &chat("qwen3", "hello"));
    assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
    let tokens = || stage.picker.metrics().sum("llm_d_epp_request_input_tokens_sum", &[]);
    wait_until("its usage was read", || tokens() == 12.0);
}

#[test]
fn a_buffering_gateway_that_may_be_asked_streams_events_as_they_are_written_by_header() {
    check_streamed("override_by_header", Form::OriginalDst, "              allow_mode_override: true\n");
}

#[test]
fn a_buffering_gateway_that_may_be_asked_streams_events_as_they_are_written_by_metadata() {
    check_streamed("override_by_metadata", Form::OverrideHost, "              allow_mode_override: true\n");
}

#[test]
fn a_buffering_gateway_that_lists_the_mode_it_may_be_asked_for_streams_events() {
    // As docs/protocol.md writes it.
    let listed = "              allow_mode_override: true\n              allowed_override_modes: [ { request_header_mode: SEND, \
                  response_header_mode: SEND, request_body_mode: BUFFERED, response_body_mode: STREAMED, \
                  request_trailer_mode: SEND, response_trailer_mode: SEND } ]\n";
    check_streamed("override_listed", Form::OriginalDst, listed);
}

#[track_caller]
fn check_kept(test: &str, overrides: &str) {
    let (stage, _engine, mut client, gate) = start_streaming(test, Form::OriginalDst, overrides);
    wait_until("the event is with the gateway", || {
        let answered = stage.envoy.stat("http.clients.ext_proc.stream_msgs_received") >= HEADERS_ANSWERED;
        answered && stage.envoy.stat("cluster.picked.upstream_cx_rx_bytes_total") >= EVENTS[0].len() as u64
    });
    assert!(!client.has_something(), "what the gateway buffers isn't let out");
    gate.send(EVENTS[1].into()).expect("the engine waits for it");
    drop(gate);
    let outcome = client.outcome();
    assert_eq!((outcome.status, outcome.whole), (Some(200), true));
    assert_eq!(String::from_utf8_lossy(&outcome.body), EVENTS.concat());
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    assert_eq!(stage.envoy.stat("http.clients.ext_proc.spurious_msgs_received"), 0);
    assert_eq!(stage.picker.metrics().sum("warmpath_answers_total", &[]), 1.0, "it was read to its end");
}

#[test]
fn a_buffering_gateway_that_may_not_be_asked_keeps_events_to_the_end_and_loses_none() {
    check_kept("override_ignored", "              allow_mode_override: false\n");
}
