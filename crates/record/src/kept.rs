//! The record as it is kept: a choice in, plain values out. Names and units are those of the protocol; what is absent
//! there is `None` here, never a zero.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::{EndpointId, Member, View};
use pick::{Decision, Note, Ranked};
use serde::{Deserialize, Serialize};

/// A decision and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The request's id: the client's or gateway's `x-request-id`, else one made by the picker. Not unique.
    pub request_id: String,
    /// When the pick was made, in milliseconds since 1970-01-01 UTC.
    pub decided_at_unix_ms: u64,
    /// What was asked.
    pub asked: Asked,
    /// Every endpoint that took part, best first, then those that were set aside.
    pub candidates: Vec<Candidate>,
    /// Names of the endpoints that the gateway was told, in order.
    pub chosen: Vec<String>,
    /// What the pick did not know or had to do without, as `no_tokenizer`; see [`pick::Note`].
    pub notes: Vec<String>,
    /// Prompt tokens that the chosen endpoint was expected to reuse; `None` where nothing was known of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_cached_tokens: Option<u64>,
    /// How long the pick took from the request's last byte to the answer, in microseconds.
    pub decided_in_us: u64,
    /// Whether it was picked for by the baseline, to be compared with (`warmpath.holdout`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holdout: bool,
    /// How the request ended; `None` while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The API, as `chat_completions`; empty where the path or body was not understood.
    pub api: String,
    /// The model's name as a bounded label: names that nobody serves read `other`.
    pub model: String,
    /// Prompt tokens by the picker's count, all prompts of the request together; `None` where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Whether that count is the estimate by bytes.
    pub estimated: bool,
    /// Blocks of the prompt, a trailing partial one included.
    pub blocks: u32,
    /// Tokens in a block.
    pub block_size: u32,
    /// Size of the body in bytes.
    pub body_bytes: u64,
    /// Whether a streamed answer was asked for.
    pub stream: bool,
    /// The objective that the client named, where it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The fairness id that the client named, where it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_id: Option<String>,
    /// The session that the client named, where it may, as a hash: equal sessions have equal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The name that the body held for the model, as a bounded label, where it was replaced by the one above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten_from: Option<String>,
}

/// One endpoint as it was seen, once, for this decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The endpoint's name.
    pub endpoint: String,
    /// `10.0.0.1:8000` or `[fd00::1]:8000`.
    pub address: String,
    /// How far its reading could be trusted.
    pub standing: Standing,
    /// Whether it was set aside for that.
    pub set_aside: bool,
    /// Requests waiting: the last reading's and what that reading cannot have seen of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Requests running, by the last reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    /// Share of the KV cache in use, 0..=1, by the last reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_usage: Option<f64>,
    /// Requests of ours under way there.
    pub in_flight: u32,
    /// Leading blocks of the prompt that it was believed to hold.
    pub overlap: u32,
    /// How long what would be evicted for the new blocks had lain unused, in milliseconds; `None`: nothing would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaces_ms: Option<u64>,
    /// Sum of the weighted parts; 0 for one set aside.
    pub total: f64,
    /// The parts, in the policy's order; none for one set aside.
    pub parts: Vec<Part>,
}

/// One scorer's part of a candidate's total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The scorer's name, as `prefix`.
    pub scorer: String,
    /// Its score, 0..=1.
    pub score: f64,
    /// Its weight.
    pub weight: f64,
    /// Whether what it needs was known.
    pub known: bool,
}

/// How far a reading could be trusted: [`fleet::Standing`], kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Read, and lately.
    Fresh,
    /// Read, but longer ago than allowed.
    Stale,
    /// Not read yet.
    Unread,
    /// The last attempt failed.
    Failed,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// HTTP status of the answer; `None` if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// Address that the gateway says served; `None` if it doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<String>,
    /// From the request's last byte to the answer's first content, in milliseconds; `None` for answers that are not
    /// streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// From the request's last byte to the end of the stream, in milliseconds.
    pub took_ms: f64,
    /// Prompt tokens by the engine's count; `None` if the answer carries no usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Prompt tokens that the engine reused; `None` if the answer doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens generated; `None` if the answer carries no usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// How it ended.
    pub ended: Ended,
    /// How many times the gateway tried, as the answer's `x-envoy-attempt-count` says; `None` where it says nothing. The
    /// picker was asked before the first time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// How a request's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The answer came to its end.
    Complete,
    /// The client or the gateway went away.
    Cancelled,
    /// The picker refused it.
    Refused,
}

impl Standing {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Fresh => "fresh",
            Standing::Stale => "stale",
            Standing::Unread => "unread",
            Standing::Failed => "failed",
        }
    }
}

impl Outcome {
    /// Whether a complete answer of status 2xx came.
    pub fn is_good(&self) -> bool {
        self.ended == Ended::Complete && self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

impl Ended {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::Complete => "complete",
            Ended::Cancelled => "cancelled",
            Ended::Refused => "refused",
        }
    }
}

/// Notes that say how picker, gateway or engine is set up.
const SET_UP: [Note; 5] =
    [Note::Estimated, Note::Inexact, Note::PrefixCachingOff, Note::OperatorLoadOnly, Note::BodyHidden];

/// A choice made, as the routing step leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The view that it was made on.
    pub view: &'a View,
    /// The candidates as they were read.
    pub candidates: &'a [pick::Candidate],
    /// The decision.
    pub decision: &'a Decision,
    /// How many endpoints the gateway was told.
    pub named: usize,
    /// Prompt tokens that the chosen endpoint was expected to reuse; `None` where nothing was known of the prompt.
    pub predicted_cached_tokens: Option<u64>,
    /// When it was made.
    pub at: SystemTime,
    /// How long it took, from the request's last byte to the answer.
    pub took: Duration,
    /// Whether the baseline made it.
    pub holdout: bool,
}

impl Record {
    /// Whether the pick had to do without something, or the request, as far as is known, did not end in a complete answer of
    /// status 2xx. What holds for request after request by how things are set up is no trouble of one.
    pub fn is_troubled(&self) -> bool {
        let set_up = SET_UP.map(Note::as_str);
        self.notes.iter().any(|note| !set_up.contains(&note.as_str()))
            || self.outcome.as_ref().is_some_and(|outcome| !outcome.is_good())
    }

    /// Whether this endpoint, by its name or address, was chosen or is said to have served.
    pub fn concerns(&self, endpoint: &str) -> bool {
        let served = self.outcome.as_ref().and_then(|outcome| outcome.served.as_deref());
        let took_it = |candidate: &Candidate| {
            self.chosen.contains(&candidate.endpoint) || served == Some(candidate.address.as_str())
        };
        let is_it = |candidate: &Candidate| candidate.endpoint == endpoint || candidate.address == endpoint;
        served == Some(endpoint) || self.candidates.iter().any(|candidate| is_it(candidate) && took_it(candidate))
    }

    /// A choice, kept; its outcome is open.
    pub fn new(request_id: impl Into<String>, asked: Asked, choice: &Choice<'_>) -> Self {
        let decision = choice.decision;
        let seen: HashMap<EndpointId, &pick::Candidate> = choice.candidates.iter().map(|c| (c.id, c)).collect();
        let kept = |id, ranked| Some(kept(seen.get(&id)?, choice.view.get(id).map(|e| &*e.member), ranked));
        let took_part = decision.ranked.iter().filter_map(|ranked| kept(ranked.id, Some(ranked)));
        let set_aside = decision.set_aside.iter().filter_map(|id| kept(*id, None));
        let candidates: Vec<Candidate> = took_part.chain(set_aside).collect();
        Self {
            request_id: request_id.into(),
            decided_at_unix_ms: choice.at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            asked,
            chosen: candidates.iter().take(choice.named).map(|candidate| candidate.endpoint.clone()).collect(),
            candidates,
            notes: decision.notes.iter().map(|note| note.as_str().to_owned()).collect(),
            predicted_cached_tokens: choice.predicted_cached_tokens,
            decided_in_us: choice.took.as_micros() as u64,
            holdout: choice.holdout,
            outcome: None,
        }
    }
}

/// One candidate: as it was seen, who it is, and its rank if it took part.
fn kept(seen: &pick::Candidate, member: Option<&Member>, ranked: Option<&Ranked>) -> Candidate {
    let figure = |figure: Option<f64>| figure.filter(|figure| figure.is_finite());
    Candidate {
        endpoint: member.map_or_else(|| seen.id.to_string(), |member| member.name.clone()),
        address: member.map(|member| member.address.to_string()).unwrap_or_default(),
        standing: seen.standing.into(),
        set_aside: ranked.is_none(),
        waiting: figure(seen.waiting),
        running: figure(seen.running),
        kv_usage: figure(seen.kv_usage),
        in_flight: seen.in_flight,
        overlap: seen.overlap,
        displaces_ms: seen.displaces.map(|age| age.as_millis() as u64),
        total: ranked.map_or(0.0, |ranked| ranked.total),
        parts: ranked.map(|ranked| ranked.parts.iter().map(Part::from).collect()).unwrap_or_default(),
    }
}

impl From<&pick::Part> for Part {
    fn from(part: &pick::Part) -> Self {
        Self { scorer: part.scorer.name().to_owned(), score: part.score, weight: part.weight, known: part.known }
    }
}

impl From<fleet::Standing> for Standing {
    fn from(standing: fleet::Standing) -> Self {
        match standing {
            fleet::Standing::Fresh => Standing::Fresh,
            fleet::Standing::Stale => Standing::Stale,
            fleet::Standing::Unread => Standing::Unread,
            fleet::Standing::Failed => Standing::Failed,
        }
    }
}

impl From<Standing> for fleet::Standing {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Fresh => fleet::Standing::Fresh,
            Standing::Stale => fleet::Standing::Stale,
            Standing::Unread => fleet::Standing::Unread,
            Standing::Failed => fleet::Standing::Failed,
        }
    }
}
