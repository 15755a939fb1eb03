//! Prompts without tokens: spans that say how long a piece of text is and which piece it is. In: spans; out: chained names
//! of blocks, equal where the tokens would be equal. A prompt of thousands of tokens is a few words, and naming a block costs
//! a few nanoseconds whatever its size.

use super::cache::Name;
use super::sequence::mix;

/// A piece of text. Spans of one id have the same tokens, as far as the shorter one goes; spans of two ids have none in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Which text.
    pub id: u64,
    /// How long, in whatever the blocks are counted in: mostly tokens.
    pub tokens: u32,
}

/// The length of all spans together.
pub fn tokens(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.tokens)).sum()
}

/// The names of the whole blocks of `size`, behind a border; and, where something is left and a whole block stands before
/// it, the name of the rest.
pub fn names(spans: &[Span], size: u32, border: u64) -> (Vec<Name>, Option<Name>) {
    let all = tokens(spans);
    let whole = (all / u64::from(size)) as usize;
    let rest = (all % u64::from(size)) as u32;
    let mut naming = Naming::default();
    let mut names = Vec::with_capacity(whole);
    let mut before = border;
    for _ in 0..whole {
        before = naming.next(before, spans, None, size);
        names.push(before);
    }
    // With its length, as it may be the beginning of another prompt's whole block.
    let tail = (whole > 0 && rest > 0).then(|| mix(naming.next(before, spans, None, rest) ^ u64::from(rest)));
    (names, tail)
}

/// How far a prompt's blocks have been named.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Naming {
    span: usize,
    /// Tokens of that span that are named already.
    offset: u32,
}

impl Naming {
    /// The name of the next `size` tokens, where `before` is the name of those in front of them. Behind the spans follows an
    /// endless one with the id `answer`, if any.
    pub(super) fn next(&mut self, before: Name, spans: &[Span], answer: Option<u64>, size: u32) -> Name {
        let mut name = before;
        let mut left = size;
        while left > 0 {
            let (id, there) = match spans.get(self.span) {
                Some(span) => (span.id, span.tokens - self.offset),
                None => match answer {
                    Some(id) => (id, left),
                    None => break,
                },
            };
            let takes = there.min(left);
            if takes > 0 {
                name = mix(name.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id);
                name = mix(name ^ (u64::from(self.offset) << 32 | u64::from(takes)));
            }
            left -= takes;
            self.offset += takes;
            if takes == there && self.span < spans.len() {
                (self.span, self.offset) = (self.span + 1, 0);
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a5 b3` are five tokens of a and three of b.
    fn spans(text: &str) -> Vec<Span> {
        let span = |word: &str| Span { id: u64::from(word.as_bytes()[0]), tokens: word[1..].parse().unwrap() };
        text.split_whitespace().map(span).collect()
    }

    /// How many leading blocks of four tokens two prompts share, counted by names.
    #[track_caller]
    fn check(one: &str, other: &str, shared: usize) {
        let (one, other) = (names(&spans(one), 4, 0).0, names(&spans(other), 4, 0).0);
        let alike: Vec<bool> = one.iter().zip(&other).map(|(a, b)| a == b).collect();
        assert_eq!(alike.iter().take_while(|alike| **alike).count(), shared);
        // Chained: once they part they never meet again.
        assert!(alike.iter().skip(shared).all(|alike| !alike));
    }

    #[test]
    fn blocks_are_shared_as_far_as_the_tokens_are() {
        check("a16", "a16", 4);
        check("a16 b9", "a16 c9", 4);
        check("a15 b9", "a15 c9", 3);
        check("a15 b9", "a16 b9", 3);
        check("a3 b3 c9", "a3 b3 d9", 1);
        check("b8", "a8", 0);
        check("a1 b16", "c1 b16", 0);
        check("a9", "a99", 2);
    }

    #[test]
    fn a_border_and_the_rest_count_too() {
        let (whole, tail) = names(&spans("a10"), 4, 0);
        assert_eq!((whole.len(), tail.is_some()), (2, true));
        assert_ne!(names(&spans("a10"), 4, 1).0[0], whole[0]);
        assert_ne!(names(&spans("a11"), 4, 0).1, tail);
        assert_eq!(names(&spans("a8"), 4, 0).1, None);
        assert_eq!(names(&spans("a3"), 4, 0), (vec![], None));
    }
}
