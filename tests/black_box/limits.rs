//! What the picker's own bounds do to requests behind a gateway: memory for bodies, a body that stops coming, one that is
//! too large, one that nobody understands. The gateway passes on every byte of what is not refused.

use super::client::Client;
use super::envoy::{Form, buffered, full_duplex};
use super::picker::Picker;
use super::program::wait_until;
use super::scripted::{Engine, completion};
use super::stage::{CHAT, Stage, chat};

const ANSWERS_OF_PICKER: &str = "http.clients.ext_proc.stream_msgs_received";

fn degraded(picker: &Picker, reason: &str) -> f64 {
    picker.metrics().sum("warmpath_degraded_picks_total", &[&format!("reason=\"{reason}\"")])
}

fn learned(picker: &Picker) -> f64 {
    picker.metrics().sum("llm_d_epp_prefix_indexer_size", &[])
}

/// One body may not be held and is passed through, another one with room is read.
#[track_caller]
fn check_no_memory(test: &str, bodies: fn(String) -> String) {
    let engine = Engine::plain();
    let stage = Stage::start_with(test, Form::OriginalDst, &[engine.address], &["--max-body-memory=100000"], bodies);
    let large = chat("qwen3", &"one and the same ".repeat(20_000));
    let mut client = Client::connect(stage.port);
    client.send_head("POST", CHAT, &[], large.len());
    wait_until("it is picked for at its headers", || degraded(&stage.picker, "no_body_memory") == 1.0);
    wait_until("the gateway was told", || stage.envoy.stat(ANSWERS_OF_PICKER) == 1);
    client.write(large.as_bytes());
    let outcome = client.outcome();
    assert_eq!((outcome.status, outcome.whole), (Some(200), true));
    assert_eq!(String::from_utf8_lossy(&outcome.body), completion(12, None));
    assert!(engine.heard()[0].body == large.as_bytes(), "other bytes arrived");
    assert_eq!(learned(&stage.picker), 0.0, "it was not read");

    let small = chat("qwen3", &"one and the same ".repeat(200));
    assert_eq!(stage.post(CHAT, &small).status, 200);
    assert!(engine.heard()[1].body == small.as_bytes(), "other bytes arrived");
    assert!(learned(&stage.picker) > 0.0, "it was read");
    assert_eq!(degraded(&stage.picker, "no_body_memory"), 1.0);
    assert_eq!((stage.picker.in_flight(), stage.picker.metrics().sum("warmpath_body_memory_bytes", &[])), (0.0, 0.0));
}

#[test]
fn a_body_without_room_is_picked_for_at_its_headers_and_passes_through_in_full_duplex() {
    check_no_memory("no_memory", full_duplex);
}

#[test]
fn a_body_without_room_is_picked_for_at_its_headers_and_stays_with_a_buffering_gateway() {
    check_no_memory("no_memory_buffered", buffered);
}

#[test]
fn while_one_body_takes_up_the_memory_others_pass_through_and_it_is_served_too() {
    let engine = Engine::plain();
    let flag = ["--max-body-memory=100000", "--body-stall=10m"];
    let stage = Stage::start_with("memory_taken", Form::OriginalDst, &[engine.address], &flag, full_duplex);
    let slow = chat("qwen3", &"slowly, slowly, ".repeat(5_500));
    let mut client = Client::connect(stage.port);
    client.send_head("POST", CHAT, &[], slow.len());
    client.write(&slow.as_bytes()[..80_000]);
    let held = || stage.picker.metrics().sum("warmpath_body_memory_bytes", &[]);
    wait_until("its first part is held", || held() >= 80_000.0);
    let other = chat("qwen3", &"one and the same ".repeat(2_000));
    assert_eq!(stage.post(CHAT, &other).status, 200);
    assert!(engine.heard()[0].body == other.as_bytes(), "other bytes arrived");
    assert_eq!((degraded(&stage.picker, "no_body_memory"), learned(&stage.picker)), (1.0, 0.0));
    client.write(&slow.as_bytes()[80_000..]);
    assert_eq!(client.outcome().status, Some(200));
    assert!(engine.heard()[1].body == slow.as_bytes(), "other bytes arrived");
    assert!(learned(&stage.picker) > 0.0, "it was read");
    assert_eq!((degraded(&stage.picker, "no_body_memory"), held(), stage.picker.in_flight()), (1.0, 0.0, 0.0));
}

#[test]
fn a_body_that_stops_coming_is_picked_for_and_goes_on_when_it_does() {
    let engine = Engine::plain();
    let flag = ["--body-stall=100ms"];
    let stage = Stage::start_with("stall", Form::OriginalDst, &[engine.address], &flag, full_duplex);
    let body = chat("qwen3", &"one and the same ".repeat(2_000));
    let (first, second) = body.as_bytes().split_at(body.len() / 2);
    let mut client = Client::connect(stage.port);
    client.send_head("POST", CHAT, &[], body.len());
    client.write(first);
    wait_until("it is picked for without the rest", || degraded(&stage.picker, "body_stalled") == 1.0);
    wait_until("the gateway was told", || stage.envoy.stat(ANSWERS_OF_PICKER) > 0);
    client.write(second);
    assert_eq!(client.outcome().status, Some(200));
    assert!(engine.heard()[0].body == body.as_bytes(), "other bytes arrived");
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
}

#[test]
fn a_body_above_the_limit_is_refused_with_413_at_its_headers_or_where_it_gets_too_long() {
    for (test, bodies) in [("too_large", full_duplex as fn(String) -> String), ("too_large_buffered", buffered)] {
        let engine = Engine::plain();
        let flag = ["--max-body-bytes=10000"];
        let stage = Stage::start_with(test, Form::OriginalDst, &[engine.address], &flag, bodies);
        let fits = chat("qwen3", &"x".repeat(9_000));
        assert_eq!(stage.post(CHAT, &fits).status, 200);
        let mut announced = Client::connect(stage.port);
        announced.send_head("POST", CHAT, &[], 10_001);
        let mut unannounced = Client::connect(stage.port);
        unannounced.write(
            format!("POST {CHAT} HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n2711\r\n").as_bytes(),
        );
        unannounced.write(&[b'x'; 10_001]);
        unannounced.write(b"\r\n0\r\n\r\n");
        for client in [&mut announced, &mut unannounced] {
            let outcome = client.outcome();
            let error: serde_json::Value = serde_json::from_slice(&outcome.body).expect("an error in OpenAI's form");
            assert_eq!(
                (outcome.status, error["error"]["type"].as_str()),
                (Some(413), Some("invalid_request_error")),
                "{error}"
            );
        }
        assert_eq!(engine.heard().len(), 1, "only what fits reaches an engine");
        wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    }
}

#[test]
fn with_the_flag_what_is_not_understood_is_refused_with_400() {
    for (test, bodies) in [("strict", full_duplex as fn(String) -> String), ("strict_buffered", buffered)] {
        let engine = Engine::plain();
        let stage = Stage::start_with(test, Form::OriginalDst, &[engine.address], &["--strict-requests"], bodies);
        let reply = stage.post(CHAT, "{\"model\": \"qwen3\", \"messages\": [");
        let error: serde_json::Value = serde_json::from_slice(&reply.body).expect("an error in OpenAI's form");
        assert_eq!((reply.status, error["error"]["type"].as_str()), (400, Some("invalid_request_error")), "{error}");
        assert_eq!(stage.post(CHAT, &chat("qwen3", "hello")).status, 200);
        assert_eq!(engine.heard().len(), 1, "only what is understood reaches an engine");
    }
}

/// By llm-d's flag. A gateway that buffers sends a body as one message.
#[test]
fn a_message_that_is_larger_than_the_operator_allows_is_not_read() {
    let engine = Engine::plain();
    let flag = ["--grpc-max-recv-msg-size=64KiB"];
    let stage = Stage::start_with("large_message", Form::OriginalDst, &[engine.address], &flag, buffered);
    let of = |words: usize| chat("qwen3", &"one and the same ".repeat(words));
    assert_eq!(stage.post(CHAT, &of(200)).status, 200);
    let refused = stage.post(CHAT, &of(8_000));
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("larger than 65536 bytes"), "{}", refused.text());
    assert_eq!(engine.heard().len(), 1);
}
