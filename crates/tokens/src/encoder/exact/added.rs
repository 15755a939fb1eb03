//! Added tokens found in text.
//!
//! In: text; out: its added tokens' ids and the text between them, in order. Found as `tokenizers` does: first those
//! looked for in the raw text, then, between them, those looked for in normalized text; of those that begin at the
//! same place the longest. Tokens that take spaces in or ask for word borders are never handed in.

use aho_corasick::{AhoCorasick, MatchKind};

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// An added token.
    Token(u32),
    /// Text between them; never empty.
    Text(&'t str),
}

/// The added tokens of a model.
#[derive(Debug)]
pub(super) struct AddedTokens {
    raw: Option<Finder>,
    normalized: Option<Finder>,
}

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl AddedTokens {
    /// From contents and ids; `Err` where they are too many for an automaton.
    pub(super) fn new(raw: &[(&str, u32)], normalized: &[(&str, u32)]) -> Result<AddedTokens, &'static str> {
        Ok(AddedTokens { raw: Finder::new(raw)?, normalized: Finder::new(normalized)? })
    }

    /// Hands every piece of the text to `take`.
    pub(super) fn each<'t>(&self, text: &'t str, mut take: impl FnMut(Piece<'t>)) {
        each_of(self.raw.as_ref(), text, |piece| match piece {
            Piece::Token(_) => take(piece),
            Piece::Text(between) => each_of(self.normalized.as_ref(), between, &mut take),
        });
    }
}

impl Finder {
    fn new(tokens: &[(&str, u32)]) -> Result<Option<Finder>, &'static str> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let contents = tokens.iter().map(|(content, _)| content);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(contents)
            .map_err(|_| "added tokens that are too many")?;
        Ok(Some(Finder { automaton, ids: tokens.iter().map(|(_, id)| *id).collect() }))
    }
}

fn each_of<'t>(finder: Option<&Finder>, text: &'t str, mut take: impl FnMut(Piece<'t>)) {
    let mut start = 0;
    if let Some(finder) = finder {
        for found in finder.automaton.find_iter(text) {
            if start < found.start() {
                take(Piece::Text(&text[start..found.start()]));
            }
            take(Piece::Token(finder.ids[found.pattern().as_usize()]));
            start = found.end();
        }
    }
    if start < text.len() {
        take(Piece::Text(&text[start..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_comes_first_and_raw_tokens_before_normalized_ones() {
        let tokens = AddedTokens::new(&[("<a>", 1), ("<a><a>", 2)], &[("x<", 3), ("y", 4)]).expect("few tokens");
        let mut pieces = Vec::new();
        tokens.each("<a><a><a>x<a>zy<b", |piece| pieces.push(piece));
        use Piece::{Text, Token};
        let wanted = [Token(2), Token(1), Text("x"), Token(1), Text("z"), Token(4), Text("<b")];
        assert_eq!(pieces, wanted);
    }
}
