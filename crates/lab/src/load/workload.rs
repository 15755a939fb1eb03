//! What will be sent, and when. In: flags and texts; out: a [`Workload`], complete before the first request. The same
//! seeds give the same bytes.

use std::time::Duration;

use tokens::EncodeError;

use super::texts::Texts;
use crate::draw::Draw;
use crate::flags::{LoadFlags, WorkloadKind};

/// Streams of one seed, kept apart.
const TEXTS: u64 = 1;
const ARRIVALS: u64 = 2;
const CHOICES: u64 = 3;
const SESSIONS: u64 = 4;

/// Requests of workload a where the flags say nothing.
const REQUESTS: usize = 240;

/// A think time is cut at this many times the mean, so that one draw cannot hold up the run.
const LONGEST_THINK: f64 = 5.0;

/// Conversations, in the order of their beginnings. An independent request is a conversation of one turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) conversations: Vec<Conversation>,
}

/// One conversation: what is said in it, and the session it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conversation {
    pub(super) begins: Duration,
    pub(super) session: String,
    pub(super) system: String,
    pub(super) turns: Vec<Turn>,
}

/// What a user says, and how long the user thinks before it (for the first turn: nothing).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) think: Duration,
    pub(super) text: String,
}

impl Workload {
    pub(super) fn of(flags: &LoadFlags, texts: &Texts<'_>) -> Result<Workload, EncodeError> {
        let conversations = match flags.workload {
            WorkloadKind::A => independent(flags, texts)?,
            WorkloadKind::B => dialogs(flags, texts)?,
        };
        Ok(Workload { conversations })
    }

    /// Requests in all.
    pub(super) fn requests(&self) -> usize {
        self.conversations.iter().map(|conversation| conversation.turns.len()).sum()
    }
}

fn independent(flags: &LoadFlags, texts: &Texts<'_>) -> Result<Vec<Conversation>, EncodeError> {
    let mut draw = Draw::new(flags.seed, TEXTS);
    let instruction = |number: u32| {
        let beginning = format!("You are assistant number {number}. ");
        texts.make(&mut draw, &beginning, flags.instruction_tokens as usize)
    };
    let instructions: Vec<String> = (1..=flags.instructions).map(instruction).collect::<Result<_, _>>()?;
    let sessions = sessions(flags, flags.users as usize);
    let mut arrivals = Arrivals::new(flags);
    let mut choices = Draw::new(flags.seed, CHOICES);
    let requests = flags.requests.map_or(REQUESTS, |requests| requests as usize);
    let request = |_| {
        let system = instructions[choices.below(instructions.len())].clone();
        let session = sessions[choices.below(sessions.len())].clone();
        let text = texts.make(&mut draw, "", flags.question_tokens as usize)?;
        Ok(Conversation { begins: arrivals.next(), session, system, turns: vec![Turn { think: Duration::ZERO, text }] })
    };
    (0..requests).map(request).collect()
}

fn dialogs(flags: &LoadFlags, texts: &Texts<'_>) -> Result<Vec<Conversation>, EncodeError> {
    let mut draw = Draw::new(flags.seed, TEXTS);
    let mut choices = Draw::new(flags.seed, CHOICES);
    let mut arrivals = Arrivals::new(flags);
    let sessions = sessions(flags, flags.dialogs as usize);
    let mut left = flags.requests.map_or(usize::MAX, |requests| requests as usize);
    let dialog = |session| {
        let turns = turn_count(flags.turns, flags.turns_spread, &mut choices).min(left);
        left -= turns;
        let turn = |at| turn(flags, texts, &mut draw, &mut choices, at);
        Ok(Conversation {
            begins: arrivals.next(),
            session,
            system: "You are a careful assistant. Read the document and answer the questions about it.".to_owned(),
            turns: (0..turns).map(turn).collect::<Result<_, _>>()?,
        })
    };
    let dialogs: Vec<Conversation> = sessions.into_iter().map(dialog).collect::<Result<_, _>>()?;
    Ok(dialogs.into_iter().filter(|dialog| !dialog.turns.is_empty()).collect())
}

/// Evenly from the mean less the spread to the mean and the spread; at least one turn.
fn turn_count(mean: u32, spread_percent: u32, draw: &mut Draw) -> usize {
    let spread = u64::from(mean) * u64::from(spread_percent);
    let least = (u64::from(mean) - spread / 100).max(1) as usize;
    let most = ((u64::from(mean) + spread / 100) as usize).max(least);
    least + draw.below(most - least + 1)
}

fn turn(
    flags: &LoadFlags,
    texts: &Texts<'_>,
    draw: &mut Draw,
    choices: &mut Draw,
    at: usize,
) -> Result<Turn, EncodeError> {
    let question = texts.make(draw, "", flags.question_tokens as usize)?;
    if at == 0 {
        let opening = texts.make(draw, "", flags.opening_tokens as usize)?;
        return Ok(Turn { think: Duration::ZERO, text: format!("{opening}\n\n{question}") });
    }
    let mean = f64::from(flags.think_ms);
    let think = choices.exponential(mean).min(LONGEST_THINK * mean);
    Ok(Turn { think: Duration::from_secs_f64(think / 1e3), text: question })
}

/// Session keys; they have a seed of their own, so that another draw of keys meets the same texts and times.
fn sessions(flags: &LoadFlags, count: usize) -> Vec<String> {
    let mut draw = Draw::new(flags.session_seed.unwrap_or(flags.seed), SESSIONS);
    (0..count).map(|_| format!("{:016x}", draw.any())).collect()
}

/// A Poisson process.
struct Arrivals {
    draw: Draw,
    mean_gap: f64,
    at: f64,
}

impl Arrivals {
    fn new(flags: &LoadFlags) -> Arrivals {
        Arrivals { draw: Draw::new(flags.seed, ARRIVALS), mean_gap: 1.0 / flags.rate, at: 0.0 }
    }

    fn next(&mut self) -> Duration {
        self.at += self.draw.exponential(self.mean_gap);
        Duration::from_secs_f64(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::turn_count;
    use crate::draw::Draw;

    #[track_caller]
    fn check(mean: u32, spread_percent: u32, least: usize, most: usize) {
        let mut draw = Draw::new(1, 1);
        let counts: Vec<usize> = (0..1_000).map(|_| turn_count(mean, spread_percent, &mut draw)).collect();
        assert_eq!((counts.iter().min(), counts.iter().max()), (Some(&least), Some(&most)));
    }

    #[test]
    fn dialogs_have_turns_within_the_spread() {
        check(6, 50, 3, 9);
        check(7, 50, 4, 10);
        check(1, 100, 1, 2);
        check(9, 0, 9, 9);
    }
}
