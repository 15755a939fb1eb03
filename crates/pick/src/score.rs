//! Scores: one file a scorer, from what is asked and the candidates to a score in 0..=1 each.
//!
//! A score is always finite. What is not known scores 0 and says so.

use crate::{Ask, Candidate, Scorer};

mod in_flight;
mod kv_usage;
mod prefix;
mod running;
mod spare;
mod waiting;

/// What a scorer says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// 0..=1, the best being 1.
    pub(crate) value: f64,
    /// Whether the scorer knew what it scores by.
    pub(crate) known: bool,
}

impl Score {
    const UNKNOWN: Score = Score { value: 0.0, known: false };

    fn known(value: f64) -> Self {
        Score { value, known: true }
    }
}

/// One score for each candidate, in their order.
pub(crate) fn scores(scorer: Scorer, ask: &Ask, candidates: &[Candidate]) -> Vec<Score> {
    match scorer {
        Scorer::Prefix => prefix::scores(ask, candidates),
        Scorer::Waiting => waiting::scores(candidates),
        Scorer::KvUsage => kv_usage::scores(candidates),
        Scorer::Running => running::scores(candidates),
        Scorer::InFlight => in_flight::scores(candidates),
        Scorer::Spare => spare::scores(candidates),
    }
}

/// The least gets 1, the most 0, the others in proportion; all alike get 1. This is llm-d's queue scorer.
fn least_is_best(figures: impl Iterator<Item = Option<f64>> + Clone) -> Vec<Score> {
    let known = figures.clone().flatten();
    let (least, most) = known.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), f| (l.min(f), m.max(f)));
    let spread = most - least;
    let score = |figure: f64| if spread > 0.0 { ((most - figure) / spread).clamp(0.0, 1.0) } else { 1.0 };
    figures.map(|figure| figure.map_or(Score::UNKNOWN, |f| Score::known(score(f)))).collect()
}

/// The scorers' tables: a line of figures in, a line of scores out, `?` for unknown.
#[cfg(test)]
mod table {
    use std::time::Duration;

    use fleet::{EndpointId, Standing};

    use super::{Score, scores};
    use crate::{Ask, Candidate, Scorer};

    /// `figures` are set, one for each candidate, by `set`; `expected` is what `scorer` says of them.
    pub(crate) fn check(
        scorer: Scorer,
        blocks: u32,
        set: fn(&mut Candidate, Option<f64>),
        figures: &str,
        expected: &str,
    ) {
        let candidates: Vec<Candidate> = figures
            .split_whitespace()
            .map(|figure| {
                let mut candidate = Candidate { standing: Standing::Fresh, ..Candidate::unread(EndpointId(0)) };
                set(&mut candidate, (figure != "?").then(|| figure.parse().expect("a number")));
                candidate.believed()
            })
            .collect();
        let scores = scores(scorer, &Ask { blocks }, &candidates);
        let printed: Vec<String> = scores.iter().map(print).collect();
        assert_eq!(printed.join(" "), expected, "{figures}");
    }

    fn print(score: &Score) -> String {
        format!("{:.2}{}", score.value, if score.known { "" } else { "?" })
    }

    pub(crate) fn seconds(figure: Option<f64>) -> Option<Duration> {
        figure.map(Duration::from_secs_f64)
    }
}
