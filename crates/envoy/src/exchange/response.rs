//! The response's side of an exchange: every part goes through the ticket and on, at once.
//!
//! In: headers, body parts, trailers. Out: their answers. Nothing is kept back here, and where the ticket gives back what
//! it got, nothing is copied.

use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders};

use super::Mode;
use crate::replies::{Edits, Side, trailers};
use crate::{Headers, Replies, ResponseHead, Ticket};

#[derive(Debug)]
pub(super) struct ResponseSide<T> {
    pub(super) mode: Mode,
    /// Held until the response's end.
    ticket: Option<T>,
    /// Something of it has come: its head can't follow.
    begun: bool,
    /// The last of it has come: no part of it may follow.
    ended: bool,
}

impl<T: Ticket> ResponseSide<T> {
    pub(super) fn new() -> Self {
        Self { mode: Mode::FullDuplex, ticket: None, begun: false, ended: false }
    }

    pub(super) fn hold(&mut self, ticket: T) {
        self.ticket = Some(ticket);
    }

    /// The end of the request.
    pub(super) fn finish(&mut self) {
        self.ticket = None;
    }

    pub(super) fn headers(&mut self, message: HttpHeaders, served: Option<SocketAddr>) -> Replies {
        if self.ended || std::mem::replace(&mut self.begun, true) {
            return Replies::default();
        }
        let headers: Headers = message.headers.unwrap_or_default().into();
        let status = headers.text(":status").or_else(|| headers.text("status"));
        let head = ResponseHead {
            status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
            served,
            end: message.end_of_stream,
            headers,
        };
        let set = self.ticket.as_mut().map(|ticket| ticket.head(&head)).unwrap_or_default();
        self.ended = head.end;
        if head.end {
            self.finish();
        }
        Replies::one(Edits { set, ..Edits::default() }.headers(Side::Response))
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
                let edits = replace(&was, now);
                Replies::one(sized(edits).body(Side::Response))
            }
            Mode::Partwise | Mode::Hidden => {
                let was = part.clone();
                let now = self.through(part, end);
                Replies::one(replace(&was, now).body(Side::Response))
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

/// A gateway that holds the headers back checks them against the body's length.
fn sized(mut edits: Edits) -> Edits {
    if let Some(body) = &edits.body {
        edits.set.push(("content-length".to_owned(), body.len().to_string().into_bytes()));
    }
    edits
}
