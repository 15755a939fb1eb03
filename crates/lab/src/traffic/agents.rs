//! Agents: instructions and tools that all runs of one kind share, then turn after turn what a tool returned, with hardly a
//! pause; answers are short calls of the next tool.

use std::time::Duration;

use super::{Arrivals, Conversation, Piece, Traffic, Turn, around, id, pause};
use crate::draw::Draw;
use crate::model::Span;

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agents {
    /// Runs in all.
    pub runs: u32,
    /// How they begin.
    pub begin: Arrivals,
    /// Kinds of agents, each with instructions and tools of its own.
    pub kinds: u32,
    /// Tokens of a kind's instructions and tools.
    pub tools_tokens: u32,
    /// Tokens of a run's task.
    pub task_tokens: u32,
    /// Turns of a run on average, half as many to half as many again.
    pub turns: u32,
    /// Tokens that a tool returns, from nearly none to twice as many.
    pub result_tokens: u32,
    /// Tokens of an answer, half as many to half as many again.
    pub answer_tokens: u32,
    /// How long a tool takes, on average (exponential).
    pub tool_takes: Duration,
}

impl Agents {
    /// The runs of a seed.
    pub fn traffic(self, seed: u64) -> Traffic {
        let mut moments = self.begin.moments(Draw::new(seed, 31));
        let mut draw = Draw::new(seed, 32);
        let mut keys = Draw::new(seed, 33);
        Box::new((0..u64::from(self.runs)).map(move |run| {
            let kind = draw.below(self.kinds as usize) as u64;
            let turns = around(self.turns, 50, &mut draw);
            let turns = (0..turns).map(|at| self.turn(seed, (kind, run), at, &mut draw)).collect();
            Conversation { begins: moments.next(), session: keys.any(), turns }
        }))
    }

    fn turn(&self, seed: u64, (kind, run): (u64, u64), at: u32, draw: &mut Draw) -> Turn {
        // Not the ids of others, where traffics are mixed.
        let piece = |piece, tokens| Span { id: id(seed, piece, 1 << 48 | run, u64::from(at)), tokens };
        let answer = piece(Piece::Answer, around(self.answer_tokens, 50, draw));
        if at == 0 {
            let tools = Span { id: id(seed, Piece::Instruction, 1 << 48 | kind, 0), tokens: self.tools_tokens };
            let task = piece(Piece::Question, around(self.task_tokens, 50, draw));
            return Turn { think: Duration::ZERO, anew: true, scenario: kind, says: vec![tools, task], answer };
        }
        let result = piece(Piece::Tool, around(self.result_tokens, 100, draw));
        Turn { think: pause(self.tool_takes, draw), anew: false, scenario: kind, says: vec![result], answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_kind_share_their_tools() {
        let sizes = Agents {
            runs: 60,
            begin: Arrivals::steady(1.0),
            kinds: 3,
            tools_tokens: 3000,
            task_tokens: 100,
            turns: 8,
            result_tokens: 500,
            answer_tokens: 40,
            tool_takes: Duration::from_millis(300),
        };
        super::super::tests::check(|seed| sizes.traffic(seed));
        let runs: Vec<Conversation> = sizes.traffic(1).collect();
        let mut tools: Vec<Span> = runs.iter().map(|run| run.turns[0].says[0]).collect();
        tools.sort_unstable_by_key(|tools| tools.id);
        tools.dedup();
        assert_eq!(tools.len(), 3);
        assert!(runs.iter().all(|run| run.turns.iter().all(|turn| turn.scenario == run.turns[0].scenario)));
    }
}
