//! The paged KV cache: which blocks are used, which are free, and which still hold something that can be reused.
//! In: names of full blocks (chained hashes); out: block numbers. Never knows tokens or requests.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Name of a full block: the hash of its tokens and of all before them.
pub type Name = u64;

/// A block's place in the cache.
pub type BlockNumber = u32;

/// Block 0: allocated once at the start and never used, as vLLM's null block. It is also the free queue's anchor.
const NULL: BlockNumber = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    name: Option<Name>,
    users: u32,
    before: BlockNumber,
    after: BlockNumber,
}

/// Several blocks may hold the same content: requests that computed it side by side. The first one is handed out.
#[derive(Clone, Debug)]
enum Holders {
    One(BlockNumber),
    More(Vec<BlockNumber>),
}

/// What became of a block, one for each of several blocks of one content, as vLLM's KV events tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A block holds it, to be found again.
    Stored(Name),
    /// A block holds it no longer.
    Removed(Name),
    /// No block holds anything any more.
    Cleared,
}

/// A pool of blocks with a queue of free ones. The queue's front is spent first; free blocks keep their content until
/// they are spent.
#[derive(Clone, Debug)]
pub struct Cache {
    blocks: Vec<Block>,
    free: u32,
    named: HashMap<Name, Holders, BuildHasherDefault<AlreadyHashed>>,
    reuse: bool,
    /// Only where somebody asked for them.
    changes: Option<Vec<Change>>,
}

impl Cache {
    /// A cache of `blocks` blocks, the null block among them; where `reuse` is false nothing is ever found again.
    pub fn new(blocks: u32, reuse: bool) -> Cache {
        let blocks = blocks.max(1);
        let mut cache = Cache {
            blocks: vec![Block::default(); blocks as usize],
            free: 0,
            named: HashMap::default(),
            reuse,
            changes: None,
        };
        for number in 1..blocks {
            cache.push_back(number);
        }
        cache
    }

    /// Begins to note what becomes of blocks.
    pub fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// What has become of blocks since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Blocks that can be used: all but the null block.
    pub fn usable(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// Blocks that no request uses, whatever they hold.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks in use.
    pub fn used(&self) -> u32 {
        self.usable() - self.free
    }

    /// The blocks that hold the leading `names`, up to the first that none holds.
    pub fn leading(&self, names: &[Name]) -> Vec<BlockNumber> {
        names.iter().map_while(|name| self.named.get(name).map(Holders::first)).collect()
    }

    /// How many of the leading `names` are held.
    pub fn holds(&self, names: &[Name]) -> usize {
        names.iter().take_while(|name| self.named.contains_key(name)).count()
    }

    /// Takes `found` (from [`Cache::leading`]) and `fresh` further blocks into use, in this order; `None`, and nothing
    /// changes, where not enough are free. A fresh block forgets what it held.
    pub fn take(&mut self, found: &[BlockNumber], fresh: usize) -> Option<Vec<BlockNumber>> {
        if !self.has_room(found, fresh) {
            return None;
        }
        for &number in found {
            if self.block(number).users == 0 {
                self.unlink(number);
            }
            self.block_mut(number).users += 1;
        }
        let mut taken = found.to_vec();
        taken.extend((0..fresh).map(|_| self.spend()));
        Some(taken)
    }

    /// Whether [`Cache::take`] would succeed.
    pub fn has_room(&self, found: &[BlockNumber], fresh: usize) -> bool {
        let idle = found.iter().filter(|&&number| self.block(number).users == 0).count();
        idle + fresh <= self.free as usize
    }

    /// Names a block in use that has become full, so that it can be found. Without reuse nothing is named.
    pub fn name(&mut self, number: BlockNumber, name: Name) {
        if !self.reuse {
            return;
        }
        self.note(Change::Stored(name));
        self.block_mut(number).name = Some(name);
        self.named.entry(name).and_modify(|holders| holders.add(number)).or_insert(Holders::One(number));
    }

    /// Gives a request's blocks back, in the order of its tokens. The last one will be spent first; blocks without a
    /// name, which nobody can find, go before everything else in the queue.
    pub fn give_back(&mut self, blocks: &[BlockNumber]) {
        let mut nameless = Vec::new();
        for &number in blocks.iter().rev() {
            let block = self.block_mut(number);
            block.users -= 1;
            if block.users > 0 {
                continue;
            }
            if block.name.is_none() && self.reuse {
                nameless.push(number);
            } else {
                self.push_back(number);
            }
        }
        for number in nameless.into_iter().rev() {
            self.push_front(number);
        }
    }

    /// Forgets what all blocks hold; false, and nothing changes, while any is in use.
    pub fn reset(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.note(Change::Cleared);
        self.named.clear();
        for block in &mut self.blocks {
            block.name = None;
        }
        true
    }

    /// Takes the block at the queue's front. Only called where one is free.
    fn spend(&mut self) -> BlockNumber {
        let number = self.block(NULL).after;
        self.unlink(number);
        if let Some(name) = self.block_mut(number).name.take() {
            self.forget(number, name);
        }
        self.block_mut(number).users = 1;
        number
    }

    fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    fn forget(&mut self, number: BlockNumber, name: Name) {
        self.note(Change::Removed(name));
        if self.named.get_mut(&name).is_some_and(|holders| holders.remove(number)) {
            self.named.remove(&name);
        }
    }

    fn push_back(&mut self, number: BlockNumber) {
        let last = self.block(NULL).before;
        self.link(last, number, NULL);
    }

    fn push_front(&mut self, number: BlockNumber) {
        let first = self.block(NULL).after;
        self.link(NULL, number, first);
    }

    fn link(&mut self, before: BlockNumber, number: BlockNumber, after: BlockNumber) {
        self.block_mut(before).after = number;
        self.block_mut(after).before = number;
        let block = self.block_mut(number);
        block.before = before;
        block.after = after;
        self.free += 1;
    }

    fn unlink(&mut self, number: BlockNumber) {
        let Block { before, after, .. } = *self.block(number);
        self.block_mut(before).after = after;
        self.block_mut(after).before = before;
        self.free -= 1;
    }

    fn block(&self, number: BlockNumber) -> &Block {
        &self.blocks[number as usize]
    }

    fn block_mut(&mut self, number: BlockNumber) -> &mut Block {
        &mut self.blocks[number as usize]
    }
}

impl Holders {
    fn first(&self) -> BlockNumber {
        match self {
            Holders::One(number) => *number,
            Holders::More(numbers) => numbers[0],
        }
    }

    fn add(&mut self, number: BlockNumber) {
        match self {
            Holders::One(first) => *self = Holders::More(vec![*first, number]),
            Holders::More(numbers) => numbers.push(number),
        }
    }

    /// Whether none is left.
    fn remove(&mut self, number: BlockNumber) -> bool {
        match self {
            Holders::One(first) => *first == number,
            Holders::More(numbers) => {
                numbers.retain(|&held| held != number);
                if let [last] = numbers[..] {
                    *self = Holders::One(last);
                }
                false
            }
        }
    }
}

/// Names are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays lines on a cache of as many blocks as the first line says and gives what each line answers.
    /// `take found,names + n` takes what is held of the names and n fresh blocks, naming the fresh ones by the names not found;
    /// `back WHAT` gives back what the line `WHAT: take ...` took.
    fn check(play: &str, expected: &str) {
        let mut lines = play.lines().map(str::trim).filter(|line| !line.is_empty());
        let size = lines.next().unwrap().strip_prefix("blocks ").unwrap().parse().unwrap();
        let mut cache = Cache::new(size, true);
        let mut held: HashMap<&str, Vec<BlockNumber>> = HashMap::new();
        let mut told = Vec::new();
        for line in lines {
            match line.split_once(' ').unwrap() {
                ("back", who) => {
                    cache.give_back(&held.remove(who).unwrap());
                    told.push(format!("back: free {}", cache.free()));
                }
                ("find", names) => told.push(format!("find: {:?}", cache.leading(&parse(names)))),
                (who, rest) => {
                    let (names, nameless) = rest.split_once('+').unwrap();
                    let names = parse(names);
                    let found = cache.leading(&names);
                    let unnamed: usize = nameless.trim().parse().unwrap();
                    match cache.take(&found, names.len() - found.len() + unnamed) {
                        None => told.push(format!("{who} no room: free {}", cache.free())),
                        Some(blocks) => {
                            for (at, name) in names.iter().enumerate().skip(found.len()) {
                                cache.name(blocks[at], *name);
                            }
                            told.push(format!("{who} found {}: {blocks:?}", found.len()));
                            held.insert(who, blocks);
                        }
                    }
                }
            }
        }
        let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(told, expected);
    }

    /// `ab` are the names 'a', 'ab': a block's name stands for all before it too.
    fn parse(chain: &str) -> Vec<Name> {
        let chain = chain.trim();
        (1..=chain.len()).map(|end| xxhash_rust::xxh3::xxh3_64(&chain.as_bytes()[..end])).collect()
    }

    #[test]
    fn a_freed_block_is_found_until_it_is_spent_and_the_tail_goes_first() {
        check(
            "blocks 5
             r1 abc + 0
             back r1
             find abc
             r2 xy + 0
             find abc",
            "r1 found 0: [1, 2, 3]
             back: free 4
             find: [1, 2, 3]
             r2 found 0: [4, 3]
             find: [1, 2]",
        );
    }

    #[test]
    fn blocks_without_a_name_are_spent_before_any_other() {
        check(
            "blocks 5
             r1 ab + 1
             back r1
             r2 x + 0
             find ab",
            "r1 found 0: [1, 2, 3]
             back: free 4
             r2 found 0: [3]
             find: [1, 2]",
        );
    }

    #[test]
    fn a_hit_leaves_the_queue_and_returns_to_its_end() {
        check(
            "blocks 4
             r1 a + 0
             back r1
             r2 b + 0
             back r2
             r3 a + 0
             back r3
             r4 xy + 0
             find a
             find b",
            "r1 found 0: [1]
             back: free 3
             r2 found 0: [2]
             back: free 3
             r3 found 1: [1]
             back: free 3
             r4 found 0: [3, 2]
             find: [1]
             find: []",
        );
    }

    #[test]
    fn free_blocks_that_are_hit_count_as_room_needed() {
        check(
            "blocks 4
             r1 ab + 0
             back r1
             r2 x + 0
             r3 ab + 1
             r4 ab + 0
             r5 ab + 0",
            "r1 found 0: [1, 2]
             back: free 3
             r2 found 0: [3]
             r3 no room: free 2
             r4 found 2: [1, 2]
             r5 found 2: [1, 2]",
        );
    }

    #[test]
    fn two_blocks_of_one_content_are_forgotten_one_by_one() {
        let mut cache = Cache::new(4, true);
        let one = cache.take(&[], 1).unwrap();
        let two = cache.take(&[], 1).unwrap();
        cache.name(one[0], 7);
        cache.name(two[0], 7);
        cache.give_back(&one);
        cache.give_back(&two);
        assert_eq!(cache.leading(&[7]), [1]);
        cache.take(&[], 2).unwrap();
        assert_eq!(cache.leading(&[7]), [2]);
        cache.take(&[], 1).unwrap();
        assert_eq!(cache.leading(&[7]), Vec::<BlockNumber>::new());
    }

    #[test]
    fn without_reuse_nothing_is_found_and_blocks_are_spent_in_turn() {
        let mut cache = Cache::new(4, false);
        let one = cache.take(&[], 1).unwrap();
        cache.name(one[0], 7);
        cache.give_back(&one);
        assert_eq!(cache.leading(&[7]), Vec::<BlockNumber>::new());
        assert_eq!(cache.take(&[], 3), Some(vec![2, 3, 1]));
    }

    #[test]
    fn changes_are_told_block_by_block_once_asked_for() {
        let mut cache = Cache::new(3, true);
        let taken = cache.take(&[], 1).unwrap();
        cache.name(taken[0], 7);
        assert_eq!(cache.take_changes(), []);
        cache.note_changes();
        let more = cache.take(&[], 1).unwrap();
        cache.name(more[0], 8);
        cache.give_back(&taken);
        cache.give_back(&more);
        cache.take(&[], 2).unwrap();
        assert_eq!(cache.take_changes(), [Change::Stored(8), Change::Removed(7), Change::Removed(8)]);
        assert_eq!(cache.take_changes(), []);
        assert_eq!(cache.holds(&[7, 8]), 0);
    }

    #[test]
    fn a_reset_needs_all_blocks_free() {
        let mut cache = Cache::new(3, true);
        let taken = cache.take(&[], 1).unwrap();
        cache.name(taken[0], 7);
        assert!(!cache.reset());
        cache.give_back(&taken);
        assert!(cache.reset());
        assert_eq!(cache.leading(&[7]), Vec::<BlockNumber>::new());
    }
}
