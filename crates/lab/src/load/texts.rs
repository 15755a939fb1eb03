//! Texts of a wished length. In: a draw and a number of tokens; out: sentences of plain words that have just so many.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use request::Prompt;
use tokens::{Context, EncodeError, Tokenizer};

use crate::draw::Draw;
use crate::words::{NoWords, Words};

/// Makes texts for one tokenizer.
pub(super) struct Texts<'a> {
    tokenizer: &'a Tokenizer,
    words: Words,
}

impl<'a> Texts<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Result<Texts<'a>, NoWords> {
        Ok(Texts { tokenizer, words: Words::of(tokenizer)? })
    }

    /// A text that begins with `beginning` and has `tokens` tokens, or those of the beginning where these are more.
    pub(super) fn make(&self, draw: &mut Draw, beginning: &str, tokens: usize) -> Result<String, EncodeError> {
        let sentence = self.sentences(draw, tokens);
        let mut text = format!("{beginning}{sentence}");
        loop {
            let over = self.count(&text)?.saturating_sub(tokens);
            if over == 0 {
                return Ok(text);
            }
            for _ in 0..over {
                if text.len() <= beginning.len() {
                    return Ok(text);
                }
                drop_last(&mut text);
            }
        }
    }

    /// Sentences of 6 to 17 words, `words` words in all.
    fn sentences(&self, draw: &mut Draw, words: usize) -> String {
        let mut text = String::with_capacity(words * 6);
        let mut left = 6 + draw.below(12);
        for _ in 0..words {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(self.words.list[draw.below(self.words.list.len())]);
            left -= 1;
            if left == 0 {
                text.push('.');
                left = 6 + draw.below(12);
            }
        }
        text
    }

    fn count(&self, text: &str) -> Result<usize, EncodeError> {
        let prompt = Prompt::Texts { texts: vec![Cow::Borrowed(text)], add_special_tokens: false };
        Ok(self.tokenizer.encode(&prompt, &Context::at(UNIX_EPOCH))?.tokens())
    }
}

/// Takes the last token off: a full stop, or a word and the space before it.
fn drop_last(text: &mut String) {
    if text.pop().is_some_and(|last| last != '.') {
        text.truncate(text.rfind(' ').unwrap_or(0));
    }
}
