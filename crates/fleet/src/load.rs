//! What an engine said of itself, and how old that is. `None` means "not said": never a made-up zero.

use std::time::{Duration, Instant};

/// One good reading of an engine's metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Requests waiting in the engine's queue (all its data-parallel ranks together).
    pub waiting: Option<f64>,
    /// Requests in the engine's running batch (all ranks together).
    pub running: Option<f64>,
    /// Share of KV-cache blocks in use by live requests, 0..=1 (mean of the ranks).
    pub kv_usage: Option<f64>,
    /// Shape of the KV cache.
    pub cache: Cache,
    /// Counters since the engine's start.
    pub counters: Counters,
    /// Adapters in use, if the engine says.
    pub adapters: Adapters,
    /// When the reading was asked for: what the engine did after that is not in it.
    pub seen_at: Instant,
}

impl Load {
    /// A reading that says nothing, asked for at `seen_at`.
    pub fn unsaid(seen_at: Instant) -> Self {
        Self {
            waiting: None,
            running: None,
            kv_usage: None,
            cache: Cache::default(),
            counters: Counters::default(),
            adapters: Adapters::default(),
            seen_at,
        }
    }
}

/// Shape of an engine's KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Tokens in a block.
    pub block_size: Option<u32>,
    /// Tokens that the cache holds in all, one engine (a rank's share where the engine says it by rank).
    pub capacity_tokens: Option<u64>,
    /// Whether the engine reuses prefixes at all.
    pub prefix_caching: Option<bool>,
}

/// An engine's own counters, in tokens. They fall back to zero when it restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found there.
    pub prefix_hits: Option<f64>,
    /// Prompt tokens served.
    pub prompt_tokens: Option<f64>,
    /// Requests finished.
    pub requests: Option<f64>,
    /// When the engine's process started, in unix seconds.
    pub started_at: Option<f64>,
}

impl Counters {
    /// Whether `self`, read after `before`, is of a process that has started anew in between.
    pub fn restarted_since(&self, before: &Counters) -> bool {
        let fell = |a: Option<f64>, b: Option<f64>| matches!((a, b), (Some(a), Some(b)) if a < b);
        let moved = matches!((self.started_at, before.started_at), (Some(a), Some(b)) if a > b + 0.5);
        moved
            || fell(self.prefix_queries, before.prefix_queries)
            || fell(self.prompt_tokens, before.prompt_tokens)
            || fell(self.requests, before.requests)
    }
}

/// Adapters (LoRA) of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adapters {
    /// Those with running requests.
    pub running: Vec<String>,
    /// Those with waiting requests.
    pub waiting: Vec<String>,
    /// How many can be active at once.
    pub max: Option<u32>,
}

/// What is known of an endpoint's load: the last good reading and whether reading fails now.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The last good reading.
    pub load: Option<Load>,
    /// Since when readings have failed; `None` while the last one succeeded or none was tried.
    pub failing_since: Option<Instant>,
}

/// How far a [`Reading`] can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Read, and lately.
    Fresh,
    /// Read, but longer ago than allowed; nothing failed.
    Stale,
    /// Not read yet.
    Unread,
    /// The last attempt failed: set aside until one succeeds.
    Failed,
}

impl Reading {
    /// How far this reading can be trusted at `now`, where readings older than `stale_after` are stale.
    pub fn standing(&self, now: Instant, stale_after: Duration) -> Standing {
        match (&self.load, self.failing_since) {
            (_, Some(_)) => Standing::Failed,
            (None, None) => Standing::Unread,
            (Some(load), None) if now.saturating_duration_since(load.seen_at) > stale_after => Standing::Stale,
            (Some(_), None) => Standing::Fresh,
        }
    }

    /// Age of the last good reading at `now`.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.load.as_ref().map(|load| now.saturating_duration_since(load.seen_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ages of readings, and how each stands where 2 s are allowed.
    fn check(age: Duration, expected: Standing) {
        let now = Instant::now() + Duration::from_secs(100);
        let reading = Reading { load: Some(Load::unsaid(now - age)), failing_since: None };
        assert_eq!(reading.standing(now, Duration::from_secs(2)), expected, "{age:?}");
        assert_eq!(reading.age(now), Some(age));
    }

    #[test]
    fn a_slow_engine_is_fresh_and_a_forgotten_one_stale() {
        check(Duration::from_millis(10), Standing::Fresh);
        check(Duration::from_millis(400), Standing::Fresh);
        check(Duration::from_secs(2), Standing::Fresh);
        check(Duration::from_secs(60), Standing::Stale);
    }
}
