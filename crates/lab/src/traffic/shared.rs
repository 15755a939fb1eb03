//! Independent requests over shared instructions: a long instruction that others use too, and a short question of its own.

use std::sync::Arc;
use std::time::Duration;

use super::{Arrivals, Conversation, Piece, Traffic, Turn, around, id};
use crate::draw::Draw;
use crate::model::Span;

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Requests in all.
    pub requests: u32,
    /// Instructions.
    pub instructions: u32,
    /// Tokens of each; 0: nothing is shared.
    pub instruction_tokens: u32,
    /// How unevenly they are used: the n-th has a share in proportion to n to the power of minus this. 0: evenly.
    pub skew: f64,
    /// Tokens of a question, half as many to half as many again.
    pub question_tokens: u32,
    /// Tokens of an answer, likewise.
    pub answer_tokens: u32,
    /// Users, a session key each; any of them asks anything.
    pub users: u32,
    /// How requests come.
    pub come: Come,
}

/// How independent requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Come {
    /// By themselves, whether others are answered or not.
    Open(Arrivals),
    /// Each user asks again as soon as the answer is there.
    Closed,
}

const SPREAD: u32 = 50;

impl Shared {
    /// The requests of a seed.
    pub fn traffic(self, seed: u64) -> Traffic {
        let mut requests = Requests { sizes: self, seed, draw: Draw::new(seed, 11), next: 0, shares: shares(&self) };
        let mut keys = Draw::new(seed, 12);
        match self.come {
            Come::Open(arrivals) => {
                let sessions: Vec<u64> = (0..self.users.max(1)).map(|_| keys.any()).collect();
                let mut moments = arrivals.moments(Draw::new(seed, 13));
                Box::new((0..self.requests).map(move |_| {
                    let session = sessions[requests.draw.below(sessions.len())];
                    Conversation { begins: moments.next(), session, turns: vec![requests.next()] }
                }))
            }
            Come::Closed => {
                let users = self.users.clamp(1, self.requests.max(1));
                // Not all in the same instant: within half a second.
                let gap = Duration::from_millis(500) / users;
                Box::new((0..users).map(move |user| {
                    let turns = self.requests / users + u32::from(user < self.requests % users);
                    let turns = (0..turns).map(|_| requests.next()).collect();
                    Conversation { begins: gap * user, session: keys.any(), turns }
                }))
            }
        }
    }
}

struct Requests {
    sizes: Shared,
    seed: u64,
    draw: Draw,
    next: u64,
    /// Summed shares of the instructions, the last being 1.
    shares: Arc<[f64]>,
}

impl Requests {
    fn next(&mut self) -> Turn {
        let (sizes, number) = (self.sizes, self.next);
        self.next += 1;
        let at = self.draw.unit();
        let instruction = self.shares.partition_point(|share| *share <= at).min(self.shares.len() - 1) as u64;
        let opening = Span { id: id(self.seed, Piece::Instruction, instruction, 0), tokens: sizes.instruction_tokens };
        let question = Span {
            id: id(self.seed, Piece::Question, number, 0),
            tokens: around(sizes.question_tokens, SPREAD, &mut self.draw),
        };
        let answer = Span {
            id: id(self.seed, Piece::Answer, number, 0),
            tokens: around(sizes.answer_tokens, SPREAD, &mut self.draw),
        };
        Turn { think: Duration::ZERO, anew: true, scenario: instruction, says: vec![opening, question], answer }
    }
}

fn shares(sizes: &Shared) -> Arc<[f64]> {
    let weight = |number: u32| f64::from(number).powf(-sizes.skew);
    let all: f64 = (1..=sizes.instructions.max(1)).map(weight).sum();
    let mut sum = 0.0;
    let share = |number| {
        sum += weight(number) / all;
        sum
    };
    (1..=sizes.instructions.max(1)).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Shared = Shared {
        requests: 3_000,
        instructions: 10,
        instruction_tokens: 400,
        skew: 0.0,
        question_tokens: 60,
        answer_tokens: 20,
        users: 7,
        come: Come::Open(Arrivals { rate: 10.0, bursts: None }),
    };

    fn uses(sizes: Shared) -> Vec<usize> {
        let mut uses = vec![0; sizes.instructions as usize];
        sizes.traffic(1).flat_map(|user| user.turns).for_each(|turn| uses[turn.scenario as usize] += 1);
        uses
    }

    #[test]
    fn open_or_closed_it_is_a_traffic_of_as_many_requests() {
        super::super::tests::check(|seed| SIZES.traffic(seed));
        super::super::tests::check(|seed| Shared { come: Come::Closed, ..SIZES }.traffic(seed));
        assert_eq!(uses(SIZES).iter().sum::<usize>(), 3_000);
        assert_eq!(uses(Shared { come: Come::Closed, ..SIZES }).iter().sum::<usize>(), 3_000);
        assert_eq!(Shared { come: Come::Closed, ..SIZES }.traffic(1).count(), 7);
    }

    #[test]
    fn instructions_are_used_evenly_or_by_their_rank() {
        assert!(uses(SIZES).iter().all(|uses| (240..360).contains(uses)));
        let skewed = uses(Shared { skew: 1.0, ..SIZES });
        // 1 / (1 + 1/2 + ... + 1/10) is 0.341.
        assert!((930..1120).contains(&skewed[0]) && (70..140).contains(&skewed[9]), "{skewed:?}");
    }

    #[test]
    fn the_instruction_is_shared_and_the_question_is_not() {
        let turns: Vec<Turn> = SIZES.traffic(1).flat_map(|user| user.turns).collect();
        let same = |a: &&Turn| a.scenario == turns[0].scenario;
        let others: Vec<&Turn> = turns[1..].iter().filter(same).collect();
        assert!(!others.is_empty());
        assert!(others.iter().all(|turn| turn.says[0] == turns[0].says[0] && turn.says[1].id != turns[0].says[1].id));
    }
}
