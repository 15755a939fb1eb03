//! The ext_proc stream: how a gateway asks where a request should go, and how it is told.
//!
//! In: Envoy's `ProcessingRequest`s. Out: `ProcessingResponse`s. Between them stands one trait, [`Handler`]: it gets an
//! [`Inbound`] and gives a [`Verdict`] with a [`Ticket`], or a [`Refusal`].
//!
//! [`Exchange`] is one stream as a state machine without I/O; [`run`] is the gRPC server around it, [`Health`] the
//! health service that gateways and probes ask, and [`Watchdog`] what still answers when the server's runtime is stuck.
//!
//! This crate never knows what an inference request is: no JSON of a prompt, no model, no token. Protobuf and gRPC stay in
//! here, except that a message type shows at the door of [`Exchange`].

mod answers;
mod body;
mod carrier;
mod exchange;
mod handler;
mod headers;
mod health;
mod inbound;
mod listen;
mod memory;
mod messages;
mod pace;
mod refusal;
mod replies;
mod serve;
mod tls;
mod watchdog;

pub use body::Body;
pub use exchange::{Exchange, Limits, Step};
pub use handler::{Handler, ResponseHead, Ticket, Verdict};
pub use headers::Headers;
pub use health::{Health, Readiness, State, run_health};
pub use inbound::{Inbound, Unread, Untold};
pub use memory::BodyMemory;
pub use refusal::Refusal;
pub use replies::{LONGEST_PART, Replies};
pub use serve::{Settings, run};
pub use tls::{Terms, Tls, TlsError};
pub use watchdog::{Patience, Watchdog};
