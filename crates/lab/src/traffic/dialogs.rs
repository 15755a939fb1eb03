//! Dialogs: a system message that all share, an opening of its own (a document), and turns whose history grows.

use std::time::Duration;

use super::{Arrivals, Conversation, Piece, Traffic, Turn, around, id, pause};
use crate::draw::Draw;
use crate::model::Span;

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dialogs {
    /// Dialogs in all.
    pub dialogs: u32,
    /// How they begin.
    pub begin: Arrivals,
    /// Turns of a dialog, on average.
    pub turns: u32,
    /// How far a dialog's turns may be from the average, in percent of it.
    pub turns_spread: u32,
    /// Tokens of the system message.
    pub system_tokens: u32,
    /// Tokens of the opening, 0 to 100 percent around as `opening_spread` says.
    pub opening_tokens: u32,
    /// How far openings may be from the average, in percent of it.
    pub opening_spread: u32,
    /// Tokens of a user's turn, half as many to half as many again.
    pub question_tokens: u32,
    /// Tokens of an answer, likewise.
    pub answer_tokens: u32,
    /// From an answer to the next turn, on average (exponential).
    pub think: Duration,
}

const SPREAD: u32 = 50;
/// Not the ids of others, where traffics are mixed.
const OWN: u64 = 2 << 48;

impl Dialogs {
    /// The dialogs of a seed.
    pub fn traffic(self, seed: u64) -> Traffic {
        let mut moments = self.begin.moments(Draw::new(seed, 21));
        let mut draw = Draw::new(seed, 22);
        let mut keys = Draw::new(seed, 23);
        Box::new((0..u64::from(self.dialogs)).map(move |dialog| {
            let turns = around(self.turns, self.turns_spread, &mut draw);
            let turns = (0..turns).map(|at| self.turn(seed, dialog, at, &mut draw)).collect();
            Conversation { begins: moments.next(), session: keys.any(), turns }
        }))
    }

    fn turn(&self, seed: u64, dialog: u64, at: u32, draw: &mut Draw) -> Turn {
        let mut says = Vec::new();
        if at == 0 && self.system_tokens > 0 {
            says.push(Span { id: id(seed, Piece::Instruction, OWN, 0), tokens: self.system_tokens });
        }
        if at == 0 && self.opening_tokens > 0 {
            let tokens = around(self.opening_tokens, self.opening_spread, draw);
            says.push(Span { id: id(seed, Piece::Opening, OWN | dialog, 0), tokens });
        }
        let piece = |piece, tokens| Span { id: id(seed, piece, OWN | dialog, u64::from(at)), tokens };
        says.push(piece(Piece::Question, around(self.question_tokens, SPREAD, draw)));
        let answer = piece(Piece::Answer, around(self.answer_tokens, SPREAD, draw));
        let think = if at == 0 { Duration::ZERO } else { pause(self.think, draw) };
        Turn { think, anew: at == 0, scenario: dialog, says, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Dialogs = Dialogs {
        dialogs: 50,
        begin: Arrivals { rate: 2.0, bursts: None },
        turns: 6,
        turns_spread: 50,
        system_tokens: 30,
        opening_tokens: 500,
        opening_spread: 0,
        question_tokens: 40,
        answer_tokens: 60,
        think: Duration::from_secs(1),
    };

    #[test]
    fn dialogs_are_a_traffic() {
        super::super::tests::check(|seed| SIZES.traffic(seed));
    }

    #[test]
    fn all_share_the_system_message_and_each_has_an_opening() {
        let dialogs: Vec<Conversation> = SIZES.traffic(1).collect();
        let first = |dialog: &Conversation| dialog.turns[0].says.clone();
        assert!(dialogs.iter().all(|dialog| first(dialog)[0] == first(&dialogs[0])[0]));
        assert_ne!(first(&dialogs[0])[1].id, first(&dialogs[1])[1].id);
        assert!(dialogs.iter().all(|dialog| (3..=9).contains(&dialog.turns.len())));
        assert!(dialogs.iter().flat_map(|dialog| &dialog.turns[1..]).all(|turn| turn.says.len() == 1 && !turn.anew));
    }
}
