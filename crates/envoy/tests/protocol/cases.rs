//! The known cases of `tests/data`, each with what the state machine makes of its frames.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use envoy::{BodyMemory, Exchange, Headers, Inbound, Limits, Step, Verdict};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, HeaderMutation, ProcessingRequest, ProcessingResponse, StreamedBodyResponse,
};
use serde_json::Value;

use crate::gateway::{self, Beside};
use crate::script::{Rewrite, Witness};

const ENDPOINT: &str = "10.0.0.1:8000";

/// One stream whose every decision is the same endpoint, made at once.
pub(crate) struct Stream {
    exchange: Exchange<Witness>,
    log: Arc<Mutex<Vec<String>>>,
    /// Its ticket tells the client nothing.
    silent: bool,
    pub(crate) decided: Vec<Inbound>,
    pub(crate) replies: Vec<ProcessingResponse>,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self::of("spare")
    }

    /// A stream whose request has this id unless it brings one.
    fn of(spare_id: &str) -> Self {
        let exchange = Exchange::new(Limits::default(), BodyMemory::new(usize::MAX), spare_id.to_owned());
        Self { exchange, log: Arc::default(), silent: false, decided: Vec::new(), replies: Vec::new() }
    }

    fn silent() -> Self {
        Self { silent: true, ..Self::new() }
    }

    pub(crate) fn receive(&mut self, message: ProcessingRequest) {
        let mut step = self.exchange.receive(message);
        if let Step::Suppose(_) = step {
            step = self.exchange.supposed(Some(ENDPOINT.parse().unwrap()));
        }
        if let Step::Decide(inbound) = step {
            self.decided.push(inbound);
            let ticket = match self.silent {
                true => Witness::silent(&self.log),
                false => Witness::new(&self.log, Rewrite::Nothing),
            };
            step = self.exchange.decided(Ok((Verdict::to(ENDPOINT.parse().unwrap()), ticket)));
        }
        match step {
            Step::Send(replies) => self.replies.extend(replies),
            Step::Wait => {}
            other => panic!("not expected: {other:?}"),
        }
    }

    fn frames(&mut self, frames: &Value) {
        for frame in frames.as_array().unwrap() {
            self.receive(message(frame));
        }
    }

    /// Tickets that are held, each of which is one request under way.
    fn under_way(&self) -> u64 {
        let dropped = self.log.lock().unwrap().iter().filter(|line| *line == "dropped").count();
        (self.decided.len() - dropped) as u64
    }

    /// Ends the stream; gives what its ticket saw.
    pub(crate) fn end(self) -> Vec<String> {
        drop(self.exchange);
        Arc::try_unwrap(self.log).unwrap().into_inner().unwrap()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.replies
            .iter()
            .map(|reply| match reply.response.as_ref().unwrap() {
                Response::RequestHeaders(_) => "request_headers",
                Response::RequestBody(_) => "request_body",
                Response::ResponseHeaders(_) => "response_headers",
                Response::ResponseBody(_) => "response_body",
                Response::RequestTrailers(_) | Response::ResponseTrailers(_) => "trailers",
                Response::ImmediateResponse(_) | Response::StreamedImmediateResponse(_) => "immediate",
            })
            .collect()
    }

    /// The parts of the request's body that go upstream; fails on an answer that isn't one in full duplex.
    pub(crate) fn request_parts(&self) -> Vec<&StreamedBodyResponse> {
        let bodies = self.replies.iter().filter_map(|reply| match reply.response.as_ref() {
            Some(Response::RequestBody(body)) => Some(body),
            _ => None,
        });
        bodies.map(streamed).collect()
    }

    pub(crate) fn response_parts(&self) -> Vec<&StreamedBodyResponse> {
        let bodies = self.replies.iter().filter_map(|reply| match reply.response.as_ref() {
            Some(Response::ResponseBody(body)) => Some(body),
            _ => None,
        });
        bodies.map(streamed).collect()
    }

    /// The edits of the request's headers, with the destination of the metadata.
    fn request_edits(&self) -> (&HeaderMutation, String) {
        let Some(Response::RequestHeaders(headers)) = self.replies[0].response.as_ref() else {
            panic!("the first answer is to the headers");
        };
        let common = headers.response.as_ref().unwrap();
        (common.header_mutation.as_ref().unwrap(), gateway::destination_in_metadata(&self.replies[0]))
    }
}

fn streamed(body: &BodyResponse) -> &StreamedBodyResponse {
    let common = body.response.as_ref().unwrap();
    match common.body_mutation.as_ref().and_then(|body| body.mutation.as_ref()) {
        Some(Mutation::StreamedResponse(part)) => part,
        other => panic!("not streamed: {other:?}"),
    }
}

pub(crate) fn bytes_of(parts: &[&StreamedBodyResponse]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.body.clone()).collect()
}

/// Asserts that nothing but the last part ends the body.
pub(crate) fn ends_once(parts: &[&StreamedBodyResponse]) -> bool {
    let ends: Vec<bool> = parts.iter().map(|part| part.end_of_stream).collect();
    ends.iter().rposition(|end| *end) == Some(ends.len() - 1) && ends.iter().filter(|end| **end).count() == 1
}

fn message(frame: &Value) -> ProcessingRequest {
    let end = frame["eos"].as_bool().unwrap_or(false);
    let body = |name: &str| gateway::part(frame[name].as_str().unwrap().into(), end);
    let headers = |name: &str| {
        let pairs = frame[name].as_array().unwrap().iter();
        gateway::headers(pairs.map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap())), end)
    };
    let name = frame.as_object().unwrap().keys().find(|key| *key != "eos").unwrap();
    let content = match name.as_str() {
        "request_headers" => Request::RequestHeaders(headers(name)),
        "request_body" => Request::RequestBody(body(name)),
        "response_headers" => Request::ResponseHeaders(headers(name)),
        "response_body" => Request::ResponseBody(body(name)),
        other => panic!("no such frame: {other}"),
    };
    gateway::framed(content, Beside::default())
}

fn folder(case: &str) -> PathBuf {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(case))
        .unwrap()
}

pub(crate) fn read(case: &str, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder(case).join(file)).unwrap()).unwrap()
}

fn play(case: &str, file: &str) -> Stream {
    let mut stream = Stream::new();
    stream.frames(&read(case, file));
    stream
}

#[test]
fn a01_a_repeated_last_frame_is_passed_over() {
    let (stream, expected) = (play("A01", "frames.json"), read("A01", "expected.json"));
    assert_eq!(stream.decided.len() as u64, expected["picks"]);
    let parts = stream.request_parts();
    assert_eq!(bytes_of(&parts), expected["forwarded_body"].as_str().unwrap().as_bytes());
    assert!(ends_once(&parts));
    assert!(!stream.kinds().contains(&"immediate"));
    assert_eq!(stream.under_way(), expected["inflight_delta_after_pick"]);
    assert_eq!(stream.end(), ["dropped"]);
}

#[test]
fn a01_so_is_a_large_one() {
    let mut stream = Stream::new();
    stream.receive(gateway::message(&["headers", "POST", "/v1/chat/completions"], Beside::default()));
    for frame in ["100B", "1200000B end", "1200000B end"] {
        let words: Vec<&str> = ["body"].into_iter().chain(frame.split(' ')).collect();
        stream.receive(gateway::message(&words, Beside::default()));
    }
    assert_eq!(stream.decided.len(), 1);
    let parts = stream.request_parts();
    assert_eq!(bytes_of(&parts), [gateway::pattern(100), gateway::pattern(1_200_000)].concat());
    assert!(ends_once(&parts));
    assert_eq!(stream.under_way(), 1);
    assert_eq!(stream.end(), ["dropped"]);
}

#[test]
fn a02_a_large_body_goes_back_in_parts_that_a_gateway_takes() {
    let (recipe, expected) = (read("A02", "recipe.json"), read("A02", "expected.json"));
    let text = |name: &str| recipe["body"][name].as_str().unwrap();
    let count = recipe["body"]["count"].as_u64().unwrap() as usize;
    let body = [text("prefix"), &text("repeat").repeat(count), text("suffix")].concat().into_bytes();
    let frames: Vec<&[u8]> = body.chunks(recipe["chunk_bytes"].as_u64().unwrap() as usize).collect();

    let mut stream = Stream::new();
    stream.receive(gateway::message(&["headers", "POST", "/v1/chat/completions"], Beside::default()));
    for (at, frame) in frames.iter().enumerate() {
        let part = gateway::part(frame.to_vec(), at + 1 == frames.len());
        stream.receive(gateway::framed(Request::RequestBody(part), Beside::default()));
    }

    assert_eq!(stream.decided.len() as u64, expected["picks"]);
    assert_eq!(stream.decided[0].body, Some(body.clone().into()));
    let parts = stream.request_parts();
    let longest = expected["max_streamed_body_bytes"].as_u64().unwrap() as usize;
    assert!(parts.iter().all(|part| part.body.len() <= longest));
    assert_eq!(bytes_of(&parts), body);
    assert!(ends_once(&parts));
}

#[test]
fn a03_full_duplex_bodies_are_answered_streamed_and_after_the_headers() {
    let (stream, expected) = (play("A03", "frames.json"), read("A03", "expected.json"));
    let mut order = stream.kinds();
    order.dedup();
    assert_eq!(order, ["request_headers", "request_body", "response_headers", "response_body"]);
    assert_eq!(bytes_of(&stream.request_parts()), expected["request_concat"].as_str().unwrap().as_bytes());
    assert_eq!(bytes_of(&stream.response_parts()), expected["response_concat"].as_str().unwrap().as_bytes());
    assert!(ends_once(&stream.response_parts()));
}

#[test]
fn a04_a_get_is_answered_at_its_headers() {
    let (stream, expected) = (play("A04", "frames.json"), read("A04", "expected.json"));
    assert_eq!(stream.decided.len() as u64, expected["picks"]);
    assert_eq!(stream.decided[0].body, None);
    assert_eq!(stream.kinds(), ["request_headers"]);
    assert_eq!(stream.request_edits().1, ENDPOINT);
}

#[test]
fn a05_an_empty_post_is_the_same_however_it_is_said() {
    let (a, b) = (play("A05", "frames-a.json"), play("A05", "frames-b.json"));
    assert_eq!(a.decided, b.decided);
    assert_eq!(a.replies[0], b.replies[0]);
    assert_eq!(a.request_edits().1, ENDPOINT);
}

#[test]
fn a08_a_packed_body_goes_on_as_it_came() {
    let (headers, expected) = (read("A08", "headers.json"), read("A08", "expected.json"));
    // What is no gzip and no zstd (br) is no less the gateway's and the engine's business.
    for (coding, file) in [("gzip", "body.gz"), ("zstd", "body.zst"), ("br", "body.gz")] {
        let packed = std::fs::read(folder("A08").join(file)).unwrap();
        let mut stream = Stream::new();
        let pairs =
            headers.as_array().unwrap().iter().map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()));
        let pairs = pairs.map(|(name, value)| (name, if name == "content-encoding" { coding } else { value }));
        stream.receive(gateway::framed(Request::RequestHeaders(gateway::headers(pairs, false)), Beside::default()));
        let (first, rest) = packed.split_at(packed.len() / 2);
        for (part, end) in [(first, false), (rest, true)] {
            stream.receive(gateway::framed(Request::RequestBody(gateway::part(part.to_vec(), end)), Beside::default()));
        }

        assert_eq!(stream.decided[0].headers.text("content-encoding"), Some(coding));
        assert_eq!(stream.decided[0].body, Some(packed.clone().into()));
        assert_eq!(bytes_of(&stream.request_parts()) == packed, expected["forwarded_body_equals_input_bytes"]);
        let (edits, _) = stream.request_edits();
        let set = gateway::set_headers(edits).into_iter().map(|(name, _)| name);
        assert!(!set.chain(edits.remove_headers.clone()).any(|name| name == "content-encoding"), "{coding}");
        assert!(!stream.kinds().contains(&"immediate"), "no status of ours at all");
    }
}

#[test]
fn a09_the_length_of_an_unchanged_body_is_left_alone() {
    let stream = play("A09", "frames.json");
    let (edits, _) = stream.request_edits();
    let names: Vec<String> = gateway::set_headers(edits).into_iter().map(|(name, _)| name).collect();
    for name in read("A09", "expected.json")["set_headers_must_not_contain"].as_array().unwrap() {
        let name = name.as_str().unwrap().to_ascii_lowercase();
        assert!(!names.contains(&name) && !edits.remove_headers.contains(&name));
    }
}

#[test]
fn a11_a_header_is_its_bytes_if_it_has_some_and_its_text_otherwise() {
    let hex = |text: &str| text.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let text = |header: &Value, name: &str| header[name].as_str().unwrap_or_default().to_owned();
    let input = read("A11", "input.json");
    let headers = input.as_array().unwrap().iter().map(|header| HeaderValue {
        key: text(header, "key"),
        value: text(header, "value"),
        raw_value: match header["raw_value_hex"].as_str() {
            Some(bytes) => hex(bytes),
            None => text(header, "raw_value").into_bytes(),
        },
    });
    let headers = Headers::from(HeaderMap { headers: headers.collect() });
    let expected = read("A11", "expected.json");
    for name in ["x-request-id", "x-request-id2", "x-both", "x-e"] {
        assert_eq!(headers.text(name), expected[name].as_str());
    }
    assert_eq!(headers.get("x-upper"), Some(&[0xff, 0xfe, 0x41][..]));
    assert_eq!(headers.text("x-upper"), None);
}

#[test]
fn a12_a_client_does_not_choose_its_endpoint() {
    let (stream, expected) = (play("A12", "frames.json"), read("A12", "expected.json"));
    let (edits, in_metadata) = stream.request_edits();
    // set_headers also sees to it that each overwrites.
    let set: Vec<String> = gateway::set_headers(edits)
        .into_iter()
        .filter(|(name, _)| name == "x-gateway-destination-endpoint")
        .map(|(_, value)| value)
        .collect();
    assert_eq!(set.len() as u64, expected["final_header_values"]);
    assert_eq!(set[0], in_metadata);
    assert_ne!(set[0], expected["not_value"].as_str().unwrap());
}

#[test]
fn a12_the_client_is_not_told_who_serves_it() {
    for beside in [Beside::default, || Beside { served: Some(ENDPOINT.to_owned()), ..Beside::default() }] {
        let mut stream = Stream::silent();
        stream.frames(&read("A12", "frames.json"));
        let asked = stream.replies.len();
        for words in ["response 200 content-type=application/json", "chunk {}", "chunk {} end"] {
            stream.receive(gateway::message(&words.split(' ').collect::<Vec<_>>(), beside()));
        }
        let answered = &stream.replies[asked..];
        assert_eq!(answered.len(), 3);
        for reply in answered {
            let said = format!("{reply:?}");
            // Headers are bytes, which would be shown as numbers.
            let bytes = format!("{:?}", ENDPOINT.as_bytes());
            assert!(!said.contains(ENDPOINT) && !said.contains(bytes.trim_matches(['[', ']'])), "{said}");
        }
    }
}

#[test]
fn a15_an_answer_that_is_no_json_passes() {
    let mut stream = play("A04", "frames.json");
    stream.frames(&read("A15", "frames.json"));
    assert_eq!(bytes_of(&stream.response_parts()), b"no healthy upstream");
    assert_eq!(stream.end(), ["head 503", "part no healthy upstream end", "dropped"]);
}

#[test]
fn a16_a_stream_that_ends_early_lets_go_of_its_ticket_once() {
    let runs = read("A16", "frames.json");
    for (run, decided) in [("a", false), ("b", false), ("c", true), ("d", true), ("e", true)] {
        let mut stream = Stream::new();
        for words in steps(&runs, run) {
            stream.receive(gateway::message(&words.split(' ').collect::<Vec<_>>(), Beside::default()));
        }
        let seen = stream.end();
        assert_eq!(seen.iter().filter(|line| *line == "dropped").count(), usize::from(decided), "run {run}");
    }
}

/// The run's frames as a script's words, those of the run that it goes on from before its own.
fn steps(runs: &Value, run: &str) -> Vec<&'static str> {
    let mut all = Vec::new();
    for step in runs[run].as_array().unwrap() {
        match step.as_str().unwrap() {
            "request_headers" => all.push("headers POST /v1/chat/completions"),
            "request_body eos=false" => all.push("body {}"),
            "request_body eos=true" => all.push("body {} end"),
            "response_headers" => all.push("response 200"),
            "response_body eos=false" => all.push("chunk data:"),
            "DROP" => {}
            earlier => all.extend(steps(runs, earlier.strip_prefix("...").unwrap())),
        }
    }
    all
}

#[test]
fn a17_streams_with_one_request_id_know_nothing_of_each_other() {
    let decided = interleaved(&read("A17", "frames.json"));
    assert_eq!(decided[0].request_id, decided[1].request_id);
}

#[test]
fn a17_nor_do_streams_without_one() {
    let mut frames = read("A17", "frames.json");
    for name in ["s1", "s2"] {
        let headers = frames[name][0]["request_headers"].as_array_mut().unwrap();
        headers.retain(|pair| pair[0] != "x-request-id");
    }
    let decided = interleaved(&frames);
    assert_eq!([&*decided[0].request_id, &*decided[1].request_id], ["spare-1", "spare-2"]);
}

/// Two streams, a frame of either at a time; what was decided, in the order of their ends.
fn interleaved(frames: &Value) -> Vec<Inbound> {
    let mut streams = [Some(Stream::of("spare-1")), Some(Stream::of("spare-2"))];
    let (mut decided, mut seen) = (Vec::new(), Vec::new());
    for step in frames["interleave"].as_array().unwrap() {
        let (name, at) = step.as_str().unwrap().split_once('.').unwrap();
        let slot = &mut streams[usize::from(name == "s2")];
        if at == "END" {
            let stream = slot.take().unwrap();
            decided.extend(stream.decided.clone());
            assert_eq!(stream.kinds(), ["request_headers", "request_body"]);
            assert_eq!(stream.under_way(), 1);
            seen.push(stream.end());
        } else {
            slot.as_mut().unwrap().receive(message(&frames[name][at.parse::<usize>().unwrap()]));
        }
    }
    assert_eq!(decided.len() as u64, read("A17", "expected.json")["picks"]);
    assert_ne!(decided[0].body, decided[1].body);
    assert_eq!(seen, [["dropped"], ["dropped"]]);
    decided
}
