//! What a run came to. In: measurements; out: a summary that is printed as JSON. Percentiles are by nearest rank.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::client::Measured;

/// Errors that are told in full; further ones are only counted.
const ERRORS_TOLD: usize = 5;

/// The result of a run. Tokens and times are those of requests without an error.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `a` or `b`.
    pub workload: &'static str,
    /// Seed of texts, times and choices.
    pub seed: u64,
    /// Seed of the session keys.
    pub session_seed: u64,
    /// Requests sent.
    pub requests: usize,
    /// Of these, requests that failed: no 200, an answer that broke off, or none in time.
    pub errors: usize,
    /// Requests of the workload that were not sent: the run's time was over, or an earlier turn failed.
    pub not_sent: usize,
    /// Prompt tokens, as the engines counted them.
    pub prompt_tokens: u64,
    /// Of these, tokens from the engines' caches.
    pub cached_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Cached tokens in a hundred prompt tokens, over answers that tell both; null where none does.
    pub reused_percent: Option<f64>,
    /// Median time from due to the first content.
    pub ttft_p50_ms: Option<f64>,
    /// Its 95th percentile.
    pub ttft_p95_ms: Option<f64>,
    /// Median time from due to the end.
    pub total_p50_ms: Option<f64>,
    /// Its 95th percentile.
    pub total_p95_ms: Option<f64>,
    /// Tokens of answers a second, over the whole run.
    pub output_tokens_per_s: f64,
    /// From the start to the last answer's end.
    pub duration_s: f64,
    /// Requests by the engine that answered, where answers say so.
    pub requests_by_endpoint: BTreeMap<String, usize>,
    /// The same as parts of one.
    pub share_by_endpoint: BTreeMap<String, f64>,
    /// The first errors.
    pub first_errors: Vec<String>,
    /// Every request, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<Vec<Measured>>,
}

/// What a report says of the run besides what was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) workload: &'static str,
    pub(super) seed: u64,
    pub(super) session_seed: u64,
    /// Requests that the workload had.
    pub(super) planned: usize,
    pub(super) duration: Duration,
    pub(super) each: bool,
}

impl Report {
    /// Sums up.
    pub(super) fn of(about: About, mut measured: Vec<Measured>) -> Report {
        measured.sort_by(|a, b| a.due_ms.total_cmp(&b.due_ms));
        let good: Vec<&Measured> = measured.iter().filter(|one| one.error.is_none()).collect();
        let sum = |of: fn(&Measured) -> Option<u64>| good.iter().filter_map(|one| of(one)).sum::<u64>();
        let telling: Vec<(u64, u64)> =
            good.iter().filter_map(|one| Some((one.prompt_tokens?, one.cached_tokens?))).collect();
        let (told, cached) = telling.iter().fold((0, 0), |(told, cached), one| (told + one.0, cached + one.1));
        let completion_tokens = sum(|one| one.completion_tokens);
        let duration_s = about.duration.as_secs_f64();
        let mut requests_by_endpoint = BTreeMap::new();
        for engine in measured.iter().filter_map(|one| one.engine.clone()) {
            *requests_by_endpoint.entry(engine).or_insert(0) += 1;
        }
        let answered: usize = requests_by_endpoint.values().sum();
        let share = |(engine, count): (&String, &usize)| (engine.clone(), thousandths(*count as f64 / answered as f64));
        let ttft: Vec<f64> = good.iter().filter_map(|one| one.ttft_ms).collect();
        let total: Vec<f64> = good.iter().map(|one| one.total_ms).collect();
        Report {
            workload: about.workload,
            seed: about.seed,
            session_seed: about.session_seed,
            requests: measured.len(),
            errors: measured.len() - good.len(),
            not_sent: about.planned - measured.len(),
            prompt_tokens: sum(|one| one.prompt_tokens),
            cached_tokens: sum(|one| one.cached_tokens),
            completion_tokens,
            reused_percent: (told > 0).then(|| thousandths(100.0 * cached as f64 / told as f64)),
            ttft_p50_ms: percentile(&ttft, 50),
            ttft_p95_ms: percentile(&ttft, 95),
            total_p50_ms: percentile(&total, 50),
            total_p95_ms: percentile(&total, 95),
            output_tokens_per_s: thousandths(completion_tokens as f64 / duration_s.max(1e-9)),
            duration_s: thousandths(duration_s),
            share_by_endpoint: requests_by_endpoint.iter().map(share).collect(),
            requests_by_endpoint,
            first_errors: measured.iter().filter_map(|one| one.error.clone()).take(ERRORS_TOLD).collect(),
            each: about.each.then_some(measured),
        }
    }
}

/// The smallest value that `percent` in a hundred are not above.
fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 95), Some(95.0));
        assert_eq!(percentile(&[7.0], 95), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn failed_requests_are_counted_and_left_out_of_tokens_and_times() {
        let good = Measured {
            ttft_ms: Some(10.0),
            total_ms: 20.0,
            prompt_tokens: Some(100),
            cached_tokens: Some(80),
            completion_tokens: Some(8),
            engine: Some("one".to_owned()),
            ..Measured::default()
        };
        let bad = Measured { error: Some("broke off".to_owned()), ttft_ms: Some(1.0), ..good.clone() };
        let about = About {
            workload: "a",
            seed: 1,
            session_seed: 1,
            planned: 3,
            duration: Duration::from_secs(2),
            each: false,
        };
        let report = Report::of(about, vec![good, bad]);
        assert_eq!((report.requests, report.errors, report.not_sent), (2, 1, 1));
        assert_eq!((report.reused_percent, report.ttft_p50_ms), (Some(80.0), Some(10.0)));
        assert_eq!((report.output_tokens_per_s, report.first_errors.as_slice()), (4.0, &["broke off".to_owned()][..]));
        assert_eq!(report.share_by_endpoint["one"], 1.0);
    }
}
