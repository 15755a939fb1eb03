//! The fleet: one writer, immutable views for readers.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::{Booking, Books, EndpointId, Load, Mark, Member, Reading};

/// One endpoint at one moment: who it is, what was last read of it, and its books (which live on).
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its number.
    pub id: EndpointId,
    /// Who it is.
    pub member: Arc<Member>,
    /// What was last read of its load.
    pub reading: Reading,
    /// What we have under way there, live.
    pub books: Arc<Books>,
}

impl Endpoint {
    /// Requests waiting there now, as far as can be known: the last reading's queue plus what that reading cannot
    /// have seen of our own dispatches. Engines move their gauges only when a step ends, so a reading taken in the
    /// middle of a long prefill misses requests sent before it: what we have open beyond the engine's waiting and
    /// running counts as waiting too. `None` when the engine's queue is not known.
    pub fn waiting_now(&self) -> Option<f64> {
        let load = self.reading.load.as_ref()?;
        let waiting = load.waiting?;
        let unaccounted = f64::from(self.books.open()) - waiting - load.running.unwrap_or(f64::INFINITY);
        Some(waiting + f64::from(self.books.unseen()).max(unaccounted))
    }

    /// Books one request here; see [`Books::book`].
    pub fn book(&self, tokens: u64, now: Instant) -> Booking {
        self.books.book(tokens, now)
    }
}

/// All endpoints at one moment, in the order of their numbers. Never changes.
#[derive(Clone, Debug, Default)]
pub struct View {
    endpoints: Vec<Arc<Endpoint>>,
}

impl View {
    /// The endpoints, in the order of their numbers.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    /// The endpoint of that number, if it has not left.
    pub fn get(&self, id: EndpointId) -> Option<&Arc<Endpoint>> {
        self.endpoints.binary_search_by_key(&id, |e| e.id).ok().map(|at| &self.endpoints[at])
    }

    /// The endpoint that serves at that address.
    pub fn at(&self, address: SocketAddr) -> Option<&Arc<Endpoint>> {
        self.endpoints.iter().find(|e| e.member.address == address)
    }
}

/// Who came and who went.
#[derive(Debug, Default)]
pub struct Changes {
    /// New endpoints.
    pub joined: Vec<Arc<Endpoint>>,
    /// Endpoints that are gone; nothing may be believed of them any more.
    pub left: Vec<Arc<Endpoint>>,
}

/// What a good reading changed beside its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The engine's counters fell or its start moved: it restarted, and its cache is empty.
    pub restarted: bool,
    /// Readings of it had failed until now (or it was never read).
    pub recovered: bool,
}

/// The writer. All changes go through it; readers take [`Fleet::view`].
#[derive(Debug, Default)]
pub struct Fleet {
    view: ArcSwap<View>,
    next_id: Mutex<u32>,
}

impl Fleet {
    /// A fleet without endpoints.
    pub fn new() -> Self {
        Self::default()
    }

    /// The fleet at this moment.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Makes the fleet consist of exactly these members. Endpoints that stay keep their number, reading and books. A member that
    /// is the very one that the fleet holds costs next to nothing.
    pub fn replace(&self, members: Vec<impl Into<Arc<Member>>>) -> Changes {
        let mut next_id = self.next_id.lock();
        let old = self.view();
        let mut changes = Changes::default();
        let mut endpoints: Vec<Arc<Endpoint>> = Vec::with_capacity(members.len());
        let mut stays = vec![false; old.endpoints.len()];
        let held: HashMap<_, _> =
            old.endpoints.iter().enumerate().map(|(at, e)| (Arc::as_ptr(&e.member), at)).collect();
        let mut others: Vec<Arc<Member>> = Vec::new();
        for member in members.into_iter().map(Into::into) {
            match held.get(&Arc::as_ptr(&member)) {
                None => others.push(member),
                Some(&at) if !stays[at] => {
                    stays[at] = true;
                    endpoints.push(Arc::clone(&old.endpoints[at]));
                }
                // Named twice.
                Some(_) => {}
            }
        }
        let mut known = HashMap::new();
        if !others.is_empty() {
            known.extend(old.endpoints.iter().enumerate().map(|(at, endpoint)| (endpoint.member.server(), at)));
        }
        let mut seen = HashSet::new();
        for member in others.iter().filter(|member| seen.insert(member.server())) {
            let endpoint = match known.get(&member.server()) {
                Some(&at) if stays[at] => continue,
                Some(&at) => {
                    stays[at] = true;
                    let known = &old.endpoints[at];
                    match known.member == *member {
                        true => Arc::clone(known),
                        false => Arc::new(Endpoint { member: Arc::clone(member), ..Endpoint::clone(known) }),
                    }
                }
                None => {
                    let id = EndpointId(*next_id);
                    *next_id += 1;
                    let member = Arc::clone(member);
                    let endpoint = Endpoint { id, member, reading: Reading::default(), books: Arc::default() };
                    changes.joined.push(Arc::new(endpoint));
                    continue;
                }
            };
            endpoints.push(endpoint);
        }
        endpoints.extend(changes.joined.iter().cloned());
        endpoints.sort_by_key(|e| e.id);
        let gone = old.endpoints.iter().zip(stays).filter(|(_, stays)| !stays);
        changes.left = gone.map(|(endpoint, _)| Arc::clone(endpoint)).collect();
        self.view.store(Arc::new(View { endpoints }));
        changes
    }

    /// A reading of `id`, begun at `mark`, succeeded. `None` if the endpoint has left meanwhile.
    pub fn read(&self, id: EndpointId, mark: Mark, load: Load) -> Option<Read> {
        self.update(id, |endpoint| {
            let before = endpoint.reading.load.as_ref();
            let read = Read {
                restarted: before.is_some_and(|b| load.counters.restarted_since(&b.counters)),
                recovered: before.is_none() || endpoint.reading.failing_since.is_some(),
            };
            endpoint.books.seen(mark);
            endpoint.reading = Reading { load: Some(load), failing_since: None };
            read
        })
    }

    /// A reading of `id` failed at `now`. Returns whether it is the first failure in a row; `None` if the endpoint
    /// has left meanwhile.
    pub fn read_failed(&self, id: EndpointId, now: Instant) -> Option<bool> {
        self.update(id, |endpoint| {
            let first = endpoint.reading.failing_since.is_none();
            endpoint.reading.failing_since.get_or_insert(now);
            first
        })
    }

    fn update<T>(&self, id: EndpointId, change: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        let _one_writer = self.next_id.lock();
        let mut view = View::clone(&self.view());
        let at = view.endpoints.binary_search_by_key(&id, |e| e.id).ok()?;
        let changed = change(Arc::make_mut(&mut view.endpoints[at]));
        self.view.store(Arc::new(view));
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Counters, Standing};

    fn member(name: &str, port: u16) -> Member {
        Member::new(name, SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn load(at: Instant, waiting: f64, running: f64) -> Load {
        Load { waiting: Some(waiting), running: Some(running), ..Load::unsaid(at) }
    }

    #[test]
    fn a_booking_counts_itself_down_even_after_its_endpoint_left() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let endpoint = Arc::clone(&fleet.view().endpoints()[0]);
        let booking = endpoint.book(70, Instant::now());
        assert_eq!((endpoint.books.open(), endpoint.books.open_tokens()), (1, 70));
        fleet.replace(Vec::<Member>::new());
        drop(booking);
        assert_eq!((endpoint.books.open(), endpoint.books.open_tokens()), (0, 0));
    }

    #[test]
    fn waiting_is_the_reading_plus_what_it_cannot_have_seen() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let now = Instant::now();
        let endpoint = |fleet: &Fleet| Arc::clone(&fleet.view().endpoints()[0]);
        assert_eq!(endpoint(&fleet).waiting_now(), None, "nothing read: unknown, not zero");

        let before = endpoint(&fleet).book(0, now);
        let mark = endpoint(&fleet).books.begin_reading();
        let during = endpoint(&fleet).book(0, now);
        fleet.read(EndpointId(0), mark, load(now, 3.0, 9.0));
        assert_eq!(endpoint(&fleet).waiting_now(), Some(4.0), "3 read, 1 sent while it was read");

        drop(during);
        assert_eq!(endpoint(&fleet).waiting_now(), Some(3.0), "it ended");
        drop(before);
        assert_eq!(endpoint(&fleet).waiting_now(), Some(3.0), "it was in the reading");
    }

    #[test]
    fn gauges_that_stand_still_do_not_hide_what_we_sent() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let now = Instant::now();
        let endpoint = |fleet: &Fleet| Arc::clone(&fleet.view().endpoints()[0]);
        let _open: Vec<_> = (0..5).map(|_| endpoint(&fleet).book(0, now)).collect();
        let mark = endpoint(&fleet).books.begin_reading();
        fleet.read(EndpointId(0), mark, load(now, 0.0, 2.0));
        assert_eq!(endpoint(&fleet).waiting_now(), Some(3.0), "5 open, 2 of them running");
    }

    #[test]
    fn numbers_are_not_used_twice_and_stayers_keep_theirs() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1), member("b", 2)]);
        let changes = fleet.replace(vec![member("b", 2), member("c", 3)]);
        assert_eq!(changes.left.iter().map(|e| e.id).collect::<Vec<_>>(), [EndpointId(0)]);
        assert_eq!(changes.joined.iter().map(|e| e.id).collect::<Vec<_>>(), [EndpointId(2)]);
        let restarted = Member { incarnation: "2".into(), ..member("b", 2) };
        let changes = fleet.replace(vec![restarted, member("c", 3)]);
        assert_eq!(changes.joined[0].id, EndpointId(3), "another server at the same address is another endpoint");
        assert_eq!(fleet.view().at(SocketAddr::from(([127, 0, 0, 1], 2))).map(|e| e.id), Some(EndpointId(3)));
    }

    #[test]
    fn a_member_that_is_named_twice_is_one_endpoint() {
        let fleet = Fleet::new();
        let one = Arc::new(member("a", 1));
        let again = Arc::new(member("a", 1));
        assert_eq!(fleet.replace(vec![Arc::clone(&one), again.clone(), one.clone()]).joined.len(), 1);
        for twice in [vec![one.clone(), one.clone()], vec![again.clone(), one.clone()], vec![one, again]] {
            let changes = fleet.replace(twice);
            assert!(changes.joined.is_empty() && changes.left.is_empty());
            assert_eq!(fleet.view().endpoints().len(), 1);
        }
    }

    #[test]
    fn new_labels_keep_the_endpoint_and_its_books() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let _booking = fleet.view().endpoints()[0].book(0, Instant::now());
        let mut relabelled = member("a", 1);
        relabelled.labels.insert("zone".into(), "x".into());
        let changes = fleet.replace(vec![relabelled]);
        assert!(changes.joined.is_empty() && changes.left.is_empty());
        let view = fleet.view();
        assert_eq!(view.endpoints()[0].member.labels["zone"], "x");
        assert_eq!(view.endpoints()[0].books.open(), 1);
    }

    #[test]
    fn a_failed_reading_sets_aside_until_one_succeeds() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let now = Instant::now();
        let stale_after = Duration::from_secs(2);
        let standing = |fleet: &Fleet, at| fleet.view().endpoints()[0].reading.standing(at, stale_after);
        let id = EndpointId(0);
        assert_eq!(standing(&fleet, now), Standing::Unread);
        fleet.read(id, Mark::default(), load(now, 0.0, 0.0));
        assert_eq!(standing(&fleet, now), Standing::Fresh);
        assert_eq!(standing(&fleet, now + Duration::from_secs(3)), Standing::Stale);
        assert_eq!(fleet.read_failed(id, now), Some(true));
        assert_eq!(fleet.read_failed(id, now), Some(false));
        assert_eq!(standing(&fleet, now), Standing::Failed);
        let read = fleet.read(id, Mark::default(), load(now, 0.0, 0.0));
        assert_eq!(read, Some(Read { restarted: false, recovered: true }));
        assert_eq!(standing(&fleet, now), Standing::Fresh);
    }

    #[test]
    fn counters_that_fall_mean_a_restart() {
        let fleet = Fleet::new();
        fleet.replace(vec![member("a", 1)]);
        let now = Instant::now();
        let counted = |prompt_tokens| Load {
            counters: Counters { prompt_tokens: Some(prompt_tokens), ..Counters::default() },
            ..load(now, 0.0, 0.0)
        };
        let read = |n| fleet.read(EndpointId(0), Mark::default(), counted(n)).is_some_and(|r| r.restarted);
        assert_eq!([read(5.0), read(9.0), read(2.0), read(3.0)], [false, false, true, false]);
    }
}
