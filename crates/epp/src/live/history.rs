//! The last decisions, and figures of the last ten minutes in steps of five seconds.
//!
//! In: records of requests that have ended, and the time since the start; out: figures. Bounded whatever comes: in decisions, in
//! their candidates, and in time. No clock is read here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use record::Record;

use super::state::{Decision, Figures, Series};

/// How long a step is.
const STEP: Duration = Duration::from_secs(5);
/// Steps that are kept.
const STEPS: u64 = 120;
/// Steps of a minute.
const MINUTE: usize = 12;
/// Decisions that are kept.
const KEPT: usize = 512;
/// What they may weigh together: a candidate, or half a kilobyte of a request's id, counts one.
const HEAVIEST: usize = 16_384;
/// Decisions that are shown unasked.
const SHOWN: usize = 30;
/// Those that a search gives at most.
const FOUND: usize = 20;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Newest last.
    records: VecDeque<Arc<Record>>,
    weight: usize,
    /// The current one last; each has the number of its step.
    steps: VecDeque<(u64, Step)>,
    /// Picks of all of these, by address.
    picks: HashMap<String, u64>,
    lost: u64,
}

impl History {
    /// A request has ended.
    pub(super) fn add(&mut self, record: Arc<Record>, at: Duration) {
        self.pass(at);
        if let Some((_, step)) = self.steps.back_mut() {
            step.add(&record);
        }
        if let Some(chosen) = record.candidates.first() {
            *self.picks.entry(chosen.address.clone()).or_default() += 1;
        }
        self.weight += weight(&record);
        self.records.push_back(record);
        while self.records.len() > KEPT || self.weight > HEAVIEST {
            let Some(oldest) = self.records.pop_front() else { break };
            self.weight -= weight(&oldest);
        }
    }

    /// So many more weren't told.
    pub(super) fn lost(&mut self, count: u64) {
        self.lost += count;
    }

    /// Time passes: old steps go, and the current one is there.
    pub(super) fn pass(&mut self, at: Duration) {
        let number = (at.as_millis() / STEP.as_millis()) as u64;
        if self.steps.back().is_none_or(|(last, _)| *last < number) {
            self.steps.push_back((number, Step::default()));
        }
        while self.steps.front().is_some_and(|(first, _)| first + STEPS <= number) {
            let gone = self.steps.pop_front().map(|(_, step)| step.picks).unwrap_or_default();
            for (address, picks) in gone {
                if let Some(all) = self.picks.get_mut(&address) {
                    *all -= picks;
                }
            }
            self.picks.retain(|_, picks| *picks > 0);
        }
    }

    /// Picks by address.
    pub(super) fn picks(&self) -> HashMap<String, u64> {
        self.picks.clone()
    }

    /// All steps, those in which nothing ended too.
    pub(super) fn series(&self) -> Series {
        let last = self.steps.back().map_or(0, |(number, _)| *number);
        let mut steps = vec![Figures::default(); STEPS as usize];
        for (number, step) in &self.steps {
            let back = (last - number) as usize;
            if let Some(place) = steps.len().checked_sub(back + 1) {
                steps[place] = step.figures();
            }
        }
        Series { step_ms: STEP.as_millis() as u64, steps }
    }

    /// The current step and those of the minute before.
    pub(super) fn last_minute(&self) -> Figures {
        let last = self.steps.back().map_or(0, |(number, _)| *number);
        let mut all = Step::default();
        for (_, step) in self.steps.iter().filter(|(number, _)| last - number < MINUTE as u64) {
            all.merge(step);
        }
        all.figures()
    }

    /// The newest decisions first.
    pub(super) fn newest(&self) -> Vec<Decision> {
        self.records.iter().rev().take(SHOWN).map(|record| Decision::from(&**record)).collect()
    }

    /// Those whose request's id has that in it, newest first.
    pub(super) fn find(&self, id: &str) -> Vec<Arc<Record>> {
        let is_it = |record: &&Arc<Record>| !id.is_empty() && record.request_id.contains(id);
        self.records.iter().rev().filter(is_it).take(FOUND).cloned().collect()
    }

    /// How many were not told.
    pub(super) fn lost_so_far(&self) -> u64 {
        self.lost
    }

    /// How many are kept.
    pub(super) fn kept(&self) -> u64 {
        self.records.len() as u64
    }
}

fn weight(record: &Record) -> usize {
    1 + record.candidates.len() + record.request_id.len() / 512
}

/// Of the requests that ended within a step.
#[derive(Clone, Debug, Default)]
struct Step {
    requests: u64,
    failed: u64,
    /// Of those whose answer says both.
    prompt_tokens: u64,
    cached_tokens: u64,
    ttft: Times,
    picks: HashMap<String, u64>,
}

impl Step {
    fn add(&mut self, record: &Record) {
        self.requests += 1;
        if let Some(chosen) = record.candidates.first() {
            *self.picks.entry(chosen.address.clone()).or_default() += 1;
        }
        let Some(outcome) = &record.outcome else { return };
        self.failed += u64::from(!outcome.status.is_some_and(|status| (200..300).contains(&status)));
        if let (Some(prompt), Some(cached)) = (outcome.prompt_tokens, outcome.cached_tokens) {
            self.prompt_tokens += prompt;
            self.cached_tokens += cached.min(prompt);
        }
        if let Some(ttft) = outcome.ttft_ms {
            self.ttft.add(ttft);
        }
    }

    /// All but the picks.
    fn merge(&mut self, other: &Step) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.ttft.merge(&other.ttft);
    }

    fn figures(&self) -> Figures {
        Figures {
            requests: self.requests,
            failed: self.failed,
            reused: (self.prompt_tokens > 0).then(|| self.cached_tokens as f64 / self.prompt_tokens as f64),
            ttft_p50_ms: self.ttft.quantile(0.5),
            ttft_p95_ms: self.ttft.quantile(0.95),
        }
    }
}

/// Times in buckets of which each ends a fifth after the one before: a quantile is right within a tenth, up to 100 seconds.
#[derive(Clone, Debug)]
struct Times([u32; BUCKETS]);

const BUCKETS: usize = 64;
const GROWTH: f64 = 1.2;

impl Default for Times {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Times {
    fn add(&mut self, ms: f64) {
        let bucket = ms.max(1.0).log(GROWTH) as usize;
        self.0[bucket.min(BUCKETS - 1)] += 1;
    }

    fn merge(&mut self, other: &Times) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }

    /// The middle of the bucket in which it lies.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        let all: u32 = self.0.iter().sum();
        let wanted = (f64::from(all) * quantile).ceil().max(1.0) as u32;
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(GROWTH.powf(bucket as f64 + 0.5))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use record::{Asked, Candidate, Ended, Outcome, Standing};

    use super::*;

    /// Of a request that was sent to that port and reused half of its 100 tokens.
    pub(crate) fn record(id: &str, port: u16) -> Arc<Record> {
        let candidate = Candidate {
            endpoint: format!("engine-{port}"),
            address: format!("10.0.0.1:{port}"),
            standing: Standing::Fresh,
            set_aside: false,
            waiting: None,
            running: None,
            kv_usage: None,
            in_flight: 0,
            overlap: 0,
            displaces_ms: None,
            total: 0.0,
            parts: Vec::new(),
        };
        let outcome = Outcome {
            status: Some(200),
            served: None,
            ttft_ms: Some(20.0),
            took_ms: 30.0,
            prompt_tokens: Some(100),
            cached_tokens: Some(50),
            completion_tokens: None,
            attempts: None,
            ended: Ended::Complete,
        };
        Arc::new(Record {
            request_id: id.to_owned(),
            decided_at_unix_ms: 0,
            asked: Asked::default(),
            chosen: vec![candidate.endpoint.clone()],
            candidates: vec![candidate],
            notes: Vec::new(),
            predicted_cached_tokens: None,
            decided_in_us: 0,
            holdout: false,
            outcome: Some(outcome),
        })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_step_has_what_ended_in_it_and_old_ones_go() {
        let mut history = History::default();
        for seconds in [0, 1, 59, 60] {
            history.add(record(&seconds.to_string(), 8000), at(seconds));
        }
        let requests = |history: &History| -> Vec<u64> {
            history.series().steps.iter().map(|step| step.requests).filter(|requests| *requests > 0).collect()
        };
        assert_eq!(requests(&history), [2, 1, 1]);
        assert_eq!(history.last_minute().requests, 2);
        assert_eq!(history.last_minute().reused, Some(0.5));
        history.pass(at(600));
        assert_eq!((requests(&history), history.series().steps.len()), (vec![1, 1], STEPS as usize));
        history.pass(at(100_000));
        assert_eq!((requests(&history), history.last_minute()), (vec![], Figures::default()));
        assert_eq!((history.picks().len(), history.kept()), (0, 4), "decisions stay");
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_in_weight() {
        let mut history = History::default();
        for number in 0..=KEPT {
            history.add(record(&format!("{number}-"), 8000), at(0));
        }
        assert_eq!((history.kept(), history.find("0-").len()), (KEPT as u64, FOUND));
        assert_eq!(history.records[0].request_id, "1-");
        for number in 0..3 {
            let mut large = (*record(&format!("large-{number}"), 8000)).clone();
            large.candidates = vec![large.candidates[0].clone(); HEAVIEST / 2 - 1];
            history.add(Arc::new(large), at(0));
        }
        assert_eq!((history.kept(), history.weight), (2, HEAVIEST));
        let long = "x".repeat(HEAVIEST * 512);
        history.add(record(&long, 8000), at(0));
        assert_eq!((history.kept(), history.weight), (0, 0));
    }

    #[test]
    fn a_decision_is_found_by_a_part_of_its_id_newest_first() {
        let mut history = History::default();
        for id in ["a-1", "b-1", "a-2"] {
            history.add(record(id, 8000), at(0));
        }
        let found = |id| history.find(id).iter().map(|record| record.request_id.clone()).collect::<Vec<_>>();
        assert_eq!(
            (found("a-"), found("b-1"), found("c"), found("")),
            (vec!["a-2".into(), "a-1".into()], vec!["b-1".into()], vec![], vec![])
        );
    }

    #[test]
    fn quantiles_are_right_within_a_tenth() {
        let check = |times: &[f64], quantile: f64, expected: f64| {
            let mut all = Times::default();
            times.iter().for_each(|time| all.add(*time));
            let found = all.quantile(quantile).expect("there are some");
            assert!((found / expected - 1.0).abs() < 0.1, "{found} for {expected}");
        };
        check(&[20.0], 0.5, 20.0);
        check(&[20.0, 20.0, 500.0], 0.5, 20.0);
        check(&[20.0, 20.0, 500.0], 0.95, 500.0);
        check(&[90_000.0], 0.95, 90_000.0);
        assert_eq!(Times::default().quantile(0.5), None);
    }
}
