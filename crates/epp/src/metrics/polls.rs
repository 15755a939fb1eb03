//! How long single polls of tasks hold the runtime's threads: what every other stream waits for meanwhile.
//!
//! In: tokio's word that a poll begins and that it is over; out: for each place in the code where tasks are spawned, how
//! many polls there were, how many of them took over a millisecond, and the longest since the page was last asked for; by
//! the wall's clock and by the thread's own CPU clock, which leaves out what other processes had of the core.
//!
//! Tokio says so only where it is built with `--cfg tokio_unstable`, and the CPU clock is a system call a poll: this is the
//! feature `poll-times`, which `cargo xtask probe` builds, and not part of the program as shipped.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Error;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::runtime::Builder;

/// A poll over this is a long one.
const LONG: Duration = Duration::from_millis(1);

/// The polls of a runtime. Clones are one and the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls(Arc<Mutex<BTreeMap<Place, Held>>>);

/// Where in the code a task was spawned.
type Place = (&'static str, u32);

/// What the polls of one place's tasks took. Of each pair the first is by the wall's clock, the second by the CPU's.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    polls: u64,
    long: [u64; 2],
    longest: [Duration; 2],
}

thread_local! {
    static BEGUN: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

impl Polls {
    /// Has the runtime tell of its polls.
    pub(crate) fn watch(&self, runtime: &mut Builder) {
        runtime.on_before_task_poll(|_| BEGUN.set(Some((Instant::now(), ThreadTime::now().as_duration()))));
        let polls = self.clone();
        runtime.on_after_task_poll(move |task| {
            if let Some((wall, cpu)) = BEGUN.take() {
                let took = [wall.elapsed(), ThreadTime::now().as_duration().saturating_sub(cpu)];
                polls.took(task.spawned_at(), took);
            }
        });
    }

    fn took(&self, spawned_at: &Location<'static>, took: [Duration; 2]) {
        let mut places = self.0.lock();
        let held = places.entry((spawned_at.file(), spawned_at.line())).or_default();
        held.polls += 1;
        for (at, took) in took.into_iter().enumerate() {
            held.long[at] += u64::from(took > LONG);
            held.longest[at] = held.longest[at].max(took);
        }
    }

    /// All there is; the longest polls are counted anew from here.
    fn read(&self) -> BTreeMap<Place, Held> {
        let mut places = self.0.lock();
        let read = places.clone();
        places.values_mut().for_each(|held| held.longest = Default::default());
        read
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Task {
    task: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Clocked {
    task: String,
    clock: &'static str,
}

impl Collector for Polls {
    fn encode(&self, mut page: DescriptorEncoder) -> Result<(), Error> {
        let read = self.read();
        let help = "Polls of tasks, by where they are spawned";
        let mut family = page.encode_descriptor("warmpath_polls", help, None, MetricType::Counter)?;
        for (place, held) in &read {
            ConstCounter::new(held.polls).encode(family.encode_family(&Task { task: shown(place) })?)?;
        }
        let help = "Polls that held a thread of the runtime for more than a millisecond";
        let mut family = page.encode_descriptor("warmpath_long_polls", help, None, MetricType::Counter)?;
        for (place, held) in &read {
            for (clock, long) in CLOCKS.into_iter().zip(held.long) {
                ConstCounter::new(long).encode(family.encode_family(&Clocked { task: shown(place), clock })?)?;
            }
        }
        let help = "The longest poll since this page was last read, in seconds";
        let mut family = page.encode_descriptor("warmpath_longest_poll_seconds", help, None, MetricType::Gauge)?;
        for (place, held) in &read {
            for (clock, longest) in CLOCKS.into_iter().zip(held.longest) {
                let labels = Clocked { task: shown(place), clock };
                ConstGauge::new(longest.as_secs_f64()).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

const CLOCKS: [&str; 2] = ["wall", "cpu"];

/// `epp/src/serve.rs:70`, without the folders that are this machine's own.
fn shown((file, line): &Place) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    let source = parts.iter().rposition(|part| *part == "src").unwrap_or(1).max(1);
    format!("{}:{line}", parts[source - 1..].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_poll_is_told_once_and_long_ones_are_counted_for_good() {
        let polls = Polls::default();
        let here = Location::caller();
        let took = |wall, cpu| polls.took(here, [Duration::from_micros(wall), Duration::from_micros(cpu)]);
        took(5_000, 900);
        took(1_000, 1_001);
        let read = polls.read();
        let held = read.values().next().expect("a place");
        assert_eq!((held.polls, held.long), (2, [1, 1]));
        assert_eq!(held.longest, [Duration::from_micros(5_000), Duration::from_micros(1_001)]);
        let read = polls.read();
        let held = read.values().next().expect("a place");
        assert_eq!((held.polls, held.long, held.longest), (2, [1, 1], Default::default()));
    }

    #[test]
    fn a_place_is_shown_without_the_folders_of_one_machine() {
        assert_eq!(
            shown(&("/root/.cargo/registry/src/x/hyper-util-0.1.21/src/rt/tokio.rs", 9)),
            "hyper-util-0.1.21/src/rt/tokio.rs:9"
        );
        assert_eq!(shown(&("crates/envoy/src/serve.rs", 7)), "envoy/src/serve.rs:7");
        assert_eq!(shown(&("x.rs", 7)), "x.rs:7");
    }
}
