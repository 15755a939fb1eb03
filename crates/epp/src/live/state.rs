//! The state as it is shown: plain values for serde, and how a record's decision is cut down to what fits on a line. What isn't known
//! is `None`, never a zero.

use record::{Candidate, Outcome, Record, Standing};
use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub(crate) at_unix_ms: u64,
    /// The picker's version.
    pub(crate) version: String,
    /// The pool's name.
    pub(crate) pool: String,
    /// Whether the operator has endpoints chosen by load alone.
    pub(crate) load_only: bool,
    /// The endpoints.
    pub(crate) endpoints: Vec<Row>,
    /// The last minute.
    pub(crate) last_minute: Figures,
    /// The last ten, step by step.
    pub(crate) minutes: Series,
    /// Decisions that were made too fast to be kept.
    pub(crate) lost: u64,
    /// Decisions that can be searched.
    pub(crate) kept: u64,
    /// The last of them, newest first.
    pub(crate) decisions: Vec<Decision>,
}

/// An endpoint now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) address: String,
    /// How far its reading can be trusted.
    pub(crate) standing: Standing,
    /// Age of the last good reading.
    pub(crate) reading_age_ms: Option<u64>,
    /// Requests waiting: the last reading's and what it can't have seen of ours.
    pub(crate) waiting: Option<f64>,
    /// Requests running, by the last reading.
    pub(crate) running: Option<f64>,
    /// Share of the KV cache in use, 0 to 1, by the last reading.
    pub(crate) kv_usage: Option<f64>,
    /// Requests of ours under way there.
    pub(crate) in_flight: u32,
    /// Blocks that it is believed to hold.
    pub(crate) blocks_held: u64,
    /// Picks of it among the requests that ended in the last ten minutes.
    pub(crate) picks: u64,
    /// Their share of all, 0 to 1.
    pub(crate) share: Option<f64>,
}

/// A stretch of time, of the requests that ended in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// How many.
    pub(crate) requests: u64,
    /// How many of them were not answered with 2xx.
    pub(crate) failed: u64,
    /// Share of prompt tokens that engines took from their caches, 0 to 1, of those that say so.
    pub(crate) reused: Option<f64>,
    /// Time to the first content of streamed answers, the middle one, within a tenth.
    pub(crate) ttft_p50_ms: Option<f64>,
    /// The 95th of a hundred.
    pub(crate) ttft_p95_ms: Option<f64>,
}

/// Stretches one after another, the current one last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// How long each is.
    pub(crate) step_ms: u64,
    pub(crate) steps: Vec<Figures>,
}

/// A decision, as far as it fits on a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) request_id: String,
    pub(crate) decided_at_unix_ms: u64,
    pub(crate) model: String,
    pub(crate) prompt_tokens: Option<u64>,
    /// Whether that is the estimate by bytes.
    pub(crate) estimated: bool,
    /// Blocks of the prompt.
    pub(crate) blocks: u32,
    /// Who was chosen, with the parts of its score.
    pub(crate) chosen: Option<Candidate>,
    /// Who would have been.
    pub(crate) runner_up: Option<Candidate>,
    /// How many there were to choose from, those set aside included.
    pub(crate) candidates: u64,
    pub(crate) notes: Vec<String>,
    pub(crate) predicted_cached_tokens: Option<u64>,
    pub(crate) decided_in_us: u64,
    pub(crate) outcome: Option<Outcome>,
}

/// The longest request id that is shown, in characters.
const LONGEST: usize = 128;

impl From<&Record> for Decision {
    fn from(record: &Record) -> Self {
        let took_part =
            |at: usize| record.candidates.get(at).filter(|candidate| !candidate.set_aside || at == 0).cloned();
        Self {
            request_id: record.request_id.chars().take(LONGEST).collect(),
            decided_at_unix_ms: record.decided_at_unix_ms,
            model: record.asked.model.clone(),
            prompt_tokens: record.asked.prompt_tokens,
            estimated: record.asked.estimated,
            blocks: record.asked.blocks,
            chosen: took_part(0),
            runner_up: took_part(1),
            candidates: record.candidates.len() as u64,
            notes: record.notes.clone(),
            predicted_cached_tokens: record.predicted_cached_tokens,
            decided_in_us: record.decided_in_us,
            outcome: record.outcome.clone(),
        }
    }
}
