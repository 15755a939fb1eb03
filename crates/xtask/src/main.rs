//! Chores of this repository: in, a command; out, what it did on the terminal and an exit code.
//!
//! It starts our binaries and links none of ours, so that it builds in seconds and can check the rest from outside.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a terminal program: its output is its result")]

mod apiserver;
mod chart;
mod chromium;
mod churn;
mod ci;
#[cfg(feature = "codegen")]
mod codegen;
mod crds;
mod demo;
mod draw;
mod envoy;
mod fixtures;
mod helm;
mod http;
mod latency;
mod npm;
mod probe;
mod process;
mod prometheus;
mod runbook;
mod site;
mod soak;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use helm::Tool;

/// Chores of this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// The product beside Envoy's own balancers: six engines, a real Envoy, two workloads, one table.
    Demo(Box<demo::Settings>),
    /// Ten minutes of load through a real Envoy while pickers and engines are killed, restarted and frozen: no request may
    /// be lost that the gateway's own rules would have saved, and no byte changed.
    Soak(Box<soak::Settings>),
    /// What asking the picker adds to a request of 2 KB: Envoy alone, with an ext_proc server that does nothing, and with
    /// Warmpath, in turns in one run.
    Latency(latency::Settings),
    /// Fetches and builds what the tests need (a real Envoy, a real Chromium, a real Kubernetes API server, real models' files), then runs them
    /// all.
    Test {
        /// Arguments for `cargo test --workspace`, such as a name to filter by.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Everything that .ci/run checks, with the time of each step.
    Ci,
    /// Holds the code to crates/README.md and the house's rules.
    Tidy,
    /// Writes crates/proto/src/generated from proto/ (needs `--features codegen`).
    Codegen {
        /// Compares instead of writing, and fails where they differ.
        #[arg(long)]
        check: bool,
    },
    /// What heavy requests do to the others: latency, threads held, memory; one run of the real picker.
    Probe(probe::Settings),
    /// Prints the path of a real Envoy; fetches one if there is none.
    Envoy,
    /// Prints the path of a real Chromium; fetches one if there is none.
    Chromium,
    /// Prints the path of Helm; fetches one if `HELM_BIN` names none.
    Helm,
    /// Prints the path of kubectl; fetches one if `KUBECTL_BIN` names none.
    Kubectl,
    /// Renders the chart for every file of values in charts/warmpath/ci into tests/fixtures/chart, writes deploy/manifests and
    /// copies alerts and dashboard into the chart.
    Chart {
        /// Compares instead of writing, and fails where they differ.
        #[arg(long)]
        check: bool,
    },
    /// Prints the folder of a real kube-apiserver and its etcd; builds them with Go if there are none.
    Apiserver,
    /// Prints the path of a real Prometheus; unpacks Debian's if there is none.
    Prometheus,
    /// What an InferencePool of a thousand pods that come and go costs the picker, and how soon a pod that isn't ready any more
    /// is picked no longer; at a real API server, with the release build.
    Churn,
    /// Fetches what the tests need and isn't carried into target/fixtures: files of real models, definitions of others' objects.
    Fixtures,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Demo(settings) => demo::run(&settings),
        Chore::Soak(settings) => soak::run(&settings),
        Chore::Latency(settings) => latency::run(&settings),
        Chore::Test { arguments } => ci::test(&arguments),
        Chore::Ci => ci::run(),
        Chore::Tidy => tidy::run(),
        Chore::Codegen { check } => codegen(check),
        Chore::Probe(settings) => probe::run(&settings),
        Chore::Envoy => envoy::find_or_fetch().map(|envoy| println!("{}", envoy.display())),
        Chore::Chromium => chromium::find_or_fetch().map(|browser| println!("{}", browser.display())),
        Chore::Helm => helm::find_or_fetch(Tool::Helm).map(|helm| println!("{}", helm.display())),
        Chore::Kubectl => helm::find_or_fetch(Tool::Kubectl).map(|kubectl| println!("{}", kubectl.display())),
        Chore::Chart { check } => chart::run(check),
        Chore::Apiserver => apiserver::find_or_build().map(|folder| println!("{}", folder.display())),
        Chore::Prometheus => prometheus::find_or_fetch().map(|binary| println!("{}", binary.display())),
        Chore::Churn => churn::run(),
        Chore::Fixtures => fixtures::fetch(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "codegen")]
fn codegen(check: bool) -> anyhow::Result<()> {
    codegen::run(check)
}

/// Without the feature: the same command again, with it.
#[cfg(not(feature = "codegen"))]
fn codegen(check: bool) -> anyhow::Result<()> {
    let mut again = process::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "codegen", "--", "codegen"]);
    if check {
        again.arg("--check");
    }
    process::finish(&mut again)
}
