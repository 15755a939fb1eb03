//! A decision, kept: what was asked, each candidate with the parts of its score, what was chosen and noted, and how the
//! request ended ([`Record`]); and the same choice made again under another policy ([`replay`]).
//!
//! No prompt text and no key is ever in a record, and no header but what the client may say of itself (objective and
//! fairness id; a session only as a hash).
//!
//! This crate never knows how records are shown or sent: they are plain values for serde, with the fields of
//! `proto/warmpath/v1/decision.proto`.

mod kept;
mod replay;

pub use kept::{Asked, Candidate, Choice, Ended, Outcome, Part, Record, Standing};
pub use replay::replay;
