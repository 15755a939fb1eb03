//! Dynamo's default selection, with KV events: the lowest sum of blocks of prefill and of decoding, both weighing the same
//! (`prefill_load_scale` 1, credit for cached blocks 1, `w` 0, no temperature). Prefill is what is uncached of the requests
//! without a first token and of this one; decoding is the blocks of all requests under way and of this one, each once however
//! many share it. Ties are drawn.

use super::active::Active;
use super::books::Books;
use super::events::Held;
use super::{Asked, cached, least};
use crate::draw::Draw;
use crate::model::{Change, RequestId, span};

/// What it knows.
#[derive(Debug, Default)]
pub(super) struct Dynamo {
    held: Held,
    active: Active,
}

impl Dynamo {
    pub(super) fn pick(
        &mut self,
        asked: &Asked<'_>,
        members: &[usize],
        (books, size): (&Books, u32),
        draw: &mut Draw,
    ) -> (usize, Option<u32>) {
        let (names, tail) = span::names(asked.prompt, size, 0);
        let all = span::tokens(asked.prompt);
        let cost = |engine: usize| {
            let overlap = self.held.leading(engine, &names);
            let fresh = names.iter().filter(|name| !self.active.has(engine, **name)).count();
            let prefill = (books.seat(engine).uncached + all) as f64 / f64::from(size) - f64::from(overlap);
            prefill.max(0.0) + (self.active.blocks(engine) + fresh + usize::from(tail.is_some())) as f64
        };
        let engine = least(members, draw, cost);
        let predicted = cached(self.held.leading(engine, &names), all, size);
        self.active.begins(asked.id, engine, names);
        (engine, Some(predicted))
    }

    pub(super) fn changed(&mut self, engine: usize, changes: &[Change]) {
        self.held.changed(engine, changes);
    }

    pub(super) fn ended(&mut self, id: RequestId) {
        self.active.ends(id);
    }
}
