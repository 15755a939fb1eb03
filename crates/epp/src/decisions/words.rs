//! A decision in a few words: who was chosen, with the parts of its score, and over whom.
//!
//! In: a record; out: part of a line, or a header's value, which is bounded and of visible characters only.

use record::{Candidate, Part, Record};

/// How many that were not chosen are named.
const OTHERS: usize = 2;
/// A header's longest value, in bytes.
const LONGEST: usize = 1024;

/// `vllm-0 4.20 (prefix 2.70 + waiting 0.00); vllm-1 3.50; 3 more; 1 set aside`.
pub(crate) fn choice(record: &Record) -> String {
    let mut said = vec![record.candidates.first().map_or("nowhere".to_owned(), scored)];
    let others: Vec<&Candidate> = record.candidates.iter().skip(1).filter(|other| !other.set_aside).collect();
    said.extend(others.iter().take(OTHERS).map(|other| format!("{} {:.2}", other.endpoint, other.total)));
    let aside = record.candidates.iter().filter(|candidate| candidate.set_aside).count();
    let counts = [(others.len().saturating_sub(OTHERS), "more"), (aside, "set aside")];
    said.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    said.join("; ")
}

/// The one that was chosen, with its parts.
fn scored(chosen: &Candidate) -> String {
    let part = |part: &Part| {
        let unknown = if part.known { "" } else { "?" };
        format!("{} {:.2}{unknown}", part.scorer, part.score * part.weight)
    };
    let parts: Vec<String> = chosen.parts.iter().map(part).collect();
    format!("{} {:.2} ({})", chosen.endpoint, chosen.total, parts.join(" + "))
}

/// The same as a header's value, with the reuse that is foretold and the notes.
pub(crate) fn header(record: &Record) -> String {
    let mut value = choice(record);
    if let Some(foretold) = record.predicted_cached_tokens {
        value += &format!(" | foretold reuse {foretold}");
        if let Some(tokens) = record.asked.prompt_tokens {
            value += &format!(" of {tokens}");
        }
    }
    if !record.notes.is_empty() {
        value += &format!(" | {}", record.notes.join(" "));
    }
    let visible = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    value.chars().map(visible).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::wire::tests::full;

    #[test]
    fn a_headers_value_is_bounded_and_visible() {
        let mut record = full();
        assert_eq!(
            header(&record),
            "vllm-0 4.20 (prefix 2.70 + waiting 0.00 + kv_usage 1.50); vllm-1 3.50; 1 set aside | foretold reuse 144 of 160 | stale_load"
        );
        record.candidates[0].endpoint = "a\r\nb\u{e9}".repeat(1000);
        let value = header(&record);
        assert_eq!((&value[..5], value.len()), ("a??b?", 1024));
    }
}
