//! Who picks: Warmpath's production code, its rivals as their sources describe them, and a greedy that knows everything. In: a
//! request, and what a picker in that place would know (its own dispatches, readings of engines a little late, KV events a
//! little late); out: an engine. Deterministic by its seed.
//!
//! A rival is a copy of a rule, with its own index and its own blind spots, at default settings; what each is a copy of stands
//! in its file. Nothing here is tuned.

mod active;
mod books;
mod dynamo;
mod events;
mod gate;
mod greedy;
mod hashing;
mod llmd;
mod lru;
mod warm;

use std::time::Duration;

use clap::ValueEnum;

use crate::draw::Draw;
use crate::model::{Change, Engine, Gauges, RequestId, Shape, Span, StepCost, mix};
use books::Books;
use dynamo::Dynamo;
use events::Held;
use gate::Gate;
use greedy::Greedy;
use hashing::{Maglev, Ring};
use llmd::{Affinity, Sum};
use warm::Warm;

/// The policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Policy {
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
    /// The fewest requests under way, of all.
    LeastRequest,
    /// The fewer requests under way, of two drawn: Envoy's LEAST_REQUEST.
    PowerOfTwo,
    /// Envoy's RING_HASH on the session key.
    RingHash,
    /// Envoy's MAGLEV on the session key.
    Maglev,
    /// The ring, but nobody gets more than 1.25 times the average.
    BoundedLoad,
    /// Each instruction, agent's kind or dialog has its replica.
    Pinned,
    /// llm-d's default: prefix 3, queue 2, KV use 2.
    LlmdDefault,
    /// The same and no-hit-lru 2.
    LlmdNoHit,
    /// llm-d's guide: prefix affinity filter, then the fewest tokens under way.
    LlmdAffinity,
    /// Dynamo's cost in blocks, with KV events.
    Dynamo,
    /// SMG's cache_aware on text: a threshold and a gate.
    SmgGate,
    /// vllm-router's cache_aware as chats see it: without their messages.
    VllmRouterChat,
    /// Warmpath's weights with the caches known by KV events instead of from what was sent where.
    KvEvents,
    /// Warmpath.
    Warmpath,
    /// Warmpath where it has no tokenizer: four bytes are a token.
    WarmpathEstimate,
    /// A bound: the shortest wait, by perfect knowledge of caches and queues.
    Greedy,
}

impl Policy {
    /// All, in the order of tables.
    pub const ALL: [Policy; 18] = [
        Policy::RoundRobin,
        Policy::Random,
        Policy::LeastRequest,
        Policy::PowerOfTwo,
        Policy::RingHash,
        Policy::Maglev,
        Policy::BoundedLoad,
        Policy::Pinned,
        Policy::LlmdDefault,
        Policy::LlmdNoHit,
        Policy::LlmdAffinity,
        Policy::Dynamo,
        Policy::SmgGate,
        Policy::VllmRouterChat,
        Policy::KvEvents,
        Policy::Warmpath,
        Policy::WarmpathEstimate,
        Policy::Greedy,
    ];

    /// As it is written in flags and tables.
    pub fn name(self) -> &'static str {
        match self {
            Policy::RoundRobin => "round-robin",
            Policy::Random => "random",
            Policy::LeastRequest => "least-request",
            Policy::PowerOfTwo => "power-of-two",
            Policy::RingHash => "ring-hash",
            Policy::Maglev => "maglev",
            Policy::BoundedLoad => "bounded-load",
            Policy::Pinned => "pinned",
            Policy::LlmdDefault => "llmd-default",
            Policy::LlmdNoHit => "llmd-no-hit",
            Policy::LlmdAffinity => "llmd-affinity",
            Policy::Dynamo => "dynamo",
            Policy::SmgGate => "smg-gate",
            Policy::VllmRouterChat => "vllm-router-chat",
            Policy::KvEvents => "kv-events",
            Policy::Warmpath => "warmpath",
            Policy::WarmpathEstimate => "warmpath-estimate",
            Policy::Greedy => "greedy",
        }
    }

    /// How often it reads each engine's metrics, at defaults; `None`: never.
    pub fn reads_every(self) -> Option<Duration> {
        match self {
            Policy::LlmdDefault | Policy::LlmdNoHit => Some(Duration::from_millis(50)),
            Policy::KvEvents | Policy::Warmpath | Policy::WarmpathEstimate => {
                Some(config::Config::default().scrape.interval)
            }
            _ => None,
        }
    }

    /// Whether it is told what becomes of blocks.
    pub fn hears_events(self) -> bool {
        matches!(self, Policy::Dynamo | Policy::KvEvents)
    }

    /// Whether a picker's process carries it, which may be started anew; the others are the proxy's own.
    fn is_a_pickers(self) -> bool {
        !matches!(
            self,
            Policy::RoundRobin
                | Policy::Random
                | Policy::LeastRequest
                | Policy::PowerOfTwo
                | Policy::RingHash
                | Policy::Maglev
                | Policy::BoundedLoad
                | Policy::Pinned
                | Policy::Greedy
        )
    }
}

/// A request, as a picker sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its number.
    pub id: RequestId,
    /// When.
    pub now: Duration,
    /// Its session key.
    pub session: u64,
    /// Its use, of those that a fleet could be divided by.
    pub scenario: u64,
    /// Its prompt.
    pub prompt: &'a [Span],
}

/// What was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The engine.
    pub engine: usize,
    /// Prompt tokens that the engine is believed to have in its cache, where the policy believes anything.
    pub predicted: Option<u32>,
}

/// What all engines are, for those who know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Their shape.
    pub shape: Shape,
    /// Their step times.
    pub cost: StepCost,
}

/// A policy at work.
#[derive(Debug)]
pub struct Picker {
    policy: Policy,
    machine: Machine,
    seed: u64,
    /// Who is known to serve, ascending.
    members: Vec<usize>,
    books: Books,
    brain: Brain,
    draw: Draw,
}

#[derive(Debug)]
enum Brain {
    Turn(usize),
    Random,
    Least,
    OfTwo,
    Ring(Ring),
    Bounded(Ring),
    Maglev(Maglev),
    Pinned,
    Sum(Sum),
    Affinity(Affinity),
    Dynamo(Dynamo),
    Gate(Gate),
    Blind,
    Warm(Box<Warm>),
    Greedy(Greedy),
}

impl Brain {
    fn new(policy: Policy, machine: &Machine, seed: u64) -> Brain {
        let warm = |knows| Brain::Warm(Box::new(Warm::new(knows, machine.shape, seed)));
        match policy {
            Policy::RoundRobin => Brain::Turn(0),
            Policy::Random => Brain::Random,
            Policy::LeastRequest => Brain::Least,
            Policy::PowerOfTwo => Brain::OfTwo,
            Policy::RingHash => Brain::Ring(Ring::default()),
            Policy::BoundedLoad => Brain::Bounded(Ring::default()),
            Policy::Maglev => Brain::Maglev(Maglev::default()),
            Policy::Pinned => Brain::Pinned,
            Policy::LlmdDefault => Brain::Sum(Sum::new(machine.shape, false)),
            Policy::LlmdNoHit => Brain::Sum(Sum::new(machine.shape, true)),
            Policy::LlmdAffinity => Brain::Affinity(Affinity::new(machine.shape)),
            Policy::Dynamo => Brain::Dynamo(Dynamo::default()),
            Policy::SmgGate => Brain::Gate(Gate::default()),
            Policy::VllmRouterChat => Brain::Blind,
            Policy::KvEvents => warm(warm::Knows::Events(Held::default())),
            Policy::Warmpath => warm(warm::Knows::Tokens),
            Policy::WarmpathEstimate => warm(warm::Knows::Bytes),
            Policy::Greedy => Brain::Greedy(Greedy::default()),
        }
    }
}

impl Picker {
    /// A policy that knows nobody yet.
    pub fn new(policy: Policy, machine: Machine, seed: u64) -> Picker {
        let seed = mix(seed ^ policy as u64);
        Picker {
            policy,
            machine,
            seed,
            members: Vec::new(),
            books: Books::default(),
            brain: Brain::new(policy, &machine, seed),
            draw: Draw::new(seed, 41),
        }
    }

    /// The picker's process is started anew: all that it has learned is gone. A proxy's own policy has none.
    pub fn restarted(&mut self) {
        if self.policy.is_a_pickers() {
            self.books = Books::default();
            self.brain = Brain::new(self.policy, &self.machine, self.seed);
            let members = self.members.clone();
            self.serve_with(members);
        }
    }

    /// From now on these serve, ascending.
    pub fn serve_with(&mut self, members: Vec<usize>) {
        match &mut self.brain {
            Brain::Ring(ring) | Brain::Bounded(ring) => ring.lay(&members),
            Brain::Maglev(table) => table.lay(&members),
            Brain::Warm(warm) => warm.serve_with(&members),
            _ => {}
        }
        self.members = members;
    }

    /// Picks and books; `None` where nobody serves. `engines` are the real ones, which only the greedy may look at.
    pub fn pick(&mut self, asked: &Asked<'_>, engines: &[Engine]) -> Option<Picked> {
        let members = &self.members[..];
        let first = *members.first()?;
        let (books, draw) = (&self.books, &mut self.draw);
        let size = self.machine.shape.block_size;
        let all = crate::model::span::tokens(asked.prompt);
        let nothing = |engine| (engine, None);
        let (engine, predicted) = match &mut self.brain {
            Brain::Turn(next) => {
                *next += 1;
                nothing(members[(*next - 1) % members.len()])
            }
            Brain::Random => nothing(members[draw.below(members.len())]),
            Brain::Least => nothing(least(members, draw, |at| f64::from(books.seat(at).under_way))),
            Brain::OfTwo => {
                let (one, other) = (members[draw.below(members.len())], members[draw.below(members.len())]);
                let busier = books.seat(one).under_way > books.seat(other).under_way;
                nothing(if busier { other } else { one })
            }
            Brain::Ring(ring) => nothing(ring.at(asked.session)),
            Brain::Bounded(ring) => nothing(ring.bounded(asked.session, members, books)),
            Brain::Maglev(table) => nothing(table.at(asked.session)),
            Brain::Pinned => nothing(members[(asked.scenario % members.len() as u64) as usize]),
            Brain::Sum(sum) => sum.pick(asked, members, books, draw),
            Brain::Affinity(affinity) => affinity.pick(asked, members, books, draw),
            Brain::Dynamo(dynamo) => dynamo.pick(asked, members, (books, size), draw),
            Brain::Gate(gate) => gate.pick(asked, members, books),
            // No text, no match; the least loaded, of several the first.
            Brain::Blind => {
                let load = |at: &usize| books.seat(*at).under_way;
                nothing(members.iter().copied().min_by_key(load).unwrap_or(first))
            }
            Brain::Warm(warm) => warm.pick(asked)?,
            Brain::Greedy(greedy) => greedy.pick(asked, members, books, (&self.machine, engines)),
        };
        let uncached = all - u64::from(predicted.unwrap_or(0)).min(all);
        self.books.book(asked.id, engine, uncached);
        Some(Picked { engine, predicted })
    }

    /// A reading of an engine's metrics begins.
    pub fn reading_begins(&mut self, engine: usize) {
        if let Brain::Warm(warm) = &mut self.brain {
            warm.reading_begins(engine);
        }
    }

    /// It has come: what the engine's gauges said when it began. `None`: it failed.
    pub fn reading_ends(&mut self, engine: usize, begun: Duration, now: Duration, gauges: Option<Gauges>) {
        if let Some(gauges) = gauges {
            self.books.read(engine, gauges);
        }
        if let Brain::Warm(warm) = &mut self.brain {
            warm.reading_ends(engine, begun, now, gauges);
        }
    }

    /// What became of blocks at an engine.
    pub fn blocks_changed(&mut self, engine: usize, changes: &[Change]) {
        match &mut self.brain {
            Brain::Dynamo(dynamo) => dynamo.changed(engine, changes),
            Brain::Warm(warm) => warm.blocks_changed(engine, changes),
            _ => {}
        }
    }

    /// A request's first token came.
    pub fn answers(&mut self, id: RequestId) {
        self.books.answers(id);
        match &mut self.brain {
            Brain::Warm(warm) => warm.answers(id),
            Brain::Greedy(greedy) => greedy.answers(id),
            _ => {}
        }
    }

    /// A request has ended, well or not.
    pub fn ended(&mut self, id: RequestId) {
        self.books.ended(id);
        match &mut self.brain {
            Brain::Warm(warm) => warm.ended(id),
            Brain::Dynamo(dynamo) => dynamo.ended(id),
            Brain::Greedy(greedy) => greedy.answers(id),
            _ => {}
        }
    }
}

/// The one of the least figure; of several one by the draw.
fn least(members: &[usize], draw: &mut Draw, figure: impl Fn(usize) -> f64) -> usize {
    let figures: Vec<f64> = members.iter().map(|at| figure(*at)).collect();
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let best: Vec<usize> = members.iter().zip(&figures).filter(|(_, f)| **f <= least).map(|(at, _)| *at).collect();
    best[draw.below(best.len())]
}

/// Tokens that an engine takes from its cache of `blocks` that it holds: never all of the prompt.
fn cached(blocks: u32, all: u64, size: u32) -> u32 {
    let most = all.saturating_sub(1) / u64::from(size);
    (u64::from(blocks).min(most) * u64::from(size)) as u32
}

/// A prompt in bytes instead of tokens, for those who have no tokenizer: English has some four bytes a token, code and prose
/// apart; each text has its own figure, from 3.5 to 5.
fn in_bytes(prompt: &[Span]) -> Vec<Span> {
    let bytes = |span: &Span| {
        let a_token = 3.5 + 1.5 * (mix(span.id ^ 0xb7e5) >> 11) as f64 / (1_u64 << 53) as f64;
        Span { id: span.id, tokens: (f64::from(span.tokens) * a_token).round() as u32 }
    };
    prompt.iter().map(bytes).collect()
}

#[cfg(test)]
mod tests;
