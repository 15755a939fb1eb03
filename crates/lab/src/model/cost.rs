//! How long a step takes. In: what the step computes; out: its duration. A straight line, with named figures.

use std::time::Duration;

/// The time of a step: `base + prefill_token * prefill tokens + sequence * sequences + context_token * context tokens`.
/// All figures in nanoseconds, none negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Of any step: the weights read once.
    pub base: f64,
    /// Of each token of a prompt (or of a recomputed sequence) in the step.
    pub prefill_token: f64,
    /// Of each sequence in the step: sampling, and the server's own work for it.
    pub sequence: f64,
    /// Of each token of context that the step's sequences read from the KV cache.
    pub context_token: f64,
}

impl StepCost {
    /// Qwen3-1.7B in bfloat16 on a sixth of an H100 SXM, all six sixths busy. Reckoned from public figures, not
    /// measured: 3.35 TB/s of memory bandwidth and 989 TFLOP/s dense bfloat16 (NVIDIA's data sheet), 70% and 50% of them
    /// reached, a sixth of that each. 1.7 billion parameters are 3.4 GB: 8.7 ms to read. A prefill token costs
    /// 3.4 GFLOP: 41 us. A token of context is 112 KiB of KV (28 layers, 8 heads of 128, keys and values, two
    /// bytes): 0.29 us to read. 20 us a sequence are an allowance for sampling and for the server's Python.
    pub const QWEN3_1_7B_SIXTH_H100: StepCost =
        StepCost { base: 8.7e6, prefill_token: 41.0e3, sequence: 20.0e3, context_token: 290.0 };

    /// Steps that take no time; for tests of what is reused rather than when.
    pub const NOTHING: StepCost = StepCost { base: 0.0, prefill_token: 0.0, sequence: 0.0, context_token: 0.0 };

    /// The duration of a step with these counts; rounded to whole nanoseconds.
    pub fn of(&self, prefill_tokens: u64, sequences: u64, context_tokens: u64) -> Duration {
        let nanoseconds = self.base
            + self.prefill_token * prefill_tokens as f64
            + self.sequence * sequences as f64
            + self.context_token * context_tokens as f64;
        Duration::from_nanos(nanoseconds.round() as u64)
    }
}
