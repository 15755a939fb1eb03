//! Promises of an experiment.

use clap::Parser;

use super::*;
use crate::flags::{Command, Flags};

fn flags(typed: &str) -> CompareFlags {
    let words = ["lab", "compare", "--quiet"].into_iter().chain(typed.split_whitespace());
    match Flags::try_parse_from(words).unwrap().command {
        Command::Compare(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

fn compared(typed: &str) -> Experiment {
    run(&flags(typed), &mut Vec::new()).unwrap()
}

fn printed(typed: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let experiment = compared(typed);
    write(&experiment, &flags(typed), &mut out).unwrap();
    out.extend(serde_json::to_vec(&experiment).unwrap());
    out.extend(html::page(&experiment).into_bytes());
    out
}

const SMALL: &str = "--preset skewed-instructions --requests 150 --repeats 2";

#[test]
fn the_same_flags_give_the_same_bytes_and_another_seed_others() {
    assert_eq!(printed(SMALL), printed(SMALL));
    assert_ne!(printed(SMALL), printed(&format!("{SMALL} --seed 7")));
}

/// Nothing is carried over from run to run: a policy has the same figures alone and among all others.
#[test]
fn policies_do_not_touch_each_other() {
    let all = compared(SMALL);
    for measured in &all.plans[0].policies {
        let alone = compared(&format!("{SMALL} --policies {}", measured.policy));
        assert_eq!(alone.plans[0].policies[0].runs, measured.runs, "{}", measured.policy);
    }
}

#[test]
fn every_preset_is_played_to_its_end_and_stays_within_the_bounds() {
    let experiment = compared("--preset all --requests 120 --repeats 1 --policies round-robin,warmpath,greedy");
    assert_eq!(experiment.plans.len(), Preset::EACH.len());
    for plan in &experiment.plans {
        assert!(plan.capacity[0] > 0.0 && plan.capacity[0] <= plan.capacity[1], "{} {:?}", plan.name, plan.capacity);
        for measured in &plan.policies {
            let run = &measured.runs[0];
            assert!(run.requests > 0 && run.reuse_percent <= run.infinite_percent, "{} {run:?}", plan.name);
            assert!(run.ttft_p50_ms >= run.floor_p50_ms && run.goodput <= 1e3, "{} {run:?}", plan.name);
            assert_eq!(run.back_after_s.is_some(), ["workers", "restart"].contains(&plan.name.as_str()));
            assert_eq!(run.errors > 0, plan.name == "workers", "{} {}", plan.name, measured.policy);
        }
    }
}

#[test]
fn each_repeat_has_an_order_of_its_own() {
    let experiment = compared("--preset independent --requests 20 --repeats 4");
    let orders = &experiment.plans[0].orders;
    assert!(orders.iter().any(|order| order != &orders[0]));
    for order in orders {
        let mut names = order.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Policy::ALL.len());
    }
}

#[test]
fn where_nothing_is_shared_no_policy_reuses_anything() {
    let experiment = compared("--preset independent --requests 200 --repeats 1");
    assert!(experiment.plans[0].policies.iter().all(|measured| measured.runs[0].reuse_percent == 0.0));
}
