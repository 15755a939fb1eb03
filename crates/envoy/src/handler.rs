//! The seam to whoever decides: one request in, a verdict or a refusal out, and a ticket for the way back.
//!
//! In: an [`Inbound`]. Out: a [`Verdict`] and a [`Ticket`], or a [`Refusal`]. What a handler never sees is protobuf, and
//! in how many pieces anything came.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Headers, Inbound, Refusal, Untold};

/// Decides where requests go.
pub trait Handler: Send + Sync + 'static {
    /// What is held for a request until its end.
    type Ticket: Ticket;

    /// Decides one request. Called at most once a stream. The future is dropped where it stands when the gateway gives
    /// the request up, so it must leave nothing half done; a panic in it ends that one stream with an error.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] is answered to the client in place of the request.
    fn decide(&self, inbound: Inbound) -> impl Future<Output = Result<(Verdict, Self::Ticket), Refusal>> + Send;

    /// Where this request would go if nothing more of it came; nothing is to be booked or counted, for it is decided later.
    /// Asked for where a gateway awaits an answer to the headers before the body. `None`: nobody is there.
    fn suppose(&self, inbound: &Inbound) -> Option<SocketAddr>;

    /// A request was refused before or instead of its decision (413, shutting down), and nothing is held for it.
    fn refused(&self, refusal: &Refusal);

    /// A stream was ended because its gateway takes no answers; its ticket, if it had one, has been dropped.
    fn untaken(&self);
}

impl<H: Handler> Handler for Arc<H> {
    type Ticket = H::Ticket;

    fn decide(&self, inbound: Inbound) -> impl Future<Output = Result<(Verdict, H::Ticket), Refusal>> + Send {
        H::decide(self, inbound)
    }

    fn suppose(&self, inbound: &Inbound) -> Option<SocketAddr> {
        H::suppose(self, inbound)
    }

    fn refused(&self, refusal: &Refusal) {
        H::refused(self, refusal);
    }

    fn untaken(&self) {
        H::untaken(self);
    }
}

/// Held from the decision to the end of the request, however it ends; every part of the response passes through it.
///
/// Its drop is the end of the request, and the only end there is: whether the response came to its own end is known by
/// `end` having been true once, in [`Ticket::head`] or [`Ticket::body`].
///
/// The methods run on the runtime's threads between two network messages: they should take microseconds.
pub trait Ticket: Send + 'static {
    /// The response's head has come. Called at most once, and before any body. Gives the headers to set on the response
    /// (lower-case name, value); none is the usual case.
    fn head(&mut self, head: &ResponseHead) -> Vec<(String, Vec<u8>)>;

    /// A part of the response's body has come, as the gateway cut it; `end` is true exactly once, with the last part (which
    /// can be empty). Gives what is sent on in its place. Nothing is lost by giving fewer bytes now and the rest with a
    /// later part, as long as all of them are given when `end` is true; but where [`ResponseHead::may_keep_back`] is false, what
    /// isn't given at once may never be asked for.
    fn body(&mut self, part: Bytes, end: bool) -> Bytes;
}

/// Where to, and which edits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The endpoint to send the request to, then fallbacks in order. Several only where the gateway is known to read a
    /// list: some take it for an error. Empty is answered as [`Refusal::NoEndpoint`], unless the choice is left to the gateway.
    pub destination: Vec<SocketAddr>,
    /// No destination is named, so that the gateway chooses by itself, whatever [`Verdict::destination`] holds.
    pub hands_off: bool,
    /// Headers to set on the request (lower-case name, value), replacing what is there. What gateways refuse to have set
    /// (`host`, pseudo headers, `x-envoy-*`) is left out.
    pub set_headers: Vec<(String, Vec<u8>)>,
    /// Headers to remove from the request.
    pub remove_headers: Vec<String>,
    /// A body to send in place of the one that came; `None` sends it on as it came, byte for byte. Not heeded where the
    /// gateway didn't show the body ([`Inbound::body`] is `None`).
    pub body: Option<Bytes>,
    /// Scores to tell the gateway, by endpoint; none is the usual case.
    pub scores: Vec<(SocketAddr, f64)>,
}

impl Verdict {
    /// Wherever the gateway sends it.
    pub fn hands_off() -> Self {
        Self { hands_off: true, ..Self::default() }
    }

    /// To this endpoint, with nothing edited.
    pub fn to(endpoint: SocketAddr) -> Self {
        Self { destination: vec![endpoint], ..Self::default() }
    }
}

/// A request of which nothing is held.
impl<T: Ticket> Ticket for Option<T> {
    fn head(&mut self, head: &ResponseHead) -> Vec<(String, Vec<u8>)> {
        self.as_mut().map(|ticket| ticket.head(head)).unwrap_or_default()
    }

    fn body(&mut self, part: Bytes, end: bool) -> Bytes {
        match self {
            Some(ticket) => ticket.body(part, end),
            None => part,
        }
    }
}

/// The head of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The HTTP status; 0 when the gateway named none.
    pub status: u16,
    /// The response's headers, with Envoy's pseudo header `:status`.
    pub headers: Headers,
    /// The endpoint that answered, where the gateway tells (Istio and agentgateway do).
    pub served: Option<SocketAddr>,
    /// Why `served` is `None`.
    pub untold: Option<Untold>,
    /// Whether the response ends here, without a body.
    pub end: bool,
    /// Whether bytes of the body may be kept back for a later part. False where the gateway sends parts one by one and its
    /// trailers, if there are some, carry no byte.
    pub may_keep_back: bool,
}
