//! What a fuzz target counts, and how long it may take.
//!
//! In: how each execution went; out: a line on stderr for every [`EVERY`] of them. Time is this thread's CPU time, so
//! that a busy machine is no finding.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use cpu_time::ThreadTime;

const EVERY: u64 = 20_000;

static RUNS: AtomicU64 = AtomicU64::new(0);
static PAST: AtomicU64 = AtomicU64::new(0);

/// Counts one execution, and whether it came past the parser.
pub fn count(past_the_parser: bool) {
    let past = PAST.fetch_add(u64::from(past_the_parser), Ordering::Relaxed) + u64::from(past_the_parser);
    let runs = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
    if runs.is_multiple_of(EVERY) {
        eprintln!("past the parser: {past} of {runs}");
    }
}

/// True for one of so many inputs, by a hash of the whole: so that no line of descent is always in luck.
pub fn one_in(count: u64, data: &[u8]) -> bool {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish().is_multiple_of(count)
}

/// Runs `work`, which is to end within so much CPU time.
///
/// # Panics
/// Where it took longer.
pub fn within<T>(bound: Duration, what: &str, work: impl FnOnce() -> T) -> T {
    let start = ThreadTime::now();
    let done = work();
    let took = start.elapsed();
    assert!(took <= bound, "{what} took {took:?} of CPU, more than {bound:?}");
    done
}
