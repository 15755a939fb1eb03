//! Text to token ids, as the model's `tokenizer.json` says.
//!
//! In: text; out: the ids that Hugging Face's `tokenizers` gives, always. Truncation and padding in the file are left
//! out, as engines do. What was encoded before is remembered in pieces: see [`borders`] for why that changes nothing.

mod borders;
mod memo;

use tokenizers::Tokenizer;

use crate::{EncodeError, LoadError};
use borders::{Borders, Span};
use memo::Memo;

pub use memo::MemoStats;

/// A model's encoder.
#[derive(Debug)]
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
    /// `None` where pieces can't be encoded on their own.
    borders: Option<Borders>,
    /// Ids that stand around every text with special tokens; `None` where it isn't that simple.
    around: Option<(Vec<u32>, Vec<u32>)>,
    memo: Memo,
}

impl Encoder {
    /// Loads `tokenizer.json`, remembering at most `memo_bytes`.
    pub(crate) fn load(tokenizer_json: &[u8], memo_bytes: usize) -> Result<Encoder, LoadError> {
        if tokenizer_json.is_empty() {
            return Err(LoadError::NoTokenizer);
        }
        let failed = |error: tokenizers::Error| LoadError::Tokenizer(error.to_string());
        let mut tokenizer = Tokenizer::from_bytes(tokenizer_json).map_err(failed)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(failed)?;
        let borders = Borders::of(&tokenizer);
        let around = around(&tokenizer);
        Ok(Encoder { tokenizer, borders, around, memo: Memo::new(memo_bytes) })
    }

    pub(crate) fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
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
                Span::Piece(piece) => {
                    self.memo.extend(&mut ids, piece, first, || self.encode_piece(borders, piece, first))?;
                }
            }
            first = false;
        }
        ids.extend_from_slice(after);
        Ok(ids)
    }

    /// Without the memo: the oracle.
    pub(crate) fn encode_whole(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|error| EncodeError::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// What has been remembered and how it served.
    pub(crate) fn memo(&self) -> MemoStats {
        self.memo.stats()
    }

    /// A piece that doesn't begin the text is encoded behind an added token, as it stands in the text.
    fn encode_piece(&self, borders: &Borders, piece: &str, first: bool) -> Result<Vec<u32>, EncodeError> {
        if first || !borders.place_matters() {
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
