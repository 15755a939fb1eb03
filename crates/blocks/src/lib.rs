//! A prompt's fingerprint, and who holds which part of it: token ids in, chained block hashes out ([`Chain`]); which
//! endpoint holds which blocks, as far as we can know from what we sent there ([`PrefixIndex`]).
//!
//! A block's hash stands for everything before it too, the border between tenants included, so that two equal hashes
//! mean two equal beginnings.
//!
//! This crate never knows text, wire formats or scoring.

mod chain;
mod held;
mod index;

pub use chain::{BlockHash, Chain, Extra, Fingerprint, Print, Seed};
pub use index::{Learned, Overlap, Overlaps, PrefixIndex};
