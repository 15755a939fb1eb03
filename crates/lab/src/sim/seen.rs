//! Bounds that no policy can pass: what one infinite cache would have had of a prompt, and how soon its first token could come
//! on an idle engine with that cache. In: prompts as they are asked, histories as they are answered; out: tokens and a time.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use crate::model::cache::AlreadyHashed;
use crate::model::{Span, mix};
use crate::policy::Machine;

/// All beginnings that were ever asked or answered.
pub(super) struct Seen {
    machine: Machine,
    beginnings: HashSet<u64, BuildHasherDefault<AlreadyHashed>>,
}

impl Seen {
    pub(super) fn new(machine: &Machine) -> Seen {
        Seen { machine: *machine, beginnings: HashSet::default() }
    }

    /// A prompt is asked: tokens that an infinite cache would have had, and the least time to the first token.
    pub(super) fn ask(&mut self, prompt: &[Span]) -> (u32, Duration) {
        let (mut shared, mut all, mut parted) = (0, 0, false);
        for (beginning, tokens) in beginnings(prompt) {
            all += tokens;
            parted |= self.beginnings.insert(beginning);
            shared += if parted { 0 } else { tokens };
        }
        let size = self.machine.shape.block_size;
        let cached = if self.machine.shape.prefix_caching { shared.min(all - 1) / size * size } else { 0 };
        (cached, self.floor(cached, all))
    }

    /// A history now ends with an answer.
    pub(super) fn answered(&mut self, history: &[Span]) {
        if let Some((beginning, _)) = beginnings(history).last() {
            self.beginnings.insert(beginning);
        }
    }

    fn floor(&self, cached: u32, all: u32) -> Duration {
        let budget = self.machine.shape.max_num_batched_tokens;
        let (mut computed, mut time) = (cached, Duration::ZERO);
        while computed < all {
            let tokens = (all - computed).min(budget);
            computed += tokens;
            time += self.machine.cost.of(tokens.into(), 1, computed.into());
        }
        time
    }
}

/// Each beginning of a prompt that ends with a span, and that span's tokens.
fn beginnings(prompt: &[Span]) -> impl Iterator<Item = (u64, u32)> {
    prompt.iter().scan(0, |before, span| {
        *before = mix(mix(*before ^ span.id).wrapping_add(u64::from(span.tokens)));
        Some((*before, span.tokens))
    })
}
