//! Ties: every one of the tied has the same chance, at every place of the ranking, whatever was chosen before.

use std::collections::BTreeMap;

use fleet::{EndpointId, Standing};
use pick::{Ask, Candidate, Policy, Scorer, Weighted, pick};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Candidates that hold so many of a prompt's 100 blocks, which is all that counts.
fn candidates(overlaps: &[u32]) -> Vec<Candidate> {
    let numbered = overlaps.iter().zip(0..);
    numbered
        .map(|(&overlap, id)| Candidate { standing: Standing::Fresh, overlap, ..Candidate::unread(EndpointId(id)) })
        .collect()
}

/// The endpoints' numbers, best first.
fn ranking(candidates: &[Candidate], rng: &mut StdRng) -> Vec<u32> {
    let policy = Policy { scorers: vec![Weighted { scorer: Scorer::Prefix, weight: 1.0 }], ..Policy::default() };
    let decision = pick(&Ask { blocks: 100 }, candidates, &policy, rng).expect("there are candidates");
    decision.ranked.iter().map(|ranked| ranked.id.0).collect()
}

/// In `places`, each of `expected` stands equally often, within `tolerance` of all, and nobody else does.
fn check_even(places: &[u32], expected: &[u32], tolerance: f64) {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    places.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), expected);
    for (id, count) in counts {
        let share = f64::from(count) / places.len() as f64;
        let even = 1.0 / expected.len() as f64;
        assert!((share - even).abs() <= tolerance, "{id}: {share}");
    }
}

/// kubernetes-sigs/gateway-api-inference-extension#1204: the same one won every tie.
#[test]
fn four_alike_are_chosen_alike() {
    let mut rng = StdRng::seed_from_u64(1);
    let alike = candidates(&[1, 1, 1, 1]);
    let firsts: Vec<u32> = (0..4000).map(|_| ranking(&alike, &mut rng)[0]).collect();
    check_even(&firsts, &[0, 1, 2, 3], 0.025);
}

/// llm-d/llm-d-router#2709: a rotation shared by tie groups of different sizes settled on one of them.
#[test]
fn ties_are_even_at_every_place_of_a_ranking() {
    let mut rng = StdRng::seed_from_u64(2);
    let groups = candidates(&[50, 50, 30, 30, 30]);
    let rankings: Vec<Vec<u32>> = (0..600).map(|_| ranking(&groups, &mut rng)).collect();
    let place = |at: usize| rankings.iter().map(|ranking| ranking[at]).collect::<Vec<u32>>();
    check_even(&place(0), &[0, 1], 0.06);
    check_even(&place(1), &[0, 1], 0.06);
    check_even(&place(2), &[2, 3, 4], 0.06);
    check_even(&place(4), &[2, 3, 4], 0.06);
}

/// The same report, second half: groups of two and of three by turns.
#[test]
fn groups_of_different_sizes_by_turns_stay_even() {
    let mut rng = StdRng::seed_from_u64(3);
    let (two, three) = (candidates(&[5, 5]), candidates(&[5, 5, 5]));
    let (of_two, of_three): (Vec<u32>, Vec<u32>) =
        (0..600).map(|_| (ranking(&two, &mut rng)[0], ranking(&three, &mut rng)[0])).unzip();
    check_even(&of_two, &[0, 1], 0.06);
    check_even(&of_three, &[0, 1, 2], 0.06);
}

/// gpustack/gpustack#5709: news of an endpoint between two choices began the rotation anew.
#[test]
fn news_between_choices_does_not_favour_anyone() {
    let mut rng = StdRng::seed_from_u64(4);
    let firsts: Vec<u32> = (0..1000u32)
        .map(|n| {
            let mut alike = candidates(&[1, 1]);
            alike[n as usize % 2].kv_usage = Some(f64::from(n % 7) / 10.0);
            alike[n as usize % 2].running = Some(f64::from(n));
            ranking(&alike, &mut rng)[0]
        })
        .collect();
    check_even(&firsts, &[0, 1], 0.05);
}

#[test]
fn nobody_is_chosen_from_nobody() {
    let mut rng = StdRng::seed_from_u64(5);
    assert_eq!(pick(&Ask::default(), &[], &Policy::default(), &mut rng), None);
}
