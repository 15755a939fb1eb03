//! Numbers that look random and are the same for the same seed (SplitMix64). In: a seed; out: draws. Nothing secret
//! is made of them.

/// A source of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The `stream`-th source of that seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut draw = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is at least one.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// From `low` up to and without `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> Option<T> {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return Some(*choice);
            }
            left -= weight;
        }
        None
    }

    /// One of these.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }

    /// Plain English words, so that a text has about as many tokens as words.
    pub(crate) fn words(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 32] = [
            "the", "answer", "of", "a", "house", "river", "which", "was", "long", "before", "morning", "came", "and",
            "people", "walked", "to", "their", "work", "in", "silence", "because", "nobody", "had", "anything", "left",
            "that", "could", "be", "said", "about", "winter", "again",
        ];
        let mut text = String::with_capacity(bytes + 8);
        while text.len() < bytes {
            text.push_str(self.one_of(&WORDS).copied().unwrap_or_default());
            text.push(' ');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn a_seed_gives_the_same_draws_and_another_stream_others() {
        let draws = |seed, stream| {
            let mut draw = Draw::new(seed, stream);
            (0..4).map(|_| draw.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
    }

    #[test]
    fn a_choice_of_no_weight_is_never_drawn() {
        let mut draw = Draw::new(1, 1);
        assert!((0..200).all(|_| draw.weighted(&[(0, 'a'), (3, 'b'), (0, 'c')]) == Some('b')));
    }
}
