//! The soak: in, a time and a seed; out, a report of what was lost, and an exit code that is zero when nothing was that the
//! gateway's own rules would have saved, no byte was changed, and the picker holds on to nothing.
//!
//! Clients of every kind ask through a real Envoy, by a listener that fails open and one that fails closed, while pickers
//! and engines are killed, told to end, frozen and started again. Engines say what arrived and what left
//! (`lab engine --checksums`), clients compare. Everything runs on this machine's loopback, and only what was started
//! here is ever signalled. Configuration and logs stand in `target/soak`.

mod asks;
mod client;
mod judge;
mod report;
mod site;
mod storm;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use crate::site::Binaries;
use crate::{envoy, process};
use asks::Asker;
use client::Told;
use report::{Faults, Report};
use site::{Logged, Site};
use storm::Storm;

/// The name that the engines serve their model by.
const MODEL: &str = "qwen3";
/// How long what is left under way may take once the load has ended.
const SETTLING: Duration = Duration::from_secs(20);

/// What can be set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// How long the load lasts.
    #[arg(long, default_value_t = 10, conflicts_with = "seconds")]
    pub(crate) minutes: u32,
    /// The same in seconds.
    #[arg(long)]
    pub(crate) seconds: Option<u32>,
    /// Seed of all that is asked and done; the times are the machine's.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Clients, each with one request at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) clients: u16,
    /// Engines to start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=16))]
    pub(crate) engines: u16,
    /// Directory with the model's tokenizer.json, tokenizer_config.json and template; the repository carries Qwen3's.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures/qwen3")]
    pub(crate) model_dir: PathBuf,
    /// Builds with optimisation and runs that (the build takes longer).
    #[arg(long)]
    pub(crate) release: bool,
    /// Runs what is built already.
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Writes the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Settings {
    fn long(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds.unwrap_or(self.minutes * 60)))
    }
}

/// Envoy's listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    /// `failure_mode_allow: true`; the pick is taken from metadata.
    Open,
    /// `failure_mode_allow: false`; the pick is taken from the header.
    Closed,
}

/// Runs and reports; an error where something was lost, changed or left behind, or where a server failed by itself.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    process::kill_all_on_signal()?;
    let envoy = envoy::find_or_fetch()?;
    let binaries = Binaries::build(settings.release, settings.no_build, &[])?;
    let mut site = Site::start(settings, &envoy, &binaries)?;
    println!(
        "{} s of load by {} clients on {} engines, seed {}; logs in {}",
        settings.long().as_secs(),
        settings.clients,
        settings.engines,
        settings.seed,
        site.folder().display()
    );
    let start = Instant::now();
    let (told, storm) = load(settings, &mut site, start)?;
    let report = settle(&mut site, told, &storm)?;
    println!("\n{}", report.text());
    if let Some(file) = &settings.json {
        let text = serde_json::to_string_pretty(&report.json(settings))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    match report.faults() {
        Faults(faults) if faults.is_empty() => Ok(()),
        Faults(faults) => bail!("{}", faults.join("; ")),
    }
}

/// Clients on threads of their own, and the storm on this one.
fn load(settings: &Settings, site: &mut Site, start: Instant) -> Result<(Vec<Told>, Storm)> {
    let over = AtomicBool::new(false);
    let ports = [Listener::Open, Listener::Closed].map(|listener| (listener, site.port(listener)));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..usize::from(settings.clients))
            .map(|number| {
                let (over, asker) = (&over, Asker::new(settings.seed, number, MODEL));
                scope.spawn(move || ask_on(asker, ports, start, over))
            })
            .collect();
        let storm = storm::run(site, start, settings.long(), settings.seed);
        over.store(true, Ordering::Release);
        let mut told = Vec::new();
        for client in clients {
            told.extend(client.join().map_err(|_| anyhow!("a client's thread failed"))?);
        }
        Ok((told, storm?))
    })
}

fn ask_on(mut asker: Asker, ports: [(Listener, u16); 2], start: Instant, over: &AtomicBool) -> Vec<Told> {
    let mut told = Vec::new();
    while !over.load(Ordering::Acquire) {
        thread::sleep(asker.think());
        let ask = asker.ask();
        let port = ports.iter().find(|(listener, _)| *listener == ask.listener).map_or(0, |(_, port)| *port);
        let mut course = client::send(ask, port, start);
        // Judged by whether there was one; a megabyte a request would add up.
        course.ask.body = course.ask.body.map(|_| Vec::new());
        told.push(course);
    }
    told
}

/// Waits until nothing is under way any more, and judges.
fn settle(site: &mut Site, told: Vec<Told>, storm: &Storm) -> Result<Report> {
    site.must_run()?;
    site.await_leaving()?;
    let ended = Instant::now();
    let mut last = site.picture()?;
    let mut running = site.running();
    while (last.in_flight != 0.0 || running != 0.0) && ended.elapsed() < SETTLING {
        thread::sleep(Duration::from_millis(100));
        (last, running) = (site.picture()?, site.running());
    }
    let counts = site.envoy_counts()?;
    let logged: BTreeMap<String, Logged> =
        site.access_log()?.into_iter().map(|logged| (logged.id.clone(), logged)).collect();
    let ends = report::Ends { last, running, counts, panics: site.panics()? };
    Ok(Report::of(told, storm, &logged, ends))
}
