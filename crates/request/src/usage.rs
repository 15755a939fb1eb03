//! What an answer says it used, in whichever API's words.
//!
//! In: a `usage` object; out: [`Usage`]. A field of another type than a count is absent, the others still count.

use crate::json::{Object, Value};

/// The tokens of one answer as the engine counted them; `None` where the answer doesn't say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included (`prompt_tokens`, `input_tokens`).
    pub prompt_tokens: Option<u64>,
    /// Tokens generated (`completion_tokens`, `output_tokens`).
    pub completion_tokens: Option<u64>,
    /// Tokens of the prompt that the engine's cache held (`prompt_tokens_details.cached_tokens`,
    /// `input_tokens_details.cached_tokens`, `cache_read_input_tokens`).
    pub cached_tokens: Option<u64>,
}

impl Usage {
    pub(crate) fn of(usage: &Object<'_>) -> Usage {
        let count = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_u64());
        let details = ["prompt_tokens_details", "input_tokens_details"];
        let detailed = details.iter().find_map(|name| usage.get(name)?.get("cached_tokens")?.as_u64());
        Usage {
            prompt_tokens: count(&["prompt_tokens", "input_tokens"]),
            completion_tokens: count(&["completion_tokens", "output_tokens"]),
            cached_tokens: detailed.or_else(|| count(&["cache_read_input_tokens"])),
        }
    }

    /// Adds what a later part of the same answer says. Counts only grow within an answer, and some servers send zeros
    /// for what an earlier part told: so the larger one stays.
    pub(crate) fn merge(&mut self, later: Usage) {
        self.prompt_tokens = self.prompt_tokens.max(later.prompt_tokens);
        self.completion_tokens = self.completion_tokens.max(later.completion_tokens);
        self.cached_tokens = self.cached_tokens.max(later.cached_tokens);
    }

    /// Finds the usage in one event of a stream: at its top, or within `response` (Responses) or `message` (Anthropic).
    pub(crate) fn in_event(event: &Object<'_>) -> Option<Usage> {
        let within = |holder: &str| event.get(holder)?.get("usage");
        let candidates = [event.get("usage"), within("response"), within("message")];
        candidates.into_iter().flatten().find_map(Value::as_object).map(Usage::of)
    }

    pub(crate) fn known(self) -> Option<Usage> {
        (self != Usage::default()).then_some(self)
    }
}
