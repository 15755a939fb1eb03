//! Prefers the smallest running batch.

use super::{Score, least_is_best};
use crate::Candidate;

pub(super) fn scores(candidates: &[Candidate]) -> Vec<Score> {
    least_is_best(candidates.iter().map(|c| c.running))
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    #[test]
    fn the_smallest_batch_is_best() {
        let check = |batches, expected| table::check(Scorer::Running, 0, |c, f| c.running = f, batches, expected);
        check("8 0 2", "0.00 1.00 0.75");
        check("8 8", "1.00 1.00");
        check("? inf", "0.00? 0.00?");
        check("? 3", "0.00? 1.00");
    }
}
