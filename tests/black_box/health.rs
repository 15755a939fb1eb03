//! What probes are told, on both ports.

use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::envoy::Form;
use super::picker::Picker;
use super::program::{folder, wait_until};
use super::scripted::Engine;
use super::stage::{Stage, chat};

/// What gateways, charts, conformance tests and KServe ask for, and a name that nobody knows.
const READINESS_NAMES: [&str; 5] =
    ["", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor", "whatever"];

/// What a probe of that service at that port is told; `None` where nobody answers.
pub fn probe(port: u16, service: &str) -> Option<ServingStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("a URL");
        let channel: Channel = endpoint.connect().await.ok()?;
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(channel).check(request).await.ok()?;
        ServingStatus::try_from(answer.into_inner().status).ok()
    })
}

#[track_caller]
fn check(picker: &Picker, service: &str, expected: ServingStatus) {
    for port in [picker.port, picker.health_port] {
        assert_eq!(probe(port, service), Some(expected), "service `{service}`");
    }
}

#[test]
fn a_picker_that_has_read_an_engine_serves_by_any_name_on_both_ports() {
    let engine = Engine::plain();
    let picker = Picker::start(&[engine.address], &[], &folder("health_ready"));
    wait_until("it is ready", || probe(picker.health_port, "") == Some(ServingStatus::Serving));
    for name in READINESS_NAMES {
        check(&picker, name, ServingStatus::Serving);
    }
    check(&picker, "liveness", ServingStatus::Serving);
}

#[test]
fn a_picker_with_an_empty_fleet_is_ready_and_says_of_each_request_what_is_missing() {
    let stage = Stage::start("empty_fleet", Form::OriginalDst, &[]);
    wait_until("it is ready", || probe(stage.picker.health_port, "") == Some(ServingStatus::Serving));
    check(&stage.picker, "liveness", ServingStatus::Serving);
    let reply = stage.post("/v1/chat/completions", &chat("qwen3", "hello"));
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.header("x-llm-d-request-dropped-reason"), Some("rejected-no-endpoints"));
    let error: serde_json::Value = serde_json::from_slice(&reply.body).expect("an error in OpenAI's form");
    assert_eq!(error["error"]["type"], "service_unavailable_error", "{error}");
}
