//! Health, as gateways, charts and probes ask for it.

use envoy::{Patience, Readiness, State, Watchdog};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus::{self, NotServing, Serving};
use tonic_health::pb::health_client::HealthClient;

use crate::cases::read;

struct Probe {
    readiness: Readiness,
    client: HealthClient<Channel>,
    /// Stops the server when dropped.
    _stop: oneshot::Sender<()>,
}

impl Probe {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = Readiness::new();
        let (stop, stopped) = oneshot::channel::<()>();
        let watchdog = Watchdog::start(readiness.clone(), Patience::default()).unwrap();
        tokio::spawn(envoy::run_health(listener, watchdog, async { drop(stopped.await) }));
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { readiness, client: HealthClient::new(channel), _stop: stop }
    }

    async fn ask(&mut self, service: &str) -> ServingStatus {
        let request = HealthCheckRequest { service: service.to_owned() };
        self.client.check(request).await.unwrap().into_inner().status()
    }
}

/// As `expected.json` has it, but for a name that nobody knows: that is readiness, too.
fn expected(when: &str) -> Vec<ServingStatus> {
    let expected = read("A24", "expected.json");
    let known = |name: &serde_json::Value| match name.as_str() {
        Some("SERVING") => Serving,
        Some("NOT_SERVING") => NotServing,
        Some("NOT_FOUND") if when == "synced" => Serving,
        Some("NOT_FOUND") => NotServing,
        other => panic!("no such status: {other:?}"),
    };
    expected[when].as_array().unwrap().iter().map(known).collect()
}

#[tokio::test]
async fn a24_every_name_answers_readiness_except_liveness() {
    let mut probe = Probe::start().await;
    for (state, when) in [(State::NotReady, "not_synced"), (State::Ready, "synced"), (State::NotReady, "not_synced")] {
        probe.readiness.set(state);
        for (service, status) in read("A24", "input.json").as_array().unwrap().iter().zip(expected(when)) {
            let service = service.as_str().unwrap();
            assert_eq!(probe.ask(service).await, status, "{service:?} {when}");
        }
    }
}

#[tokio::test]
async fn charts_and_conformance_tests_ask_by_a_name_of_their_own() {
    let mut probe = Probe::start().await;
    assert_eq!(probe.ask("inference-extension").await, NotServing);
    probe.readiness.set(State::Ready);
    assert_eq!(probe.ask("inference-extension").await, Serving);
}

#[tokio::test]
async fn draining_is_for_good_and_leaves_liveness() {
    let mut probe = Probe::start().await;
    probe.readiness.set(State::Ready);
    probe.readiness.set(State::Draining);
    probe.readiness.set(State::Ready);
    assert_eq!(probe.readiness.get(), State::Draining);
    assert_eq!(probe.ask("").await, NotServing);
    assert_eq!(probe.ask("liveness").await, Serving);
}

#[tokio::test]
async fn a_watch_tells_each_change_and_ends_with_the_draining() {
    let mut probe = Probe::start().await;
    let request = HealthCheckRequest { service: "readiness".to_owned() };
    let mut watch = probe.client.watch(request).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), NotServing);
    probe.readiness.set(State::Ready);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), Serving);
    probe.readiness.set(State::Draining);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), NotServing);
    assert!(watch.message().await.unwrap().is_none());
}
