//! Several traffics at once, merged by when conversations begin.

use std::iter::Peekable;

use super::{Conversation, Traffic};

/// All of them, in the order of their beginnings.
pub fn mixed(traffics: Vec<Traffic>) -> Traffic {
    Box::new(Mixed(traffics.into_iter().map(Iterator::peekable).collect()))
}

struct Mixed(Vec<Peekable<Traffic>>);

impl Iterator for Mixed {
    type Item = Conversation;

    fn next(&mut self) -> Option<Conversation> {
        let begins = self.0.iter_mut().enumerate().filter_map(|(at, traffic)| Some((traffic.peek()?.begins, at)));
        let (_, first) = begins.min()?;
        self.0[first].next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Agents, Arrivals, Shared};
    use super::*;
    use std::time::Duration;

    fn both(seed: u64) -> Vec<Traffic> {
        let agents = Agents {
            runs: 20,
            begin: Arrivals::steady(1.0),
            kinds: 2,
            tools_tokens: 300,
            task_tokens: 10,
            turns: 3,
            result_tokens: 50,
            answer_tokens: 4,
            tool_takes: Duration::from_millis(300),
        };
        let shared = Shared {
            requests: 30,
            instructions: 2,
            instruction_tokens: 100,
            skew: 0.0,
            question_tokens: 6,
            answer_tokens: 2,
            users: 3,
            come: super::super::shared::Come::Open(Arrivals::steady(2.0)),
        };
        vec![agents.traffic(seed), shared.traffic(seed)]
    }

    #[test]
    fn a_mix_is_a_traffic_that_loses_nothing() {
        super::super::tests::check(|seed| mixed(both(seed)));
        assert_eq!(mixed(both(1)).count(), 50);
    }
}
