//! The response's side of an exchange: every part goes through the ticket and on, at once.
//!
//! In: headers, body parts, trailers. Out: their answers. Nothing is kept back here, and where the ticket gives back what
//! it got, nothing is copied. A gateway that buffers responses is asked to stream one of events; whether it does or not, each
//! message gets the one answer it waits for.

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders};

use super::Mode;
use crate::inbound::Served;
use crate::replies::{Edits, Side, trailers};
use crate::{Headers, Replies, ResponseHead, Ticket};

const CONTENT_LENGTH: &str = "content-length";

#[derive(Debug)]
pub(super) struct ResponseSide<T> {
    pub(super) mode: Mode,
    /// How request bodies are sent, as it stands on the wire: an answer that asks for another mode names all of them.
    pub(super) request_mode: i32,
    /// Whether the gateway may be asked for another mode.
    pub(super) may_ask: bool,
    /// Whether a changed body needs its length told.
    sized: bool,
    /// Held until the response's end.
    ticket: Option<T>,
    /// Something of it has come: its head can't follow.
    begun: bool,
    /// The last of it has come: no part of it may follow.
    ended: bool,
}

impl<T: Ticket> ResponseSide<T> {
    pub(super) fn new() -> Self {
        Self {
            mode: Mode::FullDuplex,
            request_mode: 0,
            may_ask: false,
            sized: true,
            ticket: None,
            begun: false,
            ended: false,
        }
    }

    pub(super) fn hold(&mut self, ticket: T) {
        self.ticket = Some(ticket);
    }

    /// The end of the request.
    pub(super) fn finish(&mut self) {
        self.ticket = None;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.begun && !self.ended
    }

    pub(super) fn headers(&mut self, message: HttpHeaders, served: Served) -> Replies {
        if self.ended || std::mem::replace(&mut self.begun, true) {
            return Replies::default();
        }
        let headers: Headers = message.headers.unwrap_or_default().into();
        let asks = self.may_ask && !message.end_of_stream && headers.text("content-type").is_some_and(is_events);
        if asks {
            (self.mode, self.sized) = (Mode::Partwise, headers.get(CONTENT_LENGTH).is_some());
        }
        let status = headers.text(":status").or_else(|| headers.text("status"));
        let head = ResponseHead {
            status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
            served: served.address(),
            untold: served.untold(),
            end: message.end_of_stream,
            may_keep_back: self.mode != Mode::Partwise,
            headers,
        };
        let set = self.ticket.as_mut().map(|ticket| ticket.head(&head)).unwrap_or_default();
        self.ended = head.end;
        if head.end {
            self.finish();
        }
        let mut replies = Replies::one(Edits { set, ..Edits::default() }.headers(Side::Response));
        if asks {
            replies.ask_to_stream_responses(self.request_mode);
        }
        replies
    }

    pub(super) fn body(&mut self, message: HttpBody) -> Replies {
        if self.ended {
            return Replies::default();
        }
        self.begun = true;
        let (part, end) = (Bytes::from(message.body), message.end_of_stream);
        self.ended = end;
        match self.mode {
            Mode::FullDuplex => {
                let mut replies = Replies::default();
                replies.cut(Side::Response, self.through(part, end), end);
                replies
            }
            // It is whole even where trailers follow, and its answer is the last that can carry a byte.
            Mode::Buffered => {
                let was = part.clone();
                let now = self.through(part, true);
                Replies::one(sized(replace(&was, now)).body(Side::Response))
            }
            Mode::Partwise | Mode::Hidden => {
                let was = part.clone();
                let edits = replace(&was, self.through(part, end));
                // Where it was asked to stream and buffers all the same.
                let edits = if self.may_ask && self.sized { sized(edits) } else { edits };
                Replies::one(edits.body(Side::Response))
            }
        }
    }

    pub(super) fn trailers(&mut self) -> Replies {
        let mut replies = Replies::default();
        if std::mem::replace(&mut self.ended, true) {
            return replies;
        }
        let rest = self.through(Bytes::new(), true);
        if self.mode == Mode::FullDuplex {
            replies.cut(Side::Response, rest, false);
        }
        replies.push(trailers(Side::Response));
        replies
    }

    fn through(&mut self, part: Bytes, end: bool) -> Bytes {
        let part = match &mut self.ticket {
            Some(ticket) => ticket.body(part, end),
            None => part,
        };
        if end {
            self.finish();
        }
        part
    }
}

/// The new body, if it is another one.
fn replace(was: &Bytes, now: Bytes) -> Edits {
    let same = was.len() == now.len() && (was.as_ptr() == now.as_ptr() || *was == now);
    Edits { body: (!same).then_some(now), ..Edits::default() }
}

fn is_events(content_type: &str) -> bool {
    content_type.trim_start().get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// A gateway that holds the headers back checks them against the body's length.
fn sized(mut edits: Edits) -> Edits {
    if let Some(body) = &edits.body {
        edits.set.push((CONTENT_LENGTH.to_owned(), body.len().to_string().into_bytes()));
    }
    edits
}
