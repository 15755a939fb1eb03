//! What a record promises: it is what the protocol says, survives a file, and gives the same decision again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use fleet::{EndpointId, Fleet, Member, Standing};
use pick::{Ask, Candidate, Decision, Policy, Scorer, Weighted, pick};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use record::{Asked, Choice, Ended, Outcome, Record, replay};
use serde_json::{Value, from_str, to_string, to_value};

/// Keeps the choice that `policy` makes among these.
fn keep(blocks: u32, candidates: &[Candidate], policy: &Policy) -> (Record, Decision) {
    let fleet = Fleet::new();
    let address = |n: usize| SocketAddr::from(([10, 0, 0, n as u8 + 1], 8000));
    fleet.replace((0..candidates.len()).map(|n| Member::new(format!("vllm-{n}"), address(n))).collect());
    let decision = pick(&Ask { blocks }, candidates, policy, &mut StdRng::seed_from_u64(1)).expect("candidates");
    let choice = Choice {
        view: &fleet.view(),
        candidates,
        decision: &decision,
        named: policy.endpoints,
        predicted_cached_tokens: Some(64),
        at: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        took: Duration::from_micros(250),
        holdout: true,
    };
    let asked = Asked { api: "chat_completions".into(), model: "m".into(), blocks, block_size: 16, ..Asked::default() };
    (Record::new("r-1", asked, &choice), decision)
}

fn candidate(id: u32, waiting: f64, overlap: u32) -> Candidate {
    Candidate {
        standing: Standing::Fresh,
        waiting: Some(waiting),
        running: Some(1.0),
        kv_usage: Some(0.25),
        overlap,
        displaces: Some(Duration::from_millis(1500)),
        ..Candidate::unread(EndpointId(id))
    }
}

/// A record with nothing absent.
fn full() -> Record {
    let failed = Candidate { standing: Standing::Failed, ..candidate(2, 0.0, 0) };
    let (mut record, _) = keep(10, &[candidate(0, 5.0, 9), candidate(1, 0.0, 0), failed], &Policy::default());
    record.asked.prompt_tokens = Some(160);
    let said = ["batch", "team-a", "0011223344556677", "other"].map(|said| Some(said.to_owned()));
    [record.asked.objective, record.asked.fairness_id, record.asked.session, record.asked.rewritten_from] = said;
    record.outcome = Some(Outcome {
        status: Some(200),
        served: Some("10.0.0.1:8000".into()),
        ttft_ms: Some(12.5),
        took_ms: 100.0,
        prompt_tokens: Some(160),
        cached_tokens: Some(64),
        completion_tokens: Some(20),
        ended: Ended::Complete,
        attempts: Some(2),
    });
    record
}

#[test]
fn a_record_says_what_was_seen_chosen_and_why() {
    let record = full();
    let line = |c: &record::Candidate| format!("{} {} {:.2} {}", c.endpoint, c.address, c.total, c.set_aside);
    let lines: Vec<String> = record.candidates.iter().map(line).collect();
    assert_eq!(
        lines,
        ["vllm-0 10.0.0.1:8000 4.20 false", "vllm-1 10.0.0.2:8000 3.50 false", "vllm-2 10.0.0.3:8000 0.00 true"]
    );
    assert_eq!((record.chosen.as_slice(), record.decided_at_unix_ms), (&["vllm-0".to_owned()][..], 1_790_000_000_123));
    assert_eq!((record.decided_in_us, record.candidates[0].displaces_ms), (250, Some(1500)));
    assert_eq!(record.candidates[0].parts[0].scorer, "prefix");
}

#[test]
fn a_record_survives_a_file() {
    let record = full();
    assert_eq!(from_str::<Record>(&to_string(&record).expect("text")).expect("a record"), record);
    let (open, _) = keep(0, &[Candidate::unread(EndpointId(0))], &Policy::default());
    assert_eq!(from_str::<Record>(&to_string(&open).expect("text")).expect("a record"), open);
}

#[test]
fn figures_that_are_no_numbers_are_kept_as_unknown() {
    let odd = Candidate { running: Some(f64::INFINITY), ..candidate(0, f64::NAN, 0) };
    let (record, _) = keep(10, &[odd], &Policy::default());
    assert_eq!((record.candidates[0].waiting, record.candidates[0].running), (None, None));
    assert_eq!(from_str::<Record>(&to_string(&record).expect("text")).expect("a record"), record);
}

#[test]
fn another_policy_is_asked_of_the_same_candidates() {
    let (record, _) = keep(10, &[candidate(0, 5.0, 9), candidate(1, 0.0, 0)], &Policy::default());
    assert_eq!(record.chosen, ["vllm-0"]);
    let waiting = Policy { scorers: vec![Weighted { scorer: Scorer::Waiting, weight: 1.0 }], ..Policy::default() };
    let again = replay(&record, &waiting, &mut StdRng::seed_from_u64(1)).expect("a decision");
    assert_eq!(record.candidates[again.best().0 as usize].endpoint, "vllm-1");
}

#[test]
fn a_record_without_candidates_gives_no_decision() {
    let empty = Record { candidates: Vec::new(), ..full() };
    assert_eq!(replay(&empty, &Policy::default(), &mut StdRng::seed_from_u64(1)), None);
}

/// The protocol's messages and the types here have the same fields.
#[test]
fn a_record_has_the_fields_of_the_protocol() {
    let record = to_value(full()).expect("a value");
    let first = &record["candidates"][0];
    let check = |message: &str, value: &Value| assert_eq!(fields(message), keys(value), "{message}");
    check("DecisionRecord", &record);
    check("Asked", &record["asked"]);
    check("Candidate", first);
    check("Part", &first["parts"][0]);
    check("Outcome", &record["outcome"]);
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

/// The names of a message's fields in the protocol's text.
fn fields(message: &str) -> BTreeSet<String> {
    let protocol = include_str!("../../../proto/warmpath/v1/decision.proto");
    let (_, body) = protocol.split_once(&format!("message {message} {{")).expect("the message");
    let (body, _) = body.split_once('}').expect("its end");
    let declared = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    declared.filter_map(|line| line.split_once(" = ")?.0.split_whitespace().last().map(str::to_owned)).collect()
}

fn any_candidate(id: u32) -> impl Strategy<Value = Candidate> {
    let standing = prop_oneof![
        4 => Just(Standing::Fresh),
        1 => Just(Standing::Stale),
        1 => Just(Standing::Unread),
        1 => Just(Standing::Failed)
    ];
    let figure = || prop_oneof![4 => (0..20u32).prop_map(|n| Some(f64::from(n) / 4.0)), 1 => Just(None), 1 => any::<f64>().prop_map(Some)];
    let age = proptest::option::of((0..5000u64).prop_map(Duration::from_millis));
    (standing, figure(), figure(), figure(), 0..9u32, 0..13u32, age).prop_map(
        move |(standing, waiting, running, kv_usage, in_flight, overlap, displaces)| Candidate {
            id: EndpointId(id),
            standing,
            waiting,
            running,
            kv_usage,
            in_flight,
            overlap,
            displaces,
        },
    )
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let weighted = (0..Scorer::ALL.len(), 0..8u32)
        .prop_map(|(at, weight)| Weighted { scorer: Scorer::ALL[at], weight: f64::from(weight) / 2.0 });
    vec(weighted, 0..7).prop_map(|scorers| Policy { scorers, ..Policy::default() })
}

/// Totals and parts, best first, in an order that ties can't change.
fn ranking(decision: &Decision) -> Vec<String> {
    let mut lines: Vec<String> = decision.ranked.iter().map(ToString::to_string).collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_read_back_gives_the_same_decision(
        candidates in (any_candidate(0), any_candidate(1), any_candidate(2), any_candidate(3)),
        policy in any_policy(),
        blocks in 0..12u32,
    ) {
        let candidates: [Candidate; 4] = candidates.into();
        let (record, decision) = keep(blocks, &candidates, &policy);
        let read: Record = from_str(&to_string(&record).expect("text")).expect("a record");
        let again = replay(&read, &policy, &mut StdRng::seed_from_u64(2)).expect("a decision");
        prop_assert_eq!(ranking(&again), ranking(&decision));
        prop_assert_eq!(&again.notes, &decision.notes);
        prop_assert_eq!(again.set_aside.len(), decision.set_aside.len());
        let finite = |d: &Decision| d.ranked.iter().all(|r| r.total.is_finite() && r.parts.iter().all(|p| (0.0..=1.0).contains(&p.score)));
        prop_assert!(finite(&decision) && finite(&again));
    }
}
