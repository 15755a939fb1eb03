//! A model whose files come slowly: probes are answered meanwhile, no request is, and they are read once.

use std::fs;
use std::process::Command;
use std::thread;

use tonic_health::pb::health_check_response::ServingStatus;

use super::client::ask;
use super::envoy::{Envoy, Form};
use super::health::probe;
use super::picker::Picker;
use super::program::{folder, root, wait_until};
use super::scripted::Engine;
use super::stage::chat;

/// Requests that come at once, before any other.
const FIRST: usize = 100;

/// llm-d/llm-d-kv-cache#191, sgl-project/sglang#29764, #29813: each of the first requests loaded the tokenizer, or loading it kept the
/// probes waiting and the picker was killed in a loop. Here the file is a pipe: who reads it waits until the test writes.
#[test]
fn while_a_model_loads_the_picker_is_alive_but_not_ready_and_it_is_loaded_once() {
    let folder = folder("loading");
    let (model, fixture) = (folder.join("model"), root().join("tests/fixtures/qwen3"));
    fs::create_dir(&model).expect("a folder can be made");
    fs::copy(fixture.join("tokenizer_config.json"), model.join("tokenizer_config.json")).expect("a file can be copied");
    let pipe = model.join("tokenizer.json.xz");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run").success());

    let engine = Engine::plain();
    let flag = format!("--model=qwen3={}", model.display());
    let picker = Picker::start_unready(&[engine.address], &[&flag], &folder);
    for _ in 0..20 {
        assert_eq!(probe(picker.health_port, "liveness"), Some(ServingStatus::Serving));
        assert_eq!(probe(picker.health_port, "readiness"), Some(ServingStatus::NotServing));
    }
    fs::write(&pipe, fs::read(fixture.join("tokenizer.json.xz")).expect("the fixture reads"))
        .expect("the picker reads");
    wait_until("it is ready", || {
        assert_eq!(probe(picker.health_port, "liveness"), Some(ServingStatus::Serving));
        probe(picker.health_port, "readiness") == Some(ServingStatus::Serving)
    });

    let envoy = Envoy::start(Form::OriginalDst, picker.port, &[engine.address.port()], |config| config, &folder);
    thread::scope(|scope| {
        for number in 0..FIRST {
            let (port, body) = (envoy.port, chat("qwen3", &format!("hello {number}")));
            scope.spawn(move || {
                let reply = ask(port, "POST", "/v1/chat/completions", &[], body.as_bytes());
                assert_eq!(reply.status, 200, "{}", reply.text());
            });
        }
    });
    assert_eq!(picker.program.log().matches("tokenizer loaded").count(), 1);
    assert_eq!(picker.metrics().sum("llm_d_epp_request_total", &["model_name=\"qwen3\""]), FIRST as f64);
}
