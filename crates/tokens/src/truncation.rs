//! Prompts of which an engine reads a part.
//!
//! In: a prompt's ids, and how many of them are read; out: those. Special tokens that the tokenizer put around a text are
//! kept and counted, as transformers' tokenizers do it.

use request::{End, Truncation};

use crate::Encoded;

/// Shortens every prompt, as vLLM does with ids that are there already.
pub(crate) fn shorten(encoded: &mut Encoded, truncation: Option<Truncation>) {
    let Some(truncation) = truncation else { return };
    for ids in &mut encoded.prompts {
        *ids = shortened(std::mem::take(ids), 0, 0, truncation);
    }
    note(encoded, truncation);
}

/// Says where it isn't known how much an engine takes.
pub(crate) fn note(encoded: &mut Encoded, truncation: Truncation) {
    if truncation.tokens.is_none() {
        encoded.inexact = Some("truncate_prompt_tokens is -1, and how long a prompt the engine takes isn't known here");
    }
}

/// The ids that are kept of a text with so many special tokens before and behind it.
pub(crate) fn shortened(mut ids: Vec<u32>, before: usize, behind: usize, truncation: Truncation) -> Vec<u32> {
    let Some(kept) = truncation.tokens.filter(|kept| *kept < ids.len()) else { return ids };
    let text = kept.saturating_sub(before + behind);
    let end = ids.len() - behind;
    match truncation.kept {
        End::Last => drop(ids.drain(before..end - text)),
        End::First => drop(ids.drain(before + text..end)),
    }
    ids
}

/// How many of the ids stand before and behind those of the bare text.
pub(crate) fn around(ids: &[u32], bare: &[u32]) -> Option<(usize, usize)> {
    let more = ids.len().checked_sub(bare.len())?;
    (0..=more).find(|before| ids[*before..].starts_with(bare)).map(|before| (before, more - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: usize, kept: End, around: (usize, usize), expected: &[u32]) {
        let ids = vec![1, 10, 11, 12, 2];
        let truncation = Truncation { tokens: Some(tokens), kept };
        assert_eq!(shortened(ids, around.0, around.1, truncation), expected, "{truncation:?} {around:?}");
    }

    #[test]
    fn special_tokens_are_kept_and_counted() {
        check(5, End::Last, (1, 1), &[1, 10, 11, 12, 2]);
        check(4, End::Last, (1, 1), &[1, 11, 12, 2]);
        check(3, End::First, (1, 1), &[1, 10, 2]);
        check(2, End::Last, (0, 0), &[12, 2]);
        check(2, End::First, (0, 0), &[1, 10]);
        check(0, End::Last, (0, 0), &[]);
        assert_eq!(around(&[1, 10, 11, 2], &[10, 11]), Some((1, 1)));
        assert_eq!(around(&[10, 11], &[10, 11]), Some((0, 0)));
        assert_eq!(around(&[1, 2], &[3]), None);
    }
}
