//! Prefers the emptiest KV cache: what is free of it.

use super::Score;
use crate::Candidate;

pub(super) fn scores(candidates: &[Candidate]) -> Vec<Score> {
    candidates.iter().map(|c| c.kv_usage.map_or(Score::UNKNOWN, |usage| Score::known(1.0 - usage))).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scorer;
    use crate::score::table;

    #[test]
    fn the_free_share_counts() {
        let check = |usage, expected| table::check(Scorer::KvUsage, 0, |c, f| c.kv_usage = f, usage, expected);
        check("0.2 0.1 1", "0.80 0.90 0.00");
        check("1.2 ?", "0.00 0.00?");
        check("-0.5 NaN 0.5", "0.00? 0.00? 0.50");
    }
}
