//! However requests end, and whatever happens to the fleet meanwhile: in the end nothing is booked, and the index holds
//! just what the requests brought that began well, where they were served.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use blocks::{Chain, Seed};
use fleet::{Books, EndpointId, Fleet, Member};
use pick::Policy;
use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use route::{Asked, Routed, Router};

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request for that many of the leading blocks of one long prompt.
    Comes { blocks: usize },
    /// Something is heard of one of the requests under way.
    Heard { which: usize, news: News },
    /// The server of an endpoint is another one from now on, at the same address.
    Replaced { at: usize },
    /// The engine of an endpoint restarts in place.
    Restarted { at: usize },
}

#[derive(Clone, Copy, Debug)]
enum News {
    ServedBy(u8),
    Succeeded,
    Failed,
    Ended,
}

fn of_requests() -> impl Strategy<Value = Event> {
    // One address more than there are endpoints.
    let served_by = (1..=4u8).prop_map(News::ServedBy);
    let news = prop_oneof![served_by, Just(News::Succeeded), Just(News::Failed), Just(News::Ended)];
    prop_oneof![
        2 => (0..20usize).prop_map(|blocks| Event::Comes { blocks }),
        3 => (any::<usize>(), news).prop_map(|(which, news)| Event::Heard { which, news }),
    ]
}

fn of_the_fleet() -> impl Strategy<Value = Event> {
    let at = || 0..3usize;
    prop_oneof![at().prop_map(|at| Event::Replaced { at }), at().prop_map(|at| Event::Restarted { at })]
}

struct World {
    fleet: Arc<Fleet>,
    router: Router,
    incarnations: [usize; 3],
    /// Of all endpoints that there ever were.
    books: Vec<Arc<Books>>,
    open: Vec<UnderWay>,
    rng: StdRng,
    /// The most blocks of a request that began well, by the number of the endpoint that served it.
    served: [usize; 3],
}

struct UnderWay {
    routed: Routed,
    blocks: usize,
    /// Whether its answer has begun: a gateway says who serves with the answer's status, and says both once.
    answered: bool,
}

impl World {
    fn new() -> Self {
        let fleet = Arc::new(Fleet::new());
        let router = Router::new(Arc::clone(&fleet));
        let (books, open, rng) = (Vec::new(), Vec::new(), StdRng::seed_from_u64(3));
        let mut world = Self { fleet, router, incarnations: [0; 3], books, open, rng, served: [0; 3] };
        world.replace();
        world
    }

    fn replace(&mut self) {
        let member = |(n, incarnation): (u8, &usize)| Member {
            incarnation: incarnation.to_string(),
            ..Member::new(format!("e{n}"), SocketAddr::from(([10, 0, 0, n], 8000)))
        };
        let changes = self.fleet.replace((1..=3).zip(&self.incarnations).map(member).collect());
        self.books.extend(changes.joined.iter().map(|endpoint| Arc::clone(&endpoint.books)));
        self.router.left(&changes);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Comes { blocks } => self.comes(blocks),
            Event::Heard { which, news } if !self.open.is_empty() => self.heard(which % self.open.len(), news),
            Event::Heard { .. } => {}
            Event::Replaced { at } => {
                self.incarnations[at] += 1;
                self.replace();
            }
            Event::Restarted { at } => self.router.restarted(self.fleet.view().endpoints()[at].id),
        }
    }

    fn comes(&mut self, blocks: usize) {
        let chain = Chain::new(&Seed::default(), NonZeroU32::new(16).expect("not zero"));
        let fingerprints = Arc::new([chain.fingerprint([vec![7; blocks * 16].as_slice()])]);
        let asked = Asked { fingerprints, allowed: None };
        let routed = self.router.route(&self.fleet.view(), &asked, &Policy::default(), Instant::now(), &mut self.rng);
        self.open.push(UnderWay { routed: routed.expect("an endpoint"), blocks, answered: false });
    }

    fn heard(&mut self, which: usize, news: News) {
        let request = &mut self.open[which];
        match news {
            News::Ended => drop(self.open.swap_remove(which)),
            _ if request.answered => {}
            News::ServedBy(n) => {
                request.routed.served_by(SocketAddr::from(([10, 0, 0, n], 8000)), Instant::now());
            }
            News::Succeeded => {
                request.routed.succeeded();
                request.answered = true;
                let id = request.routed.endpoint().map(|endpoint| endpoint.id.0 as usize);
                if let Some(served) = id.and_then(|id| self.served.get_mut(id)) {
                    *served = request.blocks.max(*served);
                }
            }
            News::Failed => {
                request.routed.failed();
                request.answered = true;
            }
        }
    }

    /// Lets all that is under way end, after these events.
    fn after(events: Vec<Event>) -> Self {
        let mut world = Self::new();
        events.into_iter().for_each(|event| world.happens(event));
        world.open.clear();
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_remains_is_what_was_served(events in vec(of_requests(), 0..60)) {
        let world = World::after(events);
        prop_assert!(world.books.iter().all(|books| books.open() == 0 && books.open_tokens() == 0));
        let held = [0, 1, 2].map(|id| world.router.index().held_by(EndpointId(id)));
        prop_assert_eq!(held, world.served);
    }

    #[test]
    fn nothing_remains_of_those_that_left(events in vec(prop_oneof![4 => of_requests(), 1 => of_the_fleet()], 0..60)) {
        let world = World::after(events);
        prop_assert!(world.books.iter().all(|books| books.open() == 0 && books.open_tokens() == 0));
        let view = world.fleet.view();
        prop_assert!(world.router.index().endpoints().into_iter().all(|id| view.get(id).is_some()));
    }
}
