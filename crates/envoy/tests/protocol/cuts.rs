//! However a body is cut, the same request is decided, the same bytes go on, and the flags are right.

use envoy::LONGEST_PART;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases::{Stream, bytes_of, ends_once};
use crate::gateway::{self, Beside};
use crate::script::show_reply;

/// How a body comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With its last part.
    Flag,
    /// With an empty part after it.
    EmptyPart,
    Trailers,
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Flag), Just(End::EmptyPart), Just(End::Trailers)]
}

/// A body and where it is cut: a few cuts anywhere, of a body that can be longer than one answer.
fn cut_bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (prop_oneof![0..40usize, 61_990..62_010usize, 100_000..200_000usize], vec(any::<prop::sample::Index>(), 0..12))
        .prop_map(|(length, cuts)| {
            let body = gateway::pattern(length);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).collect();
            at.extend([0, length]);
            at.sort_unstable();
            at.windows(2).map(|ends| body[ends[0]..ends[1]].to_vec()).collect()
        })
}

fn send(stream: &mut Stream, parts: &[Vec<u8>], end: End, name: &str) {
    for (at, part) in parts.iter().enumerate() {
        let ends_here = end == End::Flag && at + 1 == parts.len();
        send_part(stream, name, part.clone(), ends_here);
    }
    match end {
        End::Flag => {}
        End::EmptyPart => send_part(stream, name, Vec::new(), true),
        End::Trailers => {
            let trailers = if name == "body" { "trailers" } else { "response-trailers" };
            stream.receive(gateway::message(&[trailers], Beside::default()));
        }
    }
}

fn send_part(stream: &mut Stream, name: &str, part: Vec<u8>, end: bool) {
    let part = gateway::part(part, end);
    let content = if name == "body" { Request::RequestBody(part) } else { Request::ResponseBody(part) };
    stream.receive(gateway::framed(content, Beside::default()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn however_bodies_are_cut_the_same_bytes_go_on(
        asked in cut_bodies(), ask_end in ends(), answered in cut_bodies(), answer_end in ends(),
    ) {
        let mut stream = Stream::new();
        stream.receive(gateway::message(&["headers", "POST", "/p"], Beside::default()));
        send(&mut stream, &asked, ask_end, "body");
        stream.receive(gateway::message(&["response", "200"], Beside::default()));
        send(&mut stream, &answered, answer_end, "chunk");

        prop_assert_eq!(stream.decided.len(), 1);
        let body = asked.concat();
        let decided_on = stream.decided[0].body.clone().unwrap_or_default().join();
        prop_assert_eq!(decided_on, &body);
        for (parts, sent, end) in [
            (stream.request_parts(), body, ask_end),
            (stream.response_parts(), answered.concat(), answer_end),
        ] {
            prop_assert_eq!(bytes_of(&parts), sent);
            prop_assert!(parts.iter().all(|part| part.body.len() <= LONGEST_PART));
            match end {
                End::Trailers => prop_assert!(parts.iter().all(|part| !part.end_of_stream)),
                End::Flag | End::EmptyPart => prop_assert!(ends_once(&parts)),
            }
        }
        let seen = stream.end();
        prop_assert_eq!(seen.iter().filter(|line| line.starts_with("part") && line.ends_with("end")).count(), 1);
        prop_assert_eq!(seen.last().map(String::as_str), Some("dropped"));
    }
}

/// Any message, in its place or out of it.
fn messages() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "headers POST /p",
        "headers POST /p end",
        "body one",
        "body two end",
        "body - end",
        "trailers",
        "response 200",
        "response 204 end",
        "chunk one",
        "chunk two end",
        "response-trailers",
    ])
}

fn modes() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["none", "streamed", "buffered", "partial", "duplex"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_comes_is_decided_once_answered_at_most_once_and_let_go_of_once(
        request in modes(), response in modes(), sent in vec(messages(), 0..12),
    ) {
        let mut stream = Stream::new();
        let mut modes = Some((gateway::mode(request), gateway::mode(response)));
        for words in &sent {
            let words: Vec<&str> = words.split(' ').collect();
            let beside = Beside { modes: modes.take(), ..Beside::default() };
            let before = stream.replies.len();
            stream.receive(gateway::message(&words, beside));
            // Where each message waits for its answer, there is one, or none to what is out of place.
            let answers = stream.replies.len() - before;
            let side = if words[0].starts_with('r') || words[0] == "chunk" { response } else { request };
            prop_assert!(side == "duplex" || answers <= 1, "{} answers to {:?}", answers, words);
        }
        prop_assert!(stream.decided.len() <= 1);
        let ticketed = stream.decided.len();
        let shown: Vec<String> = stream.replies.iter().map(show_reply).collect();
        for one in ["headers", "trailers", "response", "response-trailers"] {
            let count = shown.iter().filter(|reply| reply.split(' ').next() == Some(one)).count();
            prop_assert!(count <= 1, "{} of {}", count, one);
        }
        let seen = stream.end();
        prop_assert_eq!(seen.iter().filter(|line| *line == "dropped").count(), ticketed);
    }
}

#[test]
fn a_body_of_single_bytes_is_one_body() {
    let body = gateway::pattern(3_000);
    let parts: Vec<Vec<u8>> = body.iter().map(|byte| vec![*byte]).collect();
    let mut stream = Stream::new();
    stream.receive(gateway::message(&["headers", "POST", "/p"], Beside::default()));
    send(&mut stream, &parts, End::Flag, "body");
    assert_eq!(stream.decided[0].body, Some(body.clone().into()));
    let back = stream.request_parts();
    assert_eq!(back.len(), 1);
    assert_eq!(bytes_of(&back), body);
}
