//! The same choice again, from a record, under another policy. What the endpoints then were is what they were: how old a
//! reading may be was settled when the record was made.

use std::time::Duration;

use fleet::EndpointId;
use pick::{Ask, Decision, Policy, pick};
use rand::Rng;

use crate::{Candidate, Record};

/// Makes a record's choice again under `policy`. The endpoints of the decision are numbered as the record's candidates
/// stand, from 0. `None` only if the record has no candidates. Notes of what was asked are not made again.
pub fn replay(record: &Record, policy: &Policy, rng: &mut impl Rng) -> Option<Decision> {
    let numbered = record.candidates.iter().zip(0..);
    let candidates: Vec<pick::Candidate> = numbered.map(|(kept, number)| seen(kept, EndpointId(number))).collect();
    pick(&Ask { blocks: record.asked.blocks }, &candidates, policy, rng)
}

fn seen(kept: &Candidate, id: EndpointId) -> pick::Candidate {
    pick::Candidate {
        id,
        standing: kept.standing.into(),
        waiting: kept.waiting,
        running: kept.running,
        kv_usage: kept.kv_usage,
        in_flight: kept.in_flight,
        overlap: kept.overlap,
        displaces: kept.displaces_ms.map(Duration::from_millis),
    }
}
