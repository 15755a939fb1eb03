//! What a choice is made from: what is asked, and what was read, once, of each endpoint.
//!
//! Figures that are not numbers (NaN, infinities, a negative queue) count as unknown here, whoever let them in.

use std::time::Duration;

use fleet::{EndpointId, Standing};

use crate::Saturation;

/// What is asked, as far as the choice needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Blocks of the prompt (of all prompts, if it holds several), a trailing partial block counted as one.
    /// 0: nothing is known of the prompt, or it is shorter than a block.
    pub blocks: u32,
}

/// One endpoint as it was read for this choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its number.
    pub id: EndpointId,
    /// How far its load can be trusted.
    pub standing: Standing,
    /// Requests waiting there now, our own unseen dispatches included.
    pub waiting: Option<f64>,
    /// Requests in its running batch.
    pub running: Option<f64>,
    /// Share of its KV cache in use by live requests, 0..=1.
    pub kv_usage: Option<f64>,
    /// Requests that we have under way there.
    pub in_flight: u32,
    /// Leading blocks of the ask that it is believed to hold; at most `Ask::blocks`.
    pub overlap: u32,
    /// How long what would be evicted for the new blocks has lain unused; `None`: nothing is evicted.
    pub displaces: Option<Duration>,
}

impl Candidate {
    /// An endpoint of which nothing was read and that holds nothing.
    pub fn unread(id: EndpointId) -> Self {
        Self {
            id,
            standing: Standing::Unread,
            waiting: None,
            running: None,
            kv_usage: None,
            in_flight: 0,
            overlap: 0,
            displaces: None,
        }
    }

    /// Whether it has more than it can serve soon. What isn't known, or is too old, doesn't say so.
    pub fn is_saturated(&self, from: Saturation) -> bool {
        let known = self.believed();
        known.waiting.is_some_and(|waiting| waiting >= from.waiting)
            || known.kv_usage.is_some_and(|usage| usage >= from.kv_usage)
    }

    /// The same, without the figures that can't be believed: those that are no numbers, and all that was read of an
    /// endpoint whose reading isn't fresh.
    pub(crate) fn believed(self) -> Self {
        let believed =
            |figure: Option<f64>| figure.filter(|f| self.standing == Standing::Fresh && f.is_finite() && *f >= 0.0);
        Self {
            waiting: believed(self.waiting),
            running: believed(self.running),
            kv_usage: believed(self.kv_usage).map(|usage| usage.min(1.0)),
            ..self
        }
    }
}
