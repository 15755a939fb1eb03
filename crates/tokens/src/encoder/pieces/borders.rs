//! Where a text can be cut so that its pieces encode as they do within it.
//!
//! In: a tokenizer and a text; out: the text's added tokens and the pieces between them.
//!
//! `tokenizers` first cuts the raw text at its added tokens that aren't normalized, leftmost and longest first. From
//! then on each piece goes its own way: normalizers, the search for normalized added tokens, pre-tokenizers and the
//! model see one piece at a time, and ids are strung together at the end. So a piece's ids depend on its text alone.
//! The exceptions, and what is done about them:
//! - added tokens that count as `single_word` look at their neighbours: such tokenizers have no borders here;
//! - added tokens that strip (`lstrip`, `rstrip`) take the spaces beside them: the same spaces are taken here. Where
//!   such a token begins or ends with a space itself, there are no borders;
//! - `Metaspace` with the scheme `first` treats the piece that begins the text otherwise: it is not remembered, and other
//!   pieces are encoded behind an added token, where they don't begin the text.
//!
//! A property test holds both ways against each other.

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::{PreTokenizerWrapper, Tokenizer, pre_tokenizers::metaspace::PrependScheme};

/// A tokenizer's added tokens that aren't normalized.
#[derive(Debug)]
pub(super) struct Borders {
    finder: AhoCorasick,
    tokens: Vec<Token>,
    /// A token that no other begins with and that takes no spaces.
    token: String,
    place_matters: bool,
}

#[derive(Debug)]
struct Token {
    id: u32,
    lstrip: bool,
    rstrip: bool,
}

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Span<'t> {
    /// An added token.
    Token(u32),
    /// What stands between added tokens; never empty.
    Piece(&'t str),
}

impl Borders {
    /// `None` where cutting could change ids, or where there is nothing to cut at.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Borders> {
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let mut kept: Vec<_> =
            added.iter().filter(|(_, token)| !token.normalized && !token.content.is_empty()).collect();
        kept.sort_by_key(|(id, _)| **id);
        let strips = kept.iter().any(|(_, token)| token.lstrip || token.rstrip);
        let spaced = |text: &str| text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace);
        if kept.iter().any(|(_, token)| token.single_word || strips && spaced(&token.content)) {
            return None;
        }
        let begins_another =
            |text: &str| kept.iter().any(|(_, other)| other.content != text && other.content.starts_with(text));
        let (_, token) =
            kept.iter().find(|(_, token)| !token.lstrip && !token.rstrip && !begins_another(&token.content))?;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(kept.iter().map(|(_, token)| token.content.as_str()))
            .ok()?;
        let tokens =
            kept.iter().map(|(id, token)| Token { id: **id, lstrip: token.lstrip, rstrip: token.rstrip }).collect();
        Some(Borders { finder, tokens, token: token.content.clone(), place_matters: place_matters(tokenizer) })
    }

    /// Whether a piece that begins the text is treated otherwise than one that doesn't.
    pub(super) fn place_matters(&self) -> bool {
        self.place_matters
    }

    /// An added token that can stand before any piece.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Cuts a text.
    pub(super) fn spans<'t>(&self, text: &'t str) -> Vec<Span<'t>> {
        let mut spans = Vec::new();
        let mut from = 0;
        for found in self.finder.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            let mut start = found.start();
            let mut end = found.end();
            if token.lstrip {
                start = text[..start].trim_end().len().max(from);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if from < start {
                spans.push(Span::Piece(&text[from..start]));
            }
            spans.push(Span::Token(token.id));
            from = end;
        }
        if from < text.len() {
            spans.push(Span::Piece(&text[from..]));
        }
        spans
    }
}

fn place_matters(tokenizer: &Tokenizer) -> bool {
    fn in_pre_tokenizer(pre_tokenizer: &PreTokenizerWrapper) -> bool {
        match pre_tokenizer {
            PreTokenizerWrapper::Metaspace(metaspace) => metaspace.get_prepend_scheme() == PrependScheme::First,
            PreTokenizerWrapper::Sequence(sequence) => sequence.as_ref().iter().any(in_pre_tokenizer),
            _ => false,
        }
    }
    tokenizer.get_pre_tokenizer().is_some_and(in_pre_tokenizer)
}
