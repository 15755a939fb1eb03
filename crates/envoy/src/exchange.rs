//! One stream of ext_proc, which is one HTTP request and its response, as a state machine without I/O.
//!
//! In: the gateway's messages in their order, and what was decided. Out: [`Step`]s, all that the loop around it may do.
//! It never waits, never looks at a clock, and never shares anything with another stream: two streams with the same
//! `x-request-id` know nothing of each other.
//!
//! How a gateway sends bodies is read from `protocol_config` in its first message:
//! - FULL_DUPLEX_STREAMED (also when nothing is said): the body is collected to its end or its trailers, then headers, body
//!   and trailers are answered, in that order. Every byte goes back, for the gateway has kept none.
//! - BUFFERED: headers are answered at once (the gateway waits for it), the decision goes with the answer to the body. A
//!   request with trailers and not one byte of body leaves only the metadata to name its destination in.
//! - NONE, STREAMED, BUFFERED_PARTIAL: decided on the headers, without the body; each later message gets its empty answer.

mod request;
mod response;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProtocolConfiguration};

use crate::{Inbound, Refusal, Replies, Ticket, Verdict, inbound};
use request::RequestSide;
use response::ResponseSide;

/// What one stream may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one request's body that are held; a longer one is refused with 413. 64 MiB by default.
    pub max_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_body: 64 << 20 }
    }
}

/// What is to be done next.
#[derive(Debug)]
pub enum Step {
    /// Wait for the gateway's next message, or for the decision.
    Wait,
    /// Decide this, and give the outcome to [`Exchange::decided`]. Comes at most once a stream.
    Decide(Inbound),
    /// Send these, in this order.
    Send(Replies),
    /// End the stream cleanly: nothing is owed to the gateway any more.
    Close,
}

/// One stream.
#[derive(Debug)]
pub struct Exchange<T> {
    request: RequestSide,
    response: ResponseSide<T>,
    begun: bool,
    over: bool,
}

/// How a gateway sends a body, as far as it matters to the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Parts as they come; the answer is a stream of its own.
    FullDuplex,
    /// All of it in one message, which waits for its answer.
    Buffered,
    /// Parts, each waiting for its answer, or only the first part.
    Partwise,
    /// Not at all.
    Hidden,
}

impl<T: Ticket> Exchange<T> {
    /// A stream from which nothing has come yet. `spare_id` becomes the request's `x-request-id` if it has none.
    pub fn new(limits: Limits, spare_id: String) -> Self {
        Self { request: RequestSide::new(limits, spare_id), response: ResponseSide::new(), begun: false, over: false }
    }

    /// The gateway's next message. A message out of its place is passed over, as the repeated last part of a body is that
    /// some Envoys send.
    pub fn receive(&mut self, message: ProcessingRequest) -> Step {
        if self.over {
            return Step::Close;
        }
        // A gateway that only shows its traffic takes no answers.
        if message.observability_mode {
            return Step::Wait;
        }
        self.begin(message.protocol_config);
        let metadata = message.metadata_context.unwrap_or_default();
        match message.request {
            Some(Request::RequestHeaders(headers)) => {
                self.request.hint(inbound::subset(&metadata));
                self.request.headers(headers).unwrap_or_else(|refusal| self.refuse(&refusal))
            }
            Some(Request::RequestBody(body)) => {
                self.request.hint(inbound::subset(&metadata));
                self.request.body(body).unwrap_or_else(|refusal| self.refuse(&refusal))
            }
            Some(Request::RequestTrailers(_)) => {
                self.request.hint(inbound::subset(&metadata));
                self.request.trailers()
            }
            Some(Request::ResponseHeaders(headers)) => {
                self.answered().headers(headers, inbound::served(&metadata)).into()
            }
            Some(Request::ResponseBody(body)) => self.answered().body(body).into(),
            Some(Request::ResponseTrailers(_)) => self.answered().trailers().into(),
            None => Step::Wait,
        }
    }

    /// What became of [`Step::Decide`]. The ticket is held from here to the end of the response or of the exchange,
    /// whichever is first; it is dropped at once if the request was given up meanwhile.
    pub fn decided(&mut self, outcome: Result<(Verdict, T), Refusal>) -> Step {
        if !self.is_deciding() {
            return Step::Wait;
        }
        match outcome {
            Ok((verdict, _)) if verdict.destination.is_empty() => {
                self.refuse(&Refusal::NoEndpoint("no endpoint was found for this request; try again later".into()))
            }
            Ok((verdict, ticket)) => {
                self.response.hold(ticket);
                self.request.answer(verdict).into()
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Ends the exchange from this side. A request that wasn't answered is refused for this reason; one that was goes on
    /// without us, for then nothing of it is held here.
    pub fn refuse(&mut self, refusal: &Refusal) -> Step {
        let owes = self.begun && self.request.is_unanswered();
        self.over = true;
        self.request.give_up();
        self.response.finish();
        if owes { Step::Send(Replies::refusal(refusal)) } else { Step::Close }
    }

    /// Whether a decision is asked for and still wanted.
    pub fn is_deciding(&self) -> bool {
        self.request.is_deciding()
    }

    /// Whether this side has ended the exchange: once what is to be sent is sent, the stream is closed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The response has begun. Where nothing was decided yet, the gateway answers by itself, and nothing is left to decide.
    fn answered(&mut self) -> &mut ResponseSide<T> {
        self.request.give_up();
        &mut self.response
    }

    fn begin(&mut self, config: Option<ProtocolConfiguration>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        if let Some(config) = config {
            self.request.mode = Mode::from(config.request_body_mode);
            self.response.mode = Mode::from(config.response_body_mode);
        }
    }
}

impl From<i32> for Mode {
    fn from(wire: i32) -> Self {
        match BodySendMode::try_from(wire) {
            Ok(BodySendMode::None) => Self::Hidden,
            Ok(BodySendMode::Streamed | BodySendMode::BufferedPartial) => Self::Partwise,
            Ok(BodySendMode::Buffered) => Self::Buffered,
            // What we don't know is newer than full duplex, and so likely a kind of it.
            Ok(_) | Err(_) => Self::FullDuplex,
        }
    }
}

impl From<Replies> for Step {
    fn from(replies: Replies) -> Self {
        if replies.is_empty() { Self::Wait } else { Self::Send(replies) }
    }
}
