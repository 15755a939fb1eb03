//! What routing promises, by example: a small fleet, prompts as token ids, a clock of its own.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blocks::{Chain, Seed};
use fleet::{Cache, EndpointId, Fleet, Load, Member};
use pick::{Note, Policy, Scorer, Weighted};
use rand::SeedableRng;
use rand::rngs::StdRng;
use route::{Asked, Assumed, Routed, Router, Served, Unroutable};

/// A fleet and a router over it.
struct World {
    fleet: Arc<Fleet>,
    router: Router,
    policy: Policy,
    now: Instant,
    rng: StdRng,
}

impl World {
    /// Endpoints at 10.0.0.1, 10.0.0.2 and so on, port 8000, idle and read just now.
    fn of(endpoints: u8) -> Self {
        let fleet = Arc::new(Fleet::new());
        fleet.replace((1..=endpoints).map(|n| Member::new(format!("e{n}"), address(n))).collect());
        let router = Router::new(Arc::clone(&fleet));
        let mut world =
            World { fleet, router, policy: Policy::default(), now: Instant::now(), rng: StdRng::seed_from_u64(7) };
        world.read_all(Cache::default());
        world
    }

    fn read_all(&mut self, cache: Cache) {
        for endpoint in self.fleet.view().endpoints() {
            self.read(endpoint.id.0, cache);
        }
    }

    /// A reading that says: idle.
    fn read(&mut self, id: u32, cache: Cache) {
        let id = EndpointId(id);
        let mark = self.fleet.view().get(id).expect("an endpoint").books.begin_reading();
        let idle = Load { waiting: Some(0.0), running: Some(0.0), kv_usage: Some(0.0), ..Load::unsaid(self.now) };
        self.fleet.read(id, mark, Load { cache, ..idle });
    }

    fn prefix_alone(mut self) -> Self {
        self.policy.scorers = vec![Weighted { scorer: Scorer::Prefix, weight: 1.0 }];
        self
    }

    fn try_route(&mut self, tokens: &[u32], allowed: Option<&[&str]>) -> Result<Routed, Unroutable> {
        let view = self.fleet.view();
        let seed = Seed { model: "m", ..Seed::default() };
        let print = |size| Chain::new(&seed, size).fingerprint([tokens]);
        let fingerprints = self.router.block_sizes(&view).into_iter().map(print).collect();
        let allowed: Option<Vec<String>> = allowed.map(|hints| hints.iter().map(|hint| hint.to_string()).collect());
        let asked = Asked { fingerprints, allowed: allowed.as_deref() };
        self.router.route(&view, &asked, &self.policy, self.now, &mut self.rng)
    }

    fn route(&mut self, tokens: &[u32]) -> Routed {
        self.try_route(tokens, None).expect("an endpoint")
    }

    /// Routes a prompt to that endpoint and serves it well.
    fn serve(&mut self, tokens: &[u32], at: u8) {
        let hint = address(at).to_string();
        let mut routed = self.try_route(tokens, Some(&[hint.as_str()])).expect("an endpoint");
        routed.succeeded();
    }

    fn in_flight(&self) -> Vec<u32> {
        self.fleet.view().endpoints().iter().map(|e| e.books.open()).collect()
    }

    fn held(&self) -> Vec<usize> {
        self.fleet.view().endpoints().iter().map(|e| self.router.index().held_by(e.id)).collect()
    }
}

fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 8000))
}

/// A prompt of so many tokens that shares nothing with those of another number.
fn prompt(number: u32, tokens: usize) -> Vec<u32> {
    vec![number; tokens]
}

fn picked(routed: &Routed) -> SocketAddr {
    routed.endpoint().expect("an endpoint").member.address
}

#[test]
fn the_warm_endpoint_serves() {
    let mut world = World::of(4);
    world.serve(&prompt(1, 160), 3);
    let mut longer = prompt(1, 160);
    longer.extend(prompt(2, 100));
    for _ in 0..20 {
        let routed = world.route(&longer);
        assert_eq!((picked(&routed), routed.destinations.as_slice()), (address(3), &[address(3)][..]));
        assert_eq!(routed.predicted_cached_tokens(), 160);
        assert_eq!(routed.ask.blocks, 17);
        let overlaps: Vec<u32> = routed.candidates.iter().map(|candidate| candidate.overlap).collect();
        assert_eq!(overlaps, [0, 0, 10, 0]);
    }
}

#[test]
fn a_request_is_booked_until_it_ends_with_the_tokens_left_to_compute() {
    let mut world = World::of(1);
    world.serve(&prompt(1, 64), 1);
    let books = Arc::clone(&world.fleet.view().endpoints()[0].books);
    let mut routed = world.route(&prompt(1, 64));
    assert_eq!((books.open(), books.open_tokens()), (1, 16), "the last block is computed in any case");
    routed.succeeded();
    assert_eq!(books.open(), 1, "the answer has begun only");
    drop(routed);
    assert_eq!((books.open(), books.open_tokens()), (0, 0));
}

#[test]
fn what_was_learned_stays_only_if_the_answer_began_well() {
    let mut world = World::of(1);
    let mut failed = world.route(&prompt(1, 64));
    assert_eq!(world.held(), [4], "from the pick on");
    failed.failed();
    assert_eq!((world.held(), world.in_flight()), (vec![0], vec![1]), "the booking stays until the end");
    failed.succeeded();
    assert_eq!(world.held(), [0], "said once");
    drop(failed);
    drop(world.route(&prompt(1, 64)));
    assert_eq!(world.held(), [0], "hung up before an answer");
    let mut served = world.route(&prompt(1, 64));
    served.succeeded();
    served.failed();
    drop(served);
    assert_eq!((world.held(), world.in_flight()), (vec![4], vec![0]));
}

#[test]
fn served_elsewhere_moves_the_booking_and_what_was_learned() {
    let mut world = World::of(2).prefix_alone();
    world.serve(&prompt(1, 64), 1);
    world.serve(&prompt(1, 32), 2);
    let mut routed = world.route(&prompt(1, 160));
    assert_eq!(picked(&routed), address(1));
    assert_eq!(routed.served_by(address(1), world.now), Served::AsPicked);
    assert_eq!(routed.served_by(address(2), world.now), Served::Elsewhere);
    assert_eq!((picked(&routed), routed.predicted_cached_tokens()), (address(2), 32));
    assert_eq!((world.in_flight(), world.held()), (vec![0, 1], vec![4, 10]));
    routed.succeeded();
    drop(routed);
    assert_eq!((world.in_flight(), world.held()), (vec![0, 0], vec![4, 10]));
}

#[test]
fn served_where_we_know_nobody_leaves_nothing_behind() {
    let mut world = World::of(1);
    let mut routed = world.route(&prompt(1, 64));
    assert_eq!(routed.served_by(address(9), world.now), Served::Unknown);
    routed.succeeded();
    assert!(routed.endpoint().is_none());
    assert_eq!((world.in_flight(), world.held()), (vec![0], vec![0]));
}

/// vllm-project/vllm#49538: gauges lag by seconds, and all of a burst saw the same figures.
#[test]
fn a_burst_spreads_by_what_we_have_under_way() {
    for readings_go_on in [false, true] {
        let mut world = World::of(4);
        let mut open = Vec::new();
        for number in 0..400 {
            open.push(world.route(&prompt(number, 320)));
            if readings_go_on && number % 10 == 0 {
                world.read_all(Cache::default());
            }
        }
        for count in world.in_flight() {
            assert!((80..=120).contains(&count), "{:?}", world.in_flight());
        }
    }
}

#[test]
fn only_what_the_gateway_allows_is_chosen() {
    let mut world = World::of(3);
    world.serve(&prompt(1, 160), 1);
    for hints in [&["10.0.0.2:8000"][..], &["10.0.0.2"], &["10.0.0.9:8000", "[::ffff:10.0.0.2]:8000"]] {
        for _ in 0..10 {
            let routed = world.try_route(&prompt(1, 160), Some(hints)).expect("an endpoint");
            assert_eq!((picked(&routed), routed.candidates.len()), (address(2), 1));
        }
    }
    for hints in [&[][..], &["10.0.0.9:8000"], &["10.0.0.1:8001"], &["nonsense"]] {
        assert_eq!(world.try_route(&[], Some(hints)).err(), Some(Unroutable::SubsetEmpty), "{hints:?}");
    }
}

#[test]
fn an_empty_fleet_cannot_serve() {
    let mut world = World::of(0);
    assert_eq!(world.try_route(&[], None).err(), Some(Unroutable::NoEndpoints));
    assert_eq!(world.try_route(&[], Some(&["10.0.0.1"])).err(), Some(Unroutable::NoEndpoints));
}

#[test]
fn as_many_are_named_as_the_policy_says_best_first() {
    let mut world = World::of(3).prefix_alone();
    world.serve(&prompt(1, 160), 2);
    world.serve(&prompt(1, 80), 3);
    for (endpoints, named) in [(0, &[2][..]), (1, &[2]), (2, &[2, 3]), (9, &[2, 3, 1])] {
        world.policy.endpoints = endpoints;
        let named: Vec<SocketAddr> = named.iter().map(|n| address(*n)).collect();
        assert_eq!(world.route(&prompt(1, 160)).destinations, named);
    }
}

#[test]
fn nothing_is_believed_where_prefix_caching_is_off() {
    let mut world = World::of(1);
    world.serve(&prompt(1, 160), 1);
    world.read_all(Cache { prefix_caching: Some(false), ..Cache::default() });
    let routed = world.route(&prompt(1, 160));
    assert_eq!((routed.candidates[0].overlap, routed.predicted_cached_tokens()), (0, 0));
    assert_eq!(routed.decision.notes, [Note::PrefixCachingOff]);
    let other = world.route(&prompt(2, 160));
    assert!(other.decision.notes.contains(&Note::PrefixCachingOff));
    assert_eq!(world.held(), [10], "nothing new is recorded");
}

#[test]
fn endpoints_with_blocks_of_different_sizes_are_compared_by_the_share_they_hold() {
    let mut world = World::of(3).prefix_alone();
    let of = |block_size| Cache { block_size: Some(block_size), ..Cache::default() };
    world.read(0, of(16));
    world.read(1, of(64));
    world.read(2, of(1));
    let sizes: Vec<u32> = world.router.block_sizes(&world.fleet.view()).into_iter().map(NonZeroU32::get).collect();
    assert_eq!(sizes, [16, 64], "blocks of one token are taken sixteen together");
    world.serve(&prompt(1, 320), 1);
    world.serve(&prompt(1, 640), 2);
    let routed = world.route(&prompt(1, 640));
    let overlaps: Vec<u32> = routed.candidates.iter().map(|candidate| candidate.overlap).collect();
    assert_eq!((routed.ask.blocks, overlaps), (40, vec![20, 40, 0]));
    assert_eq!((picked(&routed), routed.predicted_cached_tokens()), (address(2), 576));
}

/// kubernetes-sigs/gateway-api-inference-extension#1341: all prompts shorter than a block matched each other.
#[test]
fn a_prompt_shorter_than_a_block_matches_nobody() {
    let mut world = World::of(2);
    world.serve(&prompt(1, 5), 1);
    let routed = world.route(&prompt(1, 5));
    assert_eq!((routed.ask.blocks, world.held()), (0, vec![0, 0]));
    assert!(routed.decision.ranked.iter().all(|ranked| ranked.parts[0].score == 0.0 && !ranked.parts[0].known));
}

#[test]
fn an_unknown_prompt_is_routed_by_load() {
    let mut world = World::of(2);
    let view = world.fleet.view();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let routed = world.router.route(&view, &Asked::default(), &world.policy, world.now, &mut world.rng);
        seen.push(routed.expect("an endpoint"));
    }
    assert_eq!((world.in_flight(), seen[0].ask.blocks), (vec![1, 1], 0));
}

#[test]
fn the_index_is_bounded_by_the_engines_own_cache() {
    let mut world = World::of(1);
    world.read_all(Cache { block_size: Some(16), capacity_tokens: Some(1600), prefix_caching: Some(true) });
    for number in 0..50 {
        world.serve(&prompt(number, 160), 1);
    }
    assert_eq!(world.held(), [100]);
}

/// kubernetes-sigs/gateway-api-inference-extension#1629: block count "0" or "None" made an index that is empty for ever.
#[test]
fn an_unknown_capacity_is_the_assumed_one() {
    let mut world = World::of(1);
    world.router = world.router.assuming(Assumed { capacity_blocks: 30, ..Assumed::default() });
    for cache in [Cache::default(), Cache { capacity_tokens: Some(0), block_size: Some(16), ..Cache::default() }] {
        world.read_all(cache);
        for number in 0..50 {
            world.serve(&prompt(number, 160), 1);
        }
        assert_eq!(world.held(), [30]);
    }
}

#[test]
fn what_would_be_evicted_is_told_by_its_age() {
    let mut world = World::of(2);
    world.read_all(Cache { block_size: Some(16), capacity_tokens: Some(320), prefix_caching: Some(true) });
    world.serve(&prompt(1, 160), 1);
    world.now += Duration::from_secs(1);
    world.serve(&prompt(2, 160), 1);
    world.now += Duration::from_secs(1);
    let displaces = |world: &mut World, tokens| {
        let routed = world.route(&prompt(9, tokens));
        routed.candidates.iter().map(|candidate| candidate.displaces.map(|age| age.as_secs())).collect::<Vec<_>>()
    };
    assert_eq!(displaces(&mut world, 0), [None, None]);
    assert_eq!(displaces(&mut world, 16), [Some(2), None]);
    assert_eq!(displaces(&mut world, 320), [Some(1), None]);
}

/// vllm-project/aibrix#2287: the engine's cache was empty, and the index still preferred it.
#[test]
fn after_a_restart_nothing_is_believed() {
    let mut world = World::of(1);
    world.serve(&prompt(1, 160), 1);
    let mut before = world.route(&prompt(2, 160));
    world.router.restarted(EndpointId(0));
    before.succeeded();
    assert_eq!(world.held(), [0]);
}

/// kubernetes-sigs/gateway-api-inference-extension#1289: endpoints that left stayed in the index.
#[test]
fn nothing_remains_of_endpoints_that_left() {
    let mut world = World::of(1);
    let stays = Member::new("e1", address(1));
    let (before, bytes) = (world.router.index().endpoints(), world.router.index().bytes());
    for round in 0..1000 {
        let comes = Member::new(format!("new{round}"), address(2));
        world.fleet.replace(vec![stays.clone(), comes]);
        world.serve(&prompt(round, 16_000), 2);
        let late_view = world.fleet.view();
        world.router.left(&world.fleet.replace(vec![stays.clone()]));
        // A request that was on its way when the endpoint left.
        let chain = Chain::new(&Seed::default(), NonZeroU32::new(16).expect("not zero"));
        let asked = Asked {
            fingerprints: Arc::new([chain.fingerprint([prompt(round, 160).as_slice()])]),
            allowed: Some(&["10.0.0.2".to_owned()]),
        };
        let late = world.router.route(&late_view, &asked, &world.policy, world.now, &mut world.rng);
        late.expect("an endpoint").succeeded();
    }
    assert_eq!((world.router.index().endpoints(), world.router.index().bytes()), (before, bytes));
    assert_eq!(world.in_flight(), [0]);
}

#[test]
fn a_routed_request_can_go_to_any_thread() {
    fn is_send<T: Send>() {}
    is_send::<Routed>();
    is_send::<Router>();
}
