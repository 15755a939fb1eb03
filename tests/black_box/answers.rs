//! Answers pass through as they come, are read on the way, and let go of what they held, however they end.

use std::sync::Mutex;

use super::client::Client;
use super::envoy::Form;
use super::program::wait_until;
use super::scripted::{Engine, Saying};
use super::stage::{Stage, chat, streamed_chat};

/// A streamed chat completion as vLLM writes it, `usage` in its last event.
fn event_stream() -> Vec<u8> {
    let event = |delta: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3\",\"choices\":[{{\"index\":0,\"delta\":\
             {delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let usage = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"qwen3\",\"choices\":[],\"usage\":{\"prompt_tokens\":\
                 48,\"total_tokens\":50,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n";
    let text = event("{\"role\":\"assistant\",\"content\":\"\"}")
        + &event("{\"content\":\"H\u{e9}llo\"}")
        + &event("{\"content\":\" \u{1f30d}\"}")
        + usage
        + "data: [DONE]\n\n";
    text.into_bytes()
}

#[test]
fn however_a_streamed_answer_is_cut_its_bytes_arrive_and_its_usage_is_read() {
    let cuts = [1, 2, 3, 7, 64, 100_000];
    let next = Mutex::new(cuts.into_iter());
    let engine = Engine::scripted(move |_| {
        let cut = next.lock().expect("no thread failed").next().expect("one request a cut");
        Saying::Pieces(event_stream().chunks(cut).map(<[u8]>::to_vec).collect())
    });
    let stage = Stage::start("cut", Form::OriginalDst, &[engine.address]);
    for cut in cuts {
        let reply = stage.post("/v1/chat/completions", &streamed_chat("qwen3", "hello"));
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
        assert!(reply.body == event_stream(), "cut every {cut} bytes: other bytes arrived:\n{}", reply.text());
    }
    let read = |name: &str| stage.picker.metrics().sum(name, &[]);
    let answers = cuts.len() as f64;
    wait_until("every answer was read", || read("llm_d_epp_request_input_tokens_count") == answers);
    assert_eq!(read("llm_d_epp_request_input_tokens_sum"), 48.0 * answers);
    assert_eq!(read("llm_d_epp_request_cached_tokens_sum"), 32.0 * answers);
    assert_eq!(read("llm_d_epp_request_output_tokens_sum"), 2.0 * answers);
    assert_eq!(stage.picker.in_flight(), 0.0);
}

#[test]
fn an_event_passes_before_the_next_one_is_written() {
    let (engine, gate) = Engine::gated();
    let stage = Stage::start("event_by_event", Form::OriginalDst, &[engine.address]);
    let mut client = Client::connect(stage.port);
    client.send("POST", "/v1/chat/completions", &[], streamed_chat("qwen3", "hello").as_bytes());
    let events = [&b"data: {\"choices\":[]}\n\n"[..], b"data: [DONE]\n\n"];
    gate.send(events[0].to_vec()).expect("the engine waits for it");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().as_deref(), Some(events[0]));
    gate.send(events[1].to_vec()).expect("the engine waits for it");
    assert_eq!(client.chunk().as_deref(), Some(events[1]));
    drop(gate);
    assert_eq!(client.chunk(), None);
}

#[test]
fn a_client_that_hangs_up_half_way_leaves_nothing_in_flight() {
    let (engine, gate) = Engine::gated();
    let stage = Stage::start("hang_up", Form::OriginalDst, &[engine.address]);
    let mut client = Client::connect(stage.port);
    client.send("POST", "/v1/chat/completions", &[], streamed_chat("qwen3", "hello").as_bytes());
    gate.send(b"data: {\"choices\":[]}\n\n".to_vec()).expect("the engine waits for it");
    assert_eq!(client.head().status, 200);
    assert!(client.chunk().is_some());
    assert_eq!(stage.picker.in_flight(), 1.0);
    drop(client);
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    drop(gate);
}

#[test]
fn a_client_that_hangs_up_within_its_body_leaves_nothing_in_flight() {
    let engine = Engine::plain();
    let stage = Stage::start("hang_up_in_body", Form::OriginalDst, &[engine.address]);
    let mut client = Client::connect(stage.port);
    client.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 1000000\r\n\r\n{\"model\":");
    drop(client);
    let reply = stage.post("/v1/chat/completions", &chat("qwen3", "the next one"));
    assert_eq!(reply.status, 200);
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    assert_eq!(engine.heard().len(), 1, "the broken request reached no engine");
}

/// kubernetes-sigs/gateway-api-inference-extension#1436: it was parsed as JSON, and logged whole for each request.
#[test]
fn an_error_in_plain_words_passes_as_it_is_and_is_not_logged() {
    const WORDS: &str = "no healthy upstream";
    let engine = Engine::scripted(|_| Saying::Words(503, WORDS));
    let stage = Stage::start("plain_words", Form::OriginalDst, &[engine.address]);
    let reply = stage.post("/v1/chat/completions", &chat("qwen3", "hello"));
    assert_eq!((reply.status, reply.text().as_str(), reply.header("content-type")), (503, WORDS, Some("text/plain")));
    wait_until("nothing is in flight", || stage.picker.in_flight() == 0.0);
    let failed = stage.picker.metrics().sum("llm_d_epp_request_error_total", &["error_code=\"ModelServerError\""]);
    assert_eq!(failed, 1.0);
    let log = stage.picker.program.log();
    assert!(!log.contains(WORDS) && !log.contains("\"ERROR\"") && !log.contains("not_json"), "{log}");
}
