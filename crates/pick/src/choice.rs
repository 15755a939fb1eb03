//! From candidates to a decision: who takes part, what each is worth, who is best. The same input with the same random
//! numbers gives the same decision; no state is kept from one choice to the next.

use std::cmp::Ordering;

use fleet::Standing;
use rand::Rng;
use rand::seq::SliceRandom;

use crate::{Ask, Candidate, Decision, Note, Part, Policy, Ranked, Weighted, score};

/// Chooses. `None` only if there are no candidates.
///
/// Only the most trusted take part: the fresh ones; where none is fresh, those that are stale; then those not read yet;
/// at last those whose reading failed. What was read of an endpoint counts only while it is fresh. Never refuses.
pub fn pick(ask: &Ask, candidates: &[Candidate], policy: &Policy, rng: &mut impl Rng) -> Option<Decision> {
    let trusted = candidates.iter().map(|c| distrust(c.standing)).min()?;
    let (taking_part, aside): (Vec<Candidate>, Vec<Candidate>) =
        candidates.iter().partition(|c| distrust(c.standing) == trusted);
    let believed: Vec<Candidate> = taking_part.into_iter().map(Candidate::believed).collect();
    let mut ranked = rank(ask, &believed, policy);
    ranked.shuffle(rng);
    ranked.sort_by(best_first);
    Some(Decision { notes: notes(&believed, &ranked), ranked, set_aside: aside.iter().map(|c| c.id).collect() })
}

fn distrust(standing: Standing) -> u8 {
    match standing {
        Standing::Fresh => 0,
        Standing::Stale => 1,
        Standing::Unread => 2,
        Standing::Failed => 3,
    }
}

fn rank(ask: &Ask, candidates: &[Candidate], policy: &Policy) -> Vec<Ranked> {
    let empty = |c: &Candidate| Ranked { id: c.id, total: 0.0, parts: Vec::with_capacity(policy.scorers.len()) };
    let mut ranked: Vec<Ranked> = candidates.iter().map(empty).collect();
    for weighted in &policy.scorers {
        let weight = if weighted.weight.abs() <= Weighted::MAX { weighted.weight } else { 0.0 };
        let scores = score::scores(weighted.scorer, ask, candidates);
        for (ranked, score) in ranked.iter_mut().zip(scores) {
            let part = Part { scorer: weighted.scorer, score: score.value, weight, known: score.known };
            ranked.total += part.weighted();
            ranked.parts.push(part);
        }
    }
    ranked
}

/// Totals that differ by less than rounding can explain are a tie.
fn best_first(a: &Ranked, b: &Ranked) -> Ordering {
    let rounded = |total: f64| (total * 1e9).round();
    rounded(b.total).total_cmp(&rounded(a.total))
}

fn notes(candidates: &[Candidate], ranked: &[Ranked]) -> Vec<Note> {
    let mut notes = Vec::new();
    match candidates[0].standing {
        Standing::Fresh => {}
        Standing::Stale => notes.push(Note::StaleLoad),
        Standing::Unread | Standing::Failed => notes.push(Note::AllSetAside),
    }
    let mut asked = ranked.iter().flat_map(|r| &r.parts).filter(|part| part.scorer.reads_load()).peekable();
    if asked.peek().is_some() && asked.all(|part| !part.known) {
        notes.push(Note::LoadUnknown);
    }
    notes
}
