//! Prefers the fewest requests of ours under way. We count these ourselves, so they are always known.

use super::{Score, least_is_best};
use crate::Candidate;

pub(super) fn scores(candidates: &[Candidate]) -> Vec<Score> {
    least_is_best(candidates.iter().map(|c| Some(f64::from(c.in_flight))))
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    #[test]
    fn the_fewest_under_way_is_best() {
        let set = |c: &mut crate::Candidate, f: Option<f64>| c.in_flight = f.map_or(0, |f| f as u32);
        table::check(Scorer::InFlight, 0, set, "4 0 3", "0.00 1.00 0.25");
        table::check(Scorer::InFlight, 0, set, "2 2", "1.00 1.00");
    }
}
