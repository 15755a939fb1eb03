//! Blocks of requests under way, each counted once however many share it. In: prompts' names, and when they are done with;
//! out: who has which.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::model::RequestId;
use crate::model::cache::{AlreadyHashed, Name};

/// By engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Active {
    engines: Vec<HashMap<Name, u32, BuildHasherDefault<AlreadyHashed>>>,
    asked: HashMap<RequestId, (usize, Vec<Name>)>,
}

impl Active {
    pub(super) fn begins(&mut self, id: RequestId, engine: usize, names: Vec<Name>) {
        if self.engines.len() <= engine {
            self.engines.resize_with(engine + 1, HashMap::default);
        }
        for name in &names {
            *self.engines[engine].entry(*name).or_default() += 1;
        }
        self.asked.insert(id, (engine, names));
    }

    pub(super) fn ends(&mut self, id: RequestId) {
        let Some((engine, names)) = self.asked.remove(&id) else { return };
        for name in names {
            if let Some(requests) = self.engines[engine].get_mut(&name) {
                *requests -= 1;
                if *requests == 0 {
                    self.engines[engine].remove(&name);
                }
            }
        }
    }

    /// Whether a request under way there has that block.
    pub(super) fn has(&self, engine: usize, name: Name) -> bool {
        self.engines.get(engine).is_some_and(|names| names.contains_key(&name))
    }

    /// Blocks of all requests under way there.
    pub(super) fn blocks(&self, engine: usize) -> usize {
        self.engines.get(engine).map_or(0, HashMap::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_share_counts_once_and_until_both_have_ended() {
        let mut active = Active::default();
        active.begins(1, 2, vec![7, 8]);
        active.begins(2, 2, vec![7, 9]);
        assert_eq!((active.blocks(2), active.has(2, 7), active.has(1, 7)), (3, true, false));
        active.ends(1);
        assert_eq!((active.blocks(2), active.has(2, 7), active.has(2, 8)), (2, true, false));
        active.ends(1);
        active.ends(2);
        assert_eq!((active.blocks(2), active.blocks(9)), (0, 0));
    }
}
