//! Pieces of text and their ids, remembered within a budget of bytes.
//!
//! In: a piece; out: its ids, made once and kept while there is room. A piece is known by its whole text, never by a
//! hash alone. What was used least recently goes first, roughly: each shard keeps a young and an old generation, and
//! forgets the old one when the young one is full.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SHARDS: usize = 16;

/// What an entry costs besides its text and ids: its place in the map, its allocations.
const ENTRY_BYTES: usize = 128;

/// A memo of pieces.
#[derive(Debug)]
pub(super) struct Memo {
    shards: Vec<Mutex<Shard>>,
    /// Bytes that one generation of one shard may hold.
    generation_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What an encoder remembers, and how it served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoStats {
    /// Pieces that are remembered.
    pub pieces: usize,
    /// Bytes that they take, by estimate.
    pub bytes: usize,
    /// Bytes of text whose ids were remembered.
    pub hit_bytes: u64,
    /// Bytes of text that had to be encoded.
    pub miss_bytes: u64,
}

#[derive(Debug, Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    entries: HashMap<u64, Entry>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    text: Arc<str>,
    first: bool,
    ids: Arc<[u32]>,
}

impl Entry {
    fn is(&self, text: &str, first: bool) -> bool {
        self.first == first && *self.text == *text
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.ids.len() * size_of::<u32>() + ENTRY_BYTES
    }
}

impl Generation {
    fn insert(&mut self, key: u64, entry: Entry) {
        self.bytes += entry.bytes();
        if let Some(replaced) = self.entries.insert(key, entry) {
            self.bytes -= replaced.bytes();
        }
    }

    fn remove(&mut self, key: u64) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.bytes -= entry.bytes();
        Some(entry)
    }
}

impl Shard {
    fn insert(&mut self, key: u64, entry: Entry, generation_bytes: usize) {
        self.old.remove(key);
        if self.young.bytes + entry.bytes() > generation_bytes {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, entry);
    }

    fn get(&mut self, key: u64, text: &str, first: bool, generation_bytes: usize) -> Option<Arc<[u32]>> {
        if let Some(entry) = self.young.entries.get(&key) {
            return entry.is(text, first).then(|| entry.ids.clone());
        }
        let entry = self.old.entries.get(&key)?;
        if !entry.is(text, first) {
            return None;
        }
        let entry = self.old.remove(key)?;
        let ids = entry.ids.clone();
        self.insert(key, entry, generation_bytes);
        Some(ids)
    }
}

impl Memo {
    /// A memo of at most `bytes`; none at all with 0.
    pub(super) fn new(bytes: usize) -> Memo {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Memo { shards, generation_bytes: bytes / SHARDS / 2, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Appends a piece's ids, made by `encode` where they aren't remembered. Nothing is locked while `encode` works.
    pub(super) fn extend<E>(
        &self,
        ids: &mut Vec<u32>,
        text: &str,
        first: bool,
        encode: impl FnOnce() -> Result<Vec<u32>, E>,
    ) -> Result<(), E> {
        let key = xxh3_64_with_seed(text.as_bytes(), u64::from(first));
        let shard = &self.shards[usize::try_from(key >> 60).unwrap_or(0) % SHARDS];
        let known = shard.lock().get(key, text, first, self.generation_bytes);
        if let Some(known) = known {
            self.hits.fetch_add(text.len() as u64, Ordering::Relaxed);
            ids.extend_from_slice(&known);
            return Ok(());
        }
        self.misses.fetch_add(text.len() as u64, Ordering::Relaxed);
        let made = encode()?;
        ids.extend_from_slice(&made);
        let bytes = text.len() + made.len() * size_of::<u32>() + ENTRY_BYTES;
        if bytes <= self.generation_bytes {
            let entry = Entry { text: text.into(), first, ids: made.into() };
            shard.lock().insert(key, entry, self.generation_bytes);
        }
        Ok(())
    }

    pub(super) fn stats(&self) -> MemoStats {
        let mut stats = MemoStats {
            hit_bytes: self.hits.load(Ordering::Relaxed),
            miss_bytes: self.misses.load(Ordering::Relaxed),
            ..MemoStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            stats.pieces += shard.young.entries.len() + shard.old.entries.len();
            stats.bytes += shard.young.bytes + shard.old.bytes;
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn get(memo: &Memo, text: &str, first: bool) -> (Vec<u32>, bool) {
        let mut out = vec![7];
        let mut encoded = false;
        let result: Result<(), ()> = memo.extend(&mut out, text, first, || {
            encoded = true;
            Ok(ids(text))
        });
        result.unwrap();
        (out, encoded)
    }

    #[test]
    fn a_piece_is_encoded_once() {
        let memo = Memo::new(1 << 20);
        assert_eq!(get(&memo, "abc", false), (vec![7, 97, 98, 99], true));
        assert_eq!(get(&memo, "abc", false), (vec![7, 97, 98, 99], false));
        assert_eq!(get(&memo, "abc", true), (vec![7, 97, 98, 99], true));
        assert_eq!(memo.stats().hit_bytes, 3);
    }

    #[test]
    fn an_error_is_not_remembered() {
        let memo = Memo::new(1 << 20);
        assert_eq!(memo.extend(&mut Vec::new(), "abc", false, || Err("no")), Err("no"));
        assert!(get(&memo, "abc", false).1);
    }

    #[test]
    fn the_budget_holds_and_what_is_used_stays() {
        let budget = 1 << 20;
        let memo = Memo::new(budget);
        for round in 0..20_000 {
            get(&memo, &format!("text number {round}"), false);
            assert!(!get(&memo, "text number 0", false).1 || round == 0, "round {round}");
            assert!(memo.stats().bytes <= budget, "round {round}");
        }
        assert!(memo.stats().pieces > 1000);
    }

    #[test]
    fn without_a_budget_nothing_is_kept() {
        let memo = Memo::new(0);
        get(&memo, "abc", false);
        assert!(get(&memo, "abc", false).1);
        assert_eq!(memo.stats().pieces, 0);
    }
}
