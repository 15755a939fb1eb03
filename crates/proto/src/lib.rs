//! Our own protocol, `proto/warmpath/v1`, as Rust. In: nothing; out: messages, a client and a server. Written by
//! `cargo xtask codegen`, and never by hand.

/// `warmpath.v1`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod v1 {
    include!("generated/warmpath.v1.rs");
}
