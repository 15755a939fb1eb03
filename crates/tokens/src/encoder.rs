//! Text to token ids, as the model's `tokenizer.json` says.
//!
//! In: text; out: the ids that Hugging Face's `tokenizers` gives, always. Truncation and padding in the file are left
//! out, as engines do. Models of a known shape are encoded by tables of our own ([`exact`]), which are held against
//! `tokenizers` when the model is loaded; all others by `tokenizers` itself, some thirty times more slowly ([`pieces`]).
//! Both remember what they encoded before.

mod exact;
mod pieces;

use tokenizers::Tokenizer;

use crate::{EncodeError, LoadError, MemoStats};
use exact::Exact;
use pieces::Pieces;

/// A model's encoder. Shared by threads.
#[derive(Debug)]
pub(crate) struct Encoder {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Exact(Box<Exact>),
    Pieces { pieces: Box<Pieces>, because: String },
}

impl Encoder {
    /// Loads `tokenizer.json`, remembering at most `memo_bytes`.
    pub(crate) fn load(tokenizer_json: &[u8], memo_bytes: usize) -> Result<Encoder, LoadError> {
        if tokenizer_json.is_empty() {
            return Err(LoadError::NoTokenizer);
        }
        let tokenizer = reference(tokenizer_json)?;
        let kind = match Exact::new(tokenizer_json, &tokenizer, memo_bytes) {
            Ok(exact) => Kind::Exact(Box::new(exact)),
            Err(because) => Kind::Pieces { pieces: Box::new(Pieces::new(tokenizer, memo_bytes)), because },
        };
        Ok(Encoder { kind })
    }

    pub(crate) fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        match &self.kind {
            Kind::Exact(exact) => Ok(exact.encode(text, add_special_tokens)),
            Kind::Pieces { pieces, .. } => pieces.encode(text, add_special_tokens),
        }
    }

    /// Why the model is encoded slowly, if it is.
    pub(crate) fn slow_because(&self) -> Option<&str> {
        match &self.kind {
            Kind::Exact(_) => None,
            Kind::Pieces { because, .. } => Some(because),
        }
    }

    /// What has been remembered and how it served.
    pub(crate) fn memo(&self) -> MemoStats {
        match &self.kind {
            Kind::Exact(exact) => exact.memo(),
            Kind::Pieces { pieces, .. } => pieces.memo(),
        }
    }
}

/// The tokenizer as Hugging Face has it, without truncation and padding.
fn reference(tokenizer_json: &[u8]) -> Result<Tokenizer, LoadError> {
    let failed = |error: tokenizers::Error| LoadError::Tokenizer(error.to_string());
    let mut tokenizer = Tokenizer::from_bytes(tokenizer_json).map_err(failed)?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(failed)?;
    Ok(tokenizer)
}

#[cfg(test)]
mod tests;
