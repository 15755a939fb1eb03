//! What was made before, kept within a budget of bytes: a chunk's token ids, a message's text.
//!
//! In: keys with what was made of them; out: what was made of a key seen before. A key is found by its whole content, never
//! by a hash alone. What was not used for longest goes first, half a shard at a time. Many threads at once: a lock is held
//! for a look-up or an insertion, never while anything is made.

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

/// What an entry costs beside its key and value: allocations, counters and its place in the table.
const OVERHEAD: usize = 96;
const SHARDS: usize = 16;

/// What is kept: cheap to clone, and it knows what it takes.
pub(crate) trait Kept: Clone {
    /// Bytes that it takes.
    fn bytes(&self) -> usize;
}

impl Kept for Arc<[u32]> {
    fn bytes(&self) -> usize {
        size_of_val(&**self)
    }
}

/// A bounded map from keys to what was made of them.
#[derive(Debug)]
pub(crate) struct Memo<V> {
    seed: u64,
    /// Bytes that half a shard may take.
    half: usize,
    shards: [Mutex<Shard<V>>; SHARDS],
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What is remembered, and how it served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoStats {
    /// Pieces of text that are remembered.
    pub pieces: usize,
    /// Bytes that they take, by estimate.
    pub bytes: usize,
    /// Bytes of the pieces that were found.
    pub hit_bytes: u64,
    /// Bytes of the pieces that weren't.
    pub miss_bytes: u64,
}

/// Two generations: what was used since the last change, and what was used in the one before.
#[derive(Debug)]
struct Shard<V> {
    young: Generation<V>,
    old: Generation<V>,
}

#[derive(Debug)]
struct Generation<V> {
    entries: HashTable<Entry<V>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    key: Box<[u8]>,
    value: V,
}

impl<V: Kept> Entry<V> {
    fn bytes(&self) -> usize {
        OVERHEAD + self.key.len() + self.value.bytes()
    }
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Shard { young: Generation::default(), old: Generation::default() }
    }
}

impl<V> Default for Generation<V> {
    fn default() -> Self {
        Generation { entries: HashTable::new(), bytes: 0 }
    }
}

impl<V: Kept> Memo<V> {
    /// A memo that takes up to so many bytes; none where it is 0.
    pub(crate) fn new(budget: usize) -> Memo<V> {
        let seed = RandomState::new().hash_one(0);
        Memo {
            seed,
            half: budget / SHARDS / 2,
            shards: Default::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// What was made of this key, if it is remembered.
    pub(crate) fn get(&self, key: &[u8]) -> Option<V> {
        let found = self.find(key);
        let served = if found.is_some() { &self.hits } else { &self.misses };
        served.fetch_add(key.len() as u64, Ordering::Relaxed);
        found
    }

    fn find(&self, key: &[u8]) -> Option<V> {
        let hash = self.hash(key);
        let mut dropped = None;
        let mut shard = self.shard(hash).lock();
        if let Some(entry) = shard.young.find(hash, key) {
            return Some(entry.value.clone());
        }
        let entry = shard.old.take(hash, key)?;
        let value = entry.value.clone();
        shard.insert(entry, self.half, &mut dropped);
        drop(shard);
        Some(value)
    }

    /// Remembers what was made of a key, unless it alone would fill half a shard.
    pub(crate) fn insert(&self, key: &[u8], value: impl FnOnce() -> V) {
        if OVERHEAD + key.len() > self.half {
            return;
        }
        let hash = self.hash(key);
        let entry = Entry { hash, key: key.into(), value: value() };
        if entry.bytes() > self.half {
            return;
        }
        let mut dropped = None;
        let mut shard = self.shard(hash).lock();
        if shard.young.find(hash, key).is_none() && shard.old.find(hash, key).is_none() {
            shard.insert(entry, self.half, &mut dropped);
        }
        drop(shard);
    }

    pub(crate) fn stats(&self) -> MemoStats {
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

    fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<V>> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl<V: Kept> Shard<V> {
    /// Inserts; a generation that has to go is handed out, so that it is freed without the lock.
    fn insert(&mut self, entry: Entry<V>, half: usize, dropped: &mut Option<Generation<V>>) {
        if self.young.bytes + entry.bytes() > half {
            *dropped = Some(std::mem::replace(&mut self.old, std::mem::take(&mut self.young)));
        }
        self.young.insert(entry);
    }
}

impl<V: Kept> Generation<V> {
    fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry<V>> {
        self.entries.find(hash, |entry| entry.hash == hash && *entry.key == *key)
    }

    fn take(&mut self, hash: u64, key: &[u8]) -> Option<Entry<V>> {
        let found = self.entries.find_entry(hash, |entry| entry.hash == hash && *entry.key == *key);
        let (entry, _) = found.ok()?.remove();
        self.bytes -= entry.bytes();
        Some(entry)
    }

    fn insert(&mut self, entry: Entry<V>) {
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
        memo.insert(b"kept", || Arc::from([1, 2, 3]));
        for round in 0..5_000_u32 {
            let chunk = format!("chunk {round} {}", "x".repeat(round as usize % 300));
            memo.insert(chunk.as_bytes(), || Arc::from([round; 40]));
            assert!(memo.stats().bytes <= budget);
            assert_eq!(memo.get(b"kept").as_deref(), Some(&[1, 2, 3][..]));
        }
        assert!(memo.stats().bytes > budget / 3);
        assert_eq!(memo.get(b"chunk 0 "), None);
    }

    #[test]
    fn what_is_larger_than_the_budget_is_not_kept() {
        let memo = Memo::<Arc<[u32]>>::new(0);
        memo.insert(b"a", || Arc::from([1]));
        assert_eq!((memo.get(b"a"), memo.stats().bytes), (None, 0));
    }
}
