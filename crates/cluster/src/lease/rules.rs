//! What to write into a lease, and when: no client, and no clock but the one that is handed in.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Candidate, Edition};

/// How long a lease holds without being renewed.
const HELD_FOR: Duration = Duration::from_secs(15);
/// How long a free lease is left to the one that it was given up for.
const LEFT_FOR: Duration = Duration::from_secs(5);
/// Who holds it, as [`Leader`]. Pickers of other makes leave it as it is, so that it counts for the holder that it names alone.
const LEADER: &str = "warmpath.dev/leader";
/// Whom the holder is to give way to: an identity.
const SUCCESSOR: &str = "warmpath.dev/successor";

#[derive(Serialize, Deserialize)]
struct Leader {
    identity: String,
    edition: Edition,
}

/// The lease as it was last, and since when.
#[derive(Debug, Default)]
pub(super) struct Observed(Option<(LeaseSpec, Instant)>);

impl Observed {
    pub(super) fn holder(&self) -> &str {
        self.0.as_ref().and_then(|(spec, _)| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// A lease that says the same as before is no sign of life.
    pub(super) fn see(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(before, _)| *before != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// What to write to hold it, to ask for it or to give way; nothing while another one holds it.
    pub(super) fn write(
        &mut self,
        found: Option<Lease>,
        candidate: &Candidate,
        now: Instant,
        clock: Timestamp,
    ) -> Option<Lease> {
        let Some(lease) = found else {
            let metadata = ObjectMeta {
                name: Some(candidate.lease.clone()),
                namespace: Some(candidate.namespace.clone()),
                ..ObjectMeta::default()
            };
            return Some(taken(Lease { metadata, spec: None }, candidate, clock));
        };
        self.see(&lease, now);
        let (spec, since) = self.0.as_ref()?;
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let held_for = seconds.map_or(HELD_FOR, Duration::from_secs);
        let awaits_another = annotation(&lease, SUCCESSOR).is_some_and(|successor| successor != candidate.identity);
        if holder(&lease) == candidate.identity {
            return Some(if awaits_another { released(lease, clock) } else { renewed(lease, clock) });
        }
        let is_up =
            if is_free(&lease) { !awaits_another || now >= *since + LEFT_FOR } else { now >= *since + held_for };
        if is_up {
            Some(taken(lease, candidate, clock))
        } else {
            candidate.succeeds(&lease).then(|| asked_for(lease, candidate))
        }
    }
}

impl Candidate {
    /// Whether it is to ask for that lease, which another one holds.
    fn succeeds(&self, lease: &Lease) -> bool {
        let leader = annotation(lease, LEADER).and_then(|text| serde_json::from_str::<Leader>(text).ok());
        let leader = leader.filter(|leader| leader.identity == holder(lease));
        let is_newer = |mine: &Edition, theirs: &Edition| mine.template != theirs.template && mine.made > theirs.made;
        annotation(lease, SUCCESSOR).is_none()
            && self.edition.as_ref().zip(leader).is_some_and(|(mine, leader)| is_newer(mine, &leader.edition))
    }
}

fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(super) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

pub(super) fn is_free(lease: &Lease) -> bool {
    holder(lease).is_empty()
}

/// Held by this one from now on.
fn taken(mut lease: Lease, candidate: &Candidate, clock: Timestamp) -> Lease {
    let before = lease.spec.unwrap_or_default();
    let notes = lease.metadata.annotations.get_or_insert_default();
    notes.remove(SUCCESSOR);
    note_leader(notes, candidate);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(HELD_FOR.as_secs() as i32),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        lease_transitions: Some(before.lease_transitions.map_or(0, |before| before + 1)),
        ..before
    });
    lease
}

fn note_leader(notes: &mut BTreeMap<String, String>, candidate: &Candidate) {
    let leader = candidate.edition.clone().map(|edition| Leader { identity: candidate.identity.clone(), edition });
    match leader.and_then(|leader| serde_json::to_string(&leader).ok()) {
        Some(text) => notes.insert(LEADER.to_owned(), text),
        None => notes.remove(LEADER),
    };
}

fn renewed(mut lease: Lease, clock: Timestamp) -> Lease {
    lease.spec = lease.spec.map(|spec| LeaseSpec { renew_time: Some(MicroTime(clock)), ..spec });
    lease
}

/// Held by who held it, who is to give way to this one.
fn asked_for(mut lease: Lease, candidate: &Candidate) -> Lease {
    lease.metadata.annotations.get_or_insert_default().insert(SUCCESSOR.to_owned(), candidate.identity.clone());
    lease
}

/// As client-go leaves it: held by nobody, and for a second only.
pub(super) fn released(mut lease: Lease, clock: Timestamp) -> Lease {
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` and `b` are of the older edition, `B` and `C` of the newer one, whose pods are younger; `x` knows nothing of editions.
    fn candidate(identity: char) -> Candidate {
        let edition = |at: i64, template: &str| Edition { made: at_second(at), template: template.to_owned() };
        let edition = match identity {
            'a' => Some(edition(100, "old")),
            'b' => Some(edition(101, "old")),
            'B' => Some(edition(200, "new")),
            'C' => Some(edition(201, "new")),
            _ => None,
        };
        Candidate { namespace: "ns".into(), lease: "l".into(), identity: identity.into(), edition }
    }

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// Candidates try in turn, each when its letter stands there, a second after the one before; `!` is the end of the hold by the
    /// holder's own will. What stands below is who held it then.
    #[track_caller]
    fn check(tries: &str, holders: &str) {
        let start = Instant::now();
        let mut observed = BTreeMap::<char, Observed>::new();
        let mut lease: Option<Lease> = None;
        let mut seen = String::new();
        for (second, try_of) in (0..).zip(tries.chars()) {
            let (now, clock) = (start + Duration::from_secs(second), at_second(second as i64));
            match try_of {
                '!' => lease = lease.map(|lease| released(lease, clock)),
                '.' => {}
                of => {
                    let written = observed.entry(of).or_default().write(lease.clone(), &candidate(of), now, clock);
                    lease = written.or(lease);
                }
            }
            seen += lease.as_ref().map(holder).filter(|holder| !holder.is_empty()).unwrap_or("-");
        }
        assert_eq!(seen, holders);
    }

    #[test]
    fn who_comes_first_holds_it_for_as_long_as_it_renews() {
        check("..abababababababababababab", "--aaaaaaaaaaaaaaaaaaaaaaaa");
    }

    #[test]
    fn who_has_seen_no_renewal_for_fifteen_seconds_takes_it() {
        // b saw it at second 1, so that it takes it at 16 and not before, whatever the lease's own times say.
        check("ab.............bb.aa", "aaaaaaaaaaaaaaaabbbb");
        // What is asked of a leader is no sign of its life.
        check("ab......B.......b.aa", "aaaaaaaaaaaaaaaabbbb");
    }

    #[test]
    fn what_is_given_up_is_taken_at_once() {
        check("ab!b.a", "aa-bbb");
    }

    #[test]
    fn an_older_leader_gives_way_to_a_newer_edition_and_never_the_other_way_round() {
        check("abBaBabBC", "aaa-BBBBB");
        // Of two that came, the first one; nobody else meanwhile.
        check("aBCabCB", "aaa---B");
        check("BabBab", "BBBBBB");
    }

    #[test]
    fn who_asked_and_is_gone_is_waited_for_five_seconds() {
        check("aBab....bab", "aa------bbb");
        // It is asked for once, and the next leader owes nothing to who is gone.
        check("aBab....babb", "aa------bbbb");
    }

    #[test]
    fn who_tells_no_edition_is_asked_for_nothing_and_asks_for_nothing() {
        check("xBxBxB", "xxxxxx");
        check("axaxax", "aaaaaa");
        // Another make's leader after ours: what ours left there says nothing of it.
        check("a!xBxBx", "a-xxxxx");
    }

    #[test]
    fn transitions_are_counted() {
        let mut lease = None;
        for (at, of) in (0..).zip("aBaB".chars()) {
            let written = Observed::default().write(lease.clone(), &candidate(of), Instant::now(), at_second(at));
            lease = written.or(lease);
            let transitions = lease.as_ref().and_then(|lease| lease.spec.as_ref()?.lease_transitions);
            assert_eq!(transitions, Some(i32::from(at == 3)), "after try {at}");
        }
    }
}
