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

/// A model on a machine: the time of its steps, and what is left for the KV cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// As it is named in flags and reports.
    pub name: &'static str,
    /// The time of a step.
    pub cost: StepCost,
    /// Tokens that the KV cache holds.
    pub kv_tokens: u32,
}

impl Profile {
    /// See [`StepCost::QWEN3_1_7B_SIXTH_H100`]. Of 80 GB nine tenths are vLLM's, 12 GB for each of six; less 3.4 GB of weights
    /// and 1.5 GB for activations and graphs leaves 7.1 GB, at 112 KiB a token.
    pub const QWEN3_1_7B_SIXTH_H100: Profile =
        Profile { name: "qwen3-1.7b-sixth-h100", cost: StepCost::QWEN3_1_7B_SIXTH_H100, kv_tokens: 62_000 };

    /// See [`StepCost::QWEN3_8B_H100`]. Of 72 GB, 16.4 are weights and 2 activations and graphs: 53.6 GB at 144 KiB a token.
    pub const QWEN3_8B_H100: Profile =
        Profile { name: "qwen3-8b-h100", cost: StepCost::QWEN3_8B_H100, kv_tokens: 363_000 };
}

impl StepCost {
    /// Qwen3-1.7B in bfloat16 on a sixth of an H100 SXM, all six sixths busy. Reckoned from public figures, not
    /// measured: 3.35 TB/s of memory bandwidth and 989 TFLOP/s dense bfloat16 (NVIDIA's data sheet), 70% and 50% of them
    /// reached, a sixth of that each. 1.7 billion parameters are 3.4 GB: 8.7 ms to read. A prefill token costs
    /// 3.4 GFLOP: 41 us. A token of context is 112 KiB of KV (28 layers, 8 heads of 128, keys and values, two
    /// bytes): 0.29 us to read. 20 us a sequence are an allowance for sampling and for the server's Python.
    pub const QWEN3_1_7B_SIXTH_H100: StepCost =
        StepCost { base: 8.7e6, prefill_token: 41.0e3, sequence: 20.0e3, context_token: 290.0 };

    /// Qwen3-8B in bfloat16 on an H100 SXM of its own, reckoned in the same way: 8.2 billion parameters are 16.4 GB, 7.0 ms
    /// to read; a prefill token costs 16.4 GFLOP, 33 us; a token of context is 144 KiB (36 layers, 8 heads of 128), 63 ns.
    /// That half the arithmetic is reached has a published figure beside it: llm-d's guide has 15,926 prefill tokens a second
    /// for Qwen3-32B on two H100s, 52% of their 1,978 TFLOP/s.
    pub const QWEN3_8B_H100: StepCost =
        StepCost { base: 7.0e6, prefill_token: 33.2e3, sequence: 20.0e3, context_token: 63.0 };

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
