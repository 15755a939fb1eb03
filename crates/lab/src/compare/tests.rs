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

fn figures<'a>(experiment: &'a Experiment, policy: &str) -> &'a Medians {
    let measured = experiment.plans[0].policies.iter().find(|measured| measured.policy == policy);
    &measured.unwrap().median
}

/// A published measurement has 90, 38 and 39% of reuse, a TTFT p50 of 62 and 188 ms, and 23% more tokens a second.
#[test]
fn shared_instructions_have_the_published_shape() {
    let experiment = compared("--preset shared-instructions --repeats 1 --policies round-robin,ring-hash,warmpath");
    let [round, ring, warm] = ["round-robin", "ring-hash", "warmpath"].map(|policy| figures(&experiment, policy));
    assert!([round, ring].iter().all(|figures| (30.0..48.0).contains(&figures.reuse_percent.value)));
    assert!(warm.reuse_percent.value > 85.0);
    assert!(warm.ttft_p50_ms.value < round.ttft_p50_ms.value / 3.0);
    assert!(warm.output_tokens_a_second.value > 1.15 * round.output_tokens_a_second.value);
}

/// 82 and 73% of reuse, a TTFT p95 of 0.56 and 3.07 s: where the engine that most sessions fall on doesn't hold their dialogs.
#[test]
fn crowded_dialogs_have_the_published_shape() {
    let sizes = "--preset dialogs --num-gpu-blocks-override 1800 --repeats 3";
    let experiment = compared(&format!("{sizes} --policies ring-hash,kv-events,warmpath"));
    let [ring, events, warm] = ["ring-hash", "kv-events", "warmpath"].map(|policy| figures(&experiment, policy));
    assert!(warm.reuse_percent.value > ring.reuse_percent.value + 9.0);
    assert!(warm.ttft_p95_ms.value < ring.ttft_p95_ms.value / 3.0);
    assert!((warm.reuse_percent.value - events.reuse_percent.value).abs() < 6.0);
}
