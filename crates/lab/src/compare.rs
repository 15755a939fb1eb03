//! `lab compare`: which policy serves a traffic best. In: flags; out: an [`Experiment`], printed as a table, JSON or HTML.
//!
//! A repeat is one draw of the traffic; all policies get the same one, on engines with empty caches. Virtual time has no
//! neighbours, so that the order in which policies run can't matter; it is drawn anew for each repeat all the same, as the
//! same plan is meant for real engines. What is printed depends on flags and seeds alone.

mod figures;
mod html;
mod preset;
mod stats;
mod table;
mod verdict;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

pub use figures::{Figures, Slo};
pub use preset::Preset;

use crate::draw::Draw;
use crate::flags::CompareFlags;
use crate::model::{Profile, Shape};
use crate::policy::{Machine, Policy};
use crate::sim::{self, Delays, Site};
use crate::traffic::trace::Trace;
use figures::Course;
use preset::Plan;
use stats::Interval;
use verdict::Verdict;

/// All that was measured, and what of.
#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// What was asked of the engines.
    pub plans: Vec<Compared>,
    /// What was set.
    pub setup: Setup,
}

/// What holds for all plans.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// The model and machine.
    pub profile: &'static str,
    /// Engines at the beginning.
    pub engines: usize,
    /// Tokens in a block.
    pub block_size: u32,
    /// Tokens that a KV cache holds.
    pub kv_tokens: u64,
    /// Most sequences in a step.
    pub max_num_seqs: u32,
    /// Most tokens in a step.
    pub max_num_batched_tokens: u32,
    /// The seeds, one a repeat.
    pub seeds: Vec<u64>,
    /// What counts as good.
    pub slo: Slo,
    /// How late a reading of metrics and a KV event are, in milliseconds.
    pub reading_ms: f64,
    /// See `reading_ms`.
    pub events_ms: f64,
    /// Whom the verdicts are about.
    pub reference: &'static str,
}

/// One traffic under all policies.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// What it is, in words.
    pub words: String,
    /// Requests in a repeat, by their median.
    pub requests: usize,
    /// Those that were asked within this share of the first requests aren't counted.
    pub warm_up: f64,
    /// Requests a second that the engines can serve without any reuse, and with all there could be.
    pub capacity: [f64; 2],
    /// What one infinite cache would reuse, in percent.
    pub infinite_percent: Interval,
    /// TTFT p50 on idle engines with that cache, in milliseconds.
    pub floor_p50_ms: Interval,
    /// In the order asked for.
    pub policies: Vec<Measured>,
    /// The order in which the policies ran, by repeat.
    pub orders: Vec<Vec<&'static str>>,
    /// What may be said.
    pub verdicts: Vec<Verdict>,
}

/// One policy on one traffic.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Its name.
    pub policy: &'static str,
    /// Medians over the repeats, with intervals.
    pub median: Medians,
    /// By repeat.
    pub runs: Vec<Figures>,
    /// The first repeat as it went.
    pub course: Course,
    /// TTFT in milliseconds that 0, 1, ... 100 percent of all requests of all repeats kept within.
    pub ttft_ms: Vec<f64>,
}

/// Medians over repeats.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // They are the fields of `Figures`.
pub struct Medians {
    pub reuse_percent: Interval,
    pub ttft_p50_ms: Interval,
    pub ttft_p95_ms: Interval,
    pub ttft_p99_ms: Interval,
    pub ttft_mean_ms: Interval,
    pub itl_p50_ms: Interval,
    pub itl_p95_ms: Interval,
    pub total_p50_ms: Interval,
    pub total_p95_ms: Interval,
    pub output_tokens_a_second: Interval,
    pub goodput: Interval,
    pub errors: Interval,
    pub busiest_percent: Interval,
    pub believed_percent: Option<Interval>,
    pub belief_off_percent: Option<Interval>,
    pub back_after_s: Option<Interval>,
}

/// Runs the experiment; `progress` gets a line a run, unless quiet.
pub fn run(flags: &CompareFlags, progress: &mut impl Write) -> Result<Experiment> {
    let profile = flags.step_profile.profile();
    let machine = machine(flags, &profile)?;
    let slo = Slo { ttft_ms: flags.slo_ttft_ms, itl_ms: flags.slo_itl_ms };
    let seeds: Vec<u64> = (0..u64::from(flags.repeats)).map(|repeat| flags.seed.wrapping_add(repeat)).collect();
    let policies = if flags.policies.is_empty() { Policy::ALL.to_vec() } else { flags.policies.clone() };
    let mut plans = Vec::new();
    for plan in plans_of(flags)? {
        plans.push(compare(flags, &plan, machine, slo, (&seeds, &policies), progress)?);
    }
    let setup = Setup {
        profile: profile.name,
        engines: flags.engines.into(),
        block_size: machine.shape.block_size,
        kv_tokens: machine.shape.capacity(),
        max_num_seqs: machine.shape.max_num_seqs,
        max_num_batched_tokens: machine.shape.max_num_batched_tokens,
        seeds,
        slo,
        reading_ms: flags.reading_ms,
        events_ms: flags.events_ms,
        reference: flags.reference.name(),
    };
    Ok(Experiment { plans, setup })
}

/// Prints the table, and writes the files asked for.
pub fn write(experiment: &Experiment, flags: &CompareFlags, out: &mut impl Write) -> Result<()> {
    out.write_all(table::render(experiment).as_bytes())?;
    let save = |file: &std::path::Path, text: String| {
        std::fs::write(file, text).with_context(|| format!("{} can't be written", file.display()))
    };
    if let Some(file) = &flags.json {
        save(file, serde_json::to_string_pretty(experiment)? + "\n")?;
    }
    if let Some(file) = &flags.html {
        save(file, html::page(experiment))?;
    }
    Ok(())
}

fn machine(flags: &CompareFlags, profile: &Profile) -> Result<Machine> {
    let blocks = flags.num_gpu_blocks_override.unwrap_or(profile.kv_tokens / flags.block_size + 1);
    let mut shape = Shape {
        block_size: flags.block_size,
        blocks,
        max_num_seqs: flags.max_num_seqs,
        max_num_batched_tokens: flags.max_num_batched_tokens,
        max_model_len: u32::MAX,
        prefix_caching: true,
    };
    shape.max_model_len = u32::try_from(shape.capacity()).unwrap_or(u32::MAX);
    ensure!(shape.capacity() >= 1024, "a KV cache of {} tokens is too small", shape.capacity());
    Ok(Machine { shape, cost: profile.cost })
}

fn plans_of(flags: &CompareFlags) -> Result<Vec<Plan>> {
    if let Some(file) = &flags.trace {
        let text = std::fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
        let tokenizer = flags.model.as_deref().map(crate::model_dir::load).transpose()?;
        let trace = Trace::read(&text, tokenizer.as_ref()).with_context(|| file.display().to_string())?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        return Ok(vec![Plan::of_trace(name, trace, flags)]);
    }
    let presets = if flags.preset.is_empty() { vec![Preset::SharedInstructions] } else { flags.preset.clone() };
    let all = presets.contains(&Preset::All);
    let presets = if all { Preset::EACH.to_vec() } else { presets };
    Ok(presets.into_iter().map(|preset| Plan::of(preset, flags)).collect())
}

fn compare(
    flags: &CompareFlags,
    plan: &Plan,
    machine: Machine,
    slo: Slo,
    (seeds, policies): (&[u64], &[Policy]),
    progress: &mut impl Write,
) -> Result<Compared> {
    let ms = |figure: f64| Duration::from_secs_f64(figure / 1e3);
    let delays = Delays { reading: ms(flags.reading_ms), events: ms(flags.events_ms), ..Delays::default() };
    let site = Site { machine, engines: flags.engines.into(), incidents: plan.incidents.clone(), delays };
    let mut measured: Vec<Vec<Run>> = vec![Vec::new(); policies.len()];
    let mut orders = Vec::new();
    for (repeat, &seed) in seeds.iter().enumerate() {
        let order = order(policies.len(), seed);
        for &at in &order {
            let started = Instant::now();
            let outcome = sim::run(&site, plan.traffic(seed), policies[at], seed);
            if !flags.quiet {
                let (took, requests) = (started.elapsed().as_secs_f64(), outcome.records.len());
                writeln!(
                    progress,
                    "{} {}/{} {:<18} {requests:>7} requests in {took:>6.2} s, {:>7.0} a second",
                    plan.name,
                    repeat + 1,
                    seeds.len(),
                    policies[at].name(),
                    requests as f64 / took.max(1e-9)
                )?;
            }
            measured[at].push(Run::of(&outcome, plan, slo, repeat == 0));
        }
        orders.push(order.into_iter().map(|at| policies[at].name()).collect());
    }
    let all: Vec<&Figures> = measured.iter().flatten().map(|run| &run.figures).collect();
    let over_all = |figure: fn(&Figures) -> f64| stats::median(&all.iter().map(|f| figure(f)).collect::<Vec<_>>());
    let requests: Vec<f64> = all.iter().map(|figures| figures.requests as f64).collect();
    let (infinite_percent, floor_p50_ms) = (over_all(|f| f.infinite_percent), over_all(|f| f.floor_p50_ms));
    let runs = |at: usize| measured[at].iter().map(|run| run.figures.clone()).collect::<Vec<_>>();
    let reference = policies.iter().position(|policy| *policy == flags.reference);
    let verdicts = reference.map(|of| {
        let others = (0..policies.len()).filter(|at| *at != of);
        others.map(|at| Verdict::of(policies[of].name(), &runs(of), policies[at].name(), &runs(at))).collect()
    });
    Ok(Compared {
        name: plan.name.clone(),
        words: plan.words.clone(),
        requests: stats::median(&requests).value as usize,
        warm_up: plan.warm_up,
        capacity: plan.capacity(&site, seeds[0]),
        infinite_percent,
        floor_p50_ms,
        verdicts: verdicts.unwrap_or_default(),
        policies: policies.iter().zip(measured).map(|(policy, runs)| Measured::of(policy.name(), runs)).collect(),
        orders,
    })
}

/// The order in which policies run in a repeat.
fn order(policies: usize, seed: u64) -> Vec<usize> {
    let mut draw = Draw::new(seed, 51);
    let mut order: Vec<usize> = (0..policies).collect();
    (1..policies).rev().for_each(|at| order.swap(at, draw.below(at + 1)));
    order
}

#[derive(Clone)]
struct Run {
    figures: Figures,
    course: Option<Course>,
    ttft_ms: Vec<f64>,
}

impl Run {
    fn of(outcome: &sim::Outcome, plan: &Plan, slo: Slo, first: bool) -> Run {
        let counted = figures::counted(outcome, plan.warm_up);
        Run {
            figures: Figures::of(outcome, &counted, slo, &plan.incidents),
            course: first.then(|| Course::of(outcome)),
            ttft_ms: figures::ttft_percentiles(&counted),
        }
    }
}

impl Measured {
    fn of(policy: &'static str, runs: Vec<Run>) -> Measured {
        let course = runs.iter().find_map(|run| run.course.clone()).unwrap_or_default();
        let percentile = |at: usize| runs.iter().filter_map(|run| run.ttft_ms.get(at).copied()).collect::<Vec<_>>();
        let ttft_ms = (0..=100).map(|at| stats::median_of(percentile(at))).collect();
        let runs: Vec<Figures> = runs.into_iter().map(|run| run.figures).collect();
        Measured { policy, median: Medians::of(&runs), course, ttft_ms, runs }
    }
}

impl Medians {
    fn of(runs: &[Figures]) -> Medians {
        let of = |figure: fn(&Figures) -> f64| stats::median(&runs.iter().map(figure).collect::<Vec<_>>());
        let some = |figure: fn(&Figures) -> Option<f64>| {
            let figures: Option<Vec<f64>> = runs.iter().map(figure).collect();
            figures.map(|figures| stats::median(&figures))
        };
        Medians {
            reuse_percent: of(|f| f.reuse_percent),
            ttft_p50_ms: of(|f| f.ttft_p50_ms),
            ttft_p95_ms: of(|f| f.ttft_p95_ms),
            ttft_p99_ms: of(|f| f.ttft_p99_ms),
            ttft_mean_ms: of(|f| f.ttft_mean_ms),
            itl_p50_ms: of(|f| f.itl_p50_ms),
            itl_p95_ms: of(|f| f.itl_p95_ms),
            total_p50_ms: of(|f| f.total_p50_ms),
            total_p95_ms: of(|f| f.total_p95_ms),
            output_tokens_a_second: of(|f| f.output_tokens_a_second),
            goodput: of(|f| f.goodput),
            errors: of(|f| f.errors as f64),
            busiest_percent: of(|f| f.busiest_percent),
            believed_percent: some(|f| f.believed_percent),
            belief_off_percent: some(|f| f.belief_off_percent),
            back_after_s: some(|f| f.back_after_s),
        }
    }
}

#[cfg(test)]
mod tests;
