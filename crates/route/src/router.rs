//! The routing step itself: candidates are read once, one is picked, booked, and believed to hold the prompt.
//!
//! Nothing is locked from one line to the next: routes run at once on many threads, and each sees the bookings of those
//! before it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use blocks::{Fingerprint, Overlaps, PrefixIndex};
use fleet::{Changes, Endpoint, EndpointId, Fleet, View};
use pick::{Ask, Candidate, Note, Policy, pick};
use rand::Rng;

use crate::routed::{Lesson, Stay};
use crate::shape::Shape;
use crate::subset::Subset;
use crate::{Assumed, Routed};

/// What is asked of a router.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// The prompt's, one for each of [`Router::block_sizes`]. None: nothing is known of the prompt.
    pub fingerprints: Arc<[Fingerprint]>,
    /// The gateway's subset hint, `ip:port` or `ip` each. `None`: any endpoint; an empty one: no endpoint.
    pub allowed: Option<&'a [String]>,
}

/// Why nobody can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    /// The fleet is empty.
    #[error("no endpoint is known to serve")]
    NoEndpoints,
    /// The gateway allows none of the fleet's endpoints.
    #[error("none of the endpoints that the gateway allows is known to serve")]
    SubsetEmpty,
}

/// Routes requests over a fleet and remembers who holds which prefix. Cheap to clone; clones share all they know.
#[derive(Clone, Debug)]
pub struct Router {
    fleet: Arc<Fleet>,
    index: Arc<PrefixIndex>,
    assumed: Assumed,
}

impl Router {
    /// A router that knows nothing of anyone's cache yet.
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, index: Arc::default(), assumed: Assumed::default() }
    }

    /// The same, with other assumptions about caches of which their engine says nothing.
    pub fn assuming(self, assumed: Assumed) -> Self {
        Self { assumed, ..self }
    }

    /// Who is believed to hold what.
    pub fn index(&self) -> &PrefixIndex {
        &self.index
    }

    /// The block sizes that a prompt has to be hashed in to be found everywhere in `view`, ascending. Mostly one.
    pub fn block_sizes(&self, view: &View) -> Vec<NonZeroU32> {
        let mut sizes: Vec<NonZeroU32> = view.endpoints().iter().map(|e| self.shape(e).block_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Routes one request. When this returns, the request is booked and its prompt believed to be held there.
    pub fn route(
        &self,
        view: &View,
        asked: &Asked<'_>,
        policy: &Policy,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Result<Routed, Unroutable> {
        self.route_in_steps(view, asked, policy, now, rng, || {})
    }

    /// The same, calling `matched` between looking for the prefix and picking.
    ///
    /// # Errors
    /// The same.
    pub fn route_in_steps(
        &self,
        view: &View,
        asked: &Asked<'_>,
        policy: &Policy,
        now: Instant,
        rng: &mut impl Rng,
        matched: impl FnOnce(),
    ) -> Result<Routed, Unroutable> {
        let endpoints = allowed(view, asked.allowed)?;
        let found = self.find(&endpoints, &asked.fingerprints);
        matched();
        let ask = Ask { blocks: found.iter().map(|found| found.blocks).max().unwrap_or(0) };
        let candidates: Vec<Candidate> =
            endpoints.iter().map(|e| self.candidate(e, &ask, &found, policy, now)).collect();
        let mut decision = pick(&ask, &candidates, policy, rng).ok_or(Unroutable::NoEndpoints)?;
        let endpoint = Arc::clone(view.get(decision.best()).ok_or(Unroutable::NoEndpoints)?);
        if !self.shape(&endpoint).reuses {
            decision.note(Note::PrefixCachingOff);
        }
        let named = decision.ranked.iter().take(policy.endpoints.max(1));
        let destinations = named.filter_map(|ranked| view.get(ranked.id)).map(|e| e.member.address).collect();
        let stay = self.begin(endpoint, &asked.fingerprints, now);
        let fingerprints = Arc::clone(&asked.fingerprints);
        Ok(Routed { ask, candidates, decision, destinations, stay: Some(stay), fingerprints, router: self.clone() })
    }

    /// The engine of `id` has restarted: its cache is empty.
    pub fn restarted(&self, id: EndpointId) {
        self.index.forget(id);
    }

    /// The fleet has changed: nothing is believed any more of those that left.
    pub fn left(&self, changes: &Changes) {
        changes.left.iter().for_each(|endpoint| self.index.forget(endpoint.id));
    }
}

/// A fingerprint and who, of those with blocks of its size, holds how much of it.
struct Found {
    block_size: NonZeroU32,
    blocks: u32,
    overlaps: Overlaps,
}

impl Router {
    fn shape(&self, endpoint: &Endpoint) -> Shape {
        Shape::of(endpoint, &self.assumed)
    }

    fn find(&self, endpoints: &[&Arc<Endpoint>], fingerprints: &[Fingerprint]) -> Vec<Found> {
        let find = |fingerprint: &Fingerprint| {
            let reusing = endpoints.iter().filter(|e| self.shape(e).reuses_blocks_of(fingerprint));
            Found {
                block_size: fingerprint.block_size,
                blocks: fingerprint.blocks(),
                overlaps: self.index.overlaps(fingerprint, reusing.map(|e| e.id)),
            }
        };
        fingerprints.iter().map(find).collect()
    }

    fn candidate(&self, endpoint: &Endpoint, ask: &Ask, found: &[Found], policy: &Policy, now: Instant) -> Candidate {
        let shape = self.shape(endpoint);
        let found = found.iter().find(|found| found.block_size == shape.block_size);
        let (blocks, held) = found.map_or((0, 0), |found| (found.blocks, found.overlaps.of(endpoint.id).blocks));
        let load = endpoint.reading.load.as_ref();
        Candidate {
            id: endpoint.id,
            standing: endpoint.reading.standing(now, policy.stale_after),
            waiting: endpoint.waiting_now(),
            running: load.and_then(|load| load.running),
            kv_usage: load.and_then(|load| load.kv_usage),
            in_flight: endpoint.books.open(),
            overlap: in_blocks_of_the_ask(held, blocks, ask),
            displaces: self.index.displaced(endpoint.id, (blocks - held) as usize, shape.capacity, now),
        }
    }

    /// Books a request at an endpoint and lets the index learn its prompt.
    pub(crate) fn begin(&self, endpoint: Arc<Endpoint>, fingerprints: &[Fingerprint], now: Instant) -> Stay {
        let shape = self.shape(&endpoint);
        let fingerprint = fingerprints.iter().find(|fingerprint| shape.reuses_blocks_of(fingerprint));
        let overlap = fingerprint.map(|fingerprint| self.index.overlaps(fingerprint, [endpoint.id]).of(endpoint.id));
        let predicted_cached_tokens = overlap.unwrap_or_default().cached_tokens;
        let prompt_tokens = fingerprints.first().map_or(0, Fingerprint::tokens);
        Stay {
            _booking: endpoint.book(prompt_tokens.saturating_sub(predicted_cached_tokens), now),
            lesson: fingerprint.map(|fingerprint| self.learn(endpoint.id, fingerprint, shape.capacity, now)),
            predicted_cached_tokens,
            endpoint,
        }
    }

    fn learn(&self, id: EndpointId, fingerprint: &Fingerprint, capacity: usize, now: Instant) -> Lesson {
        let learned = self.index.record(id, fingerprint, capacity, now);
        // It may have left since the view was taken, and nobody would forget it again.
        if self.fleet.view().get(id).is_none() {
            self.index.forget(id);
        }
        Lesson::new(Arc::clone(&self.index), learned)
    }

    /// The endpoint that serves at that address now.
    pub(crate) fn endpoint_at(&self, address: SocketAddr) -> Option<Arc<Endpoint>> {
        self.fleet.view().at(address).cloned()
    }
}

fn allowed<'a>(view: &'a View, hints: Option<&[String]>) -> Result<Vec<&'a Arc<Endpoint>>, Unroutable> {
    let subset = hints.map(Subset::parse);
    let is_allowed = |e: &&Arc<Endpoint>| subset.as_ref().is_none_or(|subset| subset.allows(e.member.address));
    let endpoints: Vec<&Arc<Endpoint>> = view.endpoints().iter().filter(is_allowed).collect();
    match (view.endpoints().is_empty(), endpoints.is_empty()) {
        (true, _) => Err(Unroutable::NoEndpoints),
        (false, true) => Err(Unroutable::SubsetEmpty),
        (false, false) => Ok(endpoints),
    }
}

/// Blocks held, of `blocks` of an endpoint's own size, in blocks of the size that the ask counts in.
fn in_blocks_of_the_ask(held: u32, blocks: u32, ask: &Ask) -> u32 {
    let scaled = u64::from(held) * u64::from(ask.blocks) / u64::from(blocks.max(1));
    scaled.min(u64::from(ask.blocks)) as u32
}
