//! A doubly linked list in a slab: blocks by place, newest first. Places are used again after a removal; a place
//! without a block is never handed out.

use std::mem::size_of;
use std::ops::{Index, IndexMut};

use crate::BlockHash;

/// No place.
const NONE: u32 = u32::MAX;

/// A block held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) hash: BlockHash,
    /// The number of the last record that used it.
    pub(super) used_by: u64,
    /// The number of the record that brought it, cut to 32 bits.
    pub(super) brought_by: u32,
    /// How many records that brought or used it are open; 0 from when one of them ended well.
    pub(super) pending: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: Block,
    newer: u32,
    older: u32,
}

#[derive(Debug)]
pub(super) struct List {
    slots: Vec<Slot>,
    newest: u32,
    oldest: u32,
    /// The first unused slot; the others follow by `older`.
    unused: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { slots: Vec::new(), newest: NONE, oldest: NONE, unused: NONE }
    }
}

impl List {
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// The place of the oldest block.
    pub(super) fn last(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Puts a block behind the one at `before`, or at the front. Returns its place.
    pub(super) fn insert_behind(&mut self, before: Option<u32>, block: Block) -> u32 {
        let slot = Slot { block, newer: NONE, older: NONE };
        let at = self.unused;
        let at = if at == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            self.unused = self.slots[at as usize].older;
            self.slots[at as usize] = slot;
            at
        };
        self.link_behind(before.unwrap_or(NONE), at);
        at
    }

    /// Moves the block at `at` behind the one at `before`, or to the front.
    pub(super) fn move_behind(&mut self, before: Option<u32>, at: u32) {
        let before = before.unwrap_or(NONE);
        if self.slots[at as usize].newer == before {
            return;
        }
        self.unlink(at);
        self.link_behind(before, at);
    }

    pub(super) fn remove(&mut self, at: u32) -> Block {
        self.unlink(at);
        self.slots[at as usize].older = self.unused;
        self.unused = at;
        self.slots[at as usize].block
    }

    fn link_behind(&mut self, before: u32, at: u32) {
        let after = if before == NONE { self.newest } else { self.slots[before as usize].older };
        self.slots[at as usize].newer = before;
        self.slots[at as usize].older = after;
        *self.older_of(before) = at;
        *self.newer_of(after) = at;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        *self.older_of(newer) = older;
        *self.newer_of(older) = newer;
    }

    /// The link from `at`, or from the front, to what is older.
    fn older_of(&mut self, at: u32) -> &mut u32 {
        if at == NONE { &mut self.newest } else { &mut self.slots[at as usize].older }
    }

    /// The link from `at`, or from the end, to what is newer.
    fn newer_of(&mut self, at: u32) -> &mut u32 {
        if at == NONE { &mut self.oldest } else { &mut self.slots[at as usize].newer }
    }
}

impl Index<u32> for List {
    type Output = Block;

    fn index(&self, at: u32) -> &Block {
        &self.slots[at as usize].block
    }
}

impl IndexMut<u32> for List {
    fn index_mut(&mut self, at: u32) -> &mut Block {
        &mut self.slots[at as usize].block
    }
}
