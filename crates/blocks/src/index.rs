//! Which endpoint holds which blocks, as far as we can know from what we sent there: approximate, and corrected by how
//! requests end. Many threads read and write at once; each endpoint has a lock of its own.
//!
//! Bounded: an endpoint never holds more blocks here than its own cache could. What is believed of one endpoint never
//! depends on what happens at another.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fleet::EndpointId;
use parking_lot::RwLock;

use crate::held::Held;
use crate::{BlockHash, Fingerprint, Print};

/// Blocks that are written while nobody else can read: some 50 ns each. Between such parts of a long prompt others have
/// their turn, and what they evict meanwhile ends what is held of it.
const AT_ONCE: usize = 1024;

/// Who holds which blocks.
#[derive(Debug, Default)]
pub struct PrefixIndex {
    by_endpoint: RwLock<HashMap<EndpointId, Arc<RwLock<Held>>>>,
    /// Numbers the records. Taken under the endpoint's lock, so that they rise in the order in which its records begin.
    last_record: AtomicU64,
}

/// What a record brought to an endpoint, while it is open whether the request ends well. To be handed back to
/// [`PrefixIndex::keep`] or [`PrefixIndex::undo`]; if it is dropped instead, what it brought stays until it is evicted.
#[derive(Debug)]
#[must_use]
pub struct Learned {
    id: EndpointId,
    record: u64,
    open: Vec<BlockHash>,
}

impl Learned {
    /// Where.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// Blocks whose being there hangs on the outcome.
    pub fn blocks(&self) -> usize {
        self.open.len()
    }
}

/// How much of a fingerprint one endpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Leading blocks held of each prompt, summed; a partial block counts if all before it are held.
    pub blocks: u32,
    /// Prompt tokens that its engine should find in its cache: whole blocks only, and never all of a prompt, since its
    /// last token has to be computed in any case.
    pub cached_tokens: u64,
}

/// How much of a fingerprint each endpoint holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// In the order of ids; only those that hold something.
    by_endpoint: Vec<(EndpointId, Overlap)>,
}

impl Overlaps {
    /// How much that one holds.
    pub fn of(&self, id: EndpointId) -> Overlap {
        let at = self.by_endpoint.binary_search_by_key(&id, |(id, _)| *id);
        at.map(|at| self.by_endpoint[at].1).unwrap_or_default()
    }
}

impl PrefixIndex {
    /// An index in which nobody holds anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much of a fingerprint each of `ids` holds. Costs a look-up for an endpoint that lacks the first block, and
    /// twice the logarithm of the blocks held for any other.
    pub fn overlaps(&self, fingerprint: &Fingerprint, ids: impl IntoIterator<Item = EndpointId>) -> Overlaps {
        let by_endpoint = self.by_endpoint.read();
        let overlap = |id| {
            let overlap = overlap(&by_endpoint.get(&id)?.read(), fingerprint);
            (overlap.blocks > 0).then_some((id, overlap))
        };
        let mut by_endpoint: Vec<(EndpointId, Overlap)> = ids.into_iter().filter_map(overlap).collect();
        by_endpoint.sort_unstable_by_key(|(id, _)| *id);
        Overlaps { by_endpoint }
    }

    /// A fingerprint's prompts were sent to `id`, whose cache holds `capacity` blocks in all, at `now`. They are held at
    /// once, as the most recently used; of a prompt longer than the cache its head is.
    pub fn record(&self, id: EndpointId, fingerprint: &Fingerprint, capacity: usize, now: Instant) -> Learned {
        let held = self.held(id);
        let record = {
            let mut held = held.write();
            held.fit(capacity);
            self.last_record.fetch_add(1, Ordering::Relaxed) + 1
        };
        let mut open = Vec::new();
        for print in &fingerprint.prints {
            let mut chain = print.all().take(capacity).peekable();
            let mut before = None;
            while chain.peek().is_some() {
                let part = chain.by_ref().take(AT_ONCE);
                before = held.write().record(record, before, part, (capacity, now), &mut open);
                if before.is_none() {
                    break;
                }
            }
        }
        Learned { id, record, open }
    }

    /// The request ended well: what it brought is there.
    pub fn keep(&self, learned: Learned) {
        if let Some(held) = self.known(learned.id) {
            learned.open.chunks(AT_ONCE).for_each(|part| held.write().keep(learned.record, part));
        }
    }

    /// The request came to nothing: what it brought is taken back, unless another request brought or used it too.
    pub fn undo(&self, learned: Learned) {
        if let Some(held) = self.known(learned.id) {
            // The tail first: nothing is ever held without what stands before it.
            learned.open.rchunks(AT_ONCE).for_each(|part| held.write().undo(learned.record, part));
        }
    }

    /// How long the youngest of those blocks has lain unused that `id`, with room for `capacity` in all, would evict for
    /// `new` others. `None`: it has room. Blocks that the prompt itself would use again count as the others do.
    pub fn displaced(&self, id: EndpointId, new: usize, capacity: usize, now: Instant) -> Option<Duration> {
        self.known(id)?.read().displaced(new, capacity, now)
    }

    /// Nothing is believed of `id` any more: it has left, or its cache is empty.
    pub fn forget(&self, id: EndpointId) {
        self.by_endpoint.write().remove(&id);
    }

    /// Blocks held by that one.
    pub fn held_by(&self, id: EndpointId) -> usize {
        self.known(id).map_or(0, |held| held.read().len())
    }

    /// Endpoints that something is believed of.
    pub fn endpoints(&self) -> Vec<EndpointId> {
        self.by_endpoint.read().keys().copied().collect()
    }

    /// Memory that the index takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.by_endpoint.read().values().map(|held| held.read().bytes()).sum()
    }

    fn known(&self, id: EndpointId) -> Option<Arc<RwLock<Held>>> {
        self.by_endpoint.read().get(&id).cloned()
    }

    fn held(&self, id: EndpointId) -> Arc<RwLock<Held>> {
        let known = self.known(id);
        known.unwrap_or_else(|| Arc::clone(self.by_endpoint.write().entry(id).or_default()))
    }
}

fn overlap(held: &Held, fingerprint: &Fingerprint) -> Overlap {
    let size = u64::from(fingerprint.block_size.get());
    let mut sum = Overlap::default();
    for print in &fingerprint.prints {
        let whole = held.leading(&print.hashes);
        sum.blocks += (whole + usize::from(holds_tail(held, print, whole))) as u32;
        let at_most = (print.tokens as u64).saturating_sub(1) / size;
        sum.cached_tokens += (whole as u64).min(at_most) * size;
    }
    sum
}

fn holds_tail(held: &Held, print: &Print, whole: usize) -> bool {
    whole == print.hashes.len() && print.tail.is_some_and(|tail| held.holds(tail))
}
