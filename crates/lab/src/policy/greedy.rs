//! A bound of a kind: the shortest wait for the first token, with perfect knowledge of every cache and queue at the moment of the
//! pick. It counts as cached what is cached, or asked for already by a request that is ahead. It is greedy: it doesn't spare what
//! others will need, so that a policy can beat it.

use super::active::Active;
use super::books::Books;
use super::{Asked, Machine, cached};
use crate::model::{Engine, RequestId, span};

/// Knows, beside the engines themselves, what requests without a first token will bring.
#[derive(Clone, Debug, Default)]
pub(super) struct Greedy {
    coming: Active,
}

impl Greedy {
    pub(super) fn pick(
        &mut self,
        asked: &Asked<'_>,
        members: &[usize],
        books: &Books,
        (machine, engines): (&Machine, &[Engine]),
    ) -> (usize, Option<u32>) {
        let size = machine.shape.block_size;
        let (names, _) = span::names(asked.prompt, size, 0);
        let all = span::tokens(asked.prompt);
        let found = |engine: usize| {
            let there = engines[engine].holds(&names);
            there + names[there..].iter().take_while(|name| self.coming.has(engine, **name)).count()
        };
        let mut best = (f64::INFINITY, 0, 0, 0);
        for &engine in members {
            let cached = cached(found(engine) as u32, all, size);
            let seat = books.seat(engine);
            let uncached = seat.uncached + all - u64::from(cached);
            let wait = machine.cost.of(uncached, u64::from(seat.under_way) + 1, 0).as_nanos() as f64;
            best =
                if (wait, seat.under_way) < (best.0, best.1) { (wait, seat.under_way, engine, cached) } else { best };
        }
        let (_, _, engine, cached) = best;
        self.coming.begins(asked.id, engine, names);
        (engine, Some(cached))
    }

    pub(super) fn answers(&mut self, id: RequestId) {
        self.coming.ends(id);
    }
}
