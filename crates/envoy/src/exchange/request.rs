//! The request's side of an exchange: its parts until it can be decided, then the answers to them.
//!
//! In: headers, body parts, trailers, and a verdict. Out: steps. Nothing is answered twice, and what came is never looked
//! into, beyond the few headers that are the protocol's own. A body that can't be held, or that stops coming, doesn't hold up
//! its request: that is decided without it, and the body goes through part by part.

use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders};

use super::{Limits, Mode, Step};
use crate::memory::{BodyMemory, Incoming};
use crate::replies::{DESTINATION, Edits, Side, trailers};
use crate::{Body, Headers, Inbound, Refusal, Replies, Unread, Verdict, inbound};

/// Headers by which a picker steers the gateway, the engine or the engine's sidecar. From a client they are removed.
const STEERING: [&str; 9] = [
    DESTINATION,
    "x-gateway-destination-endpoint-subset",
    "x-gateway-destination-endpoint-served",
    "x-llm-d-request-dropped-reason",
    "x-prefiller-host-port",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
    "test-epp-endpoint-selection",
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
    body: Incoming,
    /// The body that was handed out or that was held when it was given up, to be sent back.
    whole: Body,
    /// Parts that came after that, of a body which isn't waited for.
    later: Vec<Bytes>,
    /// Why its body isn't waited for.
    unread: Option<Unread>,
    /// Where a gateway was told to send it before anything of its body was seen.
    supposed: Option<SocketAddr>,
    /// Messages that await their answers, in order.
    owed: Vec<Owed>,
    /// Whether the last of it has come: no part of it may follow.
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Parts are kept until the request can be decided.
    Collecting,
    /// The gateway awaits an answer to the headers before the body, and the body may never come.
    Supposing,
    Deciding,
    /// Answered; what still comes is waved through.
    Passing,
    /// Answered, to its end.
    Answered,
    /// Given up: nothing of it is answered.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Headers,
    Body,
    Trailers,
}

impl RequestSide {
    pub(super) fn new(limits: Limits, memory: BodyMemory, spare_id: String) -> Self {
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
            body: Incoming::new(memory),
            whole: Body::default(),
            later: Vec::new(),
            unread: None,
            supposed: None,
            owed: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn is_deciding(&self) -> bool {
        self.stage == Stage::Deciding
    }

    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.stage, Stage::Collecting | Stage::Supposing | Stage::Deciding)
    }

    /// Whether it is answered and the gateway holds every byte of it that is still to go.
    pub(super) fn is_answered(&self) -> bool {
        self.stage == Stage::Answered || (self.stage == Stage::Passing && self.mode != Mode::FullDuplex)
    }

    /// Whether it is answered and more of its body is still to be sent on.
    pub(super) fn is_passing(&self) -> bool {
        self.stage == Stage::Passing && self.mode == Mode::FullDuplex
    }

    /// Whether it waits for more of its body while its gateway has no timer for that.
    pub(super) fn is_collecting(&self) -> bool {
        self.stage == Stage::Collecting && self.begun && self.mode == Mode::FullDuplex
    }

    /// Whether it is being decided with parts of its body still to come, which would only pile up.
    pub(super) fn holds_back(&self) -> bool {
        self.stage == Stage::Deciding && !self.ended && self.mode == Mode::FullDuplex
    }

    /// Answers nothing from here on, if it isn't decided yet, and lets go of the body.
    pub(super) fn give_up(&mut self) {
        if self.is_unanswered() {
            self.stage = Stage::Done;
            self.body.take();
            self.whole = Body::default();
            self.later = Vec::new();
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
        if self.ended || matches!(self.mode, Mode::Hidden | Mode::Partwise) {
            self.owed.push(Owed::Headers);
            self.unread = (!self.ended).then_some(Unread::Hidden);
            return Ok(self.hand_out());
        }
        self.expect_a_body()
    }

    fn expect_a_body(&mut self) -> Result<Step, Refusal> {
        let claimed = self.claimed();
        if claimed > self.limits.max_body {
            return Err(Refusal::TooLarge { limit: self.limits.max_body });
        }
        if !self.body.has_room(claimed.clamp(1, BELIEVED)) {
            self.owed.push(Owed::Headers);
            return Ok(self.hand_out_unread(Unread::Memory));
        }
        if self.mode == Mode::FullDuplex {
            self.owed.push(Owed::Headers);
            return Ok(Step::Wait);
        }
        if claimed > 0 {
            return Ok(Step::Send(Replies::one(Edits::default().headers(Side::Request))));
        }
        // Trailers may come and no body: then this answer is the last one that can name a destination in a header.
        self.stage = Stage::Supposing;
        Ok(Step::Suppose(self.inbound(self.headers.clone(), self.subset.clone())))
    }

    /// Where it would go if nothing more of it came.
    pub(super) fn suppose(&mut self, supposed: Option<SocketAddr>) -> Step {
        if self.stage != Stage::Supposing {
            return Step::Wait;
        }
        self.stage = Stage::Collecting;
        self.supposed = supposed;
        let Some(supposed) = supposed else {
            return Step::Send(Replies::one(Edits::default().headers(Side::Request)));
        };
        let destination = supposed.to_string();
        let mut replies = Replies::default();
        replies.name_destination(&destination, &[]);
        let set = vec![(DESTINATION.to_owned(), destination.into_bytes())];
        replies.push(Edits { set, reroute: true, ..Edits::default() }.headers(Side::Request));
        Step::Send(replies)
    }

    pub(super) fn body(&mut self, message: HttpBody) -> Result<Step, Refusal> {
        if self.ended {
            return Ok(Step::Wait);
        }
        self.begun = true;
        match self.stage {
            Stage::Collecting | Stage::Supposing => self.collect(message),
            Stage::Deciding => {
                self.ended = message.end_of_stream;
                if self.mode != Mode::FullDuplex {
                    self.owed.push(Owed::Body);
                } else {
                    self.owe_a_body();
                    self.later.push(message.body.into());
                }
                Ok(Step::Wait)
            }
            Stage::Passing => Ok(self.pass(message).into()),
            Stage::Answered | Stage::Done => Ok(Step::Wait),
        }
    }

    /// Whether the one message that a body is may still come, or was the last that came.
    pub(super) fn awaits_its_body(&self) -> bool {
        !self.ended && self.stage != Stage::Answered
    }

    /// The body came as one message, which nobody could hold: it is decided without it. Trailers may follow.
    pub(super) fn unheld_body(&mut self) -> Result<Step, Refusal> {
        if !matches!(self.stage, Stage::Collecting | Stage::Supposing) {
            return self.body(HttpBody::default());
        }
        self.begun = true;
        self.owe_a_body();
        Ok(self.hand_out_unread(Unread::Memory))
    }

    fn pass(&mut self, message: HttpBody) -> Replies {
        if message.end_of_stream {
            self.ended = true;
            self.stage = Stage::Answered;
        }
        if self.mode != Mode::FullDuplex {
            return Replies::one(Edits::default().body(Side::Request));
        }
        let mut replies = Replies::default();
        replies.cut(Side::Request, message.body.into(), message.end_of_stream);
        replies
    }

    pub(super) fn trailers(&mut self) -> Step {
        if self.ended {
            return Step::Wait;
        }
        (self.begun, self.ended) = (true, true);
        match self.stage {
            Stage::Collecting | Stage::Supposing => {
                self.owed.push(Owed::Trailers);
                self.hand_out()
            }
            Stage::Deciding => {
                self.owed.push(Owed::Trailers);
                Step::Wait
            }
            Stage::Passing => {
                self.stage = Stage::Answered;
                Step::Send(Replies::one(trailers(Side::Request)))
            }
            Stage::Answered | Stage::Done => Step::Wait,
        }
    }

    /// No more of the body has come for too long.
    pub(super) fn stalled(&mut self) -> Step {
        if self.is_collecting() { self.hand_out_unread(Unread::Stalled) } else { Step::Wait }
    }

    fn collect(&mut self, message: HttpBody) -> Result<Step, Refusal> {
        if self.body.len() + message.body.len() > self.limits.max_body {
            return Err(Refusal::TooLarge { limit: self.limits.max_body });
        }
        self.owe_a_body();
        self.ended = message.end_of_stream;
        if self.mode == Mode::Partwise {
            self.unread = Some(Unread::Hidden);
            return Ok(self.hand_out());
        }
        if let Err(part) = self.body.add(message.body) {
            if self.mode == Mode::FullDuplex {
                self.later.push(part.into());
            }
            return Ok(self.hand_out_unread(Unread::Memory));
        }
        Ok(if self.ended || self.mode != Mode::FullDuplex { self.hand_out() } else { Step::Wait })
    }

    fn owe_a_body(&mut self) {
        if !self.owed.contains(&Owed::Body) {
            self.owed.push(Owed::Body);
        }
    }

    /// How long the body is to be, in its client's words.
    fn claimed(&self) -> usize {
        self.headers.text(CONTENT_LENGTH).and_then(|length| length.trim().parse().ok()).unwrap_or(0)
    }

    /// To be decided without its body. What of it came is sent back if the gateway has kept none.
    fn hand_out_unread(&mut self, unread: Unread) -> Step {
        self.unread = Some(unread);
        self.hand_out()
    }

    fn hand_out(&mut self) -> Step {
        self.stage = Stage::Deciding;
        self.whole = self.body.take();
        if self.mode != Mode::FullDuplex && self.unread.is_some() {
            self.whole = Body::default();
        }
        let headers = std::mem::take(&mut self.headers);
        let subset = match self.supposed.filter(|_| !self.owed.contains(&Owed::Body)) {
            Some(supposed) => Some(vec![supposed.to_string()]),
            None => self.subset.take(),
        };
        Step::Decide(self.inbound(headers, subset))
    }

    fn inbound(&self, headers: Headers, subset: Option<Vec<String>>) -> Inbound {
        let text = |name| headers.text(name).unwrap_or_default().to_owned();
        Inbound {
            method: text(":method"),
            path: text(":path"),
            request_id: if self.lacks_id { self.spare_id.clone() } else { text(REQUEST_ID) },
            body: (self.unread.is_none() && !self.whole.is_empty()).then(|| self.whole.clone()),
            unread: self.unread,
            subset,
            headers,
        }
    }

    pub(super) fn answer(&mut self, mut verdict: Verdict) -> Replies {
        let whole = std::mem::take(&mut self.whole);
        if let Some(supposed) = self.supposed.filter(|_| !self.owed.contains(&Owed::Body)) {
            // It stands in a header that can't be changed any more, and the metadata must say the same.
            verdict.destination = vec![supposed];
        }
        let destination = (!verdict.hands_off).then(|| join(&verdict.destination));
        let changed = verdict.body.clone().filter(|_| self.unread.is_none() && !whole.is_empty());
        let mut replies = Replies::default();
        if let Some(destination) = &destination {
            replies.name_destination(destination, &verdict.scores);
        }
        let edits = self.edits(verdict, destination, changed.as_ref());
        if self.mode == Mode::FullDuplex {
            self.answer_streamed(&mut replies, edits, changed.map_or(whole, Body::from));
        } else {
            self.answer_each(&mut replies, Edits { body: changed, ..edits });
        }
        self.stage = if self.ended { Stage::Answered } else { Stage::Passing };
        replies
    }

    /// Headers, then the body in parts, then trailers, of what there was.
    fn answer_streamed(&mut self, replies: &mut Replies, edits: Edits, body: Body) {
        let owed = std::mem::take(&mut self.owed);
        if owed.contains(&Owed::Headers) {
            replies.push(edits.headers(Side::Request));
        }
        let trailed = owed.contains(&Owed::Trailers);
        if owed.contains(&Owed::Body) {
            let mut parts = body.parts().to_vec();
            parts.append(&mut self.later);
            if parts.is_empty() {
                parts.push(Bytes::new());
            }
            let last = parts.len() - 1;
            for (at, part) in parts.into_iter().enumerate() {
                replies.cut(Side::Request, part, at == last && self.ended && !trailed);
            }
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

    fn edits(&self, verdict: Verdict, destination: Option<String>, changed: Option<&Bytes>) -> Edits {
        let reroute = destination.is_some();
        let (mut set, mut remove) = match destination {
            Some(destination) => (vec![(DESTINATION.to_owned(), destination.into_bytes())], Vec::new()),
            // What a client sends there must not decide either.
            None => (Vec::new(), vec![DESTINATION.to_owned()]),
        };
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
        Edits { set, remove, body: None, reroute }
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
