//! What engines hold, by their KV events, as late as these come. In: changes; out: leading blocks held. Several blocks of one
//! content are counted, as engines tell of each.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::model::Change;
use crate::model::cache::{AlreadyHashed, Name};

/// Names held by each engine, with how many blocks hold them.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Vec<HashMap<Name, u32, BuildHasherDefault<AlreadyHashed>>>);

impl Held {
    pub(super) fn changed(&mut self, engine: usize, changes: &[Change]) {
        if self.0.len() <= engine {
            self.0.resize_with(engine + 1, HashMap::default);
        }
        let held = &mut self.0[engine];
        for change in changes {
            match *change {
                Change::Stored(name) => *held.entry(name).or_default() += 1,
                Change::Removed(name) => {
                    if let Some(blocks) = held.get_mut(&name) {
                        *blocks -= 1;
                        if *blocks == 0 {
                            held.remove(&name);
                        }
                    }
                }
                Change::Cleared => held.clear(),
            }
        }
    }

    /// How many of the leading `names` an engine holds.
    pub(super) fn leading(&self, engine: usize, names: &[Name]) -> u32 {
        let Some(held) = self.0.get(engine) else { return 0 };
        names.iter().take_while(|name| held.contains_key(name)).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_held_until_the_last_of_its_copies_is_gone() {
        use Change::{Cleared, Removed, Stored};
        let mut held = Held::default();
        held.changed(1, &[Stored(7), Stored(7), Stored(8), Removed(7)]);
        assert_eq!((held.leading(1, &[7, 8, 9]), held.leading(0, &[7])), (2, 0));
        held.changed(1, &[Removed(7), Removed(9)]);
        assert_eq!(held.leading(1, &[7, 8]), 0);
        held.changed(1, &[Stored(7), Cleared]);
        assert_eq!(held.leading(1, &[7]), 0);
    }
}
