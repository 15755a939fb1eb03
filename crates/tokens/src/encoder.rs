//! Text to token ids, as the model's `tokenizer.json` says.
//!
//! In: text; out: the ids that Hugging Face's `tokenizers` gives. Truncation and padding in the file are left out, as
//! engines do.

use tokenizers::Tokenizer;

use crate::{EncodeError, LoadError};

/// A model's encoder.
#[derive(Debug)]
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
}

impl Encoder {
    pub(crate) fn load(tokenizer_json: &[u8]) -> Result<Encoder, LoadError> {
        if tokenizer_json.is_empty() {
            return Err(LoadError::NoTokenizer);
        }
        let mut tokenizer =
            Tokenizer::from_bytes(tokenizer_json).map_err(|error| LoadError::Tokenizer(error.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| LoadError::Tokenizer(error.to_string()))?;
        Ok(Encoder { tokenizer })
    }

    pub(crate) fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|error| EncodeError::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }
}
