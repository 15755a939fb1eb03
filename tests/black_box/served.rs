//! What stands in metadata beside a request: which endpoints the gateway allows, and which one really served. In both
//! set-ups of gateways and both ways of sending bodies.

use std::net::SocketAddr;
use std::sync::mpsc;

use super::client::{Client, Reply, ask};
use super::envoy::{Form, buffered, full_duplex};
use super::program::wait_until;
use super::scripted::{Arrivals, Engine, Saying};
use super::stage::{CHAT, Stage, chat};

const SERVED: &str = "x-conformance-test-served-endpoint";
const SELECTION: &str = "test-epp-endpoint-selection";

/// A gateway that writes a subset hint from a header of the test's: as text, or as a list (a `google.protobuf.Value`, base64).
fn with_subsets(config: String) -> String {
    let filter = "          - name: envoy.filters.http.ext_proc\n";
    let rule = |header: &str, how: &str| {
        format!(
            "              - {{ header: {header}, remove: true, on_header_present: {{ metadata_namespace: envoy.lb.subset_hint, key: \
             x-gateway-destination-endpoint-subset, {how} }} }}\n"
        )
    };
    let config = config.replace(
        filter,
        &format!(
            "          - name: envoy.filters.http.header_to_metadata\n            typed_config:\n              \"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config\n              request_rules:\n{}{}{filter}",
            rule("x-subset", "type: STRING"),
            rule("x-subset-list", "type: PROTOBUF_VALUE, encode: BASE64"),
        ),
    );
    let forwarding = "forwarding_namespaces: { untyped: [ envoy.lb.subset_hint ] }";
    if config.contains("metadata_options:") {
        return config;
    }
    config.replace(
        "message_timeout: 10s\n",
        &format!("message_timeout: 10s\n              metadata_options: {{ {forwarding} }}\n"),
    )
}

/// A `google.protobuf.Value` that is a list of texts, in base64.
fn list(texts: &[String]) -> String {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len();
        assert!(length < 1 << 14, "two bytes of length are enough");
        let mut field = vec![number << 3 | 2];
        if length >= 1 << 7 {
            field.push((length & 0x7f) as u8 | 0x80);
            field.push((length >> 7) as u8);
        } else {
            field.push(length as u8);
        }
        [field, bytes.to_vec()].concat()
    }
    let values: Vec<u8> = texts.iter().flat_map(|text| field(1, &field(3, text.as_bytes()))).collect();
    base64(&field(6, &values))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { letter as char } else { '=' });
        }
    }
    text
}

fn ask_with(stage: &Stage, header: &str, value: &str) -> Reply {
    ask(stage.port, "POST", CHAT, &[(header, value)], chat("qwen3", &"one and the same ".repeat(200)).as_bytes())
}

#[track_caller]
fn check_subset(test: &str, form: Form, bodies: fn(String) -> String) {
    let engines: Vec<_> = (0..3).map(|_| Engine::plain()).collect();
    let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
    let stage = Stage::start_with(test, form, &addresses, &[], |config| with_subsets(bodies(config)));
    let heard = || engines.iter().map(|engine| engine.heard().len()).collect::<Vec<_>>();
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    // One prefix all the time: without the hint all of them would go where the first one went.
    for (at, text) in texts.iter().enumerate() {
        let mut expected = heard();
        expected[at] += 2;
        assert_eq!(ask_with(&stage, "x-subset", text).status, 200);
        assert_eq!(ask_with(&stage, "x-subset-list", &list(&texts[at..=at])).status, 200);
        assert_eq!(heard(), expected, "the one that is allowed");
    }
    let before = heard();
    for _ in 0..4 {
        assert_eq!(ask_with(&stage, "x-subset-list", &list(&texts[1..])).status, 200);
        assert_eq!(ask_with(&stage, "x-subset", &texts[1..].join(", ")).status, 200);
    }
    assert_eq!(heard()[0], before[0], "the one that isn't allowed");
    for (header, value) in [("x-subset", "192.0.2.1:8000".to_owned()), ("x-subset-list", list(&[]))] {
        let reply = ask_with(&stage, header, &value);
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert_eq!(reply.header("x-llm-d-request-dropped-reason"), Some("rejected-no-endpoints"));
    }
    assert_eq!(stage.picker.in_flight(), 0.0);
}

#[test]
fn the_gateways_subset_is_heeded_by_header_in_full_duplex() {
    check_subset("subset_by_header", Form::OriginalDst, full_duplex);
}

#[test]
fn the_gateways_subset_is_heeded_by_header_buffered() {
    check_subset("subset_by_header_buffered", Form::OriginalDst, buffered);
}

#[test]
fn the_gateways_subset_is_heeded_by_metadata_in_full_duplex() {
    check_subset("subset_by_metadata", Form::OverrideHost, full_duplex);
}

#[test]
fn the_gateways_subset_is_heeded_by_metadata_buffered() {
    check_subset("subset_by_metadata_buffered", Form::OverrideHost, buffered);
}

/// Why the gateway doesn't send where it was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The endpoint isn't in its pool.
    Unknown,
    /// It takes no connections.
    Refused,
}

/// Two engines: one that the gateway can't send to, and one that it falls back to.
struct Elsewhere {
    stage: Stage,
    picked: SocketAddr,
    serving: Engine,
    arrivals: Arrivals,
}

impl Elsewhere {
    fn start(test: &str, why: Why, bodies: fn(String) -> String) -> Self {
        let (serving, arrivals) = Engine::led();
        let engine = Engine::plain();
        let picked = engine.address;
        let edit = |config: String| {
            let config = with_subsets(bodies(config));
            let port = |port: u16| format!("port_value: {port} ");
            match why {
                Why::Unknown => config.replace(&port(picked.port()), &port(serving.address.port())),
                Why::Refused => config,
            }
        };
        // It is there until the picker has read it, and no longer.
        let stage = Stage::start_with(test, Form::OverrideHost, &[picked, serving.address], &[], edit);
        drop(engine);
        Self { stage, picked, serving, arrivals }
    }

    fn served_elsewhere(&self) -> f64 {
        self.stage.picker.metrics().sum("warmpath_served_elsewhere_total", &[])
    }

    fn booked(&self, engine: SocketAddr) -> f64 {
        let name = format!("endpoint_name=\"engine-{}\"", engine.port());
        self.stage.picker.metrics().sum("llm_d_epp_inflight_requests", &[&name])
    }
}

#[track_caller]
fn check_served_elsewhere(test: &str, why: Why, bodies: fn(String) -> String) {
    let there = Elsewhere::start(test, why, bodies);
    let stage = &there.stage;
    let body = chat("qwen3", &"one and the same ".repeat(200));
    let picked = there.picked.to_string();
    let mut client = Client::connect(stage.port);
    client.send("POST", CHAT, &[("x-led", "yes"), ("x-subset", &picked)], body.as_bytes());
    let arrival = there.arrivals.next();
    assert_eq!(arrival.heard.header("x-gateway-destination-endpoint"), Some(picked.as_str()));
    assert_eq!(
        (there.booked(there.picked), there.booked(there.serving.address)),
        (1.0, 0.0),
        "until it is told better"
    );
    let (gate, pieces) = mpsc::channel();
    arrival.say(Saying::Gated(pieces));
    wait_until("the picker was told who serves", || there.served_elsewhere() == 1.0);
    assert_eq!((there.booked(there.picked), there.booked(there.serving.address)), (0.0, 1.0), "the booking has moved");
    gate.send(b"data: [DONE]\n\n".to_vec()).expect("the engine waits for it");
    drop(gate);
    let outcome = client.outcome();
    assert_eq!((outcome.status, outcome.body.as_slice()), (Some(200), &b"data: [DONE]\n\n"[..]));
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);

    // What was learned has moved as well: the prompt's next picks name the one that has it.
    for _ in 0..8 {
        assert_eq!(stage.post(CHAT, &body).status, 200);
    }
    assert_eq!((stage.picker.picks_of(there.picked), stage.picker.picks_of(there.serving.address)), (1.0, 8.0));
    assert_eq!(there.served_elsewhere(), 1.0, "served as picked isn't counted");
    let log = stage.picker.program.log();
    assert!(log.contains(&format!("\\\"served\\\":\\\"{}\\\"", there.serving.address)), "{log}");
}

#[test]
fn served_elsewhere_than_picked_moves_booking_and_index_in_full_duplex() {
    check_served_elsewhere("elsewhere", Why::Unknown, full_duplex);
}

#[test]
fn served_elsewhere_than_picked_moves_booking_and_index_buffered() {
    check_served_elsewhere("elsewhere_buffered", Why::Unknown, buffered);
}

#[test]
fn a_retry_elsewhere_moves_booking_and_index_in_full_duplex() {
    check_served_elsewhere("retried", Why::Refused, full_duplex);
}

#[test]
fn a_retry_elsewhere_moves_booking_and_index_buffered() {
    check_served_elsewhere("retried_buffered", Why::Refused, buffered);
}

#[test]
fn with_the_flag_the_gateways_subset_is_ignored() {
    let engine = Engine::plain();
    let flag = ["--disable-endpoint-subset-filter"];
    let stage = Stage::start_with("no_subset", Form::OverrideHost, &[engine.address], &flag, with_subsets);
    assert_eq!(ask_with(&stage, "x-subset", "192.0.2.1:8000").status, 200);
    assert_eq!(engine.heard().len(), 1);
}

/// What a conformance test sees of who served, behind this gateway.
#[track_caller]
fn check_told(test: &str, form: Form, bodies: fn(String) -> String, told: impl Fn(SocketAddr) -> String) {
    let engines: Vec<_> = (0..3).map(|_| Engine::plain()).collect();
    let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
    let stage = Stage::start_with(test, form, &addresses, &["--conformance-test-headers"], bodies);
    for engine in &engines {
        let before = engine.heard().len();
        // Their header says which one, with a port or without.
        for selected in [engine.address.to_string(), format!("{}, 192.0.2.1", engine.address)] {
            let reply = ask_with(&stage, SELECTION, &selected);
            assert_eq!((reply.status, reply.header(SERVED)), (200, Some(told(engine.address).as_str())));
        }
        assert_eq!(engine.heard().len(), before + 2, "served where it was selected");
    }
    assert_eq!(ask_with(&stage, SELECTION, "127.0.0.1").status, 200);
    assert_eq!(ask_with(&stage, SELECTION, "192.0.2.1").status, 503);
}

#[test]
fn with_the_flag_conformance_tests_select_and_are_told_who_served_in_full_duplex() {
    check_told("conformance", Form::OverrideHost, full_duplex, |address| address.to_string());
}

#[test]
fn with_the_flag_conformance_tests_select_and_are_told_who_served_buffered() {
    check_told("conformance_buffered", Form::OverrideHost, buffered, |address| address.to_string());
}

#[test]
fn with_the_flag_conformance_tests_are_told_what_a_gateway_by_header_does_not_tell() {
    check_told("conformance_by_header", Form::OriginalDst, full_duplex, |_| {
        "fail: missing envoy lb metadata".to_owned()
    });
}

#[test]
fn without_the_flag_a_clients_selection_is_removed_and_nothing_is_told() {
    let (engine, other) = (Engine::plain(), Engine::plain());
    let stage = Stage::start("no_conformance", Form::OverrideHost, &[engine.address]);
    let reply = ask_with(&stage, SELECTION, &other.address.to_string());
    assert_eq!((reply.status, reply.header(SERVED)), (200, None));
    let heard = engine.heard();
    assert_eq!((heard.len(), heard[0].header(SELECTION), heard[0].header("x-echo-set-header")), (1, None, None));
}
