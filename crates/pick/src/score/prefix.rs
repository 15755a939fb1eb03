//! Prefers who holds more of the prompt already: the share of its blocks, from the first one on.

use super::Score;
use crate::{Ask, Candidate};

pub(super) fn scores(ask: &Ask, candidates: &[Candidate]) -> Vec<Score> {
    let share = |c: &Candidate| f64::from(c.overlap.min(ask.blocks)) / f64::from(ask.blocks);
    let score = |c: &Candidate| if ask.blocks == 0 { Score::UNKNOWN } else { Score::known(share(c)) };
    candidates.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    fn check(blocks: u32, overlaps: &str, expected: &str) {
        table::check(Scorer::Prefix, blocks, |c, f| c.overlap = f.map_or(0, |f| f as u32), overlaps, expected);
    }

    #[test]
    fn the_share_of_the_prompts_blocks_counts() {
        check(10, "9 0 10", "0.90 0.00 1.00");
        check(5, "4 5", "0.80 1.00");
        check(4, "5", "1.00");
    }

    #[test]
    fn without_blocks_nothing_is_known() {
        check(0, "0 0", "0.00? 0.00?");
    }
}
