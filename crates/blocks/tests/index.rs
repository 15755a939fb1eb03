//! What the index promises, by example.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use blocks::{Chain, Fingerprint, Overlap, PrefixIndex, Seed};
use fleet::EndpointId;

const A: EndpointId = EndpointId(0);
const B: EndpointId = EndpointId(1);

fn fingerprint(tokens: &[u32]) -> Fingerprint {
    let chain = Chain::new(&Seed { model: "m", ..Seed::default() }, NonZeroU32::new(16).expect("not zero"));
    chain.fingerprint([tokens])
}

/// A prompt of so many whole blocks that shares nothing with those of another number.
fn prompt(number: u32, blocks: u32) -> Fingerprint {
    fingerprint(&vec![number; blocks as usize * 16])
}

fn held(index: &PrefixIndex, id: EndpointId, fingerprint: &Fingerprint) -> u32 {
    index.overlaps(fingerprint, [id]).of(id).blocks
}

/// Sends a prompt and lets it end well.
fn serve(index: &PrefixIndex, id: EndpointId, fingerprint: &Fingerprint, capacity: usize) {
    let learned = index.record(id, fingerprint, capacity, Instant::now());
    index.keep(learned);
}

/// kubernetes-sigs/gateway-api-inference-extension#2823: prompts that differ in the last, partial block tied.
#[test]
fn the_last_partial_block_tells_prompts_apart() {
    let index = PrefixIndex::new();
    let sent: Vec<u32> = (0..70).collect();
    let mut other = sent.clone();
    other[68] = 1000;
    let (sent, other) = (fingerprint(&sent), fingerprint(&other));
    serve(&index, A, &sent, 100);
    assert_eq!(sent.blocks(), 5);
    assert_eq!((held(&index, A, &sent), held(&index, A, &other)), (5, 4));
    let cached = |fingerprint| index.overlaps(fingerprint, [A]).of(A).cached_tokens;
    assert_eq!((cached(&sent), cached(&other)), (64, 64), "an engine reuses whole blocks only");
}

#[test]
fn a_prompt_is_never_expected_to_be_cached_whole() {
    let index = PrefixIndex::new();
    let sent = prompt(1, 4);
    serve(&index, A, &sent, 100);
    assert_eq!(index.overlaps(&sent, [A]).of(A), Overlap { blocks: 4, cached_tokens: 48 });
}

/// llm-d/llm-d-router#1399: one busy endpoint evicted the others' blocks, or the bound was ignored.
#[test]
fn each_endpoint_keeps_its_own_newest_blocks_up_to_its_capacity() {
    let index = PrefixIndex::new();
    let ids = [EndpointId(0), EndpointId(1), EndpointId(2)];
    let (one, two) = (prompt(7000, 500), prompt(8000, 500));
    serve(&index, ids[1], &one, 1000);
    serve(&index, ids[2], &two, 1000);
    for number in 0..1000 {
        serve(&index, ids[0], &prompt(number, 100), 1000);
    }
    assert_eq!(ids.map(|id| index.held_by(id)), [1000, 500, 500]);
    for number in 0..1000 {
        let expected = if number < 990 { 0 } else { 100 };
        assert_eq!(held(&index, ids[0], &prompt(number, 100)), expected, "prompt {number}");
    }
    assert_eq!((held(&index, ids[1], &one), held(&index, ids[2], &two)), (500, 500));
}

#[test]
fn of_a_prompt_longer_than_the_cache_the_head_is_held() {
    let index = PrefixIndex::new();
    let long = prompt(1, 100_000);
    serve(&index, A, &long, 1000);
    assert_eq!((index.held_by(A), held(&index, A, &long)), (1000, 1000));
}

#[test]
fn the_tail_of_the_least_recently_used_chain_goes_first() {
    let index = PrefixIndex::new();
    let (first, second) = (prompt(1, 6), prompt(2, 4));
    serve(&index, A, &first, 10);
    serve(&index, A, &second, 10);
    serve(&index, A, &prompt(3, 2), 10);
    assert_eq!((held(&index, A, &first), held(&index, A, &second)), (4, 4));
    serve(&index, A, &prompt(1, 4), 10);
    serve(&index, A, &prompt(4, 3), 10);
    assert_eq!((held(&index, A, &first), held(&index, A, &second)), (4, 1), "what was used again stays");
}

/// kubernetes-sigs/gateway-api-inference-extension#1289: endpoints that left stayed in the index.
#[test]
fn nothing_remains_of_endpoints_that_left() {
    let index = PrefixIndex::new();
    serve(&index, A, &prompt(1, 10), 1000);
    let (before, bytes) = (index.endpoints(), index.bytes());
    for round in 2..1002 {
        let id = EndpointId(round);
        serve(&index, id, &prompt(round, 1000), 1000);
        index.forget(id);
        assert_eq!(held(&index, id, &prompt(round, 1000)), 0);
    }
    assert_eq!((index.endpoints(), index.bytes()), (before, bytes));
}

#[test]
fn a_request_that_fails_teaches_nothing() {
    let index = PrefixIndex::new();
    let first = fingerprint(&(0..64).collect::<Vec<u32>>());
    let longer = fingerprint(&(0..160).collect::<Vec<u32>>());
    serve(&index, A, &first, 100);
    let learned = index.record(A, &longer, 100, Instant::now());
    assert_eq!((held(&index, A, &longer), learned.blocks()), (10, 6));
    index.undo(learned);
    assert_eq!((held(&index, A, &longer), held(&index, A, &first)), (4, 4), "what was there before is there still");
}

#[test]
fn what_another_request_used_too_stays_until_that_fails_as_well() {
    let now = Instant::now();
    for first_to_fail in [0, 1] {
        let index = PrefixIndex::new();
        let mut both = vec![index.record(A, &prompt(1, 9), 100, now), index.record(A, &prompt(1, 5), 100, now)];
        index.undo(both.remove(first_to_fail));
        assert!(held(&index, A, &prompt(1, 5)) == 5, "the other may end well");
        index.undo(both.remove(0));
        assert_eq!(index.held_by(A), 0, "both failed");
    }
}

#[test]
fn what_happens_to_a_request_from_before_a_restart_changes_nothing() {
    let index = PrefixIndex::new();
    let before = index.record(A, &prompt(1, 5), 100, Instant::now());
    index.forget(A);
    let after = index.record(A, &prompt(1, 5), 100, Instant::now());
    index.undo(before);
    assert_eq!(held(&index, A, &prompt(1, 5)), 5);
    index.keep(after);
    assert_eq!((held(&index, A, &prompt(1, 5)), held(&index, B, &prompt(1, 5))), (5, 0));
}

#[test]
fn the_age_of_what_new_blocks_push_out_is_known() {
    let index = PrefixIndex::new();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    for (number, seconds) in [(1, 0), (2, 10), (3, 20)] {
        index.keep(index.record(A, &prompt(number, 3), 10, at(seconds)));
    }
    let displaced = |new| index.displaced(A, new, 10, at(30)).map(|age| age.as_secs());
    assert_eq!(
        [0, 1, 2, 4, 5, 7, 8, 100].map(displaced),
        [None, None, Some(30), Some(30), Some(20), Some(20), Some(10), Some(10)]
    );
    assert_eq!(index.displaced(B, 5, 10, at(30)), None, "who holds nothing has room");
}

#[test]
fn without_a_cache_nothing_is_held() {
    let index = PrefixIndex::new();
    serve(&index, A, &prompt(1, 3), 0);
    assert_eq!((index.held_by(A), held(&index, A, &prompt(1, 3))), (0, 0));
}

#[test]
fn a_block_costs_at_most_sixty_bytes() {
    let index = PrefixIndex::new();
    for number in 0..400 {
        serve(&index, A, &prompt(number, 100), 31_250);
    }
    let a_block = index.bytes() as f64 / index.held_by(A) as f64;
    assert!(a_block <= 60.0, "{a_block}");
}

#[test]
fn many_threads_at_once_leave_a_sound_index() {
    let index = PrefixIndex::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..300 {
                    let id = EndpointId((round + thread) % 3);
                    let learned = index.record(id, &prompt(round % 7, 5 + thread), 40, Instant::now());
                    if round % 2 == 0 {
                        index.keep(learned)
                    } else {
                        index.undo(learned)
                    }
                    if round % 97 == 0 {
                        index.forget(id);
                    }
                    index.overlaps(&prompt(round % 5, 9), [A, B]);
                }
            });
        }
    });
    assert!([0, 1, 2].map(EndpointId).iter().all(|id| index.held_by(*id) <= 40));
}

/// Long prompts are written in parts, between which others have their turn. Whatever comes between them, no more is held
/// than may be, and no block without all those before it.
#[test]
fn long_prompts_that_are_written_at_once_leave_no_gaps() {
    let index = PrefixIndex::new();
    let (capacity, blocks) = (6_000, 5_000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                let prompts = [prompt(thread, blocks), prompt(thread / 2 + 10, blocks / 2)];
                for round in 0..12 {
                    let learned = index.record(A, &prompts[round % 2], capacity, Instant::now());
                    if round % 3 == 0 {
                        index.undo(learned)
                    } else {
                        index.keep(learned)
                    }
                    assert!(index.held_by(A) <= capacity);
                }
            });
        }
    });
    let mut all = 0;
    for number in [0, 1, 2, 3, 10, 11] {
        let held_of = |blocks| held(&index, A, &prompt(number, blocks));
        let most = held_of(blocks);
        all += most as usize;
        for shorter in (1..=blocks).step_by(61) {
            assert_eq!(held_of(shorter), most.min(shorter), "{number}, the first {shorter} of {most}");
        }
    }
    assert_eq!(index.held_by(A), all, "a block that stands behind none of a prompt's leading ones");
    index.keep(index.record(A, &prompt(20, 5_999), capacity, Instant::now()));
    assert_eq!(held(&index, A, &prompt(20, 5_999)), 5_999);
}
