//! One stream of ext_proc, which is one HTTP request and its response, as a state machine without I/O.
//!
//! In: the gateway's messages in their order, what was decided, and what the loop around it noticed (a body that stalls, an
//! end that nears). Out: [`Step`]s, all that the loop may do. It never waits, never looks at a clock, and shares nothing with
//! another stream but the memory for bodies: two streams with the same `x-request-id` know nothing of each other.
//!
//! How a gateway sends bodies is read from `protocol_config` in its first message:
//! - FULL_DUPLEX_STREAMED (also when nothing is said): the body is collected to its end or its trailers, then headers, body
//!   and trailers are answered, in that order. Every byte goes back, for the gateway has kept none. A body that can't be held
//!   or stops coming is not waited for: the headers are answered, and each part goes back as it comes.
//! - BUFFERED: headers are answered at once (the gateway waits for it), the decision goes with the answer to the body. Where
//!   there may be no body, only trailers, the answer to the headers names a destination already.
//! - NONE, STREAMED, BUFFERED_PARTIAL: decided on the headers, without the body; each later message gets its empty answer.

mod request;
mod response;

use std::net::SocketAddr;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, ProcessingRequest, ProtocolConfiguration};

use crate::{BodyMemory, Inbound, Refusal, Replies, Ticket, Verdict, inbound};
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
    /// Say where this would go if nothing more of it came ([`crate::Handler::suppose`]), and give it to
    /// [`Exchange::supposed`]. Nothing is booked or counted for it; it is decided later.
    Suppose(Inbound),
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
    leaving: Leaving,
    /// Why this side refused the request, until it is asked for.
    refused: Option<Refusal>,
}

/// How near the end of the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    Not,
    /// What is answered from now on is left to the gateway.
    AfterAnswers,
    /// So is what is under way, once a part of it has been answered.
    AfterAnyPart,
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
    /// A stream from which nothing has come yet. Its body takes of `memory`. `spare_id` becomes the request's `x-request-id`
    /// if it has none.
    pub fn new(limits: Limits, memory: BodyMemory, spare_id: String) -> Self {
        Self {
            request: RequestSide::new(limits, memory, spare_id),
            response: ResponseSide::new(),
            begun: false,
            over: false,
            leaving: Leaving::Not,
            refused: None,
        }
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
        let step = match message.request {
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
            Some(Request::ResponseBody(body)) => {
                let replies = self.answered().body(body);
                self.leave_at_the_border();
                replies.into()
            }
            Some(Request::ResponseTrailers(_)) => self.answered().trailers().into(),
            None => Step::Wait,
        };
        self.left(step)
    }

    /// A message came that nobody could hold, in place of [`Exchange::receive`]. Never while [`Exchange::takes_every_byte`];
    /// it is a body, then, of which the gateway has kept every byte.
    pub fn unheld(&mut self) -> Step {
        if self.over {
            return Step::Close;
        }
        let step = if self.request.awaits_its_body() && !self.response.has_begun() {
            self.request.unheld_body().unwrap_or_else(|refusal| self.refuse(&refusal))
        } else {
            self.answered().body(HttpBody::default()).into()
        };
        self.left(step)
    }

    /// Whether the gateway sends bodies that it doesn't keep, or has not told yet.
    pub fn takes_every_byte(&self) -> bool {
        !self.begun || [self.request.mode, self.response.mode].contains(&Mode::FullDuplex)
    }

    /// What became of [`Step::Decide`]. The ticket is held from here to the end of the response or of the exchange,
    /// whichever is first; it is dropped at once if the request was given up meanwhile.
    pub fn decided(&mut self, outcome: Result<(Verdict, T), Refusal>) -> Step {
        if !self.is_deciding() {
            return Step::Wait;
        }
        match outcome {
            Ok((verdict, _)) if verdict.destination.is_empty() && !verdict.hands_off => {
                self.refuse(&Refusal::NoEndpoint("no endpoint was found for this request; try again later".into()))
            }
            Ok((verdict, ticket)) => {
                self.response.hold(ticket);
                let replies = self.request.answer(verdict);
                self.left(replies.into())
            }
            Err(refusal) => self.turn_away(&refusal),
        }
    }

    /// What became of [`Step::Suppose`]; `None` where nobody is there to go to.
    pub fn supposed(&mut self, to: Option<SocketAddr>) -> Step {
        self.request.suppose(to)
    }

    /// No message has come for too long while [`Exchange::is_collecting`]: decide without the rest of the body.
    pub fn stalled(&mut self) -> Step {
        self.request.stalled()
    }

    /// The process is ending: requests that are answered from now on are left to the gateway as soon as all of them is
    /// answered. So are those whose response the gateway holds itself; in full duplex a response may be on its way here, so
    /// it is waited for.
    pub fn drain(&mut self) -> Step {
        self.leaving = self.leaving.max(Leaving::AfterAnswers);
        let waits = self.request.is_answered() && !self.response.has_begun();
        if waits && self.response.mode != Mode::FullDuplex { self.leave() } else { self.left(Step::Wait) }
    }

    /// The drain is over. What isn't answered is refused; what is under way ends after the next part of it, where the gateway
    /// is least likely to have sent another one; the rest is left to the gateway at once.
    pub fn let_go(&mut self) -> Step {
        self.leaving = Leaving::AfterAnyPart;
        if self.begun && self.request.is_unanswered() {
            return self.refuse(&Refusal::ShuttingDown);
        }
        let under_way = self.response.is_under_way() && self.response.mode == Mode::FullDuplex;
        if under_way || self.request.is_passing() { Step::Wait } else { self.leave() }
    }

    /// Ends the exchange from this side, now. What isn't answered is refused; what is goes on without us, for then nothing of
    /// it is held here.
    pub fn leave(&mut self) -> Step {
        self.refuse(&Refusal::ShuttingDown)
    }

    /// Ends the exchange from this side. A request that wasn't answered is refused for this reason; one that was goes on
    /// without us.
    pub fn refuse(&mut self, refusal: &Refusal) -> Step {
        let step = self.turn_away(refusal);
        if matches!(step, Step::Send(_)) {
            self.refused = Some(refusal.clone());
        }
        step
    }

    /// Why this side, and not the one who decides, has refused the request; told once.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refused.take()
    }

    /// Whether a decision is asked for and still wanted.
    pub fn is_deciding(&self) -> bool {
        self.request.is_deciding()
    }

    /// Whether more of a body is waited for that the gateway keeps no time for.
    pub fn is_collecting(&self) -> bool {
        !self.over && self.request.is_collecting()
    }

    /// Whether messages are wanted now. Not while a request is decided whose body is still coming: its parts would pile up.
    pub fn wants_messages(&self) -> bool {
        !self.request.holds_back()
    }

    /// Whether this side has ended the exchange: once what is to be sent is sent, the stream is closed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn turn_away(&mut self, refusal: &Refusal) -> Step {
        let owes = self.begun && self.request.is_unanswered();
        self.over = true;
        self.request.give_up();
        self.response.finish();
        if owes { Step::Send(Replies::refusal(refusal)) } else { Step::Close }
    }

    /// The response has begun. Where nothing was decided yet, the gateway answers by itself, and nothing is left to decide.
    fn answered(&mut self) -> &mut ResponseSide<T> {
        self.request.give_up();
        &mut self.response
    }

    /// Where the process is ending and nothing is owed any more, the stream ends with this step. Its answers and its end
    /// leave together, so that no part of the response can be on its way here.
    fn left(&mut self, step: Step) -> Step {
        let answered_now = matches!(step, Step::Send(_)) && self.request.is_answered() && !self.response.has_begun();
        let over = self.request.is_answered() && self.response.has_ended();
        if self.leaving > Leaving::Not && (answered_now || over) {
            self.over = true;
            self.response.finish();
        }
        if self.over && matches!(step, Step::Wait) { Step::Close } else { step }
    }

    fn leave_at_the_border(&mut self) {
        if self.leaving == Leaving::AfterAnyPart && !self.request.is_passing() {
            self.over = true;
            self.response.finish();
        }
    }

    fn begin(&mut self, config: Option<ProtocolConfiguration>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        if let Some(config) = config {
            self.request.mode = Mode::from(config.request_body_mode);
            self.response.mode = Mode::from(config.response_body_mode);
            self.response.request_mode = config.request_body_mode;
            self.response.may_ask = self.request.mode != Mode::FullDuplex && self.response.mode == Mode::Buffered;
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
