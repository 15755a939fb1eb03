//! The request's side of an exchange: its parts until it can be decided, then the answers to them.
//!
//! In: headers, body parts, trailers, and a verdict. Out: steps. Nothing is answered twice, and what came is never looked
//! into, beyond the few headers that are the protocol's own.

use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders};

use super::{Limits, Mode, Step};
use crate::replies::{DESTINATION, Edits, Side, trailers};
use crate::{Headers, Inbound, Refusal, Replies, Verdict, inbound};

/// Headers by which a picker steers the gateway, the engine or the engine's sidecar. From a client they are removed.
const STEERING: [&str; 8] = [
    DESTINATION,
    "x-gateway-destination-endpoint-subset",
    "x-gateway-destination-endpoint-served",
    "x-llm-d-request-dropped-reason",
    "x-prefiller-host-port",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
];
const REQUEST_ID: &str = "x-request-id";
const CONTENT_LENGTH: &str = "content-length";
/// A client's `content-length` is a claim: it is believed for this much memory, not more.
const BELIEVED: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct RequestSide {
    pub(super) mode: Mode,
    limits: Limits,
    stage: Stage,
    /// Something of it has come: its headers can't follow. A gateway can be told to skip them.
    begun: bool,
    headers: Headers,
    spare_id: String,
    /// Whether the spare id is the request's, and so has to be set on it.
    lacks_id: bool,
    /// Steering headers that the client sent.
    steering: Vec<String>,
    subset: Option<Vec<String>>,
    body: Vec<u8>,
    /// The body that was handed out, to be sent back.
    whole: Bytes,
    /// Messages that await their answers, in order.
    owed: Vec<Owed>,
    /// Whether the last of it has come: no part of it may follow.
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Parts are kept until the request can be decided.
    Collecting,
    Deciding,
    /// Answered; what still comes is waved through.
    Passing,
    /// Nothing more is answered.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Headers,
    Body,
    Trailers,
}

impl RequestSide {
    pub(super) fn new(limits: Limits, spare_id: String) -> Self {
        Self {
            mode: Mode::FullDuplex,
            limits,
            stage: Stage::Collecting,
            begun: false,
            headers: Headers::default(),
            spare_id,
            lacks_id: true,
            steering: Vec::new(),
            subset: None,
            body: Vec::new(),
            whole: Bytes::new(),
            owed: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn is_deciding(&self) -> bool {
        self.stage == Stage::Deciding
    }

    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.stage, Stage::Collecting | Stage::Deciding)
    }

    /// Answers nothing from here on, if it isn't decided yet, and lets go of the body.
    pub(super) fn give_up(&mut self) {
        if self.is_unanswered() {
            self.stage = Stage::Done;
            self.body = Vec::new();
            self.whole = Bytes::new();
        }
    }

    pub(super) fn hint(&mut self, subset: Option<Vec<String>>) {
        inbound::merge(&mut self.subset, subset);
    }

    pub(super) fn headers(&mut self, message: HttpHeaders) -> Result<Step, Refusal> {
        if self.ended || self.stage != Stage::Collecting || std::mem::replace(&mut self.begun, true) {
            return Ok(Step::Wait);
        }
        self.headers = message.headers.unwrap_or_default().into();
        self.lacks_id = self.headers.text(REQUEST_ID).is_none_or(str::is_empty);
        self.steering =
            STEERING.iter().filter(|name| self.headers.get(name).is_some()).map(|name| (*name).to_owned()).collect();
        self.ended = message.end_of_stream;
        let collects = !self.ended && matches!(self.mode, Mode::FullDuplex | Mode::Buffered);
        if collects && self.claimed() > self.limits.max_body {
            return Err(Refusal::TooLarge { limit: self.limits.max_body });
        }
        if collects && self.mode == Mode::Buffered {
            return Ok(Step::Send(Replies::one(Edits::default().headers(Side::Request))));
        }
        self.owed.push(Owed::Headers);
        Ok(if collects { Step::Wait } else { self.hand_out() })
    }

    pub(super) fn body(&mut self, message: HttpBody) -> Result<Step, Refusal> {
        if self.ended {
            return Ok(Step::Wait);
        }
        self.begun = true;
        match self.stage {
            Stage::Collecting => self.collect(message),
            Stage::Deciding => {
                self.owed.push(Owed::Body);
                self.ended = message.end_of_stream;
                Ok(Step::Wait)
            }
            Stage::Passing => {
                self.end_if(message.end_of_stream);
                Ok(Step::Send(Replies::one(Edits::default().body(Side::Request))))
            }
            Stage::Done => Ok(Step::Wait),
        }
    }

    pub(super) fn trailers(&mut self) -> Step {
        if self.ended {
            return Step::Wait;
        }
        (self.begun, self.ended) = (true, true);
        match self.stage {
            Stage::Collecting => {
                self.owed.push(Owed::Trailers);
                self.hand_out()
            }
            Stage::Deciding => {
                self.owed.push(Owed::Trailers);
                Step::Wait
            }
            Stage::Passing => {
                self.stage = Stage::Done;
                Step::Send(Replies::one(trailers(Side::Request)))
            }
            Stage::Done => Step::Wait,
        }
    }

    fn collect(&mut self, message: HttpBody) -> Result<Step, Refusal> {
        let held = self.body.len() + message.body.len();
        if held > self.limits.max_body {
            return Err(Refusal::TooLarge { limit: self.limits.max_body });
        }
        if !self.owed.contains(&Owed::Body) {
            self.owed.push(Owed::Body);
        }
        self.keep(message.body);
        self.ended = message.end_of_stream;
        Ok(if self.ended || self.mode != Mode::FullDuplex { self.hand_out() } else { Step::Wait })
    }

    /// The first part is kept as it came; a body of one part is never copied.
    fn keep(&mut self, part: Vec<u8>) {
        if self.mode == Mode::Partwise {
            return;
        }
        if self.body.is_empty() {
            self.body = part;
            return;
        }
        let expected = self.claimed().min(BELIEVED).saturating_sub(self.body.len());
        self.body.reserve(part.len().max(expected));
        self.body.extend_from_slice(&part);
    }

    /// How long the body is to be, in its client's words.
    fn claimed(&self) -> usize {
        self.headers.text(CONTENT_LENGTH).and_then(|length| length.trim().parse().ok()).unwrap_or(0)
    }

    fn hand_out(&mut self) -> Step {
        self.stage = Stage::Deciding;
        self.whole = std::mem::take(&mut self.body).into();
        let headers = std::mem::take(&mut self.headers);
        let text = |name| headers.text(name).unwrap_or_default().to_owned();
        Step::Decide(Inbound {
            method: text(":method"),
            path: text(":path"),
            request_id: if self.lacks_id { self.spare_id.clone() } else { text(REQUEST_ID) },
            body: (!self.whole.is_empty()).then(|| self.whole.clone()),
            subset: self.subset.take(),
            headers,
        })
    }

    pub(super) fn answer(&mut self, verdict: Verdict) -> Replies {
        let whole = std::mem::take(&mut self.whole);
        let destination = join(&verdict.destination);
        let changed = verdict.body.clone().filter(|_| !whole.is_empty());
        let mut replies = Replies::default();
        replies.name_destination(&destination);
        let edits = self.edits(verdict, destination, changed.as_ref());
        if self.mode == Mode::FullDuplex {
            self.answer_streamed(&mut replies, edits, changed.unwrap_or(whole));
        } else {
            self.answer_each(&mut replies, Edits { body: changed, ..edits });
        }
        self.stage = if self.ended { Stage::Done } else { Stage::Passing };
        replies
    }

    /// Headers, then the body in parts, then trailers, of what there was.
    fn answer_streamed(&mut self, replies: &mut Replies, edits: Edits, body: Bytes) {
        let owed = std::mem::take(&mut self.owed);
        if owed.contains(&Owed::Headers) {
            replies.push(edits.headers(Side::Request));
        }
        let trailed = owed.contains(&Owed::Trailers);
        if owed.contains(&Owed::Body) {
            replies.cut(Side::Request, body, !trailed);
        }
        if trailed {
            replies.push(trailers(Side::Request));
        }
    }

    /// One answer to each message; the first carries the edits.
    fn answer_each(&mut self, replies: &mut Replies, edits: Edits) {
        let mut edits = Some(edits);
        for owed in std::mem::take(&mut self.owed) {
            replies.push(match owed {
                Owed::Headers => edits.take().unwrap_or_default().headers(Side::Request),
                Owed::Body => edits.take().unwrap_or_default().body(Side::Request),
                Owed::Trailers => trailers(Side::Request),
            });
        }
    }

    fn edits(&self, verdict: Verdict, destination: String, changed: Option<&Bytes>) -> Edits {
        let mut set = vec![(DESTINATION.to_owned(), destination.into_bytes())];
        let mut remove = Vec::new();
        if self.lacks_id {
            set.push((REQUEST_ID.to_owned(), self.spare_id.clone().into_bytes()));
        }
        match changed {
            Some(_) if self.owed.contains(&Owed::Trailers) => remove.push(CONTENT_LENGTH.to_owned()),
            Some(body) => set.push((CONTENT_LENGTH.to_owned(), body.len().to_string().into_bytes())),
            None => {}
        }
        for (name, value) in verdict.set_headers {
            let name = name.to_ascii_lowercase();
            if may_be_set(&name) {
                set.retain(|(earlier, _)| *earlier != name);
                set.push((name, value));
            }
        }
        for name in self.steering.iter().cloned().chain(verdict.remove_headers) {
            if !remove.contains(&name) && !set.iter().any(|(kept, _)| *kept == name) {
                remove.push(name);
            }
        }
        Edits { set, remove, body: None, reroute: true }
    }

    fn end_if(&mut self, end: bool) {
        if end {
            self.ended = true;
            self.stage = Stage::Done;
        }
    }
}

fn join(endpoints: &[SocketAddr]) -> String {
    endpoints.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}

/// What a gateway refuses or ignores, and what is this crate's own to set.
fn may_be_set(name: &str) -> bool {
    let ours = [DESTINATION, CONTENT_LENGTH, "transfer-encoding", "host"].contains(&name);
    !ours && !name.starts_with(':') && !name.starts_with("x-envoy-")
}
