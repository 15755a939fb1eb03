//! The demo: in, sizes and seeds; out, one table that sets Warmpath beside Envoy's own balancers on the same engines,
//! and an exit code that is zero when no request failed.
//!
//! Everything runs on this machine's loopback. Between any two runs the engines' caches are emptied and the picker is
//! started anew, so that no run profits from the one before it. Nothing outlives the demo, whatever ends it.

mod site;
mod table;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::site::Binaries;
use crate::{envoy, process};
use site::Site;
use trial::{Row, Trial};

/// What can be set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Only this workload.
    #[arg(long, value_enum)]
    pub(crate) workload: Option<Workload>,
    /// Only this policy.
    #[arg(long, value_enum)]
    pub(crate) policy: Option<Policy>,
    /// Engines to start.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) engines: u16,
    /// Directory with the model's tokenizer.json, tokenizer_config.json and template; the repository carries Qwen3's.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures/qwen3")]
    pub(crate) model_dir: PathBuf,
    /// The name the model is served by.
    #[arg(long, default_value = "qwen3")]
    pub(crate) model: String,
    /// Workload A: requests.
    #[arg(long, default_value_t = 150)]
    pub(crate) requests: u32,
    /// Workload A: requests a second.
    #[arg(long, default_value_t = 12.0)]
    pub(crate) rate: f64,
    /// Workload A: shared instructions.
    #[arg(long, default_value_t = 12)]
    pub(crate) instructions: u32,
    /// Workload A: tokens of a shared instruction.
    #[arg(long, default_value_t = 4_000)]
    pub(crate) instruction_tokens: u32,
    /// Workload A: users, a session key each.
    #[arg(long, default_value_t = 60)]
    pub(crate) users: u32,
    /// Workload A: blocks of 16 tokens in an engine's cache. Four instructions of 4,000 tokens are 1,000 blocks; the
    /// rest is room for the requests under way.
    #[arg(long, default_value_t = 1_200)]
    pub(crate) blocks_a: u32,
    /// Workload B: dialogs.
    #[arg(long, default_value_t = 36)]
    pub(crate) dialogs: u32,
    /// Workload B: turns of a dialog.
    #[arg(long, default_value_t = 7)]
    pub(crate) turns: u32,
    /// Workload B: dialogs begun a second.
    #[arg(long, default_value_t = 18.0)]
    pub(crate) dialog_rate: f64,
    /// Workload B: tokens of a dialog's own opening.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) opening_tokens: u32,
    /// Workload B: tokens of a user's turn.
    #[arg(long, default_value_t = 60)]
    pub(crate) turn_tokens: u32,
    /// Workload B: mean think time between an answer and the next turn, in milliseconds.
    #[arg(long, default_value_t = 300)]
    pub(crate) think_ms: u32,
    /// Workload B: blocks of 16 tokens in an engine's cache. Seven dialogs at full length (3,025 tokens of system message
    /// and opening, and 104 for each of the seven turns: question, answer and what the template adds) are 1,642 blocks.
    #[arg(long, default_value_t = 1_645)]
    pub(crate) blocks_b: u32,
    /// Workload B: seeds of the random session keys, a draw each; the median draw is reported with the range of all.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5", num_args = 1..)]
    pub(crate) seeds: Vec<u64>,
    /// The picker's configuration (an EndpointPickerConfig).
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 32)]
    pub(crate) output_tokens: u32,
    /// Builds with optimisation and measures that (the build takes longer).
    #[arg(long)]
    pub(crate) release: bool,
    /// Measures what is built already.
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Writes the table as JSON too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Leaves everything running at the end, to be tried by hand, until Ctrl-C.
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Settings {
    fn workloads(&self) -> impl Iterator<Item = Workload> {
        [Workload::A, Workload::B].into_iter().filter(|workload| self.workload.is_none_or(|only| only == *workload))
    }

    fn policies(&self) -> impl Iterator<Item = Policy> {
        Policy::ALL.into_iter().filter(|policy| self.policy.is_none_or(|only| only == *policy))
    }

    /// B is drawn several times; on A, where a user asks about anything, the keys matter little.
    fn seeds_of(&self, workload: Workload) -> &[u64] {
        match workload {
            Workload::A => &self.seeds[..1],
            Workload::B => &self.seeds,
        }
    }
}

/// The two workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Independent requests over shared instructions; a session key a user.
    A,
    /// Dialogs of many turns; a session key a dialog.
    B,
}

impl Workload {
    /// As it is written in flags and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
        }
    }
}

/// Who picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// Envoy's ROUND_ROBIN.
    RoundRobin,
    /// Envoy's RING_HASH on the session header.
    RingHash,
    /// Envoy asks Warmpath by ext_proc.
    Warmpath,
}

impl Policy {
    /// All, in the order in which they run.
    pub(crate) const ALL: [Policy; 3] = [Policy::RoundRobin, Policy::RingHash, Policy::Warmpath];

    /// As it is written in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::RoundRobin => "round_robin",
            Policy::RingHash => "ring_hash",
            Policy::Warmpath => "warmpath",
        }
    }
}

/// Builds, runs, prints; an error where anything could not start or a request failed.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    process::kill_all_on_signal()?;
    let envoy = envoy::find_or_fetch()?;
    let binaries = Binaries::build(settings.release, settings.no_build, &[])?;
    let start = Instant::now();
    let mut rows = Vec::new();
    let mut last_site = None;
    let mut left: usize =
        settings.workloads().map(|workload| settings.seeds_of(workload).len() * settings.policies().count()).sum();
    for workload in settings.workloads() {
        drop(last_site.take());
        let mut site = Site::start(settings, workload, &envoy, &binaries)?;
        for policy in settings.policies() {
            let mut trials = Vec::new();
            for seed in settings.seeds_of(workload) {
                print!("{left:>2} to go   ");
                trials.push(measure(settings, &mut site, workload, policy, *seed)?);
                left -= 1;
            }
            rows.push(Row::of(workload, policy, trials));
        }
        last_site = Some(site);
    }
    println!("\n{}", table::render(settings, &rows));
    println!("Measured in {}.", shown(start.elapsed()));
    if let Some(file) = &settings.json {
        let text = serde_json::to_string_pretty(&table::json(settings, &rows))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    by_hand(settings, last_site.as_ref());
    let failed: u64 = rows.iter().map(Row::errors).sum();
    if settings.keep && last_site.is_some() {
        println!("\nStill running; Ctrl-C ends everything.");
        loop {
            std::thread::park();
        }
    }
    if failed == 0 { Ok(()) } else { bail!("{failed} requests failed") }
}

/// One run, with its line of progress.
fn measure(settings: &Settings, site: &mut Site, workload: Workload, policy: Policy, seed: u64) -> Result<Trial> {
    site.forget(policy)?;
    print!("{}  {:<11}  keys {seed}  ", workload.name().to_uppercase(), policy.name());
    std::io::Write::flush(&mut std::io::stdout())?;
    let trial = trial::run(settings, site, workload, policy, seed)?;
    println!("{}", table::line(&trial));
    Ok(trial)
}

fn by_hand(settings: &Settings, site: Option<&Site>) {
    let Some(site) = site else { return };
    let ended = " (all of it has ended; `cargo xtask demo --keep` leaves it up, and then these work)";
    println!("\nBy hand{}:", if settings.keep { "" } else { ended });
    println!(
        "  curl -si http://127.0.0.1:{}/v1/chat/completions -H 'content-type: application/json' -d '{{\"model\": \"{}\", \
         \"max_tokens\": 16, \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'",
        site.port(Policy::Warmpath),
        settings.model
    );
    println!("  the picker's metrics: http://127.0.0.1:{}/metrics", site.metrics_port());
    println!("  a Grafana dashboard for them: deploy/grafana/warmpath.json");
    println!(
        "  Envoy's admin page: http://127.0.0.1:{}/   its configuration, and every log: {}",
        site.admin_port(),
        site.folder().display()
    );
}

/// `1 min 5 s`.
fn shown(time: Duration) -> String {
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}
