//! The protocol as a gateway sees it: scripts for the state machine, the known cases, every cut of a body, and a client
//! that speaks as Envoy does over loopback.

#![allow(clippy::unwrap_used, reason = "what isn't as it should be is a failed test")]

mod acceptance;
mod cases;
mod cuts;
mod endings;
mod exchange;
mod gateway;
mod health;
mod script;
mod stream;
