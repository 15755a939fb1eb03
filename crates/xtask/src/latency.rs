//! What the picker adds to a request: in, how long to measure; out, a table that sets Envoy alone, Envoy with an ext_proc
//! server that does nothing, and Envoy with Warmpath beside each other, measured in turns in one run.
//!
//! Chats of 2 KB, each one of a few shared beginnings and a question of its own, over one Envoy of one worker, to a server
//! that answers at once. All of it shares this machine's cores, so that the differences tell more than the figures.
//! Configuration and logs stand in `target/latency`.

mod arm;
mod figures;
mod server;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use crate::process::Server;
use crate::site::{self, Binaries, PickerPorts};
use crate::{envoy, process};
use arm::{Arm, Slice};
use figures::Figures;

/// The name that requests give their model.
const MODEL: &str = "qwen3";
/// Requests under way at a time.
const CONCURRENCIES: [usize; 2] = [1, 16];

/// What can be set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Turns of each arm, at each concurrency.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How long a turn lasts, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub(crate) turn_ms: u32,
    /// Bytes of a body's text.
    #[arg(long, default_value_t = 2_000)]
    pub(crate) bytes: usize,
    /// Directory with the model's tokenizer.json, tokenizer_config.json and template; the repository carries Qwen3's.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures/qwen3")]
    pub(crate) model_dir: PathBuf,
    /// Has the picker estimate tokens instead of reading a model directory.
    #[arg(long)]
    pub(crate) estimate: bool,
    /// Measures the development build, which is quicker to build and slower to run.
    #[arg(long)]
    pub(crate) dev: bool,
    /// Measures what is built already.
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Writes the figures as JSON too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Builds, measures, prints; an error where anything could not start or a request failed.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    process::kill_all_on_signal()?;
    let envoy = envoy::find_or_fetch()?;
    let arguments = ["--package", "envoy", "--bins", "--example", "no_op"];
    let binaries = Binaries::build(!settings.dev, settings.no_build, &arguments)?;
    let site = Site::start(settings, &envoy, &binaries)?;
    let mut rows = Vec::new();
    for concurrency in CONCURRENCIES {
        rows.extend(measure(settings, &site, concurrency)?);
    }
    let degraded = site::sum(&site::get(site.metrics, "/metrics")?, "warmpath_degraded_picks_total");
    ensure!(settings.estimate || degraded == 0.0, "{degraded} picks were made without tokens");
    println!("\n{}", figures::table(&rows));
    println!("{}", what(settings));
    if let Some(file) = &settings.json {
        let rows: Vec<_> = rows.iter().map(Figures::json).collect();
        let text = serde_json::to_string_pretty(&json!({"what": what(settings), "rows": rows}))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// All arms at one concurrency, in turns: whatever else the machine does meets all of them.
fn measure(settings: &Settings, site: &Site, concurrency: usize) -> Result<Vec<Figures>> {
    let long = Duration::from_millis(settings.turn_ms.into());
    let mut rows: Vec<Figures> = Arm::ALL.iter().map(|arm| Figures::new(*arm, concurrency)).collect();
    for round in 0..=settings.rounds {
        println!(
            "{concurrency} at a time: round {round} of {}{}",
            settings.rounds,
            if round == 0 { " (not counted)" } else { "" }
        );
        for at in 0..rows.len() {
            // Each round begins with another arm.
            let count = rows.len();
            let row = &mut rows[(at + round as usize) % count];
            let slice =
                Slice { port: site.port(row.arm), concurrency, long, bytes: settings.bytes, seed: round.into() };
            let before = site.cpu(row.arm)?;
            let turn = slice.run()?;
            let after = site.cpu(row.arm)?;
            if round > 0 {
                row.add(&turn, before, after);
            }
        }
    }
    Ok(rows)
}

/// What was measured, in words.
fn what(settings: &Settings) -> String {
    let tokens = if settings.estimate {
        "estimated tokens".to_owned()
    } else {
        format!("the tokenizer and template of {}", settings.model_dir.display())
    };
    format!(
        "Chats of {} bytes, answered whole and at once; {} rounds of {} ms an arm, in turns; the picker has {tokens}; {} build; \
         {} cores for client, Envoy (one worker), servers and picker.",
        settings.bytes,
        settings.rounds,
        settings.turn_ms,
        if settings.dev { "development" } else { "release" },
        std::thread::available_parallelism().map_or(1, usize::from),
    )
}

/// The servers.
struct Site {
    envoy: Server,
    no_op: Server,
    picker: Server,
    metrics: u16,
    ports: [(Arm, u16); 3],
}

impl Site {
    fn start(settings: &Settings, envoy: &std::path::Path, binaries: &Binaries) -> Result<Self> {
        let folder = site::folder("latency")?;
        let ports = site::free_ports(12)?;
        let [alone, no_op, warmpath, admin, no_op_server, grpc, health, metrics, servers @ ..] = &ports[..] else {
            anyhow::bail!("too few ports");
        };
        for port in servers {
            server::start(*port)?;
        }
        let endpoints = folder.join("endpoints.yaml");
        fs::write(&endpoints, site::endpoints("latency", servers))?;
        let picker_ports = PickerPorts { grpc: *grpc, health: *health, metrics: *metrics };
        let mut command = site::picker(binaries, &endpoints, picker_ports);
        if !settings.estimate {
            let model_dir = site::model_dir(&settings.model_dir)?;
            command.arg("--model").arg(format!("{MODEL}={}", model_dir.display()));
        }
        let picker = Server::start("epp", &mut command, &folder)?;
        site::picker_is_ready(&picker, *metrics, servers.len())?;
        let mut command = Command::new(Binaries::folder(!settings.dev).join("examples/no_op"));
        command.args([no_op_server.to_string(), format!("127.0.0.1:{}", servers[0])]);
        let no_op_process = Server::start("no_op", &mut command, &folder)?;
        let named = [
            ("alone", alone),
            ("no_op", no_op),
            ("warmpath", warmpath),
            ("admin", admin),
            ("no_op_server", no_op_server),
            ("picker", grpc),
        ];
        let mut config = include_str!("latency/envoy.yaml").replace("{servers}", &site::envoy_endpoints(servers));
        for (name, port) in named {
            config = config.replace(&format!("{{{name}_port}}"), &port.to_string());
        }
        let envoy = site::start_envoy(envoy, &config, *admin, &folder)?;
        let ports = [(Arm::Alone, *alone), (Arm::NoOp, *no_op), (Arm::Warmpath, *warmpath)];
        for (_, port) in ports {
            site::wait_for("an arm", &envoy, || site::get(port, "/").is_ok_and(|answer| answer.contains(" 200 ")))?;
        }
        Ok(Self { envoy, no_op: no_op_process, picker, metrics: *metrics, ports })
    }

    fn port(&self, arm: Arm) -> u16 {
        self.ports.iter().find(|(at, _)| *at == arm).map_or(0, |(_, port)| *port)
    }

    /// CPU time so far of Envoy, and of what it asks in that arm.
    fn cpu(&self, arm: Arm) -> Result<[Duration; 2]> {
        let asked = match arm {
            Arm::Alone => None,
            Arm::NoOp => Some(&self.no_op),
            Arm::Warmpath => Some(&self.picker),
        };
        let asked = asked.map_or(Ok(Duration::ZERO), Server::cpu_time)?;
        Ok([self.envoy.cpu_time()?, asked])
    }
}
