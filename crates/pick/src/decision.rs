//! What was chosen and why, part by part. Logs, metrics, traces and the debug page print this same value.

use std::fmt;

use fleet::EndpointId;

use crate::Scorer;

/// A choice made.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// All candidates that took part, best first, ties in random order. Never empty.
    pub ranked: Vec<Ranked>,
    /// Those that took no part, because others can be trusted more.
    pub set_aside: Vec<EndpointId>,
    /// What was not as it should be, each once.
    pub notes: Vec<Note>,
}

impl Decision {
    /// The best.
    pub fn best(&self) -> EndpointId {
        self.ranked[0].id
    }

    /// Leaves a note, unless it stands there already.
    pub fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A candidate with its score. Prints as `3.50  waiting 0.00 + kv_usage 0.80 + prefix 2.70`, weighted parts that add up
/// to the total; a `?` marks a part of which nothing is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Which endpoint.
    pub id: EndpointId,
    /// The sum of the weighted parts. Finite.
    pub total: f64,
    /// One part for each scorer of the policy, in its order.
    pub parts: Vec<Part>,
}

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ", self.total)?;
        for (at, part) in self.parts.iter().enumerate() {
            let plus = if at == 0 { " " } else { " + " };
            let doubt = if part.known { "" } else { "?" };
            write!(f, "{plus}{} {:.2}{doubt}", part.scorer.name(), part.weighted())?;
        }
        Ok(())
    }
}

/// What one scorer said of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Which scorer.
    pub scorer: Scorer,
    /// What it said, 0..=1.
    pub score: f64,
    /// What its word counts for.
    pub weight: f64,
    /// Whether it knew what it scores by.
    pub known: bool,
}

impl Part {
    /// What it adds to the total.
    pub fn weighted(&self) -> f64 {
        self.score * self.weight
    }
}

/// Something that was not as it should be, and did not stop the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// No endpoint could be read; all that could be set aside took part.
    AllSetAside,
    /// No endpoint was read lately; what was read longer ago is not believed.
    StaleLoad,
    /// Of no endpoint a figure of load is known that the policy asks for: chosen by our own bookings and by prefix.
    LoadUnknown,
    /// The chosen endpoint reuses no prefixes; nothing is believed of its cache.
    PrefixCachingOff,
    /// The engine's tokens may be others, which can't be told here.
    Inexact,
    /// The client asked for another model than the body's, but the body's couldn't be replaced.
    NotRewritten,
    /// Understanding the request failed for a defect of the picker's.
    Panicked,
    /// No tokenizer is loaded for the model: nothing is known of the prompt.
    NoTokenizer,
    /// The prompt's tokens are an estimate by its bytes.
    Estimated,
    /// The request names no model.
    NoModel,
    /// The chat template raised, or gave no text.
    TemplateFailed,
    /// The body is not JSON.
    NotJson,
    /// The path is none of an API whose prompts are understood.
    UnknownPath,
    /// The body is JSON, but not a prompt of that API.
    NotUnderstood,
    /// No CPU slot was free to encode the prompt.
    Busy,
    /// The body or prompt is too large to look into.
    TooLarge,
    /// The operator has switched to choosing by load only.
    OperatorLoadOnly,
    /// The gateway is set up not to show the body before the decision.
    BodyHidden,
    /// There was no memory left to hold the body in.
    NoBodyMemory,
    /// The body stopped arriving.
    BodyStalled,
    /// The time to decide was up before the prompt was encoded.
    Deadline,
}

impl Note {
    /// All of them.
    pub const ALL: [Note; 21] = [
        Note::AllSetAside,
        Note::StaleLoad,
        Note::LoadUnknown,
        Note::PrefixCachingOff,
        Note::Inexact,
        Note::NotRewritten,
        Note::Panicked,
        Note::NoTokenizer,
        Note::Estimated,
        Note::NoModel,
        Note::TemplateFailed,
        Note::NotJson,
        Note::UnknownPath,
        Note::NotUnderstood,
        Note::Busy,
        Note::TooLarge,
        Note::OperatorLoadOnly,
        Note::BodyHidden,
        Note::NoBodyMemory,
        Note::BodyStalled,
        Note::Deadline,
    ];

    /// Its name in logs, metrics and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Note::AllSetAside => "all_set_aside",
            Note::StaleLoad => "stale_load",
            Note::LoadUnknown => "load_unknown",
            Note::PrefixCachingOff => "prefix_caching_off",
            Note::Inexact => "inexact",
            Note::NotRewritten => "not_rewritten",
            Note::Panicked => "panicked",
            Note::NoTokenizer => "no_tokenizer",
            Note::Estimated => "estimated",
            Note::NoModel => "no_model",
            Note::TemplateFailed => "template_failed",
            Note::NotJson => "not_json",
            Note::UnknownPath => "unknown_path",
            Note::NotUnderstood => "not_understood",
            Note::Busy => "busy",
            Note::TooLarge => "too_large",
            Note::OperatorLoadOnly => "operator_load_only",
            Note::BodyHidden => "body_hidden",
            Note::NoBodyMemory => "no_body_memory",
            Note::BodyStalled => "body_stalled",
            Note::Deadline => "deadline",
        }
    }

    /// The note of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|note| note.as_str() == name)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_is_found_by_its_name() {
        for note in Note::ALL {
            assert_eq!(Note::named(note.as_str()), Some(note));
        }
    }
}
