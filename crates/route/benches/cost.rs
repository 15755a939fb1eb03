//! Prints what a prompt of 100,000 tokens costs: hashing it, and routing it over 10, 100 and 1000 endpoints that all hold
//! its first half, with full caches. Medians, in microseconds; no test.
#![allow(clippy::print_stdout)] // A bench's result is what it prints.

use std::hint::black_box;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use blocks::{Chain, Seed};
use fleet::{Cache, Fleet, Load, Mark, Member};
use pick::{Policy, Scorer, Weighted};
use rand::SeedableRng;
use rand::rngs::StdRng;
use route::{Asked, Router};

const TOKENS: u32 = 100_000;
const CAPACITY_TOKENS: u32 = 500_000;

fn main() {
    let size = NonZeroU32::new(16).expect("not zero");
    let chain = Chain::new(&Seed { model: "m", ..Seed::default() }, size);
    let tokens: Vec<u32> = (0..TOKENS).collect();
    let hashing = median(100, || {
        black_box(chain.print(black_box(&tokens), &[]));
    });
    println!("hash {TOKENS} tokens: {hashing:.0} us");
    let all: Vec<Weighted> = Scorer::ALL.into_iter().map(|scorer| Weighted { scorer, weight: 1.0 }).collect();
    for endpoints in [10, 100, 1000] {
        let router = router(endpoints, &chain);
        for (name, policy) in [
            ("default policy", Policy::default()),
            ("all scorers", Policy { scorers: all.clone(), ..Policy::default() }),
        ] {
            let cost = |tokens: usize| cost(&router, &chain, tokens, &policy);
            println!(
                "route over {endpoints} endpoints, {name}: prompt unknown {:.0} us, 1000 tokens {:.0} us, {TOKENS} tokens {:.0} us",
                cost(0),
                cost(1000),
                cost(TOKENS as usize)
            );
        }
        let held: usize = router.1.view().endpoints().iter().map(|e| router.0.index().held_by(e.id)).sum();
        println!("  {held} blocks held, {:.1} bytes each", router.0.index().bytes() as f64 / held as f64);
    }
}

/// Endpoints with full caches: other prompts, and the first half of the one that is routed.
fn router(endpoints: u16, chain: &Chain) -> (Router, Arc<Fleet>) {
    let fleet = Arc::new(Fleet::new());
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    fleet.replace((1..=endpoints).map(|n| Member::new(format!("e{n}"), address(n))).collect());
    let router = Router::new(Arc::clone(&fleet));
    let others: Vec<Vec<u32>> = (1..=(CAPACITY_TOKENS / 2000)).map(|n| vec![n; 2000]).collect();
    let half: Vec<u32> = (0..TOKENS / 2).collect();
    for endpoint in fleet.view().endpoints() {
        let cache = Cache { capacity_tokens: Some(CAPACITY_TOKENS.into()), ..Cache::default() };
        let load =
            Load { waiting: Some(0.0), running: Some(0.0), kv_usage: Some(0.5), cache, ..Load::unsaid(Instant::now()) };
        fleet.read(endpoint.id, Mark::default(), load);
        for prompt in others.iter().map(Vec::as_slice).chain([half.as_slice()]) {
            let learned = router.index().record(
                endpoint.id,
                &chain.fingerprint([prompt]),
                CAPACITY_TOKENS as usize / 16,
                Instant::now(),
            );
            router.index().keep(learned);
        }
    }
    (router, fleet)
}

/// Of routes that fail, so that each finds the index as the one before it did.
fn cost((router, fleet): &(Router, Arc<Fleet>), chain: &Chain, tokens: usize, policy: &Policy) -> f64 {
    let tokens: Vec<u32> = (0..tokens as u32).collect();
    let asked = Asked { fingerprints: Arc::new([chain.fingerprint([tokens.as_slice()])]), allowed: None };
    let mut rng = StdRng::seed_from_u64(1);
    let view = fleet.view();
    let mut routed = Vec::new();
    let mut took: Vec<f64> = (0..51)
        .map(|_| {
            let start = Instant::now();
            let one = router.route(&view, &asked, policy, start, &mut rng);
            let took = start.elapsed();
            routed.clear();
            routed.push(one);
            took.as_secs_f64() * 1e6
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}

fn median(times: usize, mut work: impl FnMut()) -> f64 {
    let mut took: Vec<f64> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}
