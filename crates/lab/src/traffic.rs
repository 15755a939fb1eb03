//! What will be asked, and when, without a single token: prompts as spans. In: sizes and a seed; out: conversations in the
//! order of their beginnings, made one at a time, so that a million of them take no room. The same seed gives the same ones.
//!
//! A conversation is a user who waits for an answer before going on: independent requests are conversations of one turn, and
//! a client that keeps one request under way is a conversation whose turns each begin anew.

mod agents;
mod arrivals;
mod dialogs;
mod mix;
mod shared;
pub mod trace;

use std::time::Duration;

pub use agents::Agents;
pub use arrivals::{Arrivals, Bursts};
pub use dialogs::Dialogs;
pub use mix::mixed;
pub use shared::{Come, Shared};

use crate::draw::Draw;
use crate::model::{Span, mix};

/// Conversations, in the order of their beginnings.
pub type Traffic = Box<dyn Iterator<Item = Conversation>>;

/// A user, from the first request to the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// When the first turn is due.
    pub begins: Duration,
    /// The session key that all its requests carry.
    pub session: u64,
    /// What is asked and answered, in turn. Not empty.
    pub turns: Vec<Turn>,
}

/// One request of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// From the answer before it to this one; of the first turn: from the conversation's beginning.
    pub think: Duration,
    /// Whether what was said before is left out: the prompt begins with this turn's words.
    pub anew: bool,
    /// Which use this is of those that a fleet could be divided by: an instruction's number, an agent's kind.
    pub scenario: u64,
    /// What is added to the prompt.
    pub says: Vec<Span>,
    /// What is answered; at least one token.
    pub answer: Span,
}

/// What spans are made of; keeps apart the ids of one seed.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Instruction = 1,
    Opening,
    Question,
    Answer,
    Tool,
}

/// The id of a span: the same for the same piece of the same seed.
fn id(seed: u64, piece: Piece, owner: u64, number: u64) -> u64 {
    mix(mix(mix(seed ^ (piece as u64) << 56) ^ owner) ^ number)
}

/// Evenly from `mean` less `percent` of it to as much more; at least 1.
fn around(mean: u32, percent: u32, draw: &mut Draw) -> u32 {
    let spread = (u64::from(mean) * u64::from(percent.min(100)) / 100) as u32;
    let least = (mean - spread).max(1);
    least + draw.below((mean.saturating_add(spread).max(least) - least) as usize + 1) as u32
}

/// Exponential around a mean, cut at five times the mean, so that one draw can't hold up a run.
fn pause(mean: Duration, draw: &mut Draw) -> Duration {
    let mean = mean.as_secs_f64();
    Duration::from_secs_f64(draw.exponential(mean).min(5.0 * mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promises that every traffic keeps.
    pub(super) fn check(make: impl Fn(u64) -> Traffic) {
        let one: Vec<Conversation> = make(1).collect();
        assert_eq!(one, make(1).collect::<Vec<_>>(), "the same seed");
        assert_ne!(one, make(2).collect::<Vec<_>>(), "another seed");
        assert!(one.is_sorted_by_key(|conversation| conversation.begins));
        assert!(one.iter().all(|conversation| !conversation.turns.is_empty()));
        let turns = one.iter().flat_map(|conversation| &conversation.turns);
        assert!(turns.clone().all(|turn| turn.answer.tokens > 0 && crate::model::span::tokens(&turn.says) > 0));
        let mut answers: Vec<u64> = turns.map(|turn| turn.answer.id).collect();
        let all = answers.len();
        answers.sort_unstable();
        answers.dedup();
        assert_eq!(answers.len(), all, "each answer is a text of its own");
    }

    #[test]
    fn lengths_lie_around_their_mean() {
        let mut draw = Draw::new(1, 1);
        let lengths: Vec<u32> = (0..1000).map(|_| around(100, 20, &mut draw)).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&80), Some(&120)));
        assert_eq!(around(1, 100, &mut Draw::new(1, 1)).max(1), around(1, 100, &mut Draw::new(1, 1)));
        assert_eq!(around(7, 0, &mut draw), 7);
    }
}
