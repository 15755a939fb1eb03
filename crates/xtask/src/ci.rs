//! What CI runs, step by step, each with its time; and the tests alone.
//!
//! Every step runs even after one has failed, so that one run shows all there is to repair.

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::helm::{self, Tool};
use crate::process::{cargo, finish};
use crate::{apiserver, chart, chromium, envoy, fixtures, prometheus, tidy, workspace};

/// The cargo-deny that is installed where there is none.
const DENY: &str = "0.20.2";

/// Formatting, lints, fuzz targets, docs, tidy, licences, generated code, what the chart renders, an API server for the tests,
/// tests.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    steps.step("fmt", || finish(cargo().args(["fmt", "--all", "--check"])));
    steps.step("tidy", tidy::run);
    steps.step("clippy", || {
        finish(cargo().args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
    });
    steps.step("fuzz", fuzz_targets);
    steps.step("doc", || {
        finish(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
    });
    steps.step("deny", deny);
    steps.step("codegen", || crate::codegen(true));
    steps.step("chart", || chart::run(true));
    steps.step("apiserver", || apiserver::find_or_build().map(drop));
    let mut counts = Counts::default();
    steps.step("test", || {
        counts = tests(&[])?;
        counts.must_pass()
    });
    let outcome = steps.close();
    println!("tests: {} passed, {} failed", counts.passed, counts.failed);
    outcome
}

/// Fuzz targets are workspaces of their own, which nothing else here builds.
fn fuzz_targets() -> Result<()> {
    for of in ["envoy", "request", "tokens"] {
        let manifest = format!("crates/{of}/fuzz/Cargo.toml");
        let mut check = cargo();
        check.args(["check", "--quiet", "--locked", "--manifest-path", &manifest]);
        finish(check.env("CARGO_TARGET_DIR", workspace::target().join("fuzz")))?;
    }
    Ok(())
}

/// All tests, once what they need is there.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    let counts = tests(arguments)?;
    println!("tests: {} passed, {} failed", counts.passed, counts.failed);
    counts.must_pass()
}

/// Steps done, with their times.
#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, Duration, bool)>,
}

impl Steps {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        println!("--- {name}");
        let start = Instant::now();
        let outcome = work();
        if let Err(error) = &outcome {
            println!("{name}: {error:#}");
        }
        self.done.push((name, start.elapsed(), outcome.is_ok()));
    }

    fn close(self) -> Result<()> {
        println!("--- summary");
        for (name, took, passed) in &self.done {
            println!("{name:<9} {:>5} s  {}", took.as_secs(), if *passed { "ok" } else { "FAILED" });
        }
        let failed: Vec<&str> = self.done.iter().filter(|(_, _, passed)| !passed).map(|(name, ..)| *name).collect();
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }
}

/// What the test binaries said of themselves.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    cargo_failed: bool,
}

impl Counts {
    /// Counts in one line of output, such as `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.trim().strip_prefix("test result: ") else { return };
        let parts = result.split([';', '.']).map(str::trim);
        for part in parts {
            match part.split_once(' ') {
                Some((count, "passed")) => self.passed += count.parse::<u64>().unwrap_or(0),
                Some((count, "failed")) => self.failed += count.parse::<u64>().unwrap_or(0),
                _ => {}
            }
        }
    }

    fn must_pass(&self) -> Result<()> {
        match self {
            Counts { failed: 0, cargo_failed: false, passed } if *passed > 0 => Ok(()),
            Counts { passed: 0, cargo_failed: false, .. } => bail!("no test ran"),
            Counts { failed: 0, .. } => bail!("cargo test failed"),
            Counts { failed, .. } => bail!("{failed} tests failed"),
        }
    }
}

fn tests(arguments: &[String]) -> Result<Counts> {
    let (envoy, helm) = (envoy::find_or_fetch()?, helm::find_or_fetch(Tool::Helm)?);
    fixtures::fetch()?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(arguments);
    command.env("ENVOY_BIN", envoy).env("HELM_BIN", helm);
    match chromium::find_or_fetch() {
        Ok(browser) => drop(command.env(chromium::VARIABLE, browser)),
        // The others run all the same; the one that needs it fails and says so.
        Err(error) => println!("the test in a real browser can't run: {error:#}"),
    }
    match apiserver::find_or_build() {
        Ok(assets) => drop(command.env(apiserver::ASSETS, assets)),
        // The others run all the same; those that need it fail and say so.
        Err(error) => println!("the tests at a real API server can't run: {error:#}"),
    }
    match prometheus::find_or_fetch() {
        Ok(binary) => drop(command.env(prometheus::BIN, binary)),
        Err(error) => println!("the tests at a real Prometheus can't run: {error:#}"),
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test did not start")?;
    let mut counts = Counts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            counts.add(&String::from_utf8_lossy(&line));
            let mut out = std::io::stdout().lock();
            out.write_all(&line)?;
            out.write_all(b"\n")?;
        }
    }
    counts.cargo_failed = !child.wait()?.success();
    Ok(counts)
}

/// Duplicates and bans, licences, sources. Advisories need a database from a host that not every machine reaches.
fn deny() -> Result<()> {
    let binary = cargo_deny()?;
    let mut deny = Command::new(binary);
    deny.current_dir(workspace::root()).args(["--workspace", "--locked", "--config", ".deny.toml", "check"]);
    finish(deny.args(["bans", "licenses", "sources"]))
}

fn cargo_deny() -> Result<PathBuf> {
    let tools = workspace::target().join("tools");
    let binary = tools.join("bin/cargo-deny");
    let version = Command::new(&binary).arg("--version").output();
    let is_there = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(DENY));
    if !is_there {
        // A debug build: it runs once, and builds in a third of the time.
        let install = ["install", "cargo-deny", "--version", DENY, "--locked", "--debug", "--force", "--root"];
        finish(cargo().args(install).arg(&tools)).context("cargo-deny could not be installed")?;
    }
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[track_caller]
    fn check(output: &str, expected: &str) {
        let mut counts = Counts::default();
        output.lines().for_each(|line| counts.add(line));
        assert_eq!(format!("{} passed, {} failed", counts.passed, counts.failed), expected);
    }

    #[test]
    fn results_of_all_binaries_are_added_up() {
        check(
            "test a ... ok\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.01s\n\
             test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
            "13 passed, 2 failed",
        );
    }

    #[test]
    fn a_run_without_tests_does_not_pass() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        assert_eq!(counts.must_pass().map_err(|error| error.to_string()), Err("no test ran".to_owned()));
    }
}
