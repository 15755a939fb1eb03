//! Prefers the shortest queue. Where no queue is known at all, the fewest requests of ours under way, as unknown.

use super::{Score, in_flight, least_is_best};
use crate::Candidate;

pub(super) fn scores(candidates: &[Candidate]) -> Vec<Score> {
    if candidates.iter().all(|c| c.waiting.is_none()) {
        let ours = in_flight::scores(candidates);
        return ours.into_iter().map(|score| Score { known: false, ..score }).collect();
    }
    least_is_best(candidates.iter().map(|c| c.waiting))
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    fn check(queues: &str, expected: &str) {
        table::check(Scorer::Waiting, 0, |c, f| c.waiting = f, queues, expected);
    }

    #[test]
    fn the_shortest_queue_is_best_and_the_others_lie_in_proportion() {
        check("5 0", "0.00 1.00");
        check("0 5 10", "1.00 0.50 0.00");
        check("3 3", "1.00 1.00");
        check("7", "1.00");
    }

    #[test]
    fn an_unknown_queue_is_no_empty_queue() {
        check("? 4 2", "0.00? 0.00 1.00");
        check("? 4", "0.00? 1.00");
        check("NaN inf -1 4", "0.00? 0.00? 0.00? 1.00");
    }

    #[test]
    fn where_no_queue_is_known_our_own_requests_count() {
        table::check(Scorer::Waiting, 0, |c, f| c.in_flight = f.map_or(0, |f| f as u32), "4 0 1", "0.00? 1.00? 0.75?");
    }
}
