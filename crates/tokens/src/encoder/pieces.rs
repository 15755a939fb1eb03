//! The encoder for models of any shape: `tokenizers` itself, with a memo of the pieces between added tokens.
//!
//! In: a tokenizer, then text; out: the ids that it gives for the whole text, always. See [`borders`] for why encoding
//! in pieces changes nothing.

mod borders;

use std::sync::Arc;

use tokenizers::Tokenizer;

use crate::{
    EncodeError,
    memo::{Memo, MemoStats},
};
use borders::{Borders, Span};

/// A tokenizer and what it encoded before.
#[derive(Debug)]
pub(super) struct Pieces {
    tokenizer: Tokenizer,
    /// `None` where pieces can't be encoded on their own.
    borders: Option<Borders>,
    /// Ids that stand around every text with special tokens; `None` where it isn't that simple.
    around: Option<(Vec<u32>, Vec<u32>)>,
    memo: Memo<Arc<[u32]>>,
}

impl Pieces {
    /// Takes a tokenizer, remembering at most `memo_bytes`.
    pub(super) fn new(tokenizer: Tokenizer, memo_bytes: usize) -> Pieces {
        let borders = Borders::of(&tokenizer);
        let around = around(&tokenizer);
        Pieces { tokenizer, borders, around, memo: Memo::new(memo_bytes) }
    }

    /// The ids of a text.
    pub(super) fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        let (Some(borders), around) = (&self.borders, &self.around) else {
            return self.encode_whole(text, add_special_tokens);
        };
        let (before, after) = match (add_special_tokens, around) {
            (false, _) => (&[][..], &[][..]),
            (true, Some((before, after))) => (before.as_slice(), after.as_slice()),
            (true, None) => return self.encode_whole(text, true),
        };
        let mut ids = Vec::with_capacity(text.len() / 4 + before.len() + after.len());
        ids.extend_from_slice(before);
        let mut first = true;
        for span in borders.spans(text) {
            match span {
                Span::Token(id) => ids.push(id),
                // Not remembered: elsewhere the same text has other ids.
                Span::Piece(piece) if first && borders.place_matters() => ids.extend(self.encode_whole(piece, false)?),
                Span::Piece(piece) => self.extend(&mut ids, borders, piece)?,
            }
            first = false;
        }
        ids.extend_from_slice(after);
        Ok(ids)
    }

    /// Without the memo: the oracle.
    pub(super) fn encode_whole(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|error| EncodeError::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// What has been remembered and how it served.
    pub(super) fn memo(&self) -> MemoStats {
        self.memo.stats()
    }

    /// Adds a piece's ids, encoded where they aren't remembered.
    fn extend(&self, ids: &mut Vec<u32>, borders: &Borders, piece: &str) -> Result<(), EncodeError> {
        match self.memo.get(piece.as_bytes()) {
            Some(known) => ids.extend_from_slice(&known),
            None => {
                let made = self.encode_piece(borders, piece)?;
                self.memo.insert(piece.as_bytes(), || made.as_slice().into());
                ids.extend(made);
            }
        }
        Ok(())
    }

    /// Where the place matters, a piece is encoded behind an added token, as it stands in the text.
    fn encode_piece(&self, borders: &Borders, piece: &str) -> Result<Vec<u32>, EncodeError> {
        if !borders.place_matters() {
            return self.encode_whole(piece, false);
        }
        let mut ids = self.encode_whole(&format!("{}{piece}", borders.token()), false)?;
        ids.remove(0);
        Ok(ids)
    }
}

/// The ids that special tokens put before and after a text, if they are the same for two texts.
fn around(tokenizer: &Tokenizer) -> Option<(Vec<u32>, Vec<u32>)> {
    let of = |text: &str| -> Option<(Vec<u32>, Vec<u32>)> {
        let plain = tokenizer.encode_fast(text, false).ok()?.get_ids().to_vec();
        let whole = tokenizer.encode_fast(text, true).ok()?.get_ids().to_vec();
        let at = whole.windows(plain.len().max(1)).position(|window| window == plain)?;
        Some((whole[..at].to_vec(), whole[at + plain.len()..].to_vec()))
    };
    let around = of("a")?;
    (around == of("Hello, world")?).then_some(around)
}

#[cfg(test)]
mod tests;
