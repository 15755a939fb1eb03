//! What clients can choose never becomes an unbounded number of series.

use std::thread;

use super::client::Client;
use super::envoy::Form;
use super::scripted::{Engine, Saying, completion};
use super::stage::{Stage, chat};

const CLIENTS: usize = 8;
/// How many series made-up names may add, however many there are.
const NEW_SERIES: usize = 2_400;

/// A name that no engine serves: some short, some a kilobyte long, some with characters that a label must escape.
fn name(number: usize) -> String {
    match number % 10 {
        0 => format!("x-{number}-{}", "long".repeat(256)),
        1 => format!("x-{number}\n\"\\}} 1"),
        _ => format!("x-{number}"),
    }
}

/// What vLLM says to a model that it does not serve.
const NO_SUCH_MODEL: &str = "{\"error\":{\"message\":\"The model does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}";

/// Sends that many requests, each for another model, and looks at what they left on the metrics page.
#[track_caller]
fn check(test: &str, engine: &Engine, requests: usize, status: u16) {
    let flag = super::lab::model_flag();
    let stage = Stage::start_with(test, Form::OriginalDst, &[engine.address], &[&flag], |config| config);
    assert_eq!(stage.post("/v1/chat/completions", &chat("qwen3", "hello")).status, 200);
    let before = stage.picker.metrics().count();
    thread::scope(|scope| {
        for start in 0..CLIENTS {
            let port = stage.port;
            scope.spawn(move || {
                let mut client = Client::connect(port);
                for number in (start..requests).step_by(CLIENTS) {
                    let path = if number % 3 == 0 { format!("/p{number}") } else { "/v1/chat/completions".to_owned() };
                    let headers = [("x-llm-d-inference-fairness-id", &*format!("tenant-{number}"))];
                    let reply = client.ask("POST", &path, &headers, chat(&name(number), "hello").as_bytes());
                    assert_eq!(reply.status, status, "{}", reply.text());
                }
            });
        }
    });
    let page = stage.picker.metrics();
    let added = page.count() - before;
    assert!(added <= NEW_SERIES, "{added} series were added");
    let known = page.sum("llm_d_epp_request_total", &["model_name=\"qwen3\""]);
    assert_eq!(known, 1.0, "a model that is served keeps its label");
    assert_eq!(page.sum("llm_d_epp_request_total", &[]), requests as f64 + 1.0, "every request is counted");
}

#[test]
fn ten_thousand_model_names_that_nobody_serves_add_a_bounded_number_of_series() {
    let engine = Engine::scripted(|heard| match heard.body.starts_with(b"{\"model\":\"qwen3\"") {
        true => Saying::Json(completion(12, None)),
        false => Saying::Refusal(404, NO_SUCH_MODEL.to_owned()),
    });
    check("names", &engine, 10_000, 404);
}

#[test]
fn a_thousand_model_names_add_a_bounded_number_of_series_though_the_engine_takes_any() {
    check("any_name", &Engine::plain(), 1_000, 200);
}
