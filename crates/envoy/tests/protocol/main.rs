//! The protocol as a gateway sees it: scripts for the state machine, the known cases, every cut of a body, and a client
//! that speaks as Envoy does over loopback.

mod cases;
mod cuts;
mod exchange;
mod gateway;
mod health;
mod script;
mod stream;
