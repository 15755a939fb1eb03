//! Prefers where the new blocks cost least: room for them, else the blocks to evict that have lain unused longest.
//! As soon as one candidate has room, the others get half, so that room wins.

use std::time::Duration;

use super::Score;
use crate::Candidate;

pub(super) fn scores(candidates: &[Candidate]) -> Vec<Score> {
    let oldest = candidates.iter().filter_map(|c| c.displaces).max().unwrap_or_default();
    let ceiling = if candidates.iter().any(|c| c.displaces.is_none()) { 0.5 } else { 1.0 };
    let share = |age: Duration| if oldest.is_zero() { 1.0 } else { age.div_duration_f64(oldest) };
    candidates.iter().map(|c| Score::known(c.displaces.map_or(1.0, |age| ceiling * share(age)))).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    fn check(ages: &str, expected: &str) {
        table::check(Scorer::Spare, 0, |c, f| c.displaces = table::seconds(f), ages, expected);
    }

    #[test]
    fn the_longest_unused_is_given_up_first() {
        check("10 5 0", "1.00 0.50 0.00");
        check("0 0", "1.00 1.00");
    }

    #[test]
    fn room_wins() {
        check("? 10 5", "1.00 0.50 0.25");
        check("? ?", "1.00 1.00");
        check("? 0", "1.00 0.50");
    }
}
