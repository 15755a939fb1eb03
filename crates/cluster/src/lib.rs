//! Kubernetes: which pods serve a pool, which objectives and rewrites hold for it, which of several replicas leads.
//!
//! In: objects, as an API server lists and watches them. Out: a [`Snapshot`] whenever something of it has changed. [`Index`] is
//! all of the meaning and has no client in it; [`watch`] is the client around it, which never ends for the API server's sake: while
//! that is away, what was known last stays.
//!
//! This crate never knows how an endpoint is chosen or read, and is the only one with `kube`.

mod access;
mod index;
mod lease;
mod objects;
mod paced;
mod pod;
mod ports;
mod rewrites;
mod served;
mod watch;

pub use access::{Reviews, Unasked, Verdict};
pub use index::{Index, Snapshot};
pub use lease::{Candidate, Edition, Standing, contend};
pub use objects::{Object, Objective, ObjectiveSpec, Pod, Pool, PoolSpec, Rewrite, RewriteSpec};
pub use ports::{InvalidPorts, TargetPorts};
pub use rewrites::{Rewrites, Rewritten};
pub use watch::{Kind, News, Scope, Unreachable, connect, watch};
