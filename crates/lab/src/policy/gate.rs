//! SMG's (and the sglang router's) `cache_aware` over text, at its command line's defaults: while loads are even, whoever was
//! last seen with the longest beginning of the text, if that is more than 0.3 of it; else the least loaded. Loads are uneven
//! when they are more than 64 apart and the largest is more than 1.5 times the least. The tree is one table here, in pieces of
//! 64 characters, and as large: 67,108,864 characters.

use super::books::Books;
use super::lru::Lru;
use super::{Asked, in_bytes};
use crate::model::span;

const PIECE: u32 = 64;
const PIECES: usize = 67_108_864 / PIECE as usize;
const THRESHOLD: f64 = 0.3;
const APART: u32 = 64;
const TIMES: f64 = 1.5;

/// Who was last given which beginning.
#[derive(Clone, Debug)]
pub(super) struct Gate(Lru<usize>);

impl Default for Gate {
    fn default() -> Gate {
        Gate(Lru::new(PIECES))
    }
}

impl Gate {
    pub(super) fn pick(&mut self, asked: &Asked<'_>, members: &[usize], books: &Books) -> (usize, Option<u32>) {
        let text = in_bytes(asked.prompt);
        let (pieces, _) = span::names(&text, PIECE, 0);
        let load = |engine: &usize| (books.seat(*engine).under_way, books.seat(*engine).given, *engine);
        let loads = members.iter().map(|engine| books.seat(*engine).under_way);
        let (most, fewest) = (loads.clone().max().unwrap_or(0), loads.min().unwrap_or(0));
        let uneven = most - fewest > APART && f64::from(most) > TIMES * f64::from(fewest);
        let found: Vec<usize> = pieces.iter().map_while(|piece| self.0.get(*piece)).collect();
        let share = found.len() as f64 * f64::from(PIECE) / span::tokens(&text).max(1) as f64;
        let holder = found.last().copied().filter(|engine| members.contains(engine));
        let held = holder.filter(|_| !uneven && share > THRESHOLD);
        let engine = held.or_else(|| members.iter().copied().min_by_key(load)).unwrap_or_default();
        pieces.iter().for_each(|piece| self.0.set(*piece, engine));
        (engine, None)
    }
}
