//! The loop that reads every endpoint's metrics into the fleet. In: the fleet's view, whoever joins or leaves, and its
//! books. Out: readings in the fleet and an [`Event`] for each.
//!
//! At most one reading an endpoint is under way, each a task of its own, so a slow endpoint delays no other. An
//! endpoint with requests of ours is read often; the idle ones of a busy fleet each second, as are those that can't be
//! read; an idle fleet seldom, since a page costs the engine 10 to 60 ms. A reading that takes longer than the interval
//! is followed by as long a rest.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::{Endpoint, EndpointId, Fleet, Load, Mark, Reading};
use tokio::task::{AbortHandle, JoinSet};

use crate::dialect::{Dialect, Dialects};
use crate::event::{Event, Reason, Trouble};
use crate::page;
use crate::target::{Reader, Target, TargetError};

/// How often bookings and the fleet's members are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Readings that end this close together are looked after in one go, so that a large fleet isn't gone through for each.
const TOGETHER: Duration = Duration::from_millis(5);
/// How long an endpoint counts as busy after its last booking.
const LINGER: Duration = Duration::from_secs(5);
/// How often an idle endpoint of a busy fleet is read, and one that couldn't be.
const WATCH: Duration = Duration::from_secs(1);
/// Log lines an endpoint may have in [`SAID_WITHIN`].
const SAID_MOST: usize = 2;
const SAID_WITHIN: Duration = Duration::from_secs(60);
/// A page above this is parsed off the runtime's threads.
const LARGE_PAGE: usize = 256 << 10;

/// How often endpoints are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the start of one reading to the next, of an endpoint with requests of ours under way or lately.
    pub interval: Duration,
    /// The same while the whole fleet is idle.
    pub idle_interval: Duration,
    /// How long a reading may take, connecting included.
    pub timeout: Duration,
}

impl Default for Pace {
    /// 200 ms under traffic, 5 s when idle, 1 s for a reading.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(200),
            idle_interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
        }
    }
}

impl Pace {
    /// From the start of one reading to the next of an endpoint.
    fn interval(&self, busy: bool, fleet_busy: bool, reading: &Reading) -> Duration {
        let doubtful = reading.load.is_none() || reading.failing_since.is_some();
        match (busy, fleet_busy || doubtful) {
            (true, _) => self.interval,
            (false, true) => WATCH.min(self.idle_interval).max(self.interval),
            (false, false) => self.idle_interval,
        }
    }
}

/// Reads the endpoints of a fleet for as long as it runs.
pub struct Scraper {
    fleet: Arc<Fleet>,
    dialects: Dialects,
    reader: Reader,
    pace: Pace,
    events: Box<dyn Fn(Event) + Send + Sync>,
    lines: HashMap<EndpointId, Line>,
    readings: JoinSet<Ended>,
}

/// One endpoint's readings.
struct Line {
    /// The reading under way.
    under_way: Option<AbortHandle>,
    started: Instant,
    /// When the last reading ended, and how long it had taken.
    ended: Option<(Instant, Duration)>,
    said: VecDeque<Instant>,
    warned: HashSet<Trouble>,
}

/// A reading that came to its end.
struct Ended {
    endpoint: Arc<Endpoint>,
    mark: Mark,
    took: Duration,
    has_kv: bool,
    result: Result<Load, Reason>,
}

impl Scraper {
    /// A scraper of that fleet's endpoints. `events` is called from the loop, so it must be quick.
    ///
    /// # Errors
    /// A certificate's file can't be read.
    pub fn new(
        fleet: Arc<Fleet>,
        dialects: Dialects,
        target: Target,
        pace: Pace,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, TargetError> {
        Ok(Self {
            fleet,
            dialects,
            reader: Reader::new(target)?,
            pace,
            events: Box::new(events),
            lines: HashMap::new(),
            readings: JoinSet::new(),
        })
    }

    /// Reads until it is dropped, which ends the readings under way. Follows the fleet by itself: whoever joins is read
    /// at once, whoever leaves is read no more.
    pub async fn run(mut self) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => next = self.start_due(Instant::now()),
                Some(ended) = self.readings.join_next() => {
                    match ended {
                        Ok(ended) => self.end(ended, Instant::now()),
                        Err(lost) => self.forget(lost.id()),
                    }
                    next = next.min(Instant::now() + TOGETHER);
                }
            }
        }
    }

    /// A reading that has no end: it was called off, or broke. Its endpoint is due as if it hadn't been.
    fn forget(&mut self, reading: tokio::task::Id) {
        for line in self.lines.values_mut() {
            line.under_way.take_if(|under_way| under_way.id() == reading);
        }
    }

    /// Starts the readings that are due, and says when to look again.
    fn start_due(&mut self, now: Instant) -> Instant {
        let view = self.fleet.view();
        let fleet_busy = view.endpoints().iter().any(|endpoint| is_busy(endpoint, now));
        let mut next = now + LOOK;
        for endpoint in view.endpoints() {
            let interval = self.pace.interval(is_busy(endpoint, now), fleet_busy, &endpoint.reading);
            match self.lines.entry(endpoint.id) {
                Entry::Vacant(new) => {
                    new.insert(Line::new(now));
                }
                Entry::Occupied(line) if line.get().under_way.is_some() => continue,
                Entry::Occupied(line) => {
                    let due = line.get().due(interval);
                    if due > now {
                        next = next.min(due);
                        continue;
                    }
                }
            }
            self.start(Arc::clone(endpoint), now);
        }
        // Everybody has a line by now: where there are more, somebody has left.
        if self.lines.len() > view.endpoints().len() {
            self.lines.retain(|id, line| {
                let stays = view.get(*id).is_some();
                if !stays && let Some(reading) = &line.under_way {
                    reading.abort();
                }
                stays
            });
        }
        next
    }

    fn start(&mut self, endpoint: Arc<Endpoint>, now: Instant) {
        let id = endpoint.id;
        let dialect = Arc::clone(self.dialects.of(&endpoint.member));
        let (reader, timeout) = (self.reader.clone(), self.pace.timeout);
        let reading = self.readings.spawn(async move {
            let mark = endpoint.books.begin_reading();
            let asked = Instant::now();
            let page = reader.read(endpoint.member.address, &dialect, timeout).await;
            let has_kv = !dialect.kv_usage.is_empty();
            let result = match page {
                Ok(page) => parsed(page, dialect, asked).await,
                Err(reason) => Err(reason),
            };
            Ended { endpoint, mark, took: asked.elapsed(), has_kv, result }
        });
        if let Some(line) = self.lines.get_mut(&id) {
            line.started = now;
            line.under_way = Some(reading);
        }
    }

    fn end(&mut self, ended: Ended, now: Instant) {
        let Ended { endpoint, mark, took, has_kv, result } = ended;
        let Some(line) = self.lines.get_mut(&endpoint.id) else { return };
        line.under_way = None;
        line.ended = Some((now, took));
        match result {
            Ok(load) => {
                let troubles = troubles(&load, has_kv);
                let Some(read) = self.fleet.read(endpoint.id, mark, load) else { return };
                if read.restarted {
                    line.warned.clear();
                }
                let say = (read.restarted || read.recovered) && line.may_say(now);
                (self.events)(Event::Read { endpoint: Arc::clone(&endpoint), took, read, say });
                for trouble in troubles.filter(|trouble| line.warned.insert(*trouble)) {
                    (self.events)(Event::Warning { endpoint: Arc::clone(&endpoint), trouble });
                }
            }
            Err(reason) => {
                let Some(first) = self.fleet.read_failed(endpoint.id, now) else { return };
                let say = first && line.may_say(now);
                (self.events)(Event::Failed { endpoint, took, reason, first, say });
            }
        }
    }
}

async fn parsed(page: Bytes, dialect: Arc<Dialect>, asked: Instant) -> Result<Load, Reason> {
    let name = dialect.name.clone();
    let load = if page.len() <= LARGE_PAGE {
        page::parse(&page, &dialect, asked).ok()
    } else {
        tokio::task::spawn_blocking(move || page::parse(&page, &dialect, asked).ok()).await.ok().flatten()
    };
    load.ok_or(Reason::NotMetrics { dialect: name })
}

fn is_busy(endpoint: &Endpoint, now: Instant) -> bool {
    let books = &endpoint.books;
    books.open() > 0 || books.last_booked().is_some_and(|last| now.saturating_duration_since(last) < LINGER)
}

/// What limits the use of a reading. Without waiting and running nothing is missing: the engine has had no request yet.
fn troubles(load: &Load, has_kv: bool) -> impl Iterator<Item = Trouble> + use<> {
    let says_load = load.waiting.is_some() || load.running.is_some();
    let no_kv = has_kv && says_load && load.kv_usage.is_none();
    let no_reuse = load.cache.prefix_caching == Some(false);
    [(no_kv, Trouble::NoKvUsage), (no_reuse, Trouble::PrefixCachingOff)]
        .into_iter()
        .filter_map(|(is, trouble)| is.then_some(trouble))
}

impl Line {
    fn new(now: Instant) -> Self {
        Self { under_way: None, started: now, ended: None, said: VecDeque::new(), warned: HashSet::new() }
    }

    /// When the next reading is due.
    fn due(&self, interval: Duration) -> Instant {
        let rested = self.ended.map_or(self.started, |(at, took)| at + took);
        rested.max(self.started + interval)
    }

    /// Whether the log can take one more line of this endpoint.
    fn may_say(&mut self, now: Instant) -> bool {
        self.said.retain(|at| now.saturating_duration_since(*at) < SAID_WITHIN);
        let may = self.said.len() < SAID_MOST;
        if may {
            self.said.push_back(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: fn(u64) -> Duration = Duration::from_millis;

    fn reading(state: &str) -> Reading {
        let now = Instant::now();
        match state {
            "good" => Reading { load: Some(Load::unsaid(now)), failing_since: None },
            "failing" => Reading { load: Some(Load::unsaid(now)), failing_since: Some(now) },
            _ => Reading::default(),
        }
    }

    #[test]
    fn an_endpoint_is_read_as_often_as_it_matters() {
        let (endpoint_busy, fleet_busy, idle) = ((true, true), (false, true), (false, false));
        for ((busy, fleet_busy), state, expected) in [
            (endpoint_busy, "good", T(200)),
            (endpoint_busy, "failing", T(200)),
            (fleet_busy, "good", T(1000)),
            (idle, "good", T(5000)),
            (idle, "failing", T(1000)),
            (idle, "unread", T(1000)),
        ] {
            let interval = Pace::default().interval(busy, fleet_busy, &reading(state));
            assert_eq!(interval, expected, "busy {busy} fleet {fleet_busy} {state}");
        }
    }

    #[test]
    fn the_second_between_readings_of_the_idle_stays_within_what_is_configured() {
        let interval = |interval, idle_interval| {
            let pace = Pace { interval: T(interval), idle_interval: T(idle_interval), timeout: T(1000) };
            pace.interval(false, true, &reading("good"))
        };
        assert_eq!(interval(200, 500), T(500));
        assert_eq!(interval(3000, 5000), T(3000));
    }

    #[test]
    fn a_slow_engine_rests_as_long_as_it_took() {
        let start = Instant::now();
        let due = |took: u64, interval: u64| {
            let line = Line { started: start, ended: Some((start + T(took), T(took))), ..Line::new(start) };
            line.due(T(interval)) - start
        };
        assert_eq!(due(20, 200), T(200));
        assert_eq!(due(100, 200), T(200));
        assert_eq!(due(400, 50), T(800));
    }

    #[test]
    fn the_log_has_two_lines_a_minute() {
        let start = Instant::now();
        let mut line = Line::new(start);
        let said: Vec<u64> = (0..180).filter(|second| line.may_say(start + Duration::from_secs(*second))).collect();
        assert_eq!(said, [0, 1, 60, 61, 120, 121]);
    }
}
