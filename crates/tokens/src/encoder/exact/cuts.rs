//! Where a text may be cut so that the ids of its parts, one after the other, are the ids of the whole.
//!
//! In: a text; out: chunks of about one to four kilobytes, cut only at places that need no more proof than the characters
//! on both sides. Where the chunks end depends on the text near the place and on where the chunk began, so that an
//! appended text keeps its chunks and an edited one finds back to them.
//!
//! Why a place is safe, for the three expressions of `Family` (no look-behind; of look-ahead only `\s+(?!\S)`):
//! - no match goes on past the place, and the match that ends there would end there before the end of the text, too;
//!   a match that begins there depends on what follows only. The pairs:
//!   - *not a space, then a space*: a space is only taken as the first character of a match or in a run of spaces;
//!   - *a newline, then what is neither a space nor `/`*: newlines end a match, and `\s*[\r\n]+` takes a run of spaces
//!     up to its last newline before the look-ahead is tried;
//!   - *an ASCII letter, then another ASCII character that is no letter and no apostrophe*: every run of letters ends
//!     there, and only `'s` and its like go on after one;
//!   - *a Han character or Hiragana, then `。` or `，`*: the same.
//! - form C: what stands on the right is ASCII, Han or such a stop, which never joins what is before it.
//! - no added token holds the two bytes side by side, so that none reaches across.
//!
//! After a character that is an added token by itself (Gemma's newline) every place is safe where no added token holds
//! both sides: the character belongs to a token that ends there.
//!
//! Where nothing splits words (`▁` for a space), a place is safe where no token holds the two characters side by side:
//! merging never reaches across, and both sides are merged as if alone.

use super::{bpe::Bpe, file::Shape};

/// A chunk is at least as long, unless the text ends.
const SHORTEST: usize = 768;
/// From this length on the first safe place is taken.
const LONG: usize = 4096;
/// Of the safe places of shorter chunks, one in 16 is taken.
const CHOSEN_BITS: u32 = 4;

/// The safe places of a model.
#[derive(Debug)]
pub(super) struct Cuts {
    /// Pairs of ASCII characters between which a cut is safe.
    ascii: PairSet,
    /// Pairs of bytes that some added token holds.
    added: PairSet,
    /// ASCII characters that are added tokens by themselves.
    borders: Vec<u8>,
    words: bool,
}

impl Cuts {
    pub(super) fn new<'a>(shape: Shape, bpe: &Bpe, added: impl Iterator<Item = &'a str>) -> Cuts {
        let words = matches!(shape, Shape::Words { .. });
        let mut cuts = Cuts { ascii: PairSet::new(), added: PairSet::new(), borders: Vec::new(), words };
        for token in added {
            if let [border] = token.as_bytes() {
                cuts.borders.push(*border);
            }
            for pair in token.as_bytes().windows(2) {
                cuts.added.insert(pair[0], pair[1]);
            }
        }
        for (left, right) in (0..0x80_u8).flat_map(|left| (0..0x80_u8).map(move |right| (left, right))) {
            let safe = if cuts.words { words_end(left, right) } else { tokens_end(bpe, left, right) };
            if (safe || cuts.borders.contains(&left)) && !cuts.added.contains(left, right) {
                cuts.ascii.insert(left, right);
            }
        }
        cuts
    }

    /// The text in chunks.
    pub(super) fn chunks<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut start = 0;
        std::iter::from_fn(move || {
            if start == text.len() {
                return None;
            }
            let end = self.end(text, start);
            let chunk = &text[start..end];
            start = end;
            Some(chunk)
        })
    }

    fn end(&self, text: &str, start: usize) -> usize {
        let bytes = text.as_bytes();
        let long = bytes.len().min(start + LONG);
        let early = start + SHORTEST;
        // Chosen first: few places are, so that the branch is nearly always foreseen.
        let mut from = early;
        while let Some(at) = next_chosen(bytes, from, long) {
            if self.is_safe(text, at) {
                return at;
            }
            from = at + 1;
        }
        (long..bytes.len()).find(|at| self.is_safe(text, *at)).unwrap_or(bytes.len())
    }

    /// Whether the text may be cut before the byte at `at`, which is neither the first nor past the last.
    pub(super) fn is_safe(&self, text: &str, at: usize) -> bool {
        let bytes = text.as_bytes();
        let (left, right) = (bytes[at - 1], bytes[at]);
        if left.is_ascii() && right.is_ascii() {
            return self.ascii.contains(left, right);
        }
        let safe = self.borders.contains(&left) || self.words && is_safe_beyond_ascii(text, at);
        safe && text.is_char_boundary(at) && !self.added.contains(left, right)
    }
}

fn words_end(left: u8, right: u8) -> bool {
    let word = left.is_ascii_alphabetic() && right.is_ascii_graphic() && !right.is_ascii_alphabetic() && right != b'\'';
    let space = left.is_ascii_graphic() && right == b' ';
    let line = left == b'\n' && right.is_ascii_graphic() && right != b'/';
    word || space || line
}

fn tokens_end(bpe: &Bpe, left: u8, right: u8) -> bool {
    left.is_ascii_graphic() && right == b' ' && bpe.may_cut(char::from(left), ' ')
}

fn is_safe_beyond_ascii(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    match (bytes[at - 1], bytes[at]) {
        // Characters of these first bytes are not all without spaces: left alone.
        (_, b' ') => match text[..at].char_indices().next_back() {
            Some((start, _)) => {
                !matches!(bytes[start], 0xC2 | 0xE1 | 0xE2) && !bytes[start..at].starts_with(&[0xE3, 0x80])
            }
            None => false,
        },
        (b'\n', right) => is_han(right),
        (0x80.., 0xE3 | 0xEF) => {
            let stop = bytes[at..].starts_with("。".as_bytes()) || bytes[at..].starts_with("，".as_bytes());
            stop && at >= 3
                && (is_han(bytes[at - 3]) || bytes[at - 3..at].starts_with(&[0xE3, 0x81]) && bytes[at - 1] > 0x80)
        }
        _ => false,
    }
}

/// Whether all characters that begin with this byte are Han: U+5000 to U+8FFF.
fn is_han(first: u8) -> bool {
    matches!(first, 0xE5..=0xE8)
}

/// The first place from `from` on, and before `to`, that is chosen.
fn next_chosen(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let before = bytes.get(from - 8..to.saturating_sub(1)).unwrap_or_default();
    before.array_windows().position(is_chosen).map(|at| from + at)
}

/// Whether the eight bytes before a place choose it: always the same for the same bytes.
fn is_chosen(before: &[u8; 8]) -> bool {
    u64::from_le_bytes(*before).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - CHOSEN_BITS) == 0
}

/// A set of pairs of bytes.
#[derive(Debug)]
struct PairSet(Box<[u64; 1024]>);

impl PairSet {
    fn new() -> PairSet {
        PairSet(Box::new([0; 1024]))
    }

    fn insert(&mut self, left: u8, right: u8) {
        self.0[usize::from(left) << 2 | usize::from(right >> 6)] |= 1 << (right & 63);
    }

    fn contains(&self, left: u8, right: u8) -> bool {
        self.0[usize::from(left) << 2 | usize::from(right >> 6)] >> (right & 63) & 1 == 1
    }
}
