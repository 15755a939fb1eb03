//! Our own encoder for models of known shape.
//!
//! In: a `tokenizer.json` of a known shape and the reference's own tokenizer made of it; out: text to ids, equal to the
//! reference's, with a memo of chunks. At loading both encode a set of probes; where they differ, or the file is of
//! another shape, there is no such encoder.

mod added;
mod bpe;
mod classes;
mod cuts;
mod file;
mod pairs;
mod probes;
mod words;

use std::sync::Arc;

use tokenizers::{ModelWrapper, Tokenizer};
use unicode_normalization_alignments::UnicodeNormalization;

use crate::memo::{Memo, MemoStats};
use added::{AddedTokens, Piece};
use bpe::{Bpe, Scratch, Source};
use cuts::Cuts;
use file::{File, Shape};

/// A model's encoder.
#[derive(Debug)]
pub(super) struct Exact {
    shape: Shape,
    table: &'static [u8],
    added: AddedTokens,
    bpe: Bpe,
    cuts: Cuts,
    memo: Memo<Arc<[u32]>>,
    /// Ids that `add_special_tokens` puts before and after.
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Exact {
    /// Makes the encoder, or says why there is none for this file.
    pub(super) fn new(tokenizer_json: &[u8], reference: &Tokenizer, memo_bytes: usize) -> Result<Exact, String> {
        if !matches!(reference.get_model(), ModelWrapper::BPE(_)) {
            return Err("a model that isn't BPE".to_owned());
        }
        let file: File = serde_json::from_slice(tokenizer_json).map_err(|error| error.to_string())?;
        let shape = file.shape()?;
        let source = Source {
            vocabulary: file.model.vocab.iter().map(|(token, id)| (token.as_str(), *id)).collect(),
            merges: file.model.merges.iter().map(|pair| (pair.0.as_str(), pair.1.as_str())).collect(),
            ignore_merges: file.model.ignore_merges,
            byte_level: matches!(shape, Shape::Words { .. }),
        };
        let bpe = Bpe::new(&source)?;
        let (mut raw, mut normalized) = (Vec::new(), Vec::new());
        for added in file.added_tokens.iter().filter(|added| !added.content.is_empty()) {
            let id = reference.token_to_id(&added.content).ok_or("an added token without an id")?;
            let tokens = if added.normalized { &mut normalized } else { &mut raw };
            tokens.push((added.content.as_str(), id));
        }
        let cuts = Cuts::new(shape, &bpe, raw.iter().chain(&normalized).map(|(content, _)| *content));
        let added = AddedTokens::new(&raw, &normalized)?;
        let table = classes::table()?;
        let memo = Memo::new(memo_bytes);
        let (before, after) = frame(reference)?;
        let exact = Exact { shape, table, added, bpe, cuts, memo, before, after };
        exact.check(reference, raw.iter().chain(&normalized).map(|(content, _)| *content))?;
        Ok(exact)
    }

    /// The ids of a text: chunk by chunk, those seen before from the memo.
    pub(super) fn encode(&self, text: &str, add_special_tokens: bool) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 16);
        let mut scratch = Scratch::default();
        if add_special_tokens {
            ids.extend_from_slice(&self.before);
        }
        for chunk in self.cuts.chunks(text) {
            match self.memo.get(chunk.as_bytes()) {
                Some(known) => ids.extend_from_slice(&known),
                None => {
                    let start = ids.len();
                    self.encode_chunk(chunk, &mut scratch, &mut ids);
                    self.memo.insert(chunk.as_bytes(), || ids[start..].into());
                }
            }
        }
        if add_special_tokens {
            ids.extend_from_slice(&self.after);
        }
        ids
    }

    /// Adds the ids of a text without looking at the memo.
    fn encode_chunk(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        self.added.each(text, |piece| match piece {
            Piece::Token(id) => ids.push(id),
            Piece::Text(text) => match self.shape {
                Shape::Unsplit => self.bpe.encode_unsplit(text, scratch, ids),
                Shape::Words { family, nfc } => {
                    let composed = (nfc && !self.is_composed(text)).then(|| compose(text));
                    let text = composed.as_deref().unwrap_or(text);
                    family.each(text, self.table, |word| self.bpe.encode_word(word, scratch, ids));
                }
            },
        });
    }

    fn is_composed(&self, text: &str) -> bool {
        text.is_ascii() || text.chars().all(|character| self.table[character as usize] & classes::COMPOSED != 0)
    }

    /// What has been remembered and how it served.
    pub(super) fn memo(&self) -> MemoStats {
        self.memo.stats()
    }

    /// Byte positions before which the text may be cut: the ids of the parts, one after the other, are those of the
    /// whole.
    #[cfg(test)]
    pub(super) fn safe_cuts(&self, text: &str) -> Vec<usize> {
        (1..text.len()).filter(|at| self.cuts.is_safe(text, *at)).collect()
    }

    fn check<'a>(&self, reference: &Tokenizer, tokens: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut scratch = Scratch::default();
        for probe in probes::texts(tokens) {
            let wanted = reference.encode_fast(probe.as_str(), false).map_err(|error| error.to_string())?;
            let mut ids = Vec::new();
            self.encode_chunk(&probe, &mut scratch, &mut ids);
            if ids != wanted.get_ids() {
                return Err(format!("ids other than the reference's for {probe:?}"));
            }
        }
        Ok(())
    }
}

fn compose(text: &str) -> String {
    text.chars().nfc().map(|(character, _)| character).collect()
}

/// What the reference puts before and after a text with `add_special_tokens`.
fn frame(reference: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>), String> {
    let ids = |text: &str, add_special_tokens| {
        reference
            .encode_fast(text, add_special_tokens)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| error.to_string())
    };
    let (framed, bare) = (ids("a b", true)?, ids("a b", false)?);
    let mut places = framed.windows(bare.len().max(1)).enumerate().filter(|(_, window)| *window == bare);
    let (Some((at, _)), None) = (places.next(), places.next()) else {
        return Err("special tokens around a text that aren't understood".to_owned());
    };
    let (before, after) = (framed[..at].to_vec(), framed[at + bare.len()..].to_vec());
    for text in ["", "1", "c d  "] {
        if ids(text, true)? != [before.clone(), ids(text, false)?, after.clone()].concat() {
            return Err("special tokens around a text that depend on it".to_owned());
        }
    }
    Ok((before, after))
}
