//! What a person sees of the picker while it runs, on the page and in `epp top`: endpoints, the last minutes, the last decisions.
//!
//! In: the fleet, the books, the index and the feed of decisions; out: one state for everybody who looks, made when it is asked for
//! and at most once a second. Decisions are kept whether or not somebody looks, for who comes after an incident, within bounds.
//! No prompt text is in it, as none is in a record.

mod history;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use fleet::{Endpoint, Fleet};
use parking_lot::Mutex;
use record::Record;
use route::Router;

use crate::feed::{Follower, Heard};
use crate::load_only::LoadOnly;
use history::History;
#[cfg(test)]
pub(crate) use history::tests::record;
#[cfg(test)]
pub(crate) use state::Series;
pub(crate) use state::{Decision, Figures, Row, State};

/// How long one state is shown to all.
const FRESH: Duration = Duration::from_millis(900);

/// Where the state comes from.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The endpoints.
    pub(crate) fleet: Arc<Fleet>,
    /// What is believed of their caches.
    pub(crate) router: Router,
    /// The operator's switch.
    pub(crate) load_only: LoadOnly,
    /// The pool's name.
    pub(crate) pool: String,
    /// The age at which a reading is stale.
    pub(crate) stale_after: Duration,
}

/// What is shown. One for all who look.
#[derive(Debug)]
pub(crate) struct Live {
    sources: Sources,
    started: Instant,
    history: Mutex<History>,
    last: tokio::sync::Mutex<Option<(Instant, Bytes)>>,
}

impl Live {
    /// With an empty history.
    pub(crate) fn new(sources: Sources) -> Self {
        Self { sources, started: Instant::now(), history: Mutex::default(), last: tokio::sync::Mutex::default() }
    }

    /// Keeps what is told of decisions, until the feed's end.
    pub(crate) async fn keep(self: Arc<Self>, mut follower: Follower) {
        while let Some(heard) = follower.next().await {
            let at = self.started.elapsed();
            match heard {
                Heard::Record(record) => self.history.lock().add(record, at),
                Heard::Lost(count) => self.history.lock().lost(count),
            }
        }
    }

    /// The state as JSON, without a line's end in it: a new one where the last is old; `None` where it can't be made.
    pub(crate) async fn json(self: &Arc<Self>) -> Option<Bytes> {
        // Who comes meanwhile waits for the same one.
        let mut last = self.last.lock().await;
        if let Some((_, json)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Some(json.clone());
        }
        let live = Arc::clone(self);
        // A large fleet's takes milliseconds.
        let make = move || serde_json::to_vec(&live.state(Instant::now(), SystemTime::now()));
        let json = Bytes::from(tokio::task::spawn_blocking(make).await.ok()?.ok()?);
        *last = Some((Instant::now(), json.clone()));
        Some(json)
    }

    /// The kept decisions of requests whose id has that in it, newest first.
    pub(crate) fn find(&self, id: &str) -> Vec<Arc<Record>> {
        self.history.lock().find(id)
    }

    fn state(&self, now: Instant, calendar: SystemTime) -> State {
        let Sources { fleet, load_only, pool, .. } = &self.sources;
        let at = now.saturating_duration_since(self.started);
        let view = fleet.view();
        let picks = {
            let mut history = self.history.lock();
            history.pass(at);
            history.picks()
        };
        let all: u64 = picks.values().sum();
        let endpoints = view.endpoints().iter().map(|endpoint| {
            let picks = picks.get(&endpoint.member.address.to_string()).copied().unwrap_or_default();
            self.row(endpoint, (picks, all), now)
        });
        let endpoints = endpoints.collect();
        let history = self.history.lock();
        State {
            at_unix_ms: calendar.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pool: pool.clone(),
            load_only: load_only.is_on(),
            endpoints,
            last_minute: history.last_minute(),
            minutes: history.series(),
            lost: history.lost_so_far(),
            kept: history.kept(),
            decisions: history.newest(),
        }
    }

    fn row(&self, endpoint: &Endpoint, (picks, all): (u64, u64), now: Instant) -> Row {
        let Sources { router, stale_after, .. } = &self.sources;
        let load = endpoint.reading.load.as_ref();
        let figure = |figure: Option<f64>| figure.filter(|figure| figure.is_finite());
        Row {
            name: endpoint.member.name.clone(),
            namespace: endpoint.member.namespace.clone(),
            address: endpoint.member.address.to_string(),
            standing: endpoint.reading.standing(now, *stale_after).into(),
            reading_age_ms: endpoint.reading.age(now).map(|age| age.as_millis() as u64),
            waiting: figure(endpoint.waiting_now()),
            running: figure(load.and_then(|load| load.running)),
            kv_usage: figure(load.and_then(|load| load.kv_usage)),
            in_flight: endpoint.books.open(),
            blocks_held: router.index().held_by(endpoint.id) as u64,
            picks,
            share: (all > 0).then(|| picks as f64 / all as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use fleet::Member;

    use super::*;

    fn live() -> Arc<Live> {
        let fleet = Arc::new(Fleet::new());
        let member = |name: &str, port| Member::new(name, ([10, 0, 0, 1], port).into());
        fleet.replace(vec![member("a", 8000), member("<b>", 8001)]);
        let sources = Sources {
            router: Router::new(Arc::clone(&fleet)),
            fleet,
            load_only: LoadOnly::new(false),
            pool: "default".to_owned(),
            stale_after: Duration::from_secs(2),
        };
        Arc::new(Live::new(sources))
    }

    #[test]
    fn the_state_has_each_endpoint_and_what_of_it_is_known() {
        let live = live();
        for (id, port) in [("1", 8000), ("2", 8000), ("3", 8000), ("4", 8001), ("5", 9999)] {
            live.history.lock().add(record(id, port), Duration::ZERO);
        }
        let state = live.state(Instant::now(), UNIX_EPOCH);
        let rows: Vec<_> = state.endpoints.iter().map(|row| (row.name.as_str(), row.picks, row.share)).collect();
        assert_eq!(rows, [("a", 3, Some(0.6)), ("<b>", 1, Some(0.2))]);
        let row = &state.endpoints[0];
        assert_eq!((row.standing, row.waiting, row.reading_age_ms), (record::Standing::Unread, None, None));
        let ids: Vec<_> = state.decisions.iter().map(|decision| decision.request_id.as_str()).collect();
        assert_eq!(ids, ["5", "4", "3", "2", "1"]);
    }

    #[tokio::test]
    async fn who_looks_in_the_same_second_sees_the_same_state() {
        let live = live();
        let first = live.json().await.expect("JSON");
        live.history.lock().add(record("1", 8000), Duration::ZERO);
        assert_eq!(live.json().await.expect("JSON"), first);
        *live.last.lock().await = None;
        assert_ne!(live.json().await.expect("JSON"), first);
    }
}
