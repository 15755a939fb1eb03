//! What an engine shows of itself. In: steps' ends; out: gauges, counters and histograms, as vLLM's `/metrics` has
//! them. Holds figures only; [`super::metrics`] prints them.

use std::time::{Duration, SystemTime};

use crate::model::{Emitted, Finish, Gauges, Totals};

/// Bucket bounds of counts of tokens, up to the longest answer that a model of 40,960 tokens allows.
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0];
const STEP_TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const BETWEEN_TOKENS: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const WHOLE: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];

/// A histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Upper bounds, without the last (infinite) one.
    pub bounds: &'static [f64],
    /// Observations in each bucket, one more than bounds; not cumulated.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }
}

/// One engine's figures.
#[derive(Clone, Debug)]
pub struct Board {
    /// When the engine began.
    pub created: SystemTime,
    /// What the last step's end, or an abort since, left.
    pub gauges: Gauges,
    /// Counters of the engine.
    pub totals: Totals,
    /// Requests that ended by themselves.
    pub stopped: u64,
    /// Requests that were cut at their longest.
    pub cut: u64,
    /// Requests that were aborted.
    pub aborts: u64,
    /// Prompt tokens of finished requests.
    pub request_prompt_tokens: Histogram,
    /// Generated tokens of finished requests.
    pub request_generation_tokens: Histogram,
    /// `max_tokens` of finished requests.
    pub request_max_tokens: Histogram,
    /// Tokens of a step.
    pub step_tokens: Histogram,
    /// Seconds from the ask to the first token.
    pub first_token: Histogram,
    /// Seconds between tokens.
    pub between_tokens: Histogram,
    /// Seconds from the ask to the end.
    pub whole: Histogram,
    /// Seconds from the ask to the first step.
    pub queued: Histogram,
}

/// Times of a request on the engine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When it was asked.
    pub(super) asked: Duration,
    /// When its last token came.
    pub(super) last: Duration,
}

impl Board {
    pub(super) fn new() -> Board {
        Board {
            created: SystemTime::now(),
            gauges: Gauges::default(),
            totals: Totals::default(),
            stopped: 0,
            cut: 0,
            aborts: 0,
            request_prompt_tokens: Histogram::new(TOKENS),
            request_generation_tokens: Histogram::new(TOKENS),
            request_max_tokens: Histogram::new(TOKENS),
            step_tokens: Histogram::new(STEP_TOKENS),
            first_token: Histogram::new(FIRST_TOKEN),
            between_tokens: Histogram::new(BETWEEN_TOKENS),
            whole: Histogram::new(WHOLE),
            queued: Histogram::new(WHOLE),
        }
    }

    pub(super) fn stand(&mut self, gauges: Gauges, totals: Totals) {
        self.gauges = gauges;
        self.totals = totals;
    }

    pub(super) fn step(&mut self, tokens: u32) {
        self.step_tokens.observe(tokens.into());
    }

    pub(super) fn aborted(&mut self) {
        self.aborts += 1;
    }

    pub(super) fn token(&mut self, token: &Emitted, now: Duration, times: &Times) {
        if token.position == 0 {
            self.first_token.observe(seconds(now, times.asked));
        } else {
            self.between_tokens.observe(seconds(now, times.last));
        }
    }

    pub(super) fn finished(&mut self, token: &Emitted, now: Duration, asked: Duration, prompt: usize, max_tokens: u32) {
        match token.finish {
            Some(Finish::Stop) => self.stopped += 1,
            _ => self.cut += 1,
        }
        self.request_prompt_tokens.observe(prompt as f64);
        self.request_generation_tokens.observe(f64::from(token.position + 1));
        self.request_max_tokens.observe(f64::from(max_tokens));
        self.whole.observe(seconds(now, asked));
        self.queued.observe(seconds(token.admitted, asked));
    }
}

/// A step can begin a little before the ask that it takes in came: the engine's clock catches up.
fn seconds(later: Duration, earlier: Duration) -> f64 {
    later.saturating_sub(earlier).as_secs_f64()
}
