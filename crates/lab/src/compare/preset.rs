//! The traffics that are ready made, each with what happens meanwhile. In: a name; out: a [`Plan`]. Sizes were fixed before any
//! policy ran on them, for six engines of Qwen3-1.7B on a sixth of an H100 each (62,000 tokens of KV cache): loads are set by
//! capacity, which knows no policy.

use std::time::Duration;

use clap::ValueEnum;

use crate::flags::CompareFlags;
use crate::model::span;
use crate::sim::{Incident, Site};
use crate::traffic::trace::Trace;
use crate::traffic::{Agents, Arrivals, Bursts, Come, Dialogs, Shared, Traffic, mixed};

/// Ready-made traffics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// As published: 36 shared instructions of 4,000 tokens, used evenly by 24 users who ask again at once.
    SharedInstructions,
    /// As published: 36 dialogs side by side, of which an engine holds about ten.
    Dialogs,
    /// Shared instructions, some used much more than others, at a little more than can be served without reuse.
    SkewedInstructions,
    /// Agents with tool turns.
    Agents,
    /// Nothing is shared.
    Independent,
    /// Instructions, dialogs and agents at once.
    Mix,
    /// Skewed instructions that come in bursts.
    Bursts,
    /// More than can be served without reuse, less than with.
    Overload,
    /// A mix, in which an engine dies and two join.
    Workers,
    /// A mix, in which the picker starts anew.
    Restart,
    /// All of these.
    All,
}

impl Preset {
    /// All but "all".
    pub const EACH: [Preset; 10] = [
        Preset::SharedInstructions,
        Preset::Dialogs,
        Preset::SkewedInstructions,
        Preset::Agents,
        Preset::Independent,
        Preset::Mix,
        Preset::Bursts,
        Preset::Overload,
        Preset::Workers,
        Preset::Restart,
    ];
}

/// A traffic, and what happens meanwhile.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) words: String,
    pub(super) incidents: Vec<(Duration, Incident)>,
    /// The share of the first requests that isn't counted.
    pub(super) warm_up: f64,
    make: Box<dyn Fn(u64) -> Traffic>,
}

/// What is left out where a service is looked at that has run for a while.
const WARM_UP: f64 = 0.1;

const SHARED: Shared = Shared {
    requests: 1_200,
    instructions: 36,
    instruction_tokens: 4_000,
    skew: 0.0,
    question_tokens: 60,
    answer_tokens: 64,
    users: 24,
    come: Come::Closed,
};

const SKEWED: Shared = Shared {
    requests: 2_400,
    instructions: 60,
    skew: 1.0,
    users: 200,
    come: Come::Open(Arrivals { rate: 24.0, bursts: None }),
    ..SHARED
};

const DIALOGS: Dialogs = Dialogs {
    dialogs: 36,
    begin: Arrivals { rate: 18.0, bursts: None },
    turns: 10,
    turns_spread: 30,
    system_tokens: 100,
    opening_tokens: 4_000,
    opening_spread: 25,
    question_tokens: 60,
    answer_tokens: 140,
    think: Duration::from_secs(1),
};

const AGENTS: Agents = Agents {
    runs: 160,
    begin: Arrivals { rate: 2.0, bursts: None },
    kinds: 12,
    tools_tokens: 3_000,
    task_tokens: 200,
    turns: 10,
    result_tokens: 500,
    answer_tokens: 60,
    tool_takes: Duration::from_secs(1),
};

fn mix(seed: u64) -> Traffic {
    let instructions = Shared { requests: 1_000, come: Come::Open(Arrivals::steady(10.0)), ..SKEWED };
    let dialogs = Dialogs { dialogs: 60, begin: Arrivals::steady(0.6), think: Duration::from_secs(5), ..DIALOGS };
    let agents = Agents { runs: 60, begin: Arrivals::steady(0.6), ..AGENTS };
    mixed(vec![instructions.traffic(seed), dialogs.traffic(seed), agents.traffic(seed)])
}

impl Plan {
    pub(super) fn of(preset: Preset, flags: &CompareFlags) -> Plan {
        let most = |requests: u32| flags.requests.unwrap_or(requests);
        let share = |runs: u32, requests: u32| most(requests).div_ceil(requests / runs).max(1);
        let arrivals = |rate: f64| Arrivals::steady(rate * flags.rate_factor);
        let skewed = Shared { requests: most(SKEWED.requests), come: Come::Open(arrivals(24.0)), ..SKEWED };
        let bursts = Bursts { every: Duration::from_secs(20), lasts: Duration::from_secs(2), times: 4.0 };
        let seconds = Duration::from_secs;
        let published = "sizes that were not published are ours";
        match preset {
            Preset::SharedInstructions => {
                let shared = Shared { requests: most(SHARED.requests), ..SHARED };
                let words = format!(
                    "36 instructions of 4,000 tokens, used evenly; 24 users with a session key each ask anything, and again \
                     as soon as they are answered ({published})"
                );
                Plan::new("shared-instructions", words, 0.0, move |seed| shared.traffic(seed))
            }
            Preset::Dialogs => {
                let dialogs = Dialogs { dialogs: share(DIALOGS.dialogs, 360), ..DIALOGS };
                let words = format!(
                    "36 dialogs side by side, openings of 3,000 to 5,000 tokens, 7 to 13 turns of 60 tokens, answers of 140, \
                     think time 1 s ({published})"
                );
                Plan::new("dialogs", words, 0.0, move |seed| dialogs.traffic(seed))
            }
            Preset::SkewedInstructions => {
                let words = "60 instructions of 4,000 tokens, the n-th used in proportion to 1/n, 24 requests a second";
                Plan::new("skewed-instructions", words, WARM_UP, move |seed| skewed.traffic(seed))
            }
            Preset::Agents => {
                let agents = Agents { runs: share(AGENTS.runs, 1_600), begin: arrivals(2.0), ..AGENTS };
                let words = "12 kinds of agents, 3,000 tokens of tools each, 2 runs a second of 5 to 15 turns, results of 1 to 1,000 tokens";
                Plan::new("agents", words, WARM_UP, move |seed| agents.traffic(seed))
            }
            Preset::Independent => {
                let sizes = Shared { instruction_tokens: 0, question_tokens: 1_000, ..skewed };
                let words = "prompts of 500 to 1,500 tokens that share nothing, 24 a second";
                Plan::new("independent", words, WARM_UP, move |seed| sizes.traffic(seed))
            }
            Preset::Mix => {
                let words = "skewed instructions (10 a second), dialogs (0.6 begun a second) and agents (0.6) at once";
                Plan::new("mix", words, WARM_UP, mix)
            }
            Preset::Bursts => {
                let come = Come::Open(Arrivals { rate: 20.0 * flags.rate_factor, bursts: Some(bursts) });
                let sizes = Shared { come, ..skewed };
                let words = "skewed instructions, 20 a second, in 2 seconds of every 20 four times as many";
                Plan::new("bursts", words, WARM_UP, move |seed| sizes.traffic(seed))
            }
            Preset::Overload => {
                let sizes = Shared { come: Come::Open(arrivals(45.0)), skew: 0.0, instructions: 36, ..skewed };
                let words = "36 instructions of 4,000 tokens, used evenly, 45 requests a second";
                Plan::new("overload", words, WARM_UP, move |seed| sizes.traffic(seed))
            }
            Preset::Workers => {
                let incidents = vec![
                    (seconds(40), Incident::Dies(1)),
                    (seconds(60), Incident::Joins),
                    (seconds(60), Incident::Joins),
                ];
                let words = "the mix; an engine dies at 40 s, two join at 60 s";
                Plan { incidents, ..Plan::new("workers", words, WARM_UP, mix) }
            }
            Preset::Restart => {
                let incidents = vec![(seconds(50), Incident::PickerRestarts)];
                let words = "the mix; the picker starts anew at 50 s";
                Plan { incidents, ..Plan::new("restart", words, WARM_UP, mix) }
            }
            // Taken apart before.
            Preset::All => Plan::of(Preset::Mix, flags),
        }
    }

    pub(super) fn of_trace(name: String, trace: Trace, flags: &CompareFlags) -> Plan {
        let (rate, most) = (flags.rate_factor, flags.requests.map_or(usize::MAX, |most| most as usize));
        let words = format!("{} recorded requests, {rate} times as fast", trace.requests().min(most));
        Plan::new(&name, words, WARM_UP, move |_| trace.traffic(rate, most))
    }

    fn new(name: &str, words: impl Into<String>, warm_up: f64, make: impl Fn(u64) -> Traffic + 'static) -> Plan {
        Plan { name: name.to_owned(), words: words.into(), incidents: Vec::new(), warm_up, make: Box::new(make) }
    }

    pub(super) fn traffic(&self, seed: u64) -> Traffic {
        (self.make)(seed)
    }

    /// Requests a second that all engines together can serve: without any reuse, and with all that one infinite cache would
    /// have. Of the first requests' mean lengths, each engine's batch as full as its cache allows. No policy is in it.
    pub(super) fn capacity(&self, site: &Site, seed: u64) -> [f64; 2] {
        let (mut requests, mut prompt, mut fresh, mut output) = (0.0, 0.0, 0.0, 0.0);
        let mut seen = std::collections::HashSet::new();
        for conversation in self.traffic(seed).take(CAPACITY_OF) {
            let mut history = 0_u64;
            for turn in &conversation.turns {
                history = if turn.anew { 0 } else { history };
                let unseen = turn.says.iter().filter(|span| seen.insert(span.id));
                fresh += unseen.map(|span| f64::from(span.tokens)).sum::<f64>();
                history += span::tokens(&turn.says);
                prompt += history as f64;
                history += u64::from(turn.answer.tokens);
                output += f64::from(turn.answer.tokens);
                requests += 1.0;
            }
        }
        let (prompt, fresh, output) = (prompt / requests, fresh / requests, output / requests);
        let (cost, shape) = (site.machine.cost, site.machine.shape);
        let batch = (shape.capacity() as f64 / (prompt + output)).clamp(1.0, f64::from(shape.max_num_seqs));
        let token = cost.sequence + cost.context_token * (prompt + output / 2.0) + cost.base / batch;
        let rate = |computed: f64| site.engines as f64 * 1e9 / (computed * cost.prefill_token + output * token);
        [rate(prompt), rate(fresh)]
    }
}

/// Conversations by which capacity is reckoned.
const CAPACITY_OF: usize = 2_000;
