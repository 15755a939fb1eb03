//! llm-d's picker, as of its default configuration and of its guide, from its sources (llm-d-router, August 2026). Its prefix
//! index knows text, not tokens: 256 bytes are a block. An endpoint's list of blocks is as long as the engine has blocks (of
//! 16 tokens, but an entry stands for 64), a prompt's head goes in first and so is the first to go, what was asked counts as held
//! at once and for good, and an endpoint counts each block that it holds, whether it holds those before or not.

use super::books::Books;
use super::lru::Lru;
use super::{Asked, in_bytes, least};
use crate::draw::Draw;
use crate::model::{Shape, span};

/// Bytes of a block: 64 pseudo-tokens of 4.
const BLOCK: u32 = 256;
/// Pseudo-tokens of a block.
const TOKENS: u64 = 64;
/// Pseudo-tokens of a prompt that are looked at.
const LOOKED_AT: usize = 131_072;
/// The same in the guide.
const LOOKED_AT_IN_GUIDE: usize = 40_960;

#[derive(Clone, Debug)]
struct Index {
    most: usize,
    lists: Vec<Lru<()>>,
}

/// A prompt's blocks, and how many of them each engine is believed to hold.
struct Match {
    blocks: Vec<u64>,
    held: Vec<u32>,
    /// Of the prompt, the rest behind its last whole block included.
    all: usize,
}

impl Index {
    fn find(&self, asked: &Asked<'_>, members: &[usize], looked_at: usize) -> Match {
        let text = in_bytes(asked.prompt);
        let (mut blocks, tail) = span::names(&text, BLOCK, 0);
        blocks.extend(tail);
        blocks.truncate(looked_at / TOKENS as usize);
        let mut held = vec![0; members.iter().max().map_or(0, |last| last + 1)];
        for block in &blocks {
            let mut anybody = false;
            for &engine in members {
                if self.lists.get(engine).is_some_and(|list| list.get(*block).is_some()) {
                    held[engine] += 1;
                    anybody = true;
                }
            }
            if !anybody {
                break;
            }
        }
        Match { all: blocks.len(), blocks, held }
    }

    fn learn(&mut self, engine: usize, blocks: &[u64]) {
        while self.lists.len() <= engine {
            self.lists.push(Lru::new(self.most));
        }
        blocks.iter().for_each(|block| self.lists[engine].set(*block, ()));
    }
}

impl Match {
    fn share(&self, engine: usize) -> f64 {
        if self.all == 0 { 0.0 } else { f64::from(self.held[engine]) / self.all as f64 }
    }

    fn predicted(&self, engine: usize) -> Option<u32> {
        Some(self.held[engine] * TOKENS as u32)
    }
}

/// The weighted sum: prefix 3, queue 2, KV use 2; and no-hit-lru 2, where asked for.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    index: Index,
    /// Whom a request without any hit was given to, the last one last.
    cold: Option<Vec<usize>>,
}

impl Sum {
    pub(super) fn new(shape: Shape, no_hit: bool) -> Sum {
        Sum { index: Index { most: shape.blocks as usize, lists: Vec::new() }, cold: no_hit.then(Vec::new) }
    }

    pub(super) fn pick(
        &mut self,
        asked: &Asked<'_>,
        members: &[usize],
        books: &Books,
        draw: &mut Draw,
    ) -> (usize, Option<u32>) {
        let found = self.index.find(asked, members, LOOKED_AT);
        let waiting = |engine: usize| f64::from(books.seat(engine).gauges.waiting);
        let most = members.iter().map(|at| waiting(*at)).fold(0.0, f64::max);
        let fewest = members.iter().map(|at| waiting(*at)).fold(f64::INFINITY, f64::min);
        let queue = |engine| if most > fewest { (most - waiting(engine)) / (most - fewest) } else { 1.0 };
        let hit = members.iter().any(|at| found.held[*at] > 0);
        let cold = |engine: usize| match &self.cold {
            None => 0.0,
            Some(_) if hit => 0.5,
            Some(given) => no_hit(engine, given, members),
        };
        let score = |engine: usize| {
            3.0 * found.share(engine)
                + 2.0 * queue(engine)
                + 2.0 * (1.0 - books.seat(engine).gauges.kv_usage)
                + 2.0 * cold(engine)
        };
        let engine = least(members, draw, |engine| -(score(engine) * 1e9).round());
        if let Some(given) = self.cold.as_mut().filter(|_| !hit) {
            given.retain(|other| *other != engine);
            given.push(engine);
        }
        self.index.learn(engine, &found.blocks);
        (engine, found.predicted(engine))
    }
}

/// 1 less the rank: those never given a cold request first, then those given one longest ago.
fn no_hit(engine: usize, given: &[usize], members: &[usize]) -> f64 {
    let never = members.iter().filter(|at| !given.contains(at)).count();
    let among = |at: &&usize| members.contains(at);
    let rank = match given.iter().filter(among).position(|at| *at == engine) {
        Some(place) => never + place,
        None => members.iter().filter(|at| !given.contains(at)).position(|at| *at == engine).unwrap_or(0),
    };
    if members.len() < 2 { 1.0 } else { 1.0 - rank as f64 / (members.len() - 1) as f64 }
}

/// The guide's: only those that hold 0.8 of the prompt, unless the least busy of them has 286,720 tokens more under way than
/// the least busy of the others; then the fewest tokens under way, this request's uncached ones included.
#[derive(Clone, Debug)]
pub(super) struct Affinity(Index);

const HOLDS: f64 = 0.8;
const MORE_UNDER_WAY: u64 = 286_720;

impl Affinity {
    pub(super) fn new(shape: Shape) -> Affinity {
        Affinity(Index { most: shape.blocks as usize, lists: Vec::new() })
    }

    pub(super) fn pick(
        &mut self,
        asked: &Asked<'_>,
        members: &[usize],
        books: &Books,
        draw: &mut Draw,
    ) -> (usize, Option<u32>) {
        let found = self.0.find(asked, members, LOOKED_AT_IN_GUIDE);
        let under_way = |engine: &usize| books.seat(*engine).uncached;
        let (warm, others): (Vec<usize>, Vec<usize>) = members.iter().partition(|at| found.share(**at) >= HOLDS);
        let [least_warm, least_other] = [&warm, &others].map(|some| some.iter().map(under_way).min());
        let stays = match (least_warm, least_other) {
            (None, _) => false,
            (Some(warm), Some(other)) => warm <= other + MORE_UNDER_WAY,
            (Some(_), None) => true,
        };
        let all = span::tokens(&in_bytes(asked.prompt)) / 4;
        let uncached = |engine: usize| all.saturating_sub(u64::from(found.held[engine]) * TOKENS);
        let from = if stays { &warm[..] } else { members };
        let engine = least(from, draw, |engine| (under_way(&engine) + uncached(engine)) as f64);
        self.0.learn(engine, &found.blocks);
        (engine, found.predicted(engine))
    }
}
