//! One routing step: a prompt's fingerprints, a view of the fleet, the time and random numbers in; a decision, a booking
//! and what the index learned out, as one value that undoes itself ([`Routed`]).
//!
//! The program and the laboratory share it, so that what is measured is what runs.
//!
//! This crate never knows where fingerprints, time and endpoints come from.

mod routed;
mod router;
mod shape;
mod subset;

pub use routed::{Outcome, Routed, Served};
pub use router::{Asked, Router, Unroutable};
pub use shape::Assumed;
