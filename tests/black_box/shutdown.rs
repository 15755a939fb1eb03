//! The end of a picker behind a gateway that fails closed, so that nothing is saved but by a clean end: not ready at once,
//! requests that wait for nothing of the picker's left to the gateway, the others served as long as the drain window is open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tonic_health::pb::health_check_response::ServingStatus;

use super::client::{Client, ask};
use super::envoy::{Form, buffered, full_duplex};
use super::health::probe;
use super::picker::Picker;
use super::program::{folder, wait_until};
use super::scripted::{Arrivals, Engine, Saying, completion};
use super::stage::{CHAT, Stage, chat};

const DESTINATION: &str = "x-gateway-destination-endpoint";
/// A window whose end no test lives to see.
const LONG: &str = "--drain-timeout=10m";
/// One whose end is waited for.
const SHORT: &str = "--drain-timeout=1s";
const WINDOW_IS_OVER: &str = "the drain window is over";

/// A stage, and an engine that says to requests with the header `x-led` what the test says.
fn start(test: &str, flag: &str, edit: impl Fn(String) -> String) -> (Stage, Engine, Arrivals) {
    let (engine, arrivals) = Engine::led();
    let stage = Stage::start_with(test, Form::OriginalDst, &[engine.address], &[flag], edit);
    (stage, engine, arrivals)
}

/// A chat whose answer the test leads.
fn send(stage: &Stage) -> Client {
    let mut client = Client::connect(stage.port);
    client.send("POST", CHAT, &[("x-led", "yes")], chat("qwen3", "hello").as_bytes());
    client
}

/// Tells a picker with a long window to end; readiness ends with it, liveness doesn't. (One with a short window may be gone before a
/// probe finds it.)
fn terminate(stage: &Stage) {
    stage.picker.program.terminate();
    let health = stage.picker.health_port;
    wait_until("it is not ready", || probe(health, "readiness") == Some(ServingStatus::NotServing));
    assert_eq!(probe(health, "liveness"), Some(ServingStatus::Serving));
}

#[track_caller]
fn assert_served(client: &mut Client) {
    let outcome = client.outcome();
    assert_eq!((outcome.status, outcome.whole), (Some(200), true), "{outcome:?}");
    assert_eq!(String::from_utf8_lossy(&outcome.body), completion(12, None));
}

#[test]
fn on_sigterm_it_is_not_ready_at_once_and_an_answer_under_way_comes_whole() {
    let (mut stage, _engine, arrivals) = start("drain", LONG, full_duplex);
    let mut client = send(&stage);
    let (gate, pieces) = std::sync::mpsc::channel();
    arrivals.next().say(Saying::Gated(pieces));
    gate.send(b"data: 1\n\n".to_vec()).expect("the engine waits for it");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(&b"data: 1\n\n"[..]));

    terminate(&stage);
    // What comes later finds no picker, though this one still serves.
    wait_until("the gateway was told", || stage.envoy.stat("cluster.picker.upstream_cx_close_notify") > 0);
    assert_eq!(ask(stage.port, "GET", "/v1/models", &[], b"").status, 500);

    gate.send(b"data: [DONE]\n\n".to_vec()).expect("the engine waits for it");
    assert_eq!(client.chunk().as_deref(), Some(&b"data: [DONE]\n\n"[..]));
    drop(gate);
    assert_eq!(client.chunk(), None, "the answer ends as the engine ended it");
    assert_eq!(stage.picker.program.ended().code(), Some(0));
}

#[test]
fn a_request_whose_body_is_still_coming_at_sigterm_is_picked_for_and_left_to_the_gateway() {
    for (test, edit) in [("drain_body", full_duplex as fn(String) -> String), ("drain_body_buffered", buffered)] {
        let (mut stage, engine, arrivals) = start(test, LONG, edit);
        let body = chat("qwen3", &"one and the same ".repeat(10_000));
        let (first, second) = body.as_bytes().split_at(body.len() / 2);
        let mut client = Client::connect(stage.port);
        client.send_head("POST", CHAT, &[("x-led", "yes")], body.len());
        client.write(first);
        wait_until("half of the body is there", || {
            stage.envoy.stat("http.clients.downstream_cx_rx_bytes_total") >= first.len() as u64
                && stage.envoy.stat("http.clients.ext_proc.stream_msgs_sent") > 0
        });
        terminate(&stage);
        client.write(second);
        let arrival = arrivals.next();
        assert!(arrival.heard.body == body.as_bytes(), "{test}: other bytes arrived");
        assert_eq!(arrival.heard.header(DESTINATION), Some(engine.address.to_string().as_str()));
        // Before there is an answer: the gateway goes on without it.
        assert_eq!(stage.picker.program.ended().code(), Some(0));
        arrival.say(Saying::Json(completion(12, None)));
        assert_served(&mut client);
    }
}

#[test]
fn a_request_that_waits_for_its_buffered_answer_at_sigterm_is_left_to_the_gateway_at_once() {
    let (mut stage, _engine, arrivals) = start("drain_waiting_buffered", LONG, buffered);
    let mut client = send(&stage);
    let arrival = arrivals.next();
    stage.picker.program.terminate();
    assert_eq!(stage.picker.program.ended().code(), Some(0));
    arrival.say(Saying::Json(completion(12, None)));
    assert_served(&mut client);
}

#[test]
fn a_request_that_waits_for_its_answer_in_full_duplex_is_served_within_the_window() {
    let (mut stage, _engine, arrivals) = start("drain_waiting", LONG, full_duplex);
    let mut client = send(&stage);
    let arrival = arrivals.next();
    terminate(&stage);
    assert_eq!(stage.picker.in_flight(), 1.0);
    arrival.say(Saying::Json(completion(12, None)));
    assert_served(&mut client);
    assert_eq!(stage.picker.program.ended().code(), Some(0));
    let log = stage.picker.program.log();
    assert!(!log.contains(WINDOW_IS_OVER) && log.contains("\\\"status\\\":200"), "the picker saw the answer: {log}");
}

#[test]
fn a_request_that_waits_for_its_answer_at_the_windows_end_is_left_to_the_gateway() {
    let (mut stage, _engine, arrivals) = start("drain_window", SHORT, full_duplex);
    let mut client = send(&stage);
    let arrival = arrivals.next();
    stage.picker.program.terminate();
    assert_eq!(stage.picker.program.ended().code(), Some(0));
    let log = stage.picker.program.log();
    assert!(log.contains(WINDOW_IS_OVER), "it was held until then: {log}");
    arrival.say(Saying::Json(completion(12, None)));
    assert_served(&mut client);
}

#[test]
fn an_answer_under_way_at_the_windows_end_is_left_to_the_gateway_and_comes_whole() {
    let (mut stage, _engine, arrivals) = start("drain_window_answer", SHORT, full_duplex);
    let mut client = send(&stage);
    let (gate, pieces) = std::sync::mpsc::channel();
    arrivals.next().say(Saying::Gated(pieces));
    let mut pass = |number: u32| {
        let event = format!("data: {number}\n\n").into_bytes();
        gate.send(event.clone()).expect("the engine waits for it");
        if number == 0 {
            assert_eq!(client.head().status, 200);
        }
        assert_eq!(client.chunk(), Some(event));
    };
    pass(0);
    stage.picker.program.terminate();
    pass(1);
    wait_until("the window is over", || stage.picker.program.log().contains(WINDOW_IS_OVER));
    pass(2);
    assert_eq!(stage.picker.program.ended().code(), Some(0));
    pass(3);
    pass(4);
    drop(gate);
    assert_eq!(client.chunk(), None, "the answer ends as the engine ended it");
}

#[test]
fn at_the_windows_end_a_request_without_its_body_is_refused_and_told_why() {
    let (mut stage, _engine, _arrivals) = start("drain_unpicked", SHORT, full_duplex);
    let mut client = Client::connect(stage.port);
    client.send_head("POST", CHAT, &[], 100);
    wait_until("the picker has the headers", || stage.envoy.stat("http.clients.ext_proc.stream_msgs_sent") > 0);
    stage.picker.program.terminate();
    let head = client.head();
    assert_eq!((head.status, head.header("x-llm-d-request-dropped-reason")), (503, Some("rejected-shutting-down")));
    assert_eq!(stage.picker.program.ended().code(), Some(0));
}

/// Both once held the picker's end up until the kubelet killed it: a scraper that stops within its request, and a prober that is gone
/// without a word.
#[test]
fn who_holds_a_connection_for_nothing_does_not_hold_the_end_up() {
    let mut picker = Picker::start(&[], &[SHORT], &folder("drain_held"));
    let held = [
        (picker.metrics_port, &b"GET /metrics HTTP/1.1\r\nhost: "[..]),
        // HTTP/2, and no word after that.
        (picker.health_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
    ]
    .map(|(port, bytes)| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.write_all(bytes).expect("it can be written");
        // The server has said something, or waits for more.
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
        let _ = stream.read(&mut [0; 64]);
        stream
    });
    picker.program.terminate();
    assert_eq!(picker.program.ended().code(), Some(0));
    drop(held);
}
