//! Chunks of text and their ids, kept within a budget of bytes.
//!
//! In: chunks with their ids; out: the ids of a chunk seen before. A chunk is found by its whole text, never by a hash
//! alone. What was not used for longest goes first, half a shard at a time. Many threads at once: a chunk's lock is held
//! for a look-up or an insertion, never while encoding.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::HashTable;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What an entry costs beside its text and ids: allocations, counters and its place in the table.
const OVERHEAD: usize = 96;
const SHARDS: usize = 16;

/// A bounded map from chunks of text to their ids.
#[derive(Debug)]
pub(super) struct Memo {
    seed: u64,
    /// Bytes that half a shard may take.
    half: usize,
    shards: [Mutex<Shard>; SHARDS],
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

/// Two generations: what was used since the last change, and what was used in the one before.
#[derive(Debug, Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    entries: HashTable<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    text: Box<str>,
    ids: Arc<[u32]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        OVERHEAD + self.text.len() + size_of_val(&*self.ids)
    }
}

impl Memo {
    /// A memo that takes up to so many bytes; none where it is 0.
    pub(super) fn new(budget: usize) -> Memo {
        let seed = RandomState::new().hash_one(0);
        Memo {
            seed,
            half: budget / SHARDS / 2,
            shards: Default::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The ids of a chunk, if it is remembered.
    pub(super) fn get(&self, text: &str) -> Option<Arc<[u32]>> {
        let found = self.find(text);
        let served = if found.is_some() { &self.hits } else { &self.misses };
        served.fetch_add(text.len() as u64, Ordering::Relaxed);
        found
    }

    fn find(&self, text: &str) -> Option<Arc<[u32]>> {
        let hash = self.hash(text);
        let mut dropped = None;
        let mut shard = self.shard(hash).lock();
        if let Some(entry) = shard.young.find(hash, text) {
            return Some(entry.ids.clone());
        }
        let entry = shard.old.take(hash, text)?;
        let ids = entry.ids.clone();
        shard.insert(entry, self.half, &mut dropped);
        drop(shard);
        Some(ids)
    }

    /// Remembers a chunk, unless it alone would fill half a shard.
    pub(super) fn insert(&self, text: &str, ids: &[u32]) {
        let hash = self.hash(text);
        if OVERHEAD + text.len() + size_of_val(ids) > self.half {
            return;
        }
        let entry = Entry { hash, text: text.into(), ids: ids.into() };
        let mut dropped = None;
        let mut shard = self.shard(hash).lock();
        if shard.young.find(hash, text).is_none() && shard.old.find(hash, text).is_none() {
            shard.insert(entry, self.half, &mut dropped);
        }
        drop(shard);
    }

    pub(super) fn stats(&self) -> MemoStats {
        let mut stats = MemoStats {
            hit_bytes: self.hits.load(Ordering::Relaxed),
            miss_bytes: self.misses.load(Ordering::Relaxed),
            ..MemoStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            for generation in [&shard.young, &shard.old] {
                stats.pieces += generation.entries.len();
                stats.bytes += generation.bytes;
            }
        }
        stats
    }

    fn hash(&self, text: &str) -> u64 {
        xxh3_64_with_seed(text.as_bytes(), self.seed)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl Shard {
    /// Inserts; a generation that has to go is handed out, so that it is freed without the lock.
    fn insert(&mut self, entry: Entry, half: usize, dropped: &mut Option<Generation>) {
        if self.young.bytes + entry.bytes() > half {
            *dropped = Some(std::mem::replace(&mut self.old, std::mem::take(&mut self.young)));
        }
        self.young.insert(entry);
    }
}

impl Generation {
    fn find(&self, hash: u64, text: &str) -> Option<&Entry> {
        self.entries.find(hash, |entry| entry.hash == hash && *entry.text == *text)
    }

    fn take(&mut self, hash: u64, text: &str) -> Option<Entry> {
        let found = self.entries.find_entry(hash, |entry| entry.hash == hash && *entry.text == *text);
        let (entry, _) = found.ok()?.remove();
        self.bytes -= entry.bytes();
        Some(entry)
    }

    fn insert(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.insert_unique(entry.hash, entry, |entry| entry.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_never_exceeded_and_what_is_used_stays() {
        let budget = 256 * 1024;
        let memo = Memo::new(budget);
        memo.insert("kept", &[1, 2, 3]);
        for round in 0..5_000_u32 {
            memo.insert(&format!("chunk {round} {}", "x".repeat(round as usize % 300)), &[round; 40]);
            assert!(memo.stats().bytes <= budget);
            assert_eq!(memo.get("kept").as_deref(), Some(&[1, 2, 3][..]));
        }
        assert!(memo.stats().bytes > budget / 3);
        assert_eq!(memo.get("chunk 0 "), None);
    }

    #[test]
    fn what_is_larger_than_the_budget_is_not_kept() {
        let memo = Memo::new(0);
        memo.insert("a", &[1]);
        assert_eq!((memo.get("a"), memo.stats().bytes), (None, 0));
    }
}
