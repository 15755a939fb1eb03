//! What a large InferencePool costs the picker, and how soon it follows: a real API server, a thousand ready pods, the real
//! picker reading an engine at each. In: nothing; out: the picker's CPU time at rest and while pods are replaced one after the
//! other, and the time from a pod's unreadiness or deletion to the last pick that named it. `cargo xtask churn` runs it.
//!
//! Picks are asked for without a pause and for the one pod alone, by the gateway's subset hint, so that the first one that is
//! refused shows that the pod is gone. The time counts from before the API server is asked.

#![allow(dead_code, unreachable_pub, reason = "the black box's modules serve its tests")]
#![allow(clippy::print_stdout, reason = "its output is its result")]

mod black_box {
    pub mod api_server;
    pub mod client;
    pub mod envoy;
    pub mod ext_proc;
    pub mod metrics;
    pub mod picker;
    pub mod pods;
    pub mod program;
    pub mod stage;
}

use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use black_box::api_server::{ADMIN, ApiServer, CRDS};
use black_box::ext_proc::{Gateway, Pick};
use black_box::picker::Picker;
use black_box::pods::{pod, pool, ready, status};
use black_box::program::{folder, free_port, wait_until};
use black_box::stage::chat;
use serde_json::{Value, json};

const NAMESPACE: &str = "churn";
const PODS: usize = 1000;
/// Pods that are replaced in a second.
const PACE: u32 = 10;
/// How long CPU time is counted.
const COUNTED: Duration = Duration::from_secs(30);
/// Transitions of each kind that are timed.
const TIMED: usize = 40;

fn main() -> ExitCode {
    let server = ApiServer::start("churn_api_server", &CRDS, &[]);
    server.namespace(NAMESPACE);
    let engines = Engines::start();
    server.apply(&pool(NAMESPACE, json!({"app": "vllm"}), &[engines.port]));
    let pods: Vec<(Value, Value)> = (0..PODS).map(|at| (one(at), ready(&[&address(at)]))).collect();
    server.run_all(&pods);
    let named = ["--pool-name", "qwen3", "--pool-namespace", NAMESPACE, "--log-decisions=false"];
    let picker = Picker::in_cluster(&server.kubeconfig(ADMIN), &named, &folder("churn"));
    wait_until("every engine was read", || picker.metrics().sum("llm_d_epp_ready_endpoints", &[]) as usize == PODS);

    let rest = share(&picker, || thread::sleep(COUNTED));
    let (replaced, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (churning, pace, busy) = thread::scope(|scope| {
        scope.spawn(|| {
            for at in (0..PODS).cycle().take_while(|_| !over.load(Ordering::Acquire)) {
                let next = Instant::now() + Duration::from_secs(1) / PACE;
                replace(&server, at);
                replaced.fetch_add(1, Ordering::Relaxed);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let churning = share(&picker, || thread::sleep(COUNTED));
        let pace = replaced.load(Ordering::Relaxed) as f64 / COUNTED.as_secs_f64();
        let busy = timed(&server, &picker, engines.port);
        over.store(true, Ordering::Release);
        (churning, pace, busy)
    });
    let quiet = timed(&server, &picker, engines.port);
    let cost = churning - rest;
    println!(
        "{PODS} pods of one port, each read every five seconds; the picker's CPU time, in % of a core, over {} s",
        COUNTED.as_secs()
    );
    println!("at rest                          {rest:>5.1}");
    println!("{pace:>4.1} pods a second replaced     {churning:>5.1}");
    println!("what that adds                   {cost:>5.1}  (goal: under 5)");
    println!("\nfrom the request to the API server to the last pick of the pod, ms    median   p90   most");
    let mut medians = Vec::new();
    for (what, times) in [("at rest", quiet), ("while pods are replaced", busy)] {
        for (how, times) in [("unready", times.unready), ("deleted", times.deleted)] {
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            println!("{:<68}  {:>6.1}  {:>5.1}  {:>5.1}", format!("{how}, {what}"), at(0.5), at(0.9), at(1.0));
            medians.push(at(0.5));
        }
    }
    let holds = cost < 5.0 && medians.iter().all(|median| *median < 100.0);
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The picker's CPU time while that lasts, in percent of a core.
fn share(picker: &Picker, meanwhile: impl FnOnce()) -> f64 {
    let (start, before) = (Instant::now(), cpu_time(picker));
    meanwhile();
    (cpu_time(picker) - before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0
}

/// Of all its threads so far, to a hundredth of a second.
fn cpu_time(picker: &Picker) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", picker.program.id())).expect("it runs, on Linux");
    // After the name: state is the first word, user and system time are the 12th and 13th, in ticks of 10 ms.
    let words = stat.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
    Duration::from_millis(words.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>() * 10)
}

fn one(at: usize) -> Value {
    pod(NAMESPACE, &format!("vllm-{at}"), "vllm")
}

/// All of 127.0.0.0/8 is this machine.
fn address(at: usize) -> String {
    format!("127.1.{}.{}", at / 250, at % 250 + 1)
}

/// As a rollout does it: not ready, asked to end, gone; another one made, then ready.
fn replace(server: &ApiServer, at: usize) {
    let pod = one(at);
    server.set_status(&pod, &status("Running", "False", &[&address(at)]));
    server.delete(&pod);
    server.remove(&pod);
    server.apply(&pod);
    server.set_status(&pod, &ready(&[&address(at)]));
}

struct Times {
    unready: Vec<Duration>,
    deleted: Vec<Duration>,
}

fn timed(server: &ApiServer, picker: &Picker, port: u16) -> Times {
    let of = |at| time(server, picker, port, at);
    let mut times =
        Times { unready: (0..TIMED).map(|_| of(false)).collect(), deleted: (0..TIMED).map(|_| of(true)).collect() };
    times.unready.sort();
    times.deleted.sort();
    times
}

/// From a pod's end to the last pick of it.
fn time(server: &ApiServer, picker: &Picker, port: u16, delete: bool) -> Duration {
    let (pod, ip) = (pod(NAMESPACE, "timed", "vllm"), "127.2.0.1");
    server.run_all(&[(pod.clone(), ready(&[ip]))]);
    let gateway = Gateway::connect(picker.port);
    let subset = format!("{ip}:{port}");
    let ask = || gateway.chat_within(&subset, &chat("m", "hi"));
    wait_until("the pod is picked", || matches!(ask(), Pick::Endpoint(_)));
    let took = thread::scope(|scope| {
        let picking = scope.spawn(|| {
            let mut last = Instant::now();
            while let Pick::Endpoint(_) = ask() {
                last = Instant::now();
            }
            last
        });
        let start = Instant::now();
        if delete {
            server.delete(&pod);
        } else {
            server.set_status(&pod, &status("Running", "False", &[ip]));
        }
        picking.join().expect("picks go on").saturating_duration_since(start)
    });
    server.remove(&pod);
    took
}

/// Engines at every address of this machine: metrics as an idle vLLM prints them.
struct Engines {
    port: u16,
    _runtime: tokio::runtime::Runtime,
}

impl Engines {
    fn start() -> Self {
        let port = free_port();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("0.0.0.0", port))).expect("a free port");
        let pages = Router::new().route("/metrics", get(|| async { include_str!("fixtures/idle_vllm.txt") }));
        runtime.spawn(async move { axum::serve(listener, pages).await });
        Self { port, _runtime: runtime }
    }
}
