//! What the fuzz targets write out of a fuzzer's bytes, and how they keep count.
//!
//! In: bytes that mean nothing; out: JSON, request bodies and answers that mostly mean something. Equal bytes give equal
//! texts; bytes that run out give the plainest text.

pub mod answers;
pub mod bodies;
pub mod pen;
pub mod watch;
