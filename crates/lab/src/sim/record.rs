//! What is kept of a request, and of the times from token to token.

use std::time::Duration;

/// A request that has ended. Times from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When it was asked.
    pub asked: Duration,
    /// From then to the first token; meaningless where none came.
    pub ttft: Duration,
    /// From asked to the end.
    pub total: Duration,
    /// From asked to the first token on an idle engine that has all of the prompt that was ever asked or answered anywhere.
    pub floor: Duration,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Of these, from the engine's cache.
    pub cached: u32,
    /// Of these, what one infinite cache would have had.
    pub infinite: u32,
    /// Of these, what the policy believed to be cached, where it believed anything.
    pub predicted: Option<u32>,
    /// Tokens answered.
    pub output: u32,
    /// Which turn of its conversation.
    pub turn: u32,
    /// Which engine.
    pub engine: u16,
    /// Whether it was answered to the end.
    pub well: bool,
}

impl Record {
    pub(super) fn asked(asked: Duration, turn: u32, prompt: u32, infinite: u32, floor: Duration) -> Record {
        Record {
            asked,
            ttft: Duration::ZERO,
            total: Duration::ZERO,
            floor,
            prompt,
            cached: 0,
            infinite,
            predicted: None,
            output: 0,
            turn,
            engine: u16::MAX,
            well: false,
        }
    }

    pub(super) fn first(&mut self, now: Duration, cached: u32) {
        self.ttft = now - self.asked;
        self.cached = cached;
    }

    pub(super) fn end(&mut self, now: Duration, well: bool) {
        self.total = now - self.asked;
        self.well = well;
    }

    /// When it ended.
    pub fn ended(&self) -> Duration {
        self.asked + self.total
    }

    /// From token to token, on average; `None` for an answer of one.
    pub fn itl(&self) -> Option<Duration> {
        (self.output > 1).then(|| (self.total - self.ttft) / (self.output - 1))
    }
}

/// Times from token to token, of a whole run: counts in steps of one part in 32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(Vec<u64>);

/// Steps that double a time.
const STEPS: u32 = 32;

impl Gaps {
    pub(super) fn count(&mut self, gap: Duration) {
        let at = place(gap.as_micros() as u64);
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += 1;
    }

    /// The time that a share of all gaps are no longer than, give or take 3%.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.0.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let found = self.0.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        found.map(|at| Duration::from_micros(value(at)))
    }
}

/// Exact below 32, then the leading six bits.
fn place(micros: u64) -> usize {
    let doublings = (u64::BITS - micros.leading_zeros()).saturating_sub(6);
    (doublings * STEPS) as usize + (micros >> doublings) as usize
}

fn value(place: usize) -> u64 {
    let doublings = (place as u32 / STEPS).saturating_sub(1);
    (place as u64 - u64::from(doublings * STEPS)) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_within_a_thirty_second() {
        for micros in (0..5_000).chain((1..40).map(|bit| (1 << bit) + bit)) {
            let kept = value(place(micros));
            assert!(kept <= micros && micros - kept <= micros / 32, "{micros} {kept}");
        }
        let mut gaps = Gaps::default();
        (1..=100).for_each(|ms| gaps.count(Duration::from_millis(ms)));
        let p50 = gaps.quantile(0.5).unwrap();
        assert!((Duration::from_millis(48)..=Duration::from_millis(50)).contains(&p50), "{p50:?}");
        assert_eq!(Gaps::default().quantile(0.5), None);
    }
}
