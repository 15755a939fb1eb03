//! By the session key alone: Envoy's ring (RING_HASH, ketama, 1,024 places or more) and table (MAGLEV, 65,537 places), and the
//! ring with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016: no more than 1.25 times the average, else the next on the
//! ring; Envoy's own bounded form jumps elsewhere). Hashes are xxh3 and not Envoy's xxh64: as even, other places.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::books::Books;

/// Places on a ring, of all engines together, at least.
const RING: usize = 1024;
/// Places in the table: a prime.
const TABLE: usize = 65_537;
/// How many times the average load an engine may have.
const BOUND: f64 = 1.25;

/// A ring of engines.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring(Vec<(u64, usize)>);

impl Ring {
    pub(super) fn lay(&mut self, members: &[usize]) {
        let each = RING.div_ceil(members.len().max(1));
        let place =
            |engine: usize, number: usize| (xxh3_64(format!("{}_{number}", address(engine)).as_bytes()), engine);
        self.0 = members.iter().flat_map(|&engine| (0..each).map(move |number| place(engine, number))).collect();
        self.0.sort_unstable();
    }

    /// The engine whose place comes next behind the key's. Only where somebody serves.
    pub(super) fn at(&self, key: u64) -> usize {
        self.from(key).next().unwrap_or_default()
    }

    /// The same, but those whose load is at the bound are passed over.
    pub(super) fn bounded(&self, key: u64, members: &[usize], books: &Books) -> usize {
        let all: u32 = members.iter().map(|at| books.seat(*at).under_way).sum();
        let most = (BOUND * f64::from(all + 1) / members.len() as f64).ceil();
        let free = |engine: &usize| f64::from(books.seat(*engine).under_way + 1) <= most;
        self.from(key).find(free).unwrap_or_else(|| self.at(key))
    }

    fn from(&self, key: u64) -> impl Iterator<Item = usize> + '_ {
        let hash = xxh3_64(format!("{key:016x}").as_bytes());
        let first = self.0.partition_point(|(place, _)| *place < hash);
        self.0[first..].iter().chain(&self.0[..first]).map(|(_, engine)| *engine)
    }
}

/// A table of engines.
#[derive(Clone, Debug, Default)]
pub(super) struct Maglev(Vec<usize>);

impl Maglev {
    pub(super) fn lay(&mut self, members: &[usize]) {
        const NOBODY: usize = usize::MAX;
        self.0 = vec![NOBODY; if members.is_empty() { 0 } else { TABLE }];
        let hash = |engine: usize, seed| xxh3_64_with_seed(address(engine).as_bytes(), seed) as usize;
        let start = |engine: usize| (hash(engine, 0) % TABLE, hash(engine, 1) % (TABLE - 1) + 1, engine);
        let mut walks: Vec<(usize, usize, usize)> = members.iter().map(|engine| start(*engine)).collect();
        let mut left = self.0.len();
        while left > 0 {
            for (at, skip, engine) in &mut walks {
                while self.0[*at] != NOBODY {
                    *at = (*at + *skip) % TABLE;
                }
                self.0[*at] = *engine;
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }

    /// Only where somebody serves.
    pub(super) fn at(&self, key: u64) -> usize {
        self.0.get(xxh3_64(format!("{key:016x}").as_bytes()) as usize % TABLE).copied().unwrap_or_default()
    }
}

fn address(engine: usize) -> String {
    super::warm::address(engine).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(at: impl Fn(u64) -> usize, engines: usize) -> Vec<usize> {
        let mut shares = vec![0; engines];
        (0..60_000).for_each(|key| shares[at(key)] += 1);
        shares
    }

    #[test]
    fn a_ring_is_rough_and_a_table_is_even() {
        let members: Vec<usize> = (0..6).collect();
        let (mut ring, mut table) = (Ring::default(), Maglev::default());
        ring.lay(&members);
        table.lay(&members);
        assert!(shares(|key| ring.at(key), 6).iter().all(|share| (7_500..13_000).contains(share)));
        assert!(shares(|key| table.at(key), 6).iter().all(|share| (9_500..10_500).contains(share)));
    }

    #[test]
    fn who_leaves_moves_few_keys_of_the_others() {
        let (mut before, mut after) = (Ring::default(), Ring::default());
        before.lay(&[0, 1, 2, 3]);
        after.lay(&[0, 1, 3]);
        let moved = (0..10_000).filter(|&key| before.at(key) != 2 && before.at(key) != after.at(key)).count();
        // The others have more places each then, as in Envoy.
        assert!((1..1_500).contains(&moved), "{moved}");
        let (mut before, mut after) = (Maglev::default(), Maglev::default());
        before.lay(&[0, 1, 2, 3]);
        after.lay(&[0, 1, 3]);
        let moved = (0..10_000).filter(|&key| before.at(key) != 2 && before.at(key) != after.at(key)).count();
        assert!((1..2_500).contains(&moved), "{moved}");
    }

    #[test]
    fn a_load_at_the_bound_moves_on_to_the_next() {
        let mut ring = Ring::default();
        ring.lay(&[0, 1]);
        let key = (0..99).find(|&key| ring.at(key) == 0).unwrap();
        let mut books = Books::default();
        // 1.25 * 1 / 2 is one request at most, 1.25 * 3 / 2 two.
        let mut picked = Vec::new();
        for id in 0..4 {
            picked.push(ring.bounded(key, &[0, 1], &books));
            books.book(id, picked[id as usize], 0);
        }
        assert_eq!(picked, [0, 0, 1, 0]);
    }
}
