//! How a choice is made: which scorers, with which weights.

use std::time::Duration;

/// How to choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The scorers that are summed, each with its weight. The same scorer twice counts twice.
    pub scorers: Vec<Weighted>,
    /// How many endpoints to name in the answer, best first; at least 1.
    pub endpoints: usize,
    /// The age from which a reading of an endpoint's load is not believed any more.
    pub stale_after: Duration,
    /// From when on an endpoint is saturated; scores don't ask.
    pub saturation: Saturation,
}

/// From when on an endpoint has more than it can serve soon: either will do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// As many requests waiting.
    pub waiting: f64,
    /// As large a share of its KV cache in use, 0..=1.
    pub kv_usage: f64,
}

impl Default for Saturation {
    /// As llm-d's plain admission has it: 5 waiting, or 0.8 of the KV cache.
    fn default() -> Self {
        Self { waiting: 5.0, kv_usage: 0.8 }
    }
}

impl Default for Policy {
    /// What is done where nothing is configured: prefix 3, waiting 2, KV use 2; one endpoint; readings good for 2 s.
    fn default() -> Self {
        let weighted = |scorer, weight| Weighted { scorer, weight };
        Self {
            scorers: vec![
                weighted(Scorer::Prefix, 3.0),
                weighted(Scorer::Waiting, 2.0),
                weighted(Scorer::KvUsage, 2.0),
            ],
            endpoints: 1,
            stale_after: Duration::from_secs(2),
            saturation: Saturation::default(),
        }
    }
}

/// A scorer and what it counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// Which scorer.
    pub scorer: Scorer,
    /// Its score, 0..=1, is multiplied by this; at most [`Weighted::MAX`] in size. What is not counts as 0.
    pub weight: f64,
}

impl Weighted {
    /// The largest weight: above it the smaller parts of a sum would be lost in rounding.
    pub const MAX: f64 = 1e6;
}

/// What an endpoint can be scored by. All scores are in 0..=1, the best being 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scorer {
    /// The share of the prompt's blocks that it holds.
    Prefix,
    /// The shortest queue, our own dispatches included.
    Waiting,
    /// The emptiest KV cache.
    KvUsage,
    /// The smallest running batch.
    Running,
    /// The fewest requests of ours under way.
    InFlight,
    /// The least loss by eviction: room for the new blocks, else the longest unused blocks to give up.
    Spare,
}

impl Scorer {
    /// All of them.
    pub const ALL: [Scorer; 6] =
        [Scorer::Prefix, Scorer::Waiting, Scorer::KvUsage, Scorer::Running, Scorer::InFlight, Scorer::Spare];

    /// Its name in decisions, metrics and records.
    pub fn name(self) -> &'static str {
        match self {
            Scorer::Prefix => "prefix",
            Scorer::Waiting => "waiting",
            Scorer::KvUsage => "kv_usage",
            Scorer::Running => "running",
            Scorer::InFlight => "in_flight",
            Scorer::Spare => "spare",
        }
    }

    /// The scorer of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scorer| scorer.name() == name)
    }

    /// Whether it scores by what was read of an engine, so that it knows nothing where nothing was read.
    pub fn reads_load(self) -> bool {
        matches!(self, Scorer::Waiting | Scorer::KvUsage | Scorer::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scorer_is_found_by_its_name() {
        for scorer in Scorer::ALL {
            assert_eq!(Scorer::named(scorer.name()), Some(scorer));
        }
        assert_eq!(Scorer::named("queue"), None);
    }
}
