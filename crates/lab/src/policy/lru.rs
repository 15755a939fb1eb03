//! The least recently used goes first: keys with a value each, as many as fit. In: keys; out: values, newest kept.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::model::cache::AlreadyHashed;

#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    key: u64,
    value: V,
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

/// Keys (hashes already) with values.
#[derive(Clone, Debug)]
pub(super) struct Lru<V> {
    most: usize,
    slots: Vec<Slot<V>>,
    table: HashMap<u64, u32, BuildHasherDefault<AlreadyHashed>>,
    newest: u32,
    oldest: u32,
}

impl<V: Copy> Lru<V> {
    /// At most `most` keys, one at least.
    pub(super) fn new(most: usize) -> Lru<V> {
        Lru { most: most.max(1), slots: Vec::new(), table: HashMap::default(), newest: NONE, oldest: NONE }
    }

    /// The value of a key; that is no use of it.
    pub(super) fn get(&self, key: u64) -> Option<V> {
        self.table.get(&key).map(|at| self.slots[*at as usize].value)
    }

    /// Sets a key, which is the newest then.
    pub(super) fn set(&mut self, key: u64, value: V) {
        let at = match self.table.get(&key) {
            Some(&at) => {
                self.unlink(at);
                at
            }
            None if self.slots.len() < self.most => {
                self.slots.push(Slot { key, value, newer: NONE, older: NONE });
                self.slots.len() as u32 - 1
            }
            None => {
                let at = self.oldest;
                self.unlink(at);
                self.table.remove(&self.slots[at as usize].key);
                at
            }
        };
        self.table.insert(key, at);
        let newest = self.newest;
        self.slots[at as usize] = Slot { key, value, newer: NONE, older: newest };
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held against a list that is searched from end to end.
    #[test]
    fn it_holds_the_newest_keys_whatever_comes() {
        let mut draw = crate::draw::Draw::new(5, 0);
        let mut lru = Lru::new(7);
        let mut list: Vec<(u64, u32)> = Vec::new();
        for value in 0..3_000 {
            let key = draw.below(20) as u64;
            lru.set(key, value);
            list.retain(|(other, _)| *other != key);
            list.push((key, value));
            list.drain(..list.len().saturating_sub(7));
            for key in 0..20 {
                assert_eq!(lru.get(key), list.iter().find(|(other, _)| *other == key).map(|(_, value)| *value));
            }
        }
    }
}
