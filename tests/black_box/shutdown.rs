//! The end of a picker: not ready at once, what is under way served to its end, and a clean exit.

use tonic_health::pb::health_check_response::ServingStatus;

use super::client::Client;
use super::envoy::Form;
use super::health::probe;
use super::program::wait_until;
use super::scripted::Engine;
use super::stage::{Stage, chat};

#[test]
fn on_sigterm_it_is_not_ready_at_once_and_an_answer_under_way_comes_whole() {
    let (engine, gate) = Engine::gated();
    let mut stage = Stage::start("drain", Form::OriginalDst, &[engine.address]);
    let mut client = Client::connect(stage.port);
    client.send("POST", "/v1/chat/completions", &[], chat("qwen3", "hello").as_bytes());
    gate.send(b"data: 1\n\n".to_vec()).expect("the engine waits for it");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(&b"data: 1\n\n"[..]));

    stage.picker.program.terminate();
    let health = stage.picker.health_port;
    wait_until("it is not ready", || probe(health, "readiness") == Some(ServingStatus::NotServing));
    assert_eq!(probe(health, "liveness"), Some(ServingStatus::Serving));

    gate.send(b"data: [DONE]\n\n".to_vec()).expect("the engine waits for it");
    assert_eq!(client.chunk().as_deref(), Some(&b"data: [DONE]\n\n"[..]));
    drop(gate);
    assert_eq!(client.chunk(), None, "the answer ends as the engine ended it");
    drop(client);
    assert_eq!(stage.picker.program.ended().code(), Some(0));
}
