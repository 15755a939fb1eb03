//! What may be said of two policies, in words. In: their figures by repeat, both of the same draws; out: for each figure how
//! they differ, paired by repeat, with an interval, and "no difference shown" where that holds zero.

use serde::Serialize;

use super::figures::Figures;
use super::stats::{Interval, median};

/// One policy held against another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whom it is about.
    pub of: &'static str,
    /// Whom it is held against.
    pub against: &'static str,
    /// In one sentence.
    pub words: String,
    /// Figure by figure.
    pub differences: Vec<Difference>,
}

/// How one figure differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which.
    pub figure: &'static str,
    /// In percent of the other's; of reuse in percentage points. Paired by repeat.
    pub change: Interval,
    /// Whether the interval leaves zero out.
    pub shown: bool,
}

/// Fewer repeats show nothing.
pub(super) const REPEATS: usize = 5;

type Figure = (&'static str, fn(&Figures) -> f64, bool);

/// Name, figure, and whether it is compared as a ratio.
const COMPARED: [Figure; 6] = [
    ("reuse", |f| f.reuse_percent, false),
    ("TTFT p50", |f| f.ttft_p50_ms, true),
    ("TTFT p95", |f| f.ttft_p95_ms, true),
    ("end to end p95", |f| f.total_p95_ms, true),
    ("tokens/s", |f| f.output_tokens_a_second, true),
    ("goodput", |f| f.goodput, true),
];

impl Verdict {
    pub(super) fn of(of: &'static str, runs: &[Figures], against: &'static str, others: &[Figures]) -> Verdict {
        let difference = |(figure, get, ratio): &Figure| {
            let pairs = runs.iter().zip(others).map(|(run, other)| (get(run), get(other)));
            let changes: Vec<f64> = if *ratio {
                // On the scale of logarithms, so that twice and half are as far apart.
                pairs.filter(|(run, other)| *run > 0.0 && *other > 0.0).map(|(run, other)| (run / other).ln()).collect()
            } else {
                pairs.map(|(run, other)| run - other).collect()
            };
            if changes.is_empty() {
                return Difference { figure, change: Interval::default(), shown: false };
            }
            let interval = median(&changes);
            let shown = changes.len() >= REPEATS && (interval.low > 0.0 || interval.high < 0.0);
            let change = if *ratio { interval.map(|log| 100.0 * (log.exp() - 1.0)) } else { interval };
            Difference { figure, change, shown }
        };
        let differences: Vec<Difference> = COMPARED.iter().map(difference).collect();
        let words = differences.iter().map(Difference::words).collect::<Vec<_>>().join("; ");
        Verdict { of, against, words, differences }
    }
}

impl Difference {
    fn words(&self) -> String {
        let Difference { figure, change, shown } = self;
        if !shown {
            return format!("{figure}: no difference shown ({:+.0} to {:+.0})", change.low, change.high);
        }
        let unit = if *figure == "reuse" { " points" } else { "%" };
        format!("{figure} {:+.0}{unit} ({:+.0} to {:+.0})", change.value, change.low, change.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ttft: &[f64]) -> Vec<Figures> {
        let figures = |ttft: &f64| Figures { ttft_p95_ms: *ttft, reuse_percent: 50.0, ..Figures::default() };
        ttft.iter().map(figures).collect()
    }

    #[track_caller]
    fn check(one: &[f64], other: &[f64], expected: &str) {
        let verdict = Verdict::of("one", &runs(one), "other", &runs(other));
        let words: Vec<&str> = verdict.words.split("; ").collect();
        assert_eq!(words[2], expected);
        assert_eq!(words[0], "reuse: no difference shown (+0 to +0)");
    }

    #[test]
    fn what_always_differs_is_shown_and_what_may_be_chance_is_not() {
        check(&[50.0, 60.0, 70.0, 80.0, 90.0], &[100.0, 120.0, 140.0, 160.0, 180.0], "TTFT p95 -50% (-50 to -50)");
        check(&[90.0, 110.0, 90.0, 110.0, 100.0], &[100.0; 5], "TTFT p95: no difference shown (-10 to +10)");
        // Pairs count: each repeat has another level, and the same difference.
        check(&[2.0, 20.0, 200.0, 2e3, 2e4], &[1.0, 10.0, 100.0, 1e3, 1e4], "TTFT p95 +100% (+100 to +100)");
        check(&[50.0, 60.0], &[100.0, 120.0], "TTFT p95: no difference shown (-50 to -50)");
    }
}
