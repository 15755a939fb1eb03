//! What a run comes down to. In: its records; out: [`Figures`] of those that count, and its [`Course`] over time.

use std::time::Duration;

use serde::Serialize;

use super::stats::quantile;
use crate::sim::{Incident, Outcome, Record};

/// What counts as good: both bounds kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slo {
    /// Most milliseconds to the first token.
    pub ttft_ms: f64,
    /// Most milliseconds from token to token, on average over an answer.
    pub itl_ms: f64,
}

/// A run in figures. Of requests that failed only their number counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests counted.
    pub requests: usize,
    /// Of these, not answered to the end.
    pub errors: usize,
    /// Prompt tokens from caches, in percent of all.
    pub reuse_percent: f64,
    /// The same of one infinite cache.
    pub infinite_percent: f64,
    /// Time to the first token: half are no slower.
    pub ttft_p50_ms: f64,
    /// 95 of 100 are no slower.
    pub ttft_p95_ms: f64,
    /// 99 of 100.
    pub ttft_p99_ms: f64,
    /// On average.
    pub ttft_mean_ms: f64,
    /// Half of all on idle engines with an infinite cache.
    pub floor_p50_ms: f64,
    /// From token to token, over all tokens of the run.
    pub itl_p50_ms: f64,
    /// 95 of 100.
    pub itl_p95_ms: f64,
    /// From asked to the last token.
    pub total_p50_ms: f64,
    /// 95 of 100.
    pub total_p95_ms: f64,
    /// From the first request asked to the last one's end.
    pub output_tokens_a_second: f64,
    /// Requests within the SLO a second.
    pub goodput: f64,
    /// Requests by engine, in percent.
    pub share_percent: Vec<f64>,
    /// The largest of these.
    pub busiest_percent: f64,
    /// Prompt tokens that the policy believed to be cached, in percent of all; of policies that believe anything.
    pub believed_percent: Option<f64>,
    /// How far these were off, request by request, in percent of all prompt tokens.
    pub belief_off_percent: Option<f64>,
    /// Requests put back from running to waiting.
    pub preemptions: u64,
    /// Seconds from the last incident until reuse is at nine tenths of what it was before the first one, and stays there for
    /// ten seconds; of runs with incidents; the run's length where it never is.
    pub back_after_s: Option<f64>,
}

/// The records that count: all but the first asked, of which a share is left out. In the order in which they were asked.
pub(super) fn counted(outcome: &Outcome, warm_up: f64) -> Vec<Record> {
    let mut records = outcome.records.clone();
    records.sort_by_key(|record| record.asked);
    records.drain(..(records.len() as f64 * warm_up) as usize);
    records
}

fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures
}

/// TTFT that 0, 1, ... 100 percent kept within.
pub(super) fn ttft_percentiles(records: &[Record]) -> Vec<f64> {
    let ttft = sorted(records.iter().filter(|record| record.well).map(|record| ms(record.ttft)));
    (0..=100).map(|percent| quantile(&ttft, f64::from(percent) / 100.0)).collect()
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Figures {
    pub(super) fn of(outcome: &Outcome, records: &[Record], slo: Slo, incidents: &[(Duration, Incident)]) -> Figures {
        let well: Vec<&Record> = records.iter().filter(|record| record.well).collect();
        let sum = |figure: fn(&Record) -> u32| well.iter().map(|record| u64::from(figure(record))).sum::<u64>();
        let ttft = sorted(well.iter().map(|record| ms(record.ttft)));
        let total = sorted(well.iter().map(|record| ms(record.total)));
        let floor = sorted(well.iter().map(|record| ms(record.floor)));
        let prompt = sum(|record| record.prompt);
        let begin = records.iter().map(|record| record.asked).min().unwrap_or_default();
        let end = records.iter().map(Record::ended).max().unwrap_or_default();
        let seconds = (end - begin).as_secs_f64().max(1e-9);
        let good =
            |record: &&&Record| ms(record.ttft) <= slo.ttft_ms && record.itl().is_none_or(|itl| ms(itl) <= slo.itl_ms);
        let gap = |share| outcome.gaps.quantile(share).map_or(0.0, ms);
        let share_percent = shares(outcome, records);
        let believed: Option<u64> = well.iter().map(|record| record.predicted.map(u64::from)).sum();
        let off = |record: &&Record| record.predicted.map(|believed| u64::from(believed.abs_diff(record.cached)));
        let off: Option<u64> = well.iter().map(off).sum();
        Figures {
            requests: records.len(),
            errors: records.len() - well.len(),
            reuse_percent: percent(sum(|record| record.cached), prompt),
            infinite_percent: percent(sum(|record| record.infinite), prompt),
            ttft_p50_ms: quantile(&ttft, 0.5),
            ttft_p95_ms: quantile(&ttft, 0.95),
            ttft_p99_ms: quantile(&ttft, 0.99),
            ttft_mean_ms: ttft.iter().sum::<f64>() / ttft.len().max(1) as f64,
            floor_p50_ms: quantile(&floor, 0.5),
            itl_p50_ms: gap(0.5),
            itl_p95_ms: gap(0.95),
            total_p50_ms: quantile(&total, 0.5),
            total_p95_ms: quantile(&total, 0.95),
            output_tokens_a_second: sum(|record| record.output) as f64 / seconds,
            goodput: well.iter().filter(good).count() as f64 / seconds,
            busiest_percent: share_percent.iter().copied().fold(0.0, f64::max),
            share_percent,
            believed_percent: believed.map(|believed| percent(believed, prompt)),
            belief_off_percent: off.map(|off| percent(off, prompt)),
            preemptions: outcome.preemptions,
            back_after_s: back_after(outcome, incidents),
        }
    }
}

fn shares(outcome: &Outcome, records: &[Record]) -> Vec<f64> {
    let mut counts = vec![0_u64; outcome.engines];
    let engines =
        records.iter().filter_map(|record| counts.get_mut(usize::from(record.engine)).map(|count| *count += 1));
    let all = engines.count() as u64;
    counts.into_iter().map(|count| percent(count, all)).collect()
}

const WINDOW: f64 = 5.0;

fn back_after(outcome: &Outcome, incidents: &[(Duration, Incident)]) -> Option<f64> {
    let first = incidents.iter().map(|(at, _)| at.as_secs_f64()).reduce(f64::min)?;
    let last = incidents.iter().map(|(at, _)| at.as_secs_f64()).reduce(f64::max)?;
    let end = outcome.records.iter().map(|record| record.asked.as_secs_f64()).fold(0.0, f64::max);
    let before = reuse_between(&outcome.records, first - 4.0 * WINDOW, first)?;
    let back =
        |from: f64| reuse_between(&outcome.records, from, from + 2.0 * WINDOW).is_some_and(|r| r >= 0.9 * before);
    let mut from = last;
    while from < end && !back(from) {
        from += 1.0;
    }
    Some(from - last)
}

/// The share of prompt tokens reused by requests asked in between.
fn reuse_between(records: &[Record], from: f64, to: f64) -> Option<f64> {
    let within = records.iter().filter(|record| record.well && (from..to).contains(&record.asked.as_secs_f64()));
    let (cached, prompt) = within.fold((0, 0), |(cached, prompt), record| {
        (cached + u64::from(record.cached), prompt + u64::from(record.prompt))
    });
    (prompt > 0).then(|| cached as f64 / prompt as f64)
}

/// A run over time, in windows of equal length by when requests were asked. What no request was asked in is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// Seconds of a window.
    pub window_s: f64,
    /// Reuse in percent.
    pub reuse_percent: Vec<Option<f64>>,
    /// TTFT p95.
    pub ttft_p95_ms: Vec<Option<f64>>,
    /// Requests by engine, in percent of the window's, each engine's windows in turn.
    pub share_percent: Vec<Vec<f64>>,
}

const WINDOWS: usize = 40;

impl Course {
    pub(super) fn of(outcome: &Outcome) -> Course {
        let end = outcome.records.iter().map(|record| record.asked).max().unwrap_or_default();
        let window_s = (end.as_secs_f64() / WINDOWS as f64).max(1e-9);
        let mut windows: Vec<Vec<Record>> = vec![Vec::new(); WINDOWS];
        for record in &outcome.records {
            let at = (record.asked.as_secs_f64() / window_s) as usize;
            windows[at.min(WINDOWS - 1)].push(*record);
        }
        let p95 = |records: &Vec<Record>| {
            let ttft = sorted(records.iter().filter(|record| record.well).map(|record| ms(record.ttft)));
            (!ttft.is_empty()).then(|| quantile(&ttft, 0.95))
        };
        let reuse = |records: &Vec<Record>| reuse_between(records, 0.0, f64::INFINITY).map(|share| 100.0 * share);
        let by_window: Vec<Vec<f64>> = windows.iter().map(|records| shares(outcome, records)).collect();
        let of_engine = |engine: usize| by_window.iter().map(|shares| shares[engine]).collect();
        Course {
            window_s,
            reuse_percent: windows.iter().map(reuse).collect(),
            ttft_p95_ms: windows.iter().map(p95).collect(),
            share_percent: (0..outcome.engines).map(of_engine).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Gaps;

    fn record(asked: u64, cached: u32, engine: u16, well: bool) -> Record {
        Record {
            asked: Duration::from_secs(asked),
            ttft: Duration::from_millis(100 * (u64::from(engine) + 1)),
            total: Duration::from_millis(1000),
            floor: Duration::from_millis(50),
            prompt: 200,
            cached,
            infinite: 150,
            predicted: Some(cached + 20),
            output: 10,
            turn: 0,
            engine,
            well,
        }
    }

    fn outcome(records: Vec<Record>) -> Outcome {
        Outcome { records, gaps: Gaps::default(), preemptions: 0, engines: 2 }
    }

    #[test]
    fn figures_of_three_requests_by_hand() {
        let outcome = outcome(vec![record(3, 100, 1, true), record(0, 0, 0, true), record(1, 50, 0, false)]);
        let slo = Slo { ttft_ms: 150.0, itl_ms: 1000.0 };
        let figures = Figures::of(&outcome, &counted(&outcome, 0.0), slo, &[]);
        assert_eq!((figures.requests, figures.errors), (3, 1));
        assert_eq!((figures.reuse_percent, figures.infinite_percent), (25.0, 75.0));
        assert_eq!((figures.ttft_p50_ms, figures.ttft_p95_ms, figures.ttft_mean_ms), (100.0, 200.0, 150.0));
        // 20 tokens and one good request from second 0 to 4.
        assert_eq!((figures.output_tokens_a_second, figures.goodput), (5.0, 0.25));
        assert_eq!(figures.share_percent, [200.0 / 3.0, 100.0 / 3.0]);
        assert_eq!((figures.believed_percent, figures.belief_off_percent), (Some(35.0), Some(10.0)));
        // The first asked is left out.
        assert_eq!(counted(&outcome, 0.34).len(), 2);
        assert_eq!(counted(&outcome, 0.34)[0].asked, Duration::from_secs(1));
    }

    #[test]
    fn reuse_is_back_when_it_is_and_stays() {
        // 100 of 200 until second 40, then nothing, 90 of 200 from second 60 on.
        let cached = |at: u64| match at {
            0..40 => 100,
            40..60 => 0,
            _ => 95,
        };
        let outcome = outcome((0..100).map(|at| record(at, cached(at), 0, true)).collect());
        let incidents = [(Duration::from_secs(40), Incident::PickerRestarts)];
        assert_eq!(back_after(&outcome, &incidents), Some(20.0));
        assert_eq!(back_after(&outcome, &[]), None);
    }
}
