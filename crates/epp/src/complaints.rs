//! What picks had to do without, in the log: the first time, and then at most once a minute for each reason. The metric
//! `warmpath_degraded_picks` counts every one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pick::Note;

const SELDOM: Duration = Duration::from_secs(60);

/// When each reason was last said, and how often it has come up since.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<Note, (Instant, u64)>>);

impl Complaints {
    /// Says those of `notes` that haven't been said lately.
    pub(crate) fn say(&self, notes: &[Note]) {
        for note in notes {
            if let Some(picks) = self.due(*note, Instant::now()) {
                tracing::warn!(reason = note.as_str(), picks, "picks know less than they should: {}", in_words(*note));
            }
        }
    }

    /// How many picks since it was last said, if it is to be said now.
    fn due(&self, note: Note, now: Instant) -> Option<u64> {
        let mut said = self.0.lock();
        let Some((last, unsaid)) = said.get_mut(&note) else {
            said.insert(note, (now, 0));
            return Some(1);
        };
        *unsaid += 1;
        if now.saturating_duration_since(*last) < SELDOM {
            return None;
        }
        *last = now;
        Some(std::mem::take(unsaid))
    }
}

fn in_words(note: Note) -> &'static str {
    match note {
        Note::AllSetAside => "no endpoint's metrics can be read, so that all of them are used",
        Note::StaleLoad => "every endpoint's reading is old",
        Note::LoadUnknown => "no engine says how loaded it is",
        Note::PrefixCachingOff => "the chosen engine has prefix caching switched off",
        Note::Inexact => "the engine's tokens may be others: for what is cut off, or for images in a text",
        Note::NotRewritten => {
            "the model that a header asks for can't be put into the body: it names none, or is packed"
        }
        Note::Panicked => "understanding a request failed: a defect of the picker's, please report it",
        Note::NoTokenizer => "the model's tokenizer or template isn't there or failed: give --model NAME=DIR",
        Note::Estimated => "prompts are estimated at four bytes a token: give --model NAME=DIR",
        Note::NoModel => "requests name no model, and several are configured",
        Note::TemplateFailed => "the chat template didn't render the messages; the engine will say why",
        Note::NotJson => "bodies aren't JSON; the engine will say why",
        Note::UnknownPath => "the path is none of an API whose prompts are read",
        Note::NotUnderstood => "bodies aren't what the API takes; the engine will say why",
        Note::Busy => "no thread was free to tokenize: give --cpu-threads or more replicas",
        Note::TooLarge => "bodies are too large to look into",
        Note::OperatorLoadOnly => "the operator has switched to load alone",
        Note::BodyHidden => {
            "the gateway doesn't show bodies: set FULL_DUPLEX_STREAMED or BUFFERED in its ext_proc filter"
        }
        Note::NoBodyMemory => "bodies fill the memory they may have: give --max-body-memory or more replicas",
        Note::BodyStalled => "bodies stop arriving, and their requests go on without being read",
        Note::Deadline => "prompts take longer to read than --decide-timeout: give CPU or more replicas",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_a_minute_with_its_count() {
        let complaints = Complaints::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(complaints.due(Note::Busy, start), Some(1));
        assert_eq!(complaints.due(Note::Busy, after(1)), None);
        assert_eq!(complaints.due(Note::NotJson, after(1)), Some(1));
        assert_eq!(complaints.due(Note::Busy, after(59)), None);
        assert_eq!(complaints.due(Note::Busy, after(60)), Some(3));
        assert_eq!(complaints.due(Note::Busy, after(61)), None);
    }
}
