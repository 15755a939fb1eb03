//! A picker whose runtime hangs while its process lives: all threads but the watchdog's are held as a debugger holds them.

use tonic_health::pb::health_check_response::ServingStatus;

use super::client::{Client, ask};
use super::envoy::{Envoy, Form};
use super::health::probe;
use super::picker::Picker;
use super::program::{folder, wait_until};
use super::scripted::{Engine, completion};
use super::stage::{CHAT, chat};

const DESTINATION: &str = "x-gateway-destination-endpoint";

#[test]
fn while_its_runtime_hangs_a_picker_is_not_serving_and_gateways_go_on_without_it() {
    let (engine, arrivals) = Engine::led();
    let logs = folder("stuck");
    let picker = Picker::start_holdable(&[engine.address], &["--stuck-after=500ms"], &logs);
    let envoy = Envoy::start(Form::OverrideHost, picker.port, &[engine.address.port()], |config| config, &logs);
    let feels = |service, status| wait_until(service, || probe(picker.health_port, service) == Some(status));
    let body = chat("qwen3", &"one and the same ".repeat(2_000));
    let mut waiting = Client::connect(envoy.port);
    waiting.send("POST", CHAT, &[("x-led", "yes")], body.as_bytes());
    let arrival = arrivals.next();
    assert!(arrival.heard.header(DESTINATION).is_some());

    picker.program.hold();
    feels("readiness", ServingStatus::NotServing);
    // In full duplex its bytes are with the picker: what it ends, the gateway can't save. Let go of it is at once.
    assert_eq!(waiting.outcome().status, Some(500));
    drop(arrival);
    // The shipped configuration fails open.
    assert_eq!(ask(envoy.port, "GET", "/v1/models", &[], b"").status, 200);
    let went_on = envoy.stat("http.clients.ext_proc.failure_mode_allowed");
    assert_eq!(went_on, 1);
    let mut client = Client::connect(envoy.port);
    client.send_head("POST", CHAT, &[], body.len());
    wait_until("the gateway goes on", || envoy.stat("http.clients.ext_proc.failure_mode_allowed") > went_on);
    client.write(body.as_bytes());
    let outcome = client.outcome();
    assert_eq!(
        (outcome.status, String::from_utf8_lossy(&outcome.body).into_owned()),
        (Some(200), completion(12, None))
    );
    let heard = engine.heard();
    let last = heard.last().expect("it was served");
    assert!(last.body == body.as_bytes(), "other bytes arrived");
    assert_eq!(last.header(DESTINATION), None, "nobody picked");
    // Six times as long, and whoever restarts it is told.
    feels("liveness", ServingStatus::NotServing);

    picker.program.let_go();
    feels("readiness", ServingStatus::Serving);
    feels("liveness", ServingStatus::Serving);
    wait_until("nothing is in flight", || picker.in_flight() == 0.0);
    assert_eq!(picker.metrics().sum("warmpath_runtime_stuck_total", &[]), 1.0);
    assert_eq!(ask(envoy.port, "POST", CHAT, &[], body.as_bytes()).status, 200);
    let heard = engine.heard();
    assert!(heard.last().is_some_and(|heard| heard.header(DESTINATION).is_some()), "it picks again");
}
