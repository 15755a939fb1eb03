//! Byte-pair encoding of one word.
//!
//! In: a vocabulary and merges as `tokenizer.json` lists them, then words; out: the ids that `tokenizers` gives: the
//! merge of the lowest rank first, of equals the leftmost. Nothing is remembered between words: which words are one
//! token is worked out at loading, the others are merged anew.

use std::{cmp::Reverse, collections::BinaryHeap, hash::BuildHasherDefault};

use hashbrown::{HashMap, HashSet, HashTable};
use xxhash_rust::xxh3::xxh3_64;

use super::pairs::PairHasher;

/// A word of more symbols is merged with a heap.
const SHORT: usize = 48;

type Merges = HashMap<u64, Merge, BuildHasherDefault<PairHasher>>;

#[derive(Clone, Copy, Debug)]
struct Merge {
    rank: u32,
    id: u32,
}

/// How a word's first symbols are found.
#[derive(Debug)]
enum Symbols {
    /// Each byte is one.
    Bytes(Box<[u32; 256]>),
    /// Each character that the vocabulary knows is one; of the others, each byte.
    Characters {
        known: HashMap<char, u32, BuildHasherDefault<PairHasher>>,
        bytes: Box<[u32; 256]>,
        /// Neighbours within some token: only between others may a text be cut.
        inside: HashSet<u64, BuildHasherDefault<PairHasher>>,
    },
}

/// A token and its text.
#[derive(Clone, Copy, Debug)]
struct Token {
    start: u32,
    length: u32,
    id: u32,
}

/// A model's vocabulary and merges.
#[derive(Debug)]
pub(super) struct Bpe {
    symbols: Symbols,
    merges: Merges,
    /// Of which pairs some merge is.
    some: Sieve,
    /// The texts of all tokens, one after the other.
    texts: Vec<u8>,
    /// Words that are one token.
    whole: HashTable<Token>,
}

/// Room for the work on one word, kept from word to word.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<u64>>,
    links: Vec<Link>,
    spaced: String,
    recent: Recent,
}

/// Words merged before in the same text. The newest of those that share a slot stays.
#[derive(Debug, Default)]
struct Recent {
    slots: Vec<Slot>,
    words: Vec<u8>,
    ids: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    word: u32,
    word_length: u32,
    ids: u32,
    ids_length: u32,
}

/// Slots for words, as a power of two.
const SLOT_BITS: u32 = 12;
/// Longer words are seldom met again.
const LONGEST_RECENT: usize = 48;
/// With so many bytes of words, all is forgotten.
const MOST_RECENT: usize = 256 * 1024;

impl Recent {
    fn ids(&self, hash: u64, word: &[u8]) -> Option<&[u32]> {
        let slot = self.slots.get((hash >> (u64::BITS - SLOT_BITS)) as usize)?;
        let known = &self.words[slot.word as usize..][..slot.word_length as usize];
        (known == word).then(|| &self.ids[slot.ids as usize..][..slot.ids_length as usize])
    }

    fn keep(&mut self, hash: u64, word: &[u8], ids: &[u32]) {
        if word.len() > LONGEST_RECENT {
            return;
        }
        if self.slots.is_empty() || self.words.len() > MOST_RECENT {
            self.words.clear();
            self.ids.clear();
            self.slots.clear();
            self.slots.resize(1 << SLOT_BITS, Slot::default());
        }
        let slot = Slot {
            word: self.words.len() as u32,
            word_length: word.len() as u32,
            ids: self.ids.len() as u32,
            ids_length: ids.len() as u32,
        };
        self.words.extend_from_slice(word);
        self.ids.extend_from_slice(ids);
        self.slots[(hash >> (u64::BITS - SLOT_BITS)) as usize] = slot;
    }
}

/// A symbol and its merge with the next one.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    id: u32,
    rank: u32,
    merged: u32,
}

/// A symbol between its neighbours.
#[derive(Clone, Copy, Debug)]
struct Link {
    now: Symbol,
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;
/// A symbol that was merged into the one before.
const GONE: Symbol = Symbol { id: NONE, rank: NONE, merged: 0 };

/// The pair's place in the queue: by rank, then from the left.
fn queued(symbol: &Symbol, at: u32) -> Option<Reverse<u64>> {
    (symbol.rank != NONE).then_some(Reverse(u64::from(symbol.rank) << 32 | u64::from(at)))
}

/// The parts of a `tokenizer.json`'s model that matter here.
pub(super) struct Source<'f> {
    /// Tokens as listed, with their ids.
    pub(super) vocabulary: Vec<(&'f str, u32)>,
    /// Merges in order of rank.
    pub(super) merges: Vec<(&'f str, &'f str)>,
    /// Whether a word that is a token needs no merging.
    pub(super) ignore_merges: bool,
    /// Whether tokens are spelled in GPT-2's alphabet of bytes; otherwise in characters, `▁` for a space, with tokens
    /// `<0xNN>` for the bytes of unknown characters.
    pub(super) byte_level: bool,
}

impl Bpe {
    /// Reads the vocabulary; `Err` says why words could not be encoded exactly by these tables.
    pub(super) fn new(source: &Source<'_>) -> Result<Bpe, &'static str> {
        let ids: std::collections::HashMap<&str, u32> = source.vocabulary.iter().copied().collect();
        let merges = read_merges(source, &ids)?;
        let symbols = if source.byte_level { byte_symbols(&ids)? } else { character_symbols(source, &ids)? };
        let some = Sieve::new(&merges);
        let mut bpe = Bpe { symbols, merges, some, texts: Vec::new(), whole: HashTable::with_capacity(ids.len()) };
        bpe.find_whole(source);
        Ok(bpe)
    }

    /// Remembers the tokens that a word of the same text becomes.
    fn find_whole(&mut self, source: &Source<'_>) {
        let (mut scratch, mut merged) = (Scratch::default(), Vec::new());
        for (token, id) in &source.vocabulary {
            let text = if source.byte_level { spelled_bytes(token) } else { spelled_characters(token) };
            let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
            merged.clear();
            if !source.ignore_merges {
                self.merge(&text, &mut scratch, &mut merged);
            }
            let exact = source.ignore_merges || merged == [*id];
            let (Ok(start), Ok(length)) = (u32::try_from(self.texts.len()), u32::try_from(text.len())) else { return };
            if exact {
                let texts = &mut self.texts;
                texts.extend_from_slice(&text);
                let of = |token: &Token| xxh3_64(slice(texts, token));
                self.whole.insert_unique(xxh3_64(&text), Token { start, length, id: *id }, of);
            }
        }
    }

    /// Adds the ids of a piece of text that has no words of its own: it is cut where no token reaches across.
    pub(super) fn encode_unsplit(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let mut spaced = std::mem::take(&mut scratch.spaced);
        let text = if text.contains('▁') {
            spaced.clear();
            spaced.extend(text.chars().map(|character| if character == '▁' { ' ' } else { character }));
            &spaced
        } else {
            text
        };
        let mut start = 0;
        let mut before = None;
        for (at, next) in text.char_indices() {
            if before.is_some_and(|before| self.may_cut(before, next)) {
                self.encode_word(&text[start..at], scratch, ids);
                start = at;
            }
            before = Some(next);
        }
        self.encode_word(&text[start..], scratch, ids);
        scratch.spaced = spaced;
    }

    /// Whether no token holds the two characters side by side (a space stands for `▁`, too). Always false where words
    /// are split by an expression.
    pub(super) fn may_cut(&self, before: char, next: char) -> bool {
        match &self.symbols {
            Symbols::Bytes(_) => false,
            Symbols::Characters { inside, .. } => !inside.contains(&pair(u32::from(before), u32::from(next))),
        }
    }

    /// Adds the ids of one word.
    #[inline]
    pub(super) fn encode_word(&self, word: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let word = word.as_bytes();
        if word.is_empty() {
            return;
        }
        let hash = xxh3_64(word);
        if let Some(token) = self.whole.find(hash, |token| slice(&self.texts, token) == word) {
            ids.push(token.id);
        } else if let Some(known) = scratch.recent.ids(hash, word) {
            ids.extend_from_slice(known);
        } else {
            let start = ids.len();
            self.merge(word, scratch, ids);
            scratch.recent.keep(hash, word, &ids[start..]);
        }
    }

    fn merge(&self, word: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let symbols = &mut scratch.symbols;
        symbols.clear();
        let symbol = |id| Symbol { id, rank: NONE, merged: 0 };
        match &self.symbols {
            Symbols::Bytes(bytes) => symbols.extend(word.iter().map(|byte| symbol(bytes[usize::from(*byte)]))),
            Symbols::Characters { known, bytes, .. } => {
                for character in String::from_utf8_lossy(word).chars() {
                    match known.get(&character) {
                        Some(id) => symbols.push(symbol(*id)),
                        None => {
                            let mut buffer = [0; 4];
                            let encoded = character.encode_utf8(&mut buffer).as_bytes();
                            symbols.extend(encoded.iter().map(|byte| symbol(bytes[usize::from(*byte)])));
                        }
                    }
                }
            }
        }
        if symbols.len() <= SHORT {
            self.merge_short(symbols)
        } else {
            self.merge_long(scratch)
        }
        ids.extend(scratch.symbols.iter().map(|symbol| symbol.id));
    }

    fn find(&self, left: u32, right: u32) -> Merge {
        if !self.some.may_hold(left, right) {
            return Merge { rank: NONE, id: 0 };
        }
        self.merges.get(&pair(left, right)).copied().unwrap_or(Merge { rank: NONE, id: 0 })
    }

    /// Merges by looking through all pairs each time: quickest for few.
    fn merge_short(&self, symbols: &mut Vec<Symbol>) {
        for at in 1..symbols.len() {
            self.pair_up(symbols, at - 1);
        }
        loop {
            let (mut best, mut lowest) = (0, NONE);
            for (at, symbol) in symbols.iter().enumerate() {
                if symbol.rank < lowest {
                    (best, lowest) = (at, symbol.rank);
                }
            }
            if lowest == NONE {
                return;
            }
            symbols[best].id = symbols[best].merged;
            symbols.remove(best + 1);
            self.pair_up(symbols, best);
            if best > 0 {
                self.pair_up(symbols, best - 1);
            }
        }
    }

    fn pair_up(&self, symbols: &mut [Symbol], at: usize) {
        let merge = match symbols.get(at + 1) {
            Some(next) => self.find(symbols[at].id, next.id),
            None => Merge { rank: NONE, id: 0 },
        };
        (symbols[at].rank, symbols[at].merged) = (merge.rank, merge.id);
    }

    /// Merges by a heap of pairs: n log n in the symbols.
    fn merge_long(&self, scratch: &mut Scratch) {
        let Scratch { symbols, queue, links, .. } = scratch;
        for at in 1..symbols.len() {
            self.pair_up(symbols, at - 1);
        }
        links.clear();
        let neighbours = (0..NONE).zip(symbols.iter());
        links.extend(neighbours.map(|(at, now)| Link { now: *now, before: at.wrapping_sub(1), after: at + 1 }));
        let mut pairs = std::mem::take(queue).into_vec();
        pairs.clear();
        pairs.extend((0..NONE).zip(symbols.iter()).filter_map(|(at, now)| queued(now, at)));
        *queue = BinaryHeap::from(pairs);
        while let Some(Reverse(next)) = queue.pop() {
            let (rank, at) = ((next >> 32) as u32, next as u32);
            let link = links[at as usize];
            // A pair has a rank of its own: another rank, another pair since.
            if link.now.rank != rank {
                continue;
            }
            let gone = std::mem::replace(&mut links[link.after as usize].now, GONE);
            debug_assert_ne!(gone.id, NONE);
            let after = links[link.after as usize].after;
            let merged = link.now.merged;
            links[at as usize].after = after;
            links[at as usize].now = match links.get_mut(after as usize) {
                Some(right) => {
                    right.before = at;
                    self.paired(merged, right.now.id)
                }
                None => Symbol { id: merged, ..GONE },
            };
            queue.extend(queued(&links[at as usize].now, at));
            if let Some(left) = links.get_mut(link.before as usize) {
                left.now = self.paired(left.now.id, merged);
                queue.extend(queued(&left.now, link.before));
            }
        }
        symbols.clear();
        symbols.extend(links.iter().map(|link| link.now).filter(|symbol| symbol.id != NONE));
    }

    fn paired(&self, left: u32, right: u32) -> Symbol {
        let merge = self.find(left, right);
        Symbol { id: left, rank: merge.rank, merged: merge.id }
    }
}

/// A set of pairs that says yes to a few others as well: small enough for the cache where the merges aren't.
#[derive(Debug)]
struct Sieve(Vec<u64>);

/// Bits of a sieve, as a power of two: 256 KB.
const SIEVE_BITS: u32 = 21;

impl Sieve {
    fn new(merges: &Merges) -> Sieve {
        let mut words = vec![0; 1 << (SIEVE_BITS - 6)];
        for pair in merges.keys() {
            let bit = Sieve::bit(*pair);
            words[bit >> 6] |= 1 << (bit & 63);
        }
        Sieve(words)
    }

    fn may_hold(&self, left: u32, right: u32) -> bool {
        let bit = Sieve::bit(pair(left, right));
        self.0[bit >> 6] >> (bit & 63) & 1 == 1
    }

    fn bit(pair: u64) -> usize {
        ((pair ^ (pair >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SIEVE_BITS)) as usize
    }
}

fn slice<'t>(texts: &'t [u8], token: &Token) -> &'t [u8] {
    &texts[token.start as usize..][..token.length as usize]
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

fn read_merges(source: &Source<'_>, ids: &std::collections::HashMap<&str, u32>) -> Result<Merges, &'static str> {
    let mut merges = Merges::with_capacity_and_hasher(source.merges.len(), BuildHasherDefault::default());
    let mut joined = String::new();
    for (rank, (left, right)) in (0..NONE).zip(&source.merges) {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let (Some(left), Some(right), Some(id)) = (ids.get(left), ids.get(right), ids.get(joined.as_str())) else {
            return Err("a merge of tokens that aren't in the vocabulary");
        };
        if [*left, *right, *id].contains(&NONE) {
            return Err("an id that is too large");
        }
        merges.insert(pair(*left, *right), Merge { rank, id: *id });
    }
    merges.shrink_to_fit();
    Ok(merges)
}

fn byte_symbols(ids: &std::collections::HashMap<&str, u32>) -> Result<Symbols, &'static str> {
    let mut symbols = Box::new([0; 256]);
    for (byte, symbol) in (0..=u8::MAX).zip(symbols.iter_mut()) {
        let mut buffer = [0; 4];
        let Some(id) = ids.get(&*letter_of(byte).encode_utf8(&mut buffer)) else {
            return Err("a byte without a token");
        };
        *symbol = *id;
    }
    Ok(Symbols::Bytes(symbols))
}

fn character_symbols(source: &Source<'_>, ids: &std::collections::HashMap<&str, u32>) -> Result<Symbols, &'static str> {
    let mut bytes = Box::new([0; 256]);
    for (byte, symbol) in bytes.iter_mut().enumerate() {
        let Some(id) = ids.get(format!("<0x{byte:02X}>").as_str()) else { return Err("a byte without a token") };
        *symbol = *id;
    }
    if source.merges.iter().any(|(left, right)| bytes.contains(&ids[left]) || bytes.contains(&ids[right])) {
        return Err("merges of bytes");
    }
    let mut known = HashMap::with_hasher(BuildHasherDefault::default());
    for (token, id) in &source.vocabulary {
        let mut characters = token.chars();
        if let (Some(character), None) = (characters.next(), characters.next()) {
            match character {
                ' ' => continue,
                '▁' => known.insert(' ', *id),
                other => known.insert(other, *id),
            };
        }
    }
    let mut inside = HashSet::with_hasher(BuildHasherDefault::default());
    for (left, right) in &source.merges {
        let characters = left.chars().chain(right.chars()).map(|next| if next == '▁' { ' ' } else { next });
        let mut before = None;
        for next in characters {
            if let Some(before) = before {
                inside.insert(pair(before, u32::from(next)));
            }
            before = Some(u32::from(next));
        }
    }
    Ok(Symbols::Characters { known, bytes, inside })
}

/// The bytes that a token spells in GPT-2's alphabet; nothing where it has other letters, since no text becomes it.
fn spelled_bytes(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// The text of a token in characters; nothing where it holds a space, which no normalized text does.
fn spelled_characters(token: &str) -> Option<Vec<u8>> {
    (!token.contains(' ')).then(|| token.replace('▁', " ").into_bytes())
}

/// GPT-2's letter for a byte: itself where it prints, otherwise one after U+0100, in order.
fn letter_of(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        0..=0x20 => shifted(u32::from(byte)),
        0x7F..=0xA0 => shifted(u32::from(byte) - 0x7F + 0x21),
        0xAD => shifted(0x43),
    }
}

fn shifted(order: u32) -> char {
    char::from_u32(0x100 + order).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(letter: char) -> Option<u8> {
    match letter {
        '!'..='~' | '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{FF}' => u8::try_from(letter).ok(),
        '\u{100}'..='\u{143}' => (0..=u8::MAX).find(|byte| letter_of(*byte) == letter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(letter_of(byte)), Some(byte));
        }
        assert_eq!((letter_of(b' '), letter_of(b'\n'), letter_of(0xAD)), ('Ġ', 'Ċ', '\u{143}'));
    }

    #[test]
    fn long_and_short_words_are_merged_alike() {
        let letters: Vec<String> = (0..=u8::MAX).map(|byte| letter_of(byte).to_string()).collect();
        let more = ["ab", "ba", "aa", "aba", "abab", "aaa", "aab", "bb"];
        let vocabulary = letters.iter().map(String::as_str).chain(more).zip(0..).collect();
        let merges =
            vec![("a", "b"), ("a", "a"), ("ab", "a"), ("ab", "ab"), ("aa", "a"), ("b", "a"), ("a", "ab"), ("b", "b")];
        let bpe =
            Bpe::new(&Source { vocabulary, merges, ignore_merges: false, byte_level: true }).expect("a vocabulary");
        let mut scratch = Scratch::default();
        for word in 0..1_u32 << 16 {
            let symbols = (0..16).map(|bit| if word >> bit & 1 == 0 { b'a' } else { b'b' });
            let symbols: Vec<Symbol> =
                symbols.map(|byte| Symbol { id: u32::from(byte), rank: NONE, merged: 0 }).collect();
            let mut short = symbols.clone();
            bpe.merge_short(&mut short);
            scratch.symbols = symbols;
            bpe.merge_long(&mut scratch);
            let ids = |symbols: &[Symbol]| symbols.iter().map(|symbol| symbol.id).collect::<Vec<_>>();
            assert_eq!(ids(&short), ids(&scratch.symbols), "{word:b}");
        }
    }
}
