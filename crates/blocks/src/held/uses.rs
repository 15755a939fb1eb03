//! Of how many blocks each record is the last user, and when it was made: enough to know when the n-th oldest block was
//! used last without walking the blocks.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::time::Instant;

#[derive(Clone, Copy, Debug)]
struct Use {
    at: Instant,
    blocks: usize,
}

/// Records by number, those only that are some block's last user.
#[derive(Debug, Default)]
pub(super) struct Uses {
    by_number: BTreeMap<u64, Use>,
    /// A record and how many blocks it has lost that are not subtracted yet: neighbours mostly have the same last user.
    lost: (u64, usize),
}

impl Uses {
    pub(super) fn bytes(&self) -> usize {
        // A B-tree's nodes are about two thirds full.
        self.by_number.len() * size_of::<(u64, Use)>() * 3 / 2
    }

    /// The record `number`, made at `at`, is the last user of so many more blocks.
    pub(super) fn gained(&mut self, number: u64, blocks: usize, at: Instant) {
        if blocks > 0 {
            self.by_number.entry(number).or_insert(Use { at, blocks: 0 }).blocks += blocks;
        }
    }

    /// The record `number` is not the last user of a block any more.
    pub(super) fn lost(&mut self, number: u64) {
        if self.lost.0 != number {
            self.settle();
            self.lost.0 = number;
        }
        self.lost.1 += 1;
    }

    /// To be called after changes, before questions.
    pub(super) fn settle(&mut self) {
        let (number, lost) = std::mem::take(&mut self.lost);
        if let Some(used) = self.by_number.get_mut(&number) {
            used.blocks -= lost;
            if used.blocks == 0 {
                self.by_number.remove(&number);
            }
        }
    }

    /// When the youngest of the `n` oldest blocks was used last.
    pub(super) fn youngest_of_oldest(&self, n: usize) -> Option<Instant> {
        let mut left = n;
        let mut youngest = None;
        for used in self.by_number.values() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(used.blocks);
            youngest = Some(used.at);
        }
        youngest
    }
}
