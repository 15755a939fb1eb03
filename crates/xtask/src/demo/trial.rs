//! One workload sent once through Envoy under one policy, and what came of several such draws. In: the site; out:
//! figures as the client measured them. Reuse is what the engines say in `usage`, never what the picker believes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::site::Site;
use super::{Policy, Settings, Workload};
use crate::process;

/// What a client measured in one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trial {
    /// The seed of the session keys.
    pub(crate) keys: u64,
    /// Requests sent.
    pub(crate) requests: u64,
    /// Requests without a whole, good answer, those among them that were never sent because a dialog had broken off.
    pub(crate) errors: u64,
    /// Prompt tokens that the engines took from their caches, in percent of all.
    pub(crate) reused_percent: f64,
    /// Time to the first content chunk in milliseconds, median.
    pub(crate) ttft_p50_ms: f64,
    /// The same, 95th percentile.
    pub(crate) ttft_p95_ms: f64,
    /// Tokens generated a second, over the whole run.
    pub(crate) output_tokens_per_s: f64,
    /// Requests by engine.
    pub(crate) by_engine: BTreeMap<String, u64>,
}

/// A row of the table: the median draw, and all of them.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What was sent.
    pub(crate) workload: Workload,
    /// Who picked.
    pub(crate) policy: Policy,
    /// The draw whose TTFT p95 is the median.
    pub(crate) median: Trial,
    /// All draws, in the order of their seeds.
    pub(crate) draws: Vec<Trial>,
}

impl Row {
    /// Of at least one draw. With an even number of draws the worse of the two middle ones is the median.
    pub(crate) fn of(workload: Workload, policy: Policy, draws: Vec<Trial>) -> Self {
        let mut by_p95: Vec<&Trial> = draws.iter().collect();
        by_p95.sort_by(|a, b| a.ttft_p95_ms.total_cmp(&b.ttft_p95_ms));
        let median = by_p95[by_p95.len() / 2].clone();
        Self { workload, policy, median, draws }
    }

    /// Failed requests of all draws.
    pub(crate) fn errors(&self) -> u64 {
        self.draws.iter().map(|trial| trial.errors).sum()
    }
}

/// Sends the workload and waits for its end.
pub(crate) fn run(settings: &Settings, site: &Site, workload: Workload, policy: Policy, keys: u64) -> Result<Trial> {
    let result = site.folder().join(format!("{}-{keys}.json", policy.name()));
    let mut load = Command::new(site.lab());
    load.args(["load", "--workload", workload.name(), "--model", &settings.model]);
    load.args(["--url", &format!("http://127.0.0.1:{}", site.port(policy))]);
    load.arg("--tokenizer").arg(site.model_dir()).arg("--json").arg(&result);
    load.args(["--session-seed", &keys.to_string()]);
    let mut set = |flag: &str, value: String| {
        load.arg(flag).arg(value);
    };
    set("--output-tokens", settings.output_tokens.to_string());
    match workload {
        Workload::A => {
            set("--requests", settings.requests.to_string());
            set("--rate", settings.rate.to_string());
            set("--instructions", settings.instructions.to_string());
            set("--instruction-tokens", settings.instruction_tokens.to_string());
            set("--users", settings.users.to_string());
        }
        Workload::B => {
            set("--dialogs", settings.dialogs.to_string());
            set("--rate", settings.dialog_rate.to_string());
            set("--turns", settings.turns.to_string());
            set("--turns-spread", "0".to_owned());
            set("--opening-tokens", settings.opening_tokens.to_string());
            set("--question-tokens", settings.turn_tokens.to_string());
            set("--think-ms", settings.think_ms.to_string());
        }
    }
    load.arg("--quiet");
    // Its exit code says whether requests failed; the result says how many.
    let status = process::wait_for(&mut load)?;
    let text = fs::read_to_string(&result).with_context(|| format!("{}: {status}, no result", process::show(&load)))?;
    let measured: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", result.display()))?;
    for error in measured["first_errors"].as_array().into_iter().flatten() {
        println!("\n  an error: {error}");
    }
    read(&measured, keys, &site.engines()).with_context(|| format!("{} lacks a figure", result.display()))
}

/// The figures of `lab load`. An engine that answered nothing has a zero.
fn read(measured: &Value, keys: u64, engines: &[String]) -> Result<Trial> {
    let count = |name: &str| measured[name].as_u64().with_context(|| name.to_owned());
    let figure = |name: &str| measured[name].as_f64().with_context(|| name.to_owned());
    let answered = &measured["requests_by_endpoint"];
    let by_engine = engines.iter().map(|name| (name.clone(), answered[name].as_u64().unwrap_or(0)));
    let not_sent = count("not_sent")?;
    Ok(Trial {
        keys,
        requests: count("requests")? + not_sent,
        errors: count("errors")? + not_sent,
        reused_percent: figure("reused_percent")?,
        ttft_p50_ms: figure("ttft_p50_ms")?,
        ttft_p95_ms: figure("ttft_p95_ms")?,
        output_tokens_per_s: figure("output_tokens_per_s")?,
        by_engine: by_engine.collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn what_was_not_sent_counts_as_failed_and_idle_engines_have_a_zero() {
        let measured = json!({
            "requests": 10, "errors": 1, "not_sent": 2, "reused_percent": 50.0, "ttft_p50_ms": 1.0, "ttft_p95_ms": 2.0,
            "output_tokens_per_s": 3.0, "requests_by_endpoint": {"engine-1": 9},
        });
        let trial = read(&measured, 5, &["engine-1".to_owned(), "engine-2".to_owned()]).unwrap();
        assert_eq!((trial.requests, trial.errors, trial.keys), (12, 3, 5));
        assert_eq!(
            trial.by_engine.into_iter().collect::<Vec<_>>(),
            [("engine-1".to_owned(), 9), ("engine-2".to_owned(), 0)]
        );
    }
}
