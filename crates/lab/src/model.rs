//! A model of an engine, in the image of vLLM's V1 scheduler. In: requests as token ids or as spans, and the time; out: steps that
//! say when they end and what they brought. Pure and deterministic: no clock, no randomness, no I/O, no threads; the
//! same calls give the same answers, in real time or virtual.
//!
//! What it has from vLLM (as of 0.32): steps with a token budget, running requests before waiting ones, chunked prefill,
//! admission only where the whole prompt fits, preemption by recompute of the request that came last, a paged KV cache
//! with reuse of whole blocks by chained hash (prompt and generated tokens alike; never the last token of a prompt),
//! reuse within the step that computes, least recently used eviction with tail blocks first, and blocks without a
//! name spent before any that could be hit. What it leaves out: steps scheduled ahead of the
//! previous one's end, speculative tokens, hybrid and sliding-window attention, offloading, priorities.

pub mod cache;
pub mod cost;
mod engine;
mod sequence;
pub mod span;

pub use cache::Change;
pub use cost::{Profile, StepCost};
pub use engine::{Ask, Emitted, Engine, Gauges, RequestId, Shape, Step, Totals, Unservable};
pub(crate) use sequence::mix;
pub use sequence::{Answer, Finish, Saying, Text, border};
pub use span::Span;
