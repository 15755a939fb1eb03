//! The blocks that one endpoint is believed to hold, as an engine keeps them: a bounded set from which the least
//! recently used goes first, and of one chain the tail before the head.
//!
//! In: chains that were sent there, and how they ended. Out: how many leading blocks of a chain are held, and how long
//! what would be evicted next has lain unused. Never more blocks than the capacity, and never a block without all that
//! stand before it in its chain: whoever uses a block uses those before it, and they are kept nearer to the front. So
//! the end of what is held of a chain is found by halving, not by walking.
//!
//! An own list and not a crate's: blocks are placed *behind* the block before them, in one pass from the head on, which
//! the LRU crates (`lru`, `hashlink`) can't do; slots of 32 bytes in a slab with a table of slot numbers beside them
//! need about 40 bytes a block, half of theirs; and a slot has room for what undoing needs.

use std::time::{Duration, Instant};

use hashbrown::HashTable;

use crate::BlockHash;

mod list;
mod uses;

use list::{Block, List};
use uses::Uses;

/// What one endpoint holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The blocks, newest first.
    list: List,
    /// Their places in the list, by hash.
    table: HashTable<u32>,
    /// By which records they were used last. The list runs in the order of these records.
    uses: Uses,
}

impl Held {
    /// Blocks held.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.list.bytes() + self.table.allocation_size() + self.uses.bytes()
    }

    pub(crate) fn holds(&self, hash: BlockHash) -> bool {
        self.find(hash).is_some()
    }

    /// How many leading blocks of a chain are held.
    pub(crate) fn leading(&self, chain: &[BlockHash]) -> usize {
        let (mut held, mut probe) = (0, 1);
        while probe <= chain.len() && self.holds(chain[probe - 1]) {
            held = probe;
            probe *= 2;
        }
        let between = &chain[held..chain.len().min(probe - 1)];
        held + between.partition_point(|hash| self.holds(*hash))
    }

    /// A record begins: at most `capacity` blocks stay.
    pub(crate) fn fit(&mut self, capacity: usize) {
        while self.len() > capacity {
            self.evict();
        }
        self.uses.settle();
    }

    /// A part of a chain was sent there, in the record of that number; `before` is the block in front of it, if it isn't the
    /// chain's beginning. Adds to `open` those blocks whose being there hangs on this record's outcome. Returns the last
    /// block placed; `None` where it, or the one before the part, has been evicted again: nothing may follow then.
    pub(crate) fn record(
        &mut self,
        number: u64,
        before: Option<BlockHash>,
        part: impl Iterator<Item = BlockHash>,
        (capacity, now): (usize, Instant),
        open: &mut Vec<BlockHash>,
    ) -> Option<BlockHash> {
        let before = match before {
            Some(hash) => Some(self.find(hash)?),
            None => None,
        };
        let (last, placed) = self.place(number, before, part, capacity, open);
        self.uses.gained(number, placed, now);
        self.uses.settle();
        last
    }

    /// The record of that number ended well: what it brought is there.
    pub(crate) fn keep(&mut self, number: u64, open: &[BlockHash]) {
        for &hash in open {
            if let Some(at) = self.hanging_on(number, hash) {
                self.list[at].pending = 0;
            }
        }
    }

    /// The record of that number came to nothing: what nobody else brought or used is not there.
    pub(crate) fn undo(&mut self, number: u64, open: &[BlockHash]) {
        for &hash in open.iter().rev() {
            if let Some(at) = self.hanging_on(number, hash) {
                self.list[at].pending -= 1;
                if self.list[at].pending == 0 {
                    self.remove(at);
                }
            }
        }
        self.uses.settle();
    }

    /// How long the youngest of those blocks has lain unused that would have to go for `new` others. `None`: none has to.
    pub(crate) fn displaced(&self, new: usize, capacity: usize, now: Instant) -> Option<Duration> {
        let going = (self.len() + new.min(capacity)).saturating_sub(capacity).min(self.len());
        self.uses.youngest_of_oldest(going).map(|at| now.saturating_duration_since(at))
    }

    /// Puts blocks behind the one at `before`, or at the front, each behind the one before it. Returns the last one and how
    /// many were placed. Ends early, with no last one, where there is no room left but their own.
    fn place(
        &mut self,
        number: u64,
        mut before: Option<u32>,
        part: impl Iterator<Item = BlockHash>,
        capacity: usize,
        open: &mut Vec<BlockHash>,
    ) -> (Option<BlockHash>, usize) {
        let mut last = None;
        let mut placed = 0;
        for hash in part {
            let at = match self.find(hash) {
                Some(at) => self.use_again(at, number, before),
                None if self.len() < capacity || self.make_room(before) => self.bring(hash, number, before),
                None => return (None, placed),
            };
            if self.list[at].pending > 0 {
                open.push(hash);
            }
            (before, last) = (Some(at), Some(hash));
            placed += 1;
        }
        (last, placed)
    }

    fn use_again(&mut self, at: u32, number: u64, before: Option<u32>) -> u32 {
        self.list.move_behind(before, at);
        let block = &mut self.list[at];
        self.uses.lost(block.used_by);
        block.used_by = number;
        block.pending += u32::from(block.pending > 0);
        at
    }

    /// Evicts a block, unless it would be that one.
    fn make_room(&mut self, spared: Option<u32>) -> bool {
        let last = self.list.last().filter(|last| Some(*last) != spared);
        last.inspect(|at| self.remove(*at)).is_some()
    }

    fn bring(&mut self, hash: BlockHash, number: u64, before: Option<u32>) -> u32 {
        let at =
            self.list.insert_behind(before, Block { hash, used_by: number, brought_by: number as u32, pending: 1 });
        self.table.insert_unique(hash.0, at, |at| self.list[*at].hash.0);
        at
    }

    fn evict(&mut self) {
        if let Some(at) = self.list.last() {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: u32) {
        let block = self.list.remove(at);
        self.uses.lost(block.used_by);
        if let Ok(entry) = self.table.find_entry(block.hash.0, |other| *other == at) {
            entry.remove();
        }
    }

    fn find(&self, hash: BlockHash) -> Option<u32> {
        self.table.find(hash.0, |at| self.list[*at].hash == hash).copied()
    }

    /// The block, if its being there still hangs on the outcome of that record: it wasn't evicted and brought anew since.
    fn hanging_on(&self, number: u64, hash: BlockHash) -> Option<u32> {
        let at = self.find(hash)?;
        let block = self.list[at];
        let brought_since = (block.brought_by.wrapping_sub(number as u32) as i32) > 0;
        (block.pending > 0 && !brought_since).then_some(at)
    }
}
