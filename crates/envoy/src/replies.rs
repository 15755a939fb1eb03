//! What is said back to the gateway, message by message.
//!
//! In: what was decided, and the bytes to send on. Out: `ProcessingResponse`s. A body is cut into parts of at most
//! [`LONGEST_PART`] bytes, wherever that falls, as they are drawn: never all at once. Header values are bytes
//! (`raw_value`) only, and replace what is there.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ImmediateResponse, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use crate::Refusal;

/// The most bytes of a body in one answer. Envoy takes 64 KiB at a time; this is what the other pickers keep to.
pub const LONGEST_PART: usize = 62_000;

pub(crate) const DESTINATION: &str = "x-gateway-destination-endpoint";
const SCORES: &str = "x-gateway-destination-endpoint-scores";
const DESTINATION_NAMESPACE: &str = "envoy.lb";
const DROPPED_REASON: &str = "x-llm-d-request-dropped-reason";

/// Messages to send, in order. They are made as they are drawn, so that a large body isn't copied before it can go.
#[derive(Debug, Default)]
pub struct Replies {
    queue: VecDeque<Reply>,
    metadata: Option<Struct>,
    mode: Option<ProcessingMode>,
}

#[derive(Debug)]
enum Reply {
    Whole(Box<Response>),
    Cut { side: Side, bytes: Bytes, end: bool },
}

/// Which way a body goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

impl Replies {
    pub(crate) fn one(response: Response) -> Self {
        let mut replies = Self::default();
        replies.push(response);
        replies
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        Self::one(immediate(refusal))
    }

    pub(crate) fn push(&mut self, response: Response) {
        self.queue.push_back(Reply::Whole(Box::new(response)));
    }

    /// The bytes, in as many parts as they need; none at all where there is neither a byte nor an end to send.
    pub(crate) fn cut(&mut self, side: Side, bytes: Bytes, end: bool) {
        if end || !bytes.is_empty() {
            self.queue.push_back(Reply::Cut { side, bytes, end });
        }
    }

    /// Puts the destination, and the scores if there are some, into the metadata of the first message.
    pub(crate) fn name_destination(&mut self, destination: &str, scores: &[(SocketAddr, f64)]) {
        let mut inner = named(DESTINATION, text(destination));
        if !scores.is_empty() {
            let scores = scores
                .iter()
                .map(|(endpoint, score)| (endpoint.to_string(), Value { kind: Some(Kind::NumberValue(*score)) }));
            let scores = Kind::StructValue(Struct { fields: scores.collect() });
            inner.fields.insert(SCORES.to_owned(), Value { kind: Some(scores) });
        }
        self.metadata = Some(named(DESTINATION_NAMESPACE, Kind::StructValue(inner)));
    }

    /// Asks, with the first message, for the response's body part by part. Gateways heed it where they are set up to.
    pub(crate) fn ask_to_stream_responses(&mut self, request_mode: i32) {
        let shown = HeaderSendMode::Send.into();
        self.mode = Some(ProcessingMode {
            request_header_mode: shown,
            response_header_mode: shown,
            request_body_mode: request_mode,
            response_body_mode: BodySendMode::Streamed.into(),
            request_trailer_mode: shown,
            response_trailer_mode: shown,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn draw(&mut self) -> Option<Response> {
        match self.queue.pop_front()? {
            Reply::Whole(response) => Some(*response),
            Reply::Cut { side, mut bytes, end } => {
                let part = bytes.split_to(bytes.len().min(LONGEST_PART));
                let last = bytes.is_empty();
                if !last {
                    self.queue.push_front(Reply::Cut { side, bytes, end });
                }
                Some(streamed(side, part, last && end))
            }
        }
    }
}

impl Iterator for Replies {
    type Item = ProcessingResponse;

    fn next(&mut self) -> Option<ProcessingResponse> {
        let response = self.draw()?;
        Some(ProcessingResponse {
            response: Some(response),
            dynamic_metadata: self.metadata.take(),
            mode_override: self.mode.take(),
            ..ProcessingResponse::default()
        })
    }
}

/// The answer to headers or to a body that wasn't streamed: edits, and a body to put in the place of the one that came.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    pub(crate) set: Vec<(String, Vec<u8>)>,
    pub(crate) remove: Vec<String>,
    pub(crate) body: Option<Bytes>,
    pub(crate) reroute: bool,
}

impl Edits {
    fn common(self) -> CommonResponse {
        CommonResponse {
            header_mutation: mutation(self.set, self.remove),
            body_mutation: self.body.map(|bytes| BodyMutation { mutation: Some(Mutation::Body(bytes.into())) }),
            clear_route_cache: self.reroute,
            ..CommonResponse::default()
        }
    }

    pub(crate) fn headers(self, side: Side) -> Response {
        let response = HeadersResponse { response: Some(self.common()) };
        match side {
            Side::Request => Response::RequestHeaders(response),
            Side::Response => Response::ResponseHeaders(response),
        }
    }

    pub(crate) fn body(self, side: Side) -> Response {
        body(side, self.common())
    }
}

pub(crate) fn trailers(side: Side) -> Response {
    let response = TrailersResponse::default();
    match side {
        Side::Request => Response::RequestTrailers(response),
        Side::Response => Response::ResponseTrailers(response),
    }
}

fn body(side: Side, common: CommonResponse) -> Response {
    let response = BodyResponse { response: Some(common) };
    match side {
        Side::Request => Response::RequestBody(response),
        Side::Response => Response::ResponseBody(response),
    }
}

fn streamed(side: Side, part: Bytes, end: bool) -> Response {
    let streamed = StreamedBodyResponse { body: part.into(), end_of_stream: end, ..StreamedBodyResponse::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(streamed)) };
    body(side, CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() })
}

fn immediate(refusal: &Refusal) -> Response {
    let mut set = vec![("content-type".to_owned(), b"application/json".to_vec())];
    if let Some(reason) = refusal.dropped_reason() {
        set.push((DROPPED_REASON.to_owned(), reason.into()));
    }
    Response::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code: refusal.status().into() }),
        headers: mutation(set, Vec::new()),
        body: refusal.body().into_bytes(),
        details: refusal.as_str().to_owned(),
        ..ImmediateResponse::default()
    })
}

fn mutation(set: Vec<(String, Vec<u8>)>, remove: Vec<String>) -> Option<HeaderMutation> {
    if set.is_empty() && remove.is_empty() {
        return None;
    }
    let set_headers = set.into_iter().map(|(name, value)| overwrite(name, value)).collect();
    Some(HeaderMutation { set_headers, remove_headers: remove })
}

fn overwrite(key: String, raw_value: Vec<u8>) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key, raw_value, ..HeaderValue::default() }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..HeaderValueOption::default()
    }
}

fn named(name: &str, kind: Kind) -> Struct {
    Struct { fields: [(name.to_owned(), Value { kind: Some(kind) })].into() }
}

fn text(value: &str) -> Kind {
    Kind::StringValue(value.to_owned())
}
