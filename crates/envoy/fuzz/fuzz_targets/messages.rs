//! Messages of a gateway in any order, legal or not, and all that can happen between them.
//!
//! In: a fuzzer's bytes, made into modes, a bound for bodies and a list of events. Holds: nothing panics; decided at most
//! once; headers and trailers are answered at most once and bodies end at most once; what goes back of the request's body is
//! the beginning of what came; and when the stream is gone no
//! memory is held and every ticket was dropped.

#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use envoy::{BodyMemory, Exchange, LONGEST_PART, Limits, Refusal, ResponseHead, Step, Ticket, Verdict};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Too few bytes for another event end the run.
    let _ = play(&mut Unstructured::new(data));
});

/// Counts its own drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ticket for Counted {
    fn head(&mut self, _: &ResponseHead) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    fn body(&mut self, part: Bytes, _: bool) -> Bytes {
        part
    }
}

/// What came back so far.
#[derive(Default)]
struct Answers {
    heads: [usize; 2],
    trailers: [usize; 2],
    ends: [usize; 2],
    refusals: usize,
    body: Vec<u8>,
}

fn play(source: &mut Unstructured<'_>) -> Result<()> {
    let memory = BodyMemory::new(if source.ratio(1, 2)? { source.int_in_range(0..=2000)? } else { usize::MAX });
    let modes = source.ratio(3, 4)?.then(|| [source.int_in_range(0..=5), source.int_in_range(0..=5)]);
    let mut config = match modes {
        Some([request, response]) => Some(ProtocolConfiguration {
            request_body_mode: request?,
            response_body_mode: response?,
            ..ProtocolConfiguration::default()
        }),
        None => None,
    };
    let limits = Limits { max_body: 5000 };
    let mut exchange = Exchange::<Counted>::new(limits, memory.clone(), "spare".to_owned());
    let (dropped, mut made, mut asked, mut sent) = (Arc::new(AtomicUsize::new(0)), 0, 0, Vec::new());
    let mut answers = Answers::default();
    let ended = loop {
        // Without bytes left every choice would be the first one, forever.
        if source.is_empty() {
            break Ok(());
        }
        let step = match source.int_in_range(0..=12u8) {
            Err(_) => break Ok(()),
            Ok(0) => exchange.stalled(),
            Ok(1) => exchange.drain(),
            Ok(2) => exchange.let_go(),
            Ok(3) if source.ratio(1, 4).unwrap_or(false) => exchange.leave(),
            Ok(3..=5) => {
                made += 1;
                let ticket = Counted(Arc::clone(&dropped));
                match source.int_in_range(0..=5u8) {
                    Ok(0) => {
                        drop(ticket);
                        exchange.decided(Err(Refusal::Saturated("full".into())))
                    }
                    Ok(1) => exchange.decided(Ok((Verdict::default(), ticket))),
                    _ => exchange.decided(Ok((Verdict::to(([10, 0, 0, 1], 8000).into()), ticket))),
                }
            }
            Ok(_) => match message(source, &mut sent) {
                Ok(request) => exchange.receive(ProcessingRequest {
                    request: Some(request),
                    protocol_config: config.take(),
                    ..ProcessingRequest::default()
                }),
                Err(error) => break Err(error),
            },
        };
        let step = match step {
            Step::Suppose(_) => exchange.supposed(source.ratio(3, 4)?.then(|| ([10, 0, 0, 2], 8000).into())),
            step => step,
        };
        match step {
            Step::Decide(inbound) => {
                asked += 1;
                assert!(inbound.body.is_none() || inbound.unread.is_none());
            }
            Step::Send(replies) => replies.for_each(|reply| answers.take(reply)),
            Step::Wait | Step::Close => {}
            Step::Suppose(_) => unreachable!("asked once"),
        }
        answers.check(&sent);
        assert!(asked <= 1);
    };
    drop(exchange);
    assert_eq!(memory.held(), 0);
    assert_eq!(dropped.load(Ordering::Relaxed), made);
    ended
}

/// Any message; what it adds to the request's body is kept.
fn message(source: &mut Unstructured<'_>, sent: &mut Vec<u8>) -> Result<Request> {
    let end = source.ratio(1, 3)?;
    Ok(match source.int_in_range(0..=7u8)? {
        0 | 1 => Request::RequestHeaders(head(source, &[":path", "content-length", "x-request-id"], end)?),
        2 | 3 => {
            let body = body(source, end)?;
            sent.extend_from_slice(&body.body);
            Request::RequestBody(body)
        }
        4 => Request::RequestTrailers(HttpTrailers::default()),
        5 => Request::ResponseHeaders(head(source, &[":status", "content-type", "content-length"], end)?),
        6 => Request::ResponseBody(body(source, end)?),
        _ => Request::ResponseTrailers(HttpTrailers::default()),
    })
}

fn head(source: &mut Unstructured<'_>, names: &[&str], end_of_stream: bool) -> Result<HttpHeaders> {
    let mut headers = Vec::new();
    for name in names {
        let value = *source.choose(&["", "0", "7", "1000", "9999", "200", "text/event-stream", "x"])?;
        headers.push(HeaderValue { key: (*name).to_owned(), raw_value: value.into(), ..HeaderValue::default() });
    }
    Ok(HttpHeaders { headers: Some(HeaderMap { headers }), end_of_stream, ..HttpHeaders::default() })
}

fn body(source: &mut Unstructured<'_>, end_of_stream: bool) -> Result<HttpBody> {
    let length = *source.choose(&[0, 1, 3, 500, 1999, 2500])?;
    let first: u8 = source.arbitrary()?;
    let body = (0..length).map(|at| first.wrapping_add(at as u8)).collect();
    Ok(HttpBody { body, end_of_stream, ..HttpBody::default() })
}

impl Answers {
    fn take(&mut self, reply: ProcessingResponse) {
        assert_eq!(self.refusals, 0, "nothing follows a refusal");
        match reply.response.expect("an answer says something") {
            Response::RequestHeaders(_) => self.heads[0] += 1,
            Response::ResponseHeaders(_) => self.heads[1] += 1,
            Response::RequestTrailers(_) => self.trailers[0] += 1,
            Response::ResponseTrailers(_) => self.trailers[1] += 1,
            Response::RequestBody(body) => self.part(0, body),
            Response::ResponseBody(body) => self.part(1, body),
            Response::ImmediateResponse(_) => self.refusals += 1,
            Response::StreamedImmediateResponse(_) => unreachable!("never sent"),
        }
    }

    fn part(&mut self, side: usize, body: BodyResponse) {
        let mutation = body.response.and_then(|common| common.body_mutation).and_then(|body| body.mutation);
        if let Some(Mutation::StreamedResponse(part)) = mutation {
            assert_eq!(self.ends[side], 0, "nothing follows the end");
            assert!(part.body.len() <= LONGEST_PART);
            self.ends[side] += usize::from(part.end_of_stream);
            if side == 0 {
                self.body.extend_from_slice(&part.body);
            }
        }
    }

    fn check(&self, sent: &[u8]) {
        for side in 0..2 {
            assert!(self.heads[side] <= 1 && self.trailers[side] <= 1 && self.ends[side] <= 1);
        }
        assert!(sent.starts_with(&self.body), "what goes back is what came");
    }
}
