//! Warmpath: the production code (`route`, `pick`, `blocks`, `fleet`), at its defaults, in virtual time. In: what the program
//! hands it; out: what it decides. Nothing of it is copied here, but for the one line of `route` that puts together a candidate,
//! where the overlap comes from KV events instead of the index.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blocks::{BlockHash, Fingerprint, Print};
use fleet::{Booking, Cache, Endpoint, Fleet, Load, Mark, Member, View};
use pick::{Ask, Candidate};
use route::{Asked as Fingerprinted, Routed, Router};

use super::events::Held;
use super::{Asked, cached, in_bytes};
use crate::draw::Draw;
use crate::model::{Change, Gauges, RequestId, Shape, span};

/// Bytes of a pseudo-token, where there is no tokenizer.
const BYTES_A_TOKEN: u32 = 4;

/// By what it knows who holds what.
#[derive(Debug)]
pub(super) enum Knows {
    /// From what it sent where, in tokens.
    Tokens,
    /// The same, in pseudo-tokens of four bytes.
    Bytes,
    /// From the engines themselves.
    Events(Held),
}

/// The picker.
#[derive(Debug)]
pub(super) struct Warm {
    knows: Knows,
    shape: Shape,
    fleet: Arc<Fleet>,
    router: Router,
    policy: pick::Policy,
    /// The beginning of virtual time: only differences are ever looked at.
    start: Instant,
    draw: Draw,
    marks: HashMap<usize, Mark>,
    routed: HashMap<RequestId, Routed>,
    booked: HashMap<RequestId, Booking>,
}

impl Warm {
    pub(super) fn new(knows: Knows, shape: Shape, seed: u64) -> Warm {
        let fleet = Arc::new(Fleet::new());
        Warm {
            knows,
            shape,
            router: Router::new(Arc::clone(&fleet)),
            fleet,
            policy: config::Config::default().policy,
            start: Instant::now(),
            draw: Draw::new(seed, 42),
            marks: HashMap::new(),
            routed: HashMap::new(),
            booked: HashMap::new(),
        }
    }

    pub(super) fn serve_with(&mut self, members: &[usize]) {
        let member = |&engine: &usize| Member::new(format!("engine-{engine}"), address(engine));
        let changes = self.fleet.replace(members.iter().map(member).collect());
        self.router.left(&changes);
    }

    pub(super) fn pick(&mut self, asked: &Asked<'_>) -> Option<(usize, Option<u32>)> {
        let view = self.fleet.view();
        let now = self.start + asked.now;
        if let Knows::Events(_) = self.knows {
            return self.pick_by_events(asked, &view, now);
        }
        let size = *self.router.block_sizes(&view).first()?;
        let fingerprint = match self.knows {
            Knows::Bytes => fingerprint(&in_bytes(asked.prompt), size, BYTES_A_TOKEN),
            _ => fingerprint(asked.prompt, size, 1),
        };
        let asks = Fingerprinted { fingerprints: vec![fingerprint].into(), allowed: None };
        let routed = self.router.route(&view, &asks, &self.policy, now, &mut self.draw).ok()?;
        let engine = engine_at(*routed.destinations.first()?);
        let predicted = routed.predicted_cached_tokens() as u32;
        self.routed.insert(asked.id, routed);
        Some((engine, Some(predicted)))
    }

    fn pick_by_events(&mut self, asked: &Asked<'_>, view: &View, now: Instant) -> Option<(usize, Option<u32>)> {
        let Knows::Events(held) = &self.knows else { return None };
        let (names, tail) = span::names(asked.prompt, self.shape.block_size, 0);
        let candidate = |endpoint: &Arc<Endpoint>| Candidate {
            overlap: held.leading(engine_at(endpoint.member.address), &names),
            ..candidate(endpoint, &self.policy, now)
        };
        let ask = Ask { blocks: (names.len() + usize::from(tail.is_some())) as u32 };
        let candidates: Vec<Candidate> = view.endpoints().iter().map(candidate).collect();
        let best = pick::pick(&ask, &candidates, &self.policy, &mut self.draw)?.best();
        let endpoint = view.get(best)?;
        let overlap = candidates.iter().find(|candidate| candidate.id == best).map_or(0, |best| best.overlap);
        let all = span::tokens(asked.prompt);
        let predicted = cached(overlap, all, self.shape.block_size);
        self.booked.insert(asked.id, endpoint.book(all - u64::from(predicted), now));
        Some((engine_at(endpoint.member.address), Some(predicted)))
    }

    pub(super) fn reading_begins(&mut self, engine: usize) {
        if let Some(endpoint) = self.fleet.view().at(address(engine)) {
            self.marks.insert(engine, endpoint.books.begin_reading());
        }
    }

    pub(super) fn reading_ends(&mut self, engine: usize, begun: Duration, now: Duration, gauges: Option<Gauges>) {
        let Some(id) = self.fleet.view().at(address(engine)).map(|endpoint| endpoint.id) else { return };
        let Some(mark) = self.marks.remove(&engine) else { return };
        match gauges {
            Some(gauges) => {
                self.fleet.read(id, mark, self.load(&gauges, self.start + begun));
            }
            None => {
                self.fleet.read_failed(id, self.start + now);
            }
        }
    }

    fn load(&self, gauges: &Gauges, seen_at: Instant) -> Load {
        let capacity = u64::from(self.shape.block_size) * u64::from(self.shape.blocks);
        Load {
            waiting: Some(gauges.waiting.into()),
            running: Some(gauges.running.into()),
            kv_usage: Some(gauges.kv_usage),
            cache: Cache {
                block_size: Some(self.shape.block_size),
                capacity_tokens: Some(capacity),
                prefix_caching: Some(self.shape.prefix_caching),
            },
            ..Load::unsaid(seen_at)
        }
    }

    pub(super) fn blocks_changed(&mut self, engine: usize, changes: &[Change]) {
        if let Knows::Events(held) = &mut self.knows {
            held.changed(engine, changes);
        }
    }

    pub(super) fn answers(&mut self, id: RequestId) {
        if let Some(routed) = self.routed.get_mut(&id) {
            drop(routed.succeeded());
        }
    }

    pub(super) fn ended(&mut self, id: RequestId) {
        self.routed.remove(&id);
        self.booked.remove(&id);
    }
}

/// As `route` reads an endpoint, without any overlap.
fn candidate(endpoint: &Endpoint, policy: &pick::Policy, now: Instant) -> Candidate {
    let load = endpoint.reading.load.as_ref();
    Candidate {
        standing: endpoint.reading.standing(now, policy.stale_after),
        waiting: endpoint.waiting_now(),
        running: load.and_then(|load| load.running),
        kv_usage: load.and_then(|load| load.kv_usage),
        in_flight: endpoint.books.open(),
        ..Candidate::unread(endpoint.id)
    }
}

/// Blocks of `size` tokens, where each counts `unit` of what the spans are measured in.
fn fingerprint(spans: &[span::Span], size: NonZeroU32, unit: u32) -> Fingerprint {
    let (names, tail) = span::names(spans, size.get() * unit, 0);
    let print = Print {
        hashes: names.into_iter().map(BlockHash).collect(),
        tail: tail.map(BlockHash),
        tokens: span::tokens(spans).div_ceil(u64::from(unit)) as usize,
    };
    Fingerprint { block_size: size, prints: vec![print] }
}

/// Where an engine of that number serves.
pub(super) fn address(engine: usize) -> SocketAddr {
    let [.., high, low] = (engine as u32).to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 8000))
}

fn engine_at(address: SocketAddr) -> usize {
    match address.ip() {
        std::net::IpAddr::V4(ip) => usize::from(ip.octets()[2]) << 8 | usize::from(ip.octets()[3]),
        std::net::IpAddr::V6(_) => usize::MAX,
    }
}
