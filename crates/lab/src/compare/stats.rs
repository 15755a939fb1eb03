//! Medians and how sure they are. In: a figure by repeat; out: its median with a 95% interval, by the bootstrap: repeats are
//! drawn anew, with a seed of their own, two thousand times. Few repeats give wide intervals, one gives none.

use serde::Serialize;

use crate::draw::Draw;

const DRAWS: usize = 2_000;

/// A median, and the interval that holds it with 95%.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Interval {
        Interval { value: change(self.value), low: change(self.low), high: change(self.high) }
    }
}

/// The median of figures, with its interval. Nothing is 0.
pub(super) fn median(figures: &[f64]) -> Interval {
    let mut draw = Draw::new(figures.len() as u64, 61);
    let mut drawn = |_| median_of((0..figures.len()).map(|_| figures[draw.below(figures.len())]).collect());
    let mut medians: Vec<f64> = (0..DRAWS).map(&mut drawn).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((DRAWS - 1) as f64 * share).round() as usize];
    Interval { value: median_of(figures.to_vec()), low: at(0.025), high: at(0.975) }
}

/// The middle one, or the mean of the middle two.
pub(super) fn median_of(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}

/// The value that a share of the sorted figures is not above (nearest rank).
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let figures: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.95, 1.0].map(|share| quantile(&figures, share)), [1.0, 10.0, 19.0, 20.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(median_of(vec![4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median_of(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_repeats() {
        let mut draw = Draw::new(1, 1);
        let mut width = |repeats: usize| {
            let figures: Vec<f64> = (0..repeats).map(|_| 10.0 + draw.unit()).collect();
            let interval = median(&figures);
            assert!(interval.low <= interval.value && interval.value <= interval.high);
            interval.high - interval.low
        };
        let (few, many) = (width(8), width(800));
        assert!(many < few / 4.0, "{few} {many}");
        assert_eq!(median(&[7.0]), Interval { value: 7.0, low: 7.0, high: 7.0 });
    }

    /// Of 300 experiments whose true median is known, about 95% have it in their interval.
    #[test]
    fn an_interval_holds_the_truth_about_as_often_as_it_says() {
        let mut draw = Draw::new(2, 2);
        let holds = |_| {
            let figures: Vec<f64> = (0..15).map(|_| draw.unit()).collect();
            let interval = median(&figures);
            interval.low <= 0.5 && 0.5 <= interval.high
        };
        let held = (0..300).map(holds).filter(|held| *held).count();
        assert!((270..=300).contains(&held), "{held}");
    }
}
