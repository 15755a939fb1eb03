//! Requests of every size come through whole: what the engine hears is what the client said.

use std::thread;

use super::client::ask;
use super::envoy::Form;
use super::lab::model_flag;
use super::scripted::{Engine, Saying, completion};
use super::stage::{Stage, chat};

/// Letters that never repeat in a way that a lost or doubled chunk could hide behind.
fn long_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 8);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &format!("{number} ");
    }
    text
}

#[track_caller]
fn check_body_arrives(test: &str, form: Form, body: &str) {
    let engine = Engine::plain();
    let stage = Stage::start(test, form, &[engine.address]);
    let reply = stage.post("/v1/chat/completions", body);
    assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
    let heard = engine.heard();
    assert_eq!(heard.len(), 1, "requests heard");
    assert!(heard[0].body == body.as_bytes(), "sent {} bytes, other {} bytes arrived", body.len(), heard[0].body.len());
    assert_eq!(heard[0].path, "/v1/chat/completions");
}

#[test]
fn a_body_of_1_3_megabytes_arrives_byte_for_byte_by_header() {
    check_body_arrives("megabyte_by_header", Form::OriginalDst, &chat("qwen3", &long_text(1_300_000)));
}

#[test]
fn a_body_of_1_3_megabytes_arrives_byte_for_byte_by_metadata() {
    check_body_arrives("megabyte_by_metadata", Form::OverrideHost, &chat("qwen3", &long_text(1_300_000)));
}

#[test]
fn a_body_that_is_no_json_is_passed_on_as_it_is() {
    check_body_arrives("no_json", Form::OriginalDst, "{\"model\": \"qwen3\", \"messages\": [");
}

/// agentgateway/agentgateway#2402, langwatch/langwatch#6344: bytes and coding reach the engine as they came, whether the picker
/// can read them or not.
#[test]
fn a_packed_body_passes_as_it_came() {
    /// `{"model": "m", "messages": [{"role": "user", "content": "hi"}]}` as Python's gzip packs it.
    const GZIP: &[u8] = include_bytes!("../fixtures/packed_chat.json.gz");
    let engine = Engine::plain();
    let stage = Stage::start("packed", Form::OriginalDst, &[engine.address]);
    let asked =
        [("gzip", GZIP), ("gzip", &GZIP[..40]), ("zstd", b"\x28\xb5\x2f\xfd broken"), ("br", b"\x0b\x02\x80{}\x03")];
    for (coding, body) in asked {
        let headers = [("content-type", "application/json"), ("content-encoding", coding)];
        let reply = ask(stage.port, "POST", "/v1/chat/completions", &headers, body);
        assert_eq!((reply.status, reply.text()), (200, completion(12, None)), "{coding}");
    }
    let heard = engine.heard();
    let heard: Vec<_> = heard.iter().map(|heard| (heard.header("content-encoding"), heard.body.as_slice())).collect();
    assert_eq!(heard, asked.map(|(coding, body)| (Some(coding), body)));
}

#[test]
fn a_post_of_no_bytes_is_served() {
    let engine = Engine::plain();
    let stage = Stage::start("no_bytes", Form::OriginalDst, &[engine.address]);
    let reply = ask(stage.port, "POST", "/v1/chat/completions", &[], b"");
    assert_eq!((reply.status, reply.text()), (200, completion(12, None)));
    assert_eq!(engine.heard().iter().map(|heard| heard.body.len()).collect::<Vec<_>>(), [0]);
}

#[test]
fn get_models_is_answered_by_an_engine() {
    const MODELS: &str = "{\"object\":\"list\",\"data\":[{\"id\":\"qwen3\",\"object\":\"model\"}]}";
    let engine = Engine::scripted(|heard| Saying::Json(format!("{} {} {MODELS}", heard.method, heard.path)));
    let stage = Stage::start("models", Form::OriginalDst, &[engine.address]);
    let reply = ask(stage.port, "GET", "/v1/models", &[], b"");
    assert_eq!((reply.status, reply.text()), (200, format!("GET /v1/models {MODELS}")));
}

/// llm-d/llm-d-router#2197: images were decoded whole to read their size, and long data URLs tokenized. Five of 20 MB at once
/// cost the picker less than three times their bytes.
#[test]
fn images_of_twenty_megabytes_pass_whole_and_without_much_memory() {
    const AT_ONCE: usize = 5;
    let data = "iVBORw0KGgoA".repeat(1_747_626);
    let body = format!(
        "{{\"model\":\"qwen3\",\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"hi\"}},\
         {{\"type\":\"image_url\",\"image_url\":{{\"url\":\"data:image/png;base64,{data}\"}}}}]}}]}}"
    );
    let engine = Engine::plain();
    let flag = model_flag();
    let stage = Stage::start_with("images", Form::OriginalDst, &[engine.address], &[&flag], |config| config);
    assert_eq!(stage.post("/v1/chat/completions", &chat("qwen3", "hi")).status, 200);
    let before = stage.picker.program.peak_memory();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| assert_eq!(stage.post("/v1/chat/completions", &body).status, 200));
        }
    });
    // The kernel's count is approximate: a peak that didn't grow can be read as a little less.
    let grown = stage.picker.program.peak_memory().saturating_sub(before);
    assert!(grown < 3 * AT_ONCE * body.len(), "{} MB more", grown >> 20);
    let whole = engine.heard().iter().filter(|heard| heard.body == body.as_bytes()).count();
    assert_eq!(whole, AT_ONCE);
    let metrics = stage.picker.metrics();
    assert_eq!(metrics.sum("llm_d_epp_request_total", &["model_name=\"qwen3\""]), AT_ONCE as f64 + 1.0);
    assert_eq!(stage.picker.in_flight(), 0.0);
}
