//! Small cases of each policy, reckoned by hand.

use super::*;
use crate::model::{Ask, Text};

const SIZE: u32 = 16;

fn machine() -> Machine {
    let shape = Shape {
        block_size: SIZE,
        blocks: 1_000,
        max_num_seqs: 8,
        max_num_batched_tokens: 2_048,
        max_model_len: 10_000,
        prefix_caching: true,
    };
    Machine { shape, cost: StepCost { base: 1e6, prefill_token: 1e4, sequence: 1e3, context_token: 0.0 } }
}

/// A policy, and engines that it may look at.
struct Play {
    picker: Picker,
    engines: Vec<Engine>,
    asked: RequestId,
}

impl Play {
    fn new(policy: Policy, engines: usize) -> Play {
        let machine = machine();
        let mut picker = Picker::new(policy, machine, 1);
        picker.serve_with((0..engines).collect());
        let engines = (0..engines).map(|_| Engine::new(machine.shape, machine.cost)).collect();
        let mut play = Play { picker, engines, asked: 0 };
        (0..play.engines.len()).for_each(|engine| play.read(engine, 0, 0.0));
        play
    }

    /// The waiting requests and KV use of an engine.
    fn read(&mut self, engine: usize, waiting: u32, kv_usage: f64) {
        let gauges = Gauges { running: 0, waiting, kv_usage };
        self.picker.reading_begins(engine);
        self.picker.reading_ends(engine, Duration::ZERO, Duration::ZERO, Some(gauges));
    }

    /// Asks `a100 b20`: a hundred tokens of a, twenty of b. The session and the use are the last span's.
    fn picked(&mut self, prompt: &str) -> Picked {
        let prompt = spans(prompt);
        let key = prompt.last().map_or(0, |span| span.id);
        let asked = Asked { id: self.asked, now: Duration::ZERO, session: key, scenario: key, prompt: &prompt };
        self.asked += 1;
        self.picker.pick(&asked, &self.engines).unwrap()
    }

    fn ask(&mut self, prompt: &str) -> usize {
        self.picked(prompt).engine
    }

    fn stored(&mut self, engine: usize, prompt: &str) {
        let (names, _) = crate::model::span::names(&spans(prompt), SIZE, 0);
        let changes: Vec<Change> = names.into_iter().map(Change::Stored).collect();
        self.picker.blocks_changed(engine, &changes);
    }
}

fn spans(text: &str) -> Vec<Span> {
    let span = |word: &str| Span { id: u64::from(word.as_bytes()[0]), tokens: word[1..].parse().unwrap() };
    text.split_whitespace().map(span).collect()
}

#[test]
fn every_policy_is_typed_as_it_is_printed() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_possible_value().unwrap().get_name(), policy.name());
        assert_eq!(Policy::ALL.iter().filter(|other| **other == policy).count(), 1);
    }
    assert_eq!(Policy::ALL.len(), Policy::value_variants().len());
}

#[test]
fn round_robin_goes_round_and_random_anywhere() {
    let mut play = Play::new(Policy::RoundRobin, 3);
    assert_eq!([(); 4].map(|()| play.ask("a50")), [0, 1, 2, 0]);
    let mut play = Play::new(Policy::Random, 3);
    let mut counts = [0; 3];
    (0..3_000).for_each(|_| counts[play.ask("a50")] += 1);
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn the_least_request_is_found_of_all_or_of_two() {
    let mut play = Play::new(Policy::LeastRequest, 3);
    let mut first: Vec<usize> = (0..3).map(|_| play.ask("a50")).collect();
    let second = first[1];
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2]);
    play.picker.ended(1);
    assert_eq!(play.ask("a50"), second);
    // Of two drawn, the fullest is hardly ever the better one: 300 requests end up as even as no random choice would.
    let mut play = Play::new(Policy::PowerOfTwo, 3);
    let mut counts = [0_i32; 3];
    (0..300).for_each(|_| counts[play.ask("a50")] += 1);
    assert!(counts.iter().all(|count| (count - 100).abs() <= 4), "{counts:?}");
}

#[test]
fn a_session_stays_on_the_ring_and_in_the_table_whatever_the_load() {
    for policy in [Policy::RingHash, Policy::Maglev] {
        let mut play = Play::new(policy, 4);
        let first = play.ask("a100 s1");
        assert!((0..50).all(|_| play.ask("b60 s1") == first), "{}", policy.name());
    }
    let mut play = Play::new(Policy::BoundedLoad, 4);
    let first = play.ask("a100 s1");
    let (stayed, moved) = (0..15).map(|_| play.ask("a100 s1")).fold((0, 0), |(stayed, moved), engine| {
        if engine == first { (stayed + 1, moved) } else { (stayed, moved + 1) }
    });
    // Of 16, an engine has at most 1.25 * 16 / 4.
    assert_eq!((stayed, moved), (4, 11));
}

#[test]
fn a_use_is_pinned_to_its_replica() {
    let mut play = Play::new(Policy::Pinned, 4);
    // 'a' is 97, 'b' 98.
    assert_eq!([play.ask("a9"), play.ask("b9"), play.ask("x99 a9")], [1, 2, 1]);
}

#[test]
fn llmds_sum_is_prefix_three_queue_two_kv_use_two() {
    let mut play = Play::new(Policy::LlmdDefault, 2);
    play.read(0, 0, 0.5);
    play.read(1, 0, 0.0);
    // Nobody holds it: 2 + 1 against 2 + 2.
    assert_eq!(play.ask("a1000"), 1);
    // The prefix wins: 3 + 2 + 0 against 2 + 1.
    play.read(1, 0, 1.0);
    assert_eq!(play.ask("a1000"), 1);
    // The longer queue has 0: 3 + 0 + 0 against 2 + 1, a tie; a little more KV use there decides.
    play.read(1, 9, 1.0);
    play.read(0, 0, 0.4);
    assert_eq!(play.ask("a1000"), 0);
}

#[test]
fn llmds_index_counts_a_block_without_its_head_and_forgets_heads_first() {
    let shape = Shape { blocks: 4, ..machine().shape };
    let mut affinity = Affinity::new(shape);
    let (books, mut draw) = (Books::default(), Draw::new(1, 1));
    // 400 tokens are 1400 to 2000 bytes: 6 to 8 blocks with the rest, of which the last four stay.
    let prompt = spans("a400");
    let asked = Asked { id: 0, now: Duration::ZERO, session: 0, scenario: 0, prompt: &prompt };
    affinity.pick(&asked, &[0], &books, &mut draw);
    let (_, predicted) = affinity.pick(&asked, &[0], &books, &mut draw);
    assert_eq!(predicted, Some(0));
}

#[test]
fn no_hit_lru_gives_cold_requests_to_those_who_had_none_longest() {
    let mut play = Play::new(Policy::LlmdNoHit, 3);
    let first: Vec<usize> = ["a500", "b500", "c500"].iter().map(|prompt| play.ask(prompt)).collect();
    let again: Vec<usize> = ["d500", "e500", "f500"].iter().map(|prompt| play.ask(prompt)).collect();
    assert_eq!(first, [0, 1, 2]);
    assert_eq!(again, first);
    assert_eq!(play.ask("b500"), 1);
}

#[test]
fn llmds_affinity_holds_until_the_difference_in_tokens_is_too_large() {
    let mut play = Play::new(Policy::LlmdAffinity, 2);
    let warm = play.ask("a9000");
    // A prompt that is held costs nothing, so it stays; a cold one goes where fewer tokens are under way.
    assert_eq!(play.ask("a9000"), warm);
    assert_eq!(play.ask("b9000"), 1 - warm);
    // Half of it held is below 0.8: back to the fewest tokens.
    play.picker.answers(2);
    assert_eq!(play.ask("a4000 c5000"), 1 - warm);
}

#[test]
fn dynamos_cost_weighs_prefill_and_running_blocks_alike() {
    let mut play = Play::new(Policy::Dynamo, 2);
    play.stored(1, "a320");
    // 20 blocks of prefill and 20 of decoding here, 0 and 20 there.
    assert_eq!(play.picked("a320"), Picked { engine: 1, predicted: Some(304) });
    // 40 here; there 1 (being computed still) and 20, which the two share.
    assert_eq!(play.ask("a320"), 1);
    // Another of ten blocks: 10 and 10 here; 10, 2 and 30 there.
    assert_eq!(play.ask("b160"), 0);
    // A longer one that shares the first 20 blocks: here 10 and 60, 10 and 60 more; there 2 and 40, 20 and 40 more.
    assert_eq!(play.ask("a320 c640"), 1);
    (0..4).for_each(|id| play.picker.ended(id));
    // Nothing is under way any more: what is stored decides.
    assert_eq!(play.ask("a320"), 1);
}

#[test]
fn smgs_gate_has_a_threshold_of_the_prompt_and_one_of_the_load() {
    let mut play = Play::new(Policy::SmgGate, 2);
    assert_eq!(play.ask("a1000"), 0);
    assert_eq!(play.ask("b1000"), 1);
    // Half of it is more than 0.3; a tenth is not, and both have one under way: the one given fewer, then the first.
    assert_eq!(play.ask("b1000 c1000"), 1);
    assert_eq!(play.ask("b100 d1000"), 0);
    // 64 more under way than the other is even, 65 are not.
    let mut play = Play::new(Policy::SmgGate, 2);
    let engines: Vec<usize> = (0..66).map(|_| play.ask("a1000")).collect();
    assert_eq!((&engines[..65], engines[65]), (&[0; 65][..], 1));
}

#[test]
fn vllm_routers_chats_are_balanced_by_load_alone() {
    let mut play = Play::new(Policy::VllmRouterChat, 2);
    assert_eq!([play.ask("a900"), play.ask("a900"), play.ask("a900")], [0, 1, 0]);
    play.picker.ended(1);
    assert_eq!(play.ask("b900"), 1);
}

#[test]
fn warmpath_goes_where_it_sent_the_prefix_unless_the_queue_says_otherwise() {
    for policy in [Policy::Warmpath, Policy::WarmpathEstimate] {
        let mut play = Play::new(policy, 3);
        let warm = play.picked("a1000 b50");
        assert_eq!(warm.predicted, Some(0));
        play.picker.answers(0);
        play.picker.ended(0);
        let again = play.picked("a1000 c50");
        assert_eq!(again.engine, warm.engine, "{}", policy.name());
        let share = f64::from(again.predicted.unwrap()) / 1050.0;
        // The estimate's tokens are bytes by four: it foresees 0.9 to 1.25 times as many.
        assert!((0.8..1.25).contains(&share), "{} {share}", policy.name());
    }
    let mut play = Play::new(Policy::Warmpath, 3);
    let warm = play.picked("a1000 b50").engine;
    play.picker.answers(0);
    // 3 * 0.95 against 2 + 2 (KV use) * 1 less 0: the queue of five is worth 2, KV use the rest.
    play.read(warm, 5, 0.9);
    assert_ne!(play.ask("a1000 c50"), warm);
}

#[test]
fn what_came_to_nothing_is_not_believed() {
    let mut play = Play::new(Policy::Warmpath, 1);
    play.ask("a1000");
    play.picker.ended(0);
    assert_eq!(play.picked("a1000").predicted, Some(0));
    play.picker.answers(1);
    play.picker.ended(1);
    assert_eq!(play.picked("a1000").predicted, Some(992));
}

#[test]
fn kv_events_are_believed_instead_of_what_was_sent() {
    let mut play = Play::new(Policy::KvEvents, 3);
    play.stored(2, "a320");
    assert_eq!(play.picked("a320 b20"), Picked { engine: 2, predicted: Some(320) });
    play.picker.answers(0);
    play.picker.ended(0);
    assert_eq!(play.picked("c320").predicted, Some(0));
}

#[test]
fn a_picker_that_starts_anew_has_forgotten_and_a_proxy_has_not() {
    let mut play = Play::new(Policy::Warmpath, 1);
    play.ask("a1000");
    play.picker.answers(0);
    play.picker.restarted();
    assert_eq!(play.picked("a1000").predicted, Some(0));
    let mut play = Play::new(Policy::RoundRobin, 3);
    play.ask("a9");
    play.picker.restarted();
    assert_eq!(play.ask("a9"), 1);
}

#[test]
fn the_greedy_sees_caches_and_what_is_on_its_way() {
    let mut play = Play::new(Policy::Greedy, 2);
    let ask = Ask { id: 9, text: Text::Spans { prompt: spans("a320").into(), answer: 1 }, max_tokens: 1, border: 0 };
    play.engines[1].submit(ask).unwrap();
    while play.engines[1].step(Duration::ZERO).is_some() {}
    // 20 tokens to compute there, 340 here.
    assert_eq!(play.picked("a320 b20"), Picked { engine: 1, predicted: Some(320) });
    // Nothing of it is anywhere: 60 tokens, behind 20 there.
    assert_eq!(play.picked("c60"), Picked { engine: 0, predicted: Some(0) });
    // It is on its way to the first, which will have it: 12 more behind 60 are fewer than 60 more behind 20.
    assert_eq!(play.picked("c60"), Picked { engine: 0, predicted: Some(48) });
    // What has come counts no more.
    (0..3).for_each(|id| play.picker.answers(id));
    assert_eq!(play.picked("c60").predicted, Some(0));
}
