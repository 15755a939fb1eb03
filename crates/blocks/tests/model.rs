//! The index against a naive one, over generated histories: lists searched from end to end, nothing clever.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use blocks::{BlockHash, Chain, Fingerprint, Learned, Overlap, PrefixIndex, Print, Seed};
use fleet::EndpointId;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    /// Prompts, in tokens, are sent to an endpoint of that capacity.
    Sent { to: u32, prompts: Vec<Vec<u32>>, capacity: usize },
    /// One of the open requests ends.
    Ended { which: usize, well: bool },
    /// An endpoint leaves or restarts.
    Forgotten { id: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    // Few tokens and blocks of two, so that prompts share beginnings.
    let prompt = || prop_oneof![vec(0..2u32, 0..15), (0..50usize).prop_map(|tokens| vec![0; tokens])];
    let sent = (0..2u32, vec(prompt(), 1..3), 0..24usize);
    prop_oneof![
        6 => sent.prop_map(|(to, prompts, capacity)| Event::Sent { to, prompts, capacity }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, well)| Event::Ended { which, well }),
        1 => (0..2u32).prop_map(|id| Event::Forgotten { id }),
    ]
}

/// What one endpoint holds, newest first.
#[derive(Default)]
struct Naive(Vec<Block>);

#[derive(Clone)]
struct Block {
    hash: BlockHash,
    used: Instant,
    sure: bool,
    /// The open requests that brought or used it.
    open: Vec<usize>,
}

impl Naive {
    fn sent(&mut self, request: usize, fingerprint: &Fingerprint, capacity: usize, now: Instant) {
        self.0.truncate(capacity);
        for print in &fingerprint.prints {
            let mut chain: Vec<Block> = print.all().take(capacity).map(|hash| self.taken(hash, now)).collect();
            chain.iter_mut().for_each(|block| block.open.push(request));
            chain.append(&mut self.0);
            chain.truncate(capacity);
            self.0 = chain;
        }
    }

    fn taken(&mut self, hash: BlockHash, now: Instant) -> Block {
        let at = self.0.iter().position(|block| block.hash == hash);
        let block = at.map(|at| self.0.remove(at));
        let block = block.unwrap_or(Block { hash, used: now, sure: false, open: Vec::new() });
        Block { used: now, ..block }
    }

    fn ended(&mut self, request: usize, well: bool) {
        self.0.retain_mut(|block| {
            let open = block.open.len();
            block.open.retain(|other| *other != request);
            let was_its = block.open.len() < open;
            block.sure |= was_its && well;
            block.sure || !was_its || !block.open.is_empty()
        });
    }

    fn holds(&self, hash: BlockHash) -> bool {
        self.0.iter().any(|block| block.hash == hash)
    }

    fn overlap(&self, fingerprint: &Fingerprint) -> Overlap {
        let mut overlap = Overlap::default();
        for print in &fingerprint.prints {
            overlap.blocks += print.all().take_while(|hash| self.holds(*hash)).count() as u32;
            let whole = print.hashes.iter().take_while(|hash| self.holds(**hash)).count() as u64;
            let size = u64::from(fingerprint.block_size.get());
            let tokens = (whole * size).min((print.tokens as u64).saturating_sub(1));
            overlap.cached_tokens += tokens / size * size;
        }
        overlap
    }

    fn displaced(&self, new: usize, capacity: usize, now: Instant) -> Option<Duration> {
        let room = capacity.saturating_sub(self.0.len());
        let surplus = self.0.len().saturating_sub(capacity);
        let going = (new.min(capacity).saturating_sub(room) + surplus).min(self.0.len());
        let youngest = self.0.iter().rev().take(going).next_back();
        youngest.map(|block| now - block.used)
    }
}

fn check(events: &[Event]) {
    let chain = Chain::new(&Seed::default(), NonZeroU32::new(2).expect("not zero"));
    let index = PrefixIndex::new();
    let mut naive: BTreeMap<u32, Naive> = BTreeMap::new();
    let mut open: Vec<(usize, u32, Learned)> = Vec::new();
    let mut seen: Vec<Fingerprint> = Vec::new();
    let start = Instant::now();
    for (number, event) in events.iter().enumerate() {
        let now = start + Duration::from_millis(number as u64);
        match event {
            Event::Sent { to, prompts, capacity } => {
                let fingerprint = chain.fingerprint(prompts.iter().map(Vec::as_slice));
                open.push((number, *to, index.record(EndpointId(*to), &fingerprint, *capacity, now)));
                naive.entry(*to).or_default().sent(number, &fingerprint, *capacity, now);
                assert!(index.held_by(EndpointId(*to)) <= *capacity);
                seen.push(fingerprint);
            }
            Event::Ended { which, well } if !open.is_empty() => {
                let (request, at, learned) = open.swap_remove(which % open.len());
                if *well {
                    index.keep(learned)
                } else {
                    index.undo(learned)
                }
                naive.entry(at).or_default().ended(request, *well);
            }
            Event::Ended { .. } => {}
            Event::Forgotten { id } => {
                index.forget(EndpointId(*id));
                naive.remove(id);
            }
        }
        for id in [0, 1] {
            agree(&index, naive.entry(id).or_default(), EndpointId(id), &seen, now);
        }
    }
}

fn agree(index: &PrefixIndex, naive: &Naive, id: EndpointId, seen: &[Fingerprint], now: Instant) {
    assert_eq!(index.held_by(id), naive.0.len());
    for fingerprint in seen {
        assert_eq!(index.overlaps(fingerprint, [id]).of(id), naive.overlap(fingerprint), "{fingerprint:?}");
        assert!(fingerprint.prints.iter().all(|print| is_held_from_its_head_on(naive, print)));
    }
    for (new, capacity) in [(0, 3), (1, 8), (3, 8), (5, 8), (20, 8), (2, 12)] {
        let displaced = index.displaced(id, new, capacity, now);
        assert_eq!(displaced, naive.displaced(new, capacity, now), "{new} new, capacity {capacity}");
    }
}

/// What makes halving right: no block is held without all that stand before it.
fn is_held_from_its_head_on(naive: &Naive, print: &Print) -> bool {
    let held: Vec<bool> = print.all().map(|hash| naive.holds(hash)).collect();
    held.is_sorted_by(|before, after| before >= after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_is_as_a_naive_one_would_be(events in vec(event(), 0..60)) {
        check(&events);
    }
}
