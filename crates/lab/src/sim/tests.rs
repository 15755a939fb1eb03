//! Promises of a run that hold for every policy.

use std::time::Duration;

use super::*;
use crate::model::{Shape, StepCost};
use crate::traffic::{Agents, Arrivals, Dialogs, mixed};

fn site(engines: usize) -> Site {
    let shape = Shape {
        block_size: 16,
        blocks: 400,
        max_num_seqs: 8,
        max_num_batched_tokens: 512,
        max_model_len: 6_000,
        prefix_caching: true,
    };
    let cost = StepCost { base: 5e6, prefill_token: 40e3, sequence: 2e4, context_token: 300.0 };
    Site { machine: Machine { shape, cost }, engines, incidents: Vec::new(), delays: Delays::default() }
}

fn dialogs() -> Dialogs {
    Dialogs {
        dialogs: 30,
        begin: Arrivals::steady(6.0),
        turns: 4,
        turns_spread: 50,
        system_tokens: 40,
        opening_tokens: 900,
        opening_spread: 50,
        question_tokens: 30,
        answer_tokens: 20,
        think: Duration::from_millis(400),
    }
}

fn agents() -> Agents {
    Agents {
        runs: 20,
        begin: Arrivals::steady(4.0),
        kinds: 4,
        tools_tokens: 700,
        task_tokens: 40,
        turns: 4,
        result_tokens: 100,
        answer_tokens: 10,
        tool_takes: Duration::from_millis(100),
    }
}

fn traffic(seed: u64) -> Traffic {
    mixed(vec![dialogs().traffic(seed), agents().traffic(seed)])
}

fn turns(seed: u64) -> usize {
    traffic(seed).map(|conversation| conversation.turns.len()).sum()
}

#[test]
fn every_request_ends_once_under_every_policy_and_none_beats_the_bounds() {
    for policy in Policy::ALL {
        let outcome = run(&site(3), traffic(1), policy, 1);
        assert_eq!(outcome.records.len(), turns(1), "{}", policy.name());
        for record in &outcome.records {
            assert!(record.well && record.output > 0 && record.engine < 3, "{} {record:?}", policy.name());
            assert!(record.cached <= record.infinite && record.cached < record.prompt, "{} {record:?}", policy.name());
            assert!(record.ttft >= record.floor && record.total >= record.ttft, "{} {record:?}", policy.name());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for policy in Policy::ALL {
        let once = run(&site(3), traffic(1), policy, 1);
        assert_eq!(once, run(&site(3), traffic(1), policy, 1), "{}", policy.name());
        assert_ne!(once, run(&site(3), traffic(2), policy, 2), "{}", policy.name());
    }
}

/// On one engine there is nothing to choose, so that all policies are one.
#[test]
fn on_one_engine_all_policies_are_alike() {
    let alone = |policy| {
        let mut outcome = run(&site(1), traffic(1), policy, 1);
        outcome.records.iter_mut().for_each(|record| record.predicted = None);
        outcome
    };
    let first = alone(Policy::RoundRobin);
    assert!(first.records.iter().any(|record| record.cached > 0));
    for policy in Policy::ALL {
        assert_eq!(alone(policy), first, "{}", policy.name());
    }
}

#[test]
fn who_dies_loses_its_requests_and_gets_no_more_once_that_is_known() {
    for policy in Policy::ALL {
        let incidents = vec![
            (Duration::from_secs(2), Incident::Dies(1)),
            (Duration::from_secs(3), Incident::Joins),
            (Duration::from_secs(4), Incident::PickerRestarts),
        ];
        let outcome = run(&Site { incidents, ..site(3) }, traffic(1), policy, 1);
        let name = policy.name();
        let failed: Vec<&Record> = outcome.records.iter().filter(|record| !record.well).collect();
        assert!(failed.iter().all(|record| record.engine == 1), "{name}");
        let known = Duration::from_secs(4);
        assert!(outcome.records.iter().all(|record| record.engine != 1 || record.asked < known), "{name}");
        let joined = outcome.records.iter().filter(|record| record.engine == 3);
        assert!(joined.clone().count() > 0, "{name}");
        assert!(joined.clone().all(|record| record.asked >= Duration::from_secs(3)), "{name}");
        assert_eq!(outcome.engines, 4);
        // Whoever failed asks no more; all others are served to the end.
        let conversations = dialogs().dialogs + agents().runs;
        let first_turns = outcome.records.iter().filter(|record| record.turn == 0).count();
        assert_eq!(first_turns, conversations as usize, "{name}");
        assert!(outcome.records.len() < turns(1) || failed.is_empty(), "{name}");
    }
}

/// One request of 100 tokens and 3 answered, reckoned by hand: a prefill step and two of decoding.
#[test]
fn a_lone_request_takes_what_its_steps_take() {
    let sizes = Dialogs {
        dialogs: 1,
        turns: 1,
        turns_spread: 0,
        system_tokens: 0,
        opening_tokens: 0,
        question_tokens: 100,
        ..dialogs()
    };
    let outcome = run(&site(2), sizes.traffic(1), Policy::RoundRobin, 1);
    let [record] = outcome.records[..] else { panic!("{:?}", outcome.records) };
    let (prompt, output) = (u64::from(record.prompt), u64::from(record.output));
    let first = 5_000_000 + 40_000 * prompt + 20_000 + 300 * prompt;
    let rest: u64 = (1..output).map(|n| 5_000_000 + 20_000 + 300 * (prompt + n)).sum();
    assert_eq!(record.ttft, Duration::from_nanos(first));
    assert_eq!(record.total, Duration::from_nanos(first + rest));
    assert_eq!((record.floor, record.cached, record.infinite), (record.ttft, 0, 0));
}

/// Metrics and events are late: what a policy that goes by them can't know, it doesn't.
#[test]
fn events_that_come_late_are_believed_late() {
    let late = Site { delays: Delays { events: Duration::from_secs(3600), ..Delays::default() }, ..site(3) };
    let reuse = |site: &Site| {
        let outcome = run(site, traffic(1), Policy::KvEvents, 1);
        assert!(outcome.records.iter().all(|record| record.predicted.is_some()));
        let believed: u32 = outcome.records.iter().filter_map(|record| record.predicted).sum();
        (believed, outcome.records.iter().map(|record| record.cached).sum::<u32>())
    };
    let (believed, reused) = reuse(&site(3));
    let (nothing, less) = reuse(&late);
    assert_eq!(nothing, 0);
    assert!(believed > 0 && less < reused, "{less} {reused}");
}
