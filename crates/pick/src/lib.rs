//! The choice: an [`Ask`] and its [`Candidate`]s in, a [`Decision`] with every part of every score out.
//!
//! A pure function, [`pick`], and its parts. A scorer is a file under `score/`, a variant of [`Scorer`] and an arm of
//! its `match`; whole decisions are the text files in `tests/cases`, which are the policy's documentation.
//!
//! This crate never knows a clock, sockets, locks, protobuf, YAML or logs.

mod candidate;
mod choice;
mod decision;
mod policy;
mod score;

pub use candidate::{Ask, Candidate};
pub use choice::pick;
pub use decision::{Decision, Note, Part, Ranked};
pub use policy::{Policy, Saturation, Scorer, Weighted};
