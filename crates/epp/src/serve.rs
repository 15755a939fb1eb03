//! Wiring: opens the ports, starts what runs beside the requests, and ends everything in order.
//!
//! In: checked settings; out: when the process has been told to end and has drained. It starts things and knows nothing
//! of how they work.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use engine::{Dialects, Event, Pace, Scraper, Target};
use envoy::{BodyMemory, Limits, Patience, Readiness, State, Watchdog};
use fleet::Fleet;
use request::Engine;
use route::{Assumed, Router};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::complaints::Complaints;
use crate::cpu::Cpu;
use crate::discovery::Hearers;
use crate::feed::{Feed, Told};
use crate::flags::Flags;
use crate::holdout::Holdout;
use crate::live::{Live, Sources};
use crate::load_only::LoadOnly;
use crate::metrics::{FleetMetrics, MemoMetrics, Metrics, ModelNames, ServerMetrics};
use crate::models::Models;
use crate::pipeline::Pipeline;
use crate::record_log::Logged;
use crate::settings::Settings;
use crate::spans::Spans;
use crate::task::Task;
use crate::understand::Rules;
use crate::{admin, certificate, discovery, election, engines, memory_limit, metrics};

/// Serves until SIGTERM or SIGINT, then drains.
pub(crate) fn serve(flags: &Flags) -> anyhow::Result<()> {
    let settings = Settings::read(flags)?;
    for warning in &settings.warnings {
        tracing::warn!("flags: {warning}");
    }
    for warning in &settings.config.warnings {
        tracing::warn!("config: {warning}");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let watching = metrics::watch(&mut runtime);
    runtime.enable_all().build()?.block_on(run(flags, settings, watching))
}

async fn run(flags: &Flags, settings: Settings, mut watching: Vec<metrics::Watching>) -> anyhow::Result<()> {
    let Settings { config, source, candidate, file, pool, terms, metrics: access, .. } = settings;
    let grpc = bind(flags.bind_address, flags.grpc_port).await?;
    let health_port = bind(flags.bind_address, flags.grpc_health_port).await?;
    let admin_port = bind(flags.bind_address, flags.metrics_port).await?;
    let (end, ended) = watch::channel(false);
    let readiness = if candidate.is_some() { Readiness::of_one_leader() } else { Readiness::new() };
    let watchdog = Watchdog::start(readiness.clone(), patience(flags))?;
    let health_server = tokio::spawn(envoy::run_health(health_port, watchdog.clone(), until(ended.clone())));
    let body_memory = BodyMemory::new(flags.max_body_memory.unwrap_or_else(memory_limit::for_bodies));
    let memos = MemoMetrics::default();
    watching.push(Box::new(memos.clone()));
    watching.push(Box::new(ServerMetrics { watchdog: watchdog.clone(), body_memory: body_memory.clone() }));

    let fleet = Arc::new(Fleet::new());
    let assumed = Assumed { block_size: config.blocks.size, capacity_blocks: config.blocks.capacity.get() as usize };
    let router = Router::new(Arc::clone(&fleet)).assuming(assumed);
    let load_only = LoadOnly::new(config.load_only);
    let fleet_metrics = FleetMetrics {
        load_only: load_only.clone(),
        fleet: Arc::clone(&fleet),
        router: router.clone(),
        pool: pool.clone(),
        stale_after: config.policy.stale_after,
        deprecated: flags.deprecated_metrics,
    };
    let metrics = Arc::new(Metrics::new(flags.deprecated_metrics, fleet_metrics, watching));
    let feed = Feed::default();
    let access = admin::Access::new(&access).await?;
    let sources = Sources {
        fleet: Arc::clone(&fleet),
        router: router.clone(),
        load_only: load_only.clone(),
        pool,
        stale_after: config.policy.stale_after,
    };
    let live = flags.live_page.then(|| kept(sources, &feed));
    let admin_server = tokio::spawn(admin::run(admin_port, access, Arc::clone(&metrics), feed.clone(), live, ended));
    let _scraper = Task::of(scraper(&config, &fleet, &router, &metrics)?.run());
    let (tell_synced, synced) = watch::channel(false);
    let ruled = Arc::default();
    let hearers = Hearers {
        fleet: Arc::clone(&fleet),
        router: router.clone(),
        metrics: Arc::clone(&metrics),
        synced: tell_synced,
        ruled: Arc::clone(&ruled),
        labelled: config.labelled.clone(),
    };
    let _follower = discovery::follow(source, hearers).await?;

    let configured = config.models.clone();
    let models = Arc::new(tokio::task::spawn_blocking(move || Models::load(&configured)).await?);
    memos.of(&models);
    count_tokenizers(&models, &metrics);
    let _looker = Task::of(look_at_models(Arc::clone(&models), Arc::clone(&metrics)));
    let _switch = file.map(|(path, typed)| Task::of(load_only.clone().follow(path, typed)));
    let (spans, sender) = if flags.tracing { Spans::start().context("tracing")? } else { Default::default() };
    let pipeline = Pipeline {
        spans,
        fleet: Arc::clone(&fleet),
        router,
        holdout: Holdout::of(&config),
        shadow: config.shadow,
        policy: config.policy,
        names: Arc::new(ModelNames::new(models.names())),
        models,
        cpu: Cpu::new(flags.cpu_threads.unwrap_or_else(cores), flags.cpu_queue),
        tenant_header: config.tenant_header,
        tell_decision_if: config.tell_decision_if,
        rules: Rules {
            engine: Engine::named(&config.engines.default).unwrap_or_default(),
            trust_request_template: config.trust_request_chat_template,
        },
        trust: config.trust,
        load_only,
        strict: flags.strict_requests,
        heed_subset: !flags.disable_endpoint_subset_filter,
        decide_within: flags.decide_timeout,
        tell_scores: flags.emit_endpoint_scores,
        conformance: flags.conformance_test_headers,
        logged: if flags.log_decisions { Logged::share(flags.log_decisions_share) } else { Logged::NONE },
        feed: feed.clone(),
        ruled,
        complaints: Complaints::default(),
        metrics: Arc::clone(&metrics),
    };
    let serving = envoy::Settings {
        limits: Limits { max_body: config.limits.max_body_bytes },
        body_memory,
        body_stall: flags.body_stall,
        max_message: flags.grpc_max_recv_msg_size.filter(|bytes| *bytes > 0),
        drain: flags.drain_timeout,
        ..envoy::Settings::default()
    };
    let tls = if flags.secure_serving { Some(certificate::read(flags.cert_path.as_deref(), &terms)?) } else { None };
    let followed = flags.cert_path.clone().filter(|_| flags.enable_cert_reload);
    let _shower = tls.clone().zip(followed).map(|(tls, directory)| Task::of(certificate::follow(directory, tls)));
    tracing::info!(
        address = %grpc.local_addr()?, tls = tls.is_some(), endpoints = fleet.view().endpoints().len(), "serving ext_proc"
    );
    let draining = readiness.clone();
    let signal = stop_signal()?;
    let (tell_draining, drains) = watch::channel(false);
    let shutdown = async move {
        signal.await;
        tracing::info!("told to end: draining");
        draining.set(State::Draining);
        tell_draining.send_replace(true);
    };
    // Who isn't one of several leads.
    let (tell_leads, leads) = watch::channel(candidate.is_none());
    let election = candidate.map(|candidate| {
        tokio::spawn(election::stand(candidate, synced.clone(), tell_leads, Arc::clone(&metrics), until(drains)))
    });
    let _announcer = Task::of(show(synced, leads, readiness));
    let served = envoy::run(grpc, tls, pipeline, watchdog, serving, shutdown).await;
    if let Some(election) = election {
        // The lease is given up while streams are drained.
        election.await.context("leader election")?;
    }
    sender.end().await;
    feed.close();
    // Probes and the last scrape are answered until the streams are gone.
    end.send_replace(true);
    let last_answers = async { tokio::join!(health_server, admin_server) };
    if tokio::time::timeout(LAST_ANSWERS, last_answers).await.is_err() {
        tracing::info!("clients of the health or the metrics port hold their connections: they end with the process");
    }
    served.context("ext_proc server")
}

/// The live page's state, with decisions kept from now on, until the feed's end.
fn kept(sources: Sources, feed: &Feed) -> Arc<Live> {
    let live = Arc::new(Live::new(sources));
    if let Some(follower) = feed.follow(Told::Ends) {
        tokio::spawn(Arc::clone(&live).keep(follower));
    }
    live
}

/// Listens at that address, or at every address of both families.
async fn bind(address: Option<IpAddr>, port: u16) -> anyhow::Result<TcpListener> {
    let listener = match address {
        Some(address) => TcpListener::bind(SocketAddr::new(address, port)).await,
        None => match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
            // No IPv6 on this machine.
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
            }
            bound => bound,
        },
    };
    listener.with_context(|| format!("port {port}"))
}

/// Liveness fails later than readiness: a restart is the last thing to try.
fn patience(flags: &Flags) -> Patience {
    Patience { stuck_after: flags.stuck_after, dead_after: flags.stuck_after * 6 }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads the engines, counts and logs what happens, and forgets the caches of those that restarted.
fn scraper(
    config: &config::Config,
    fleet: &Arc<Fleet>,
    router: &Router,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Scraper> {
    let dialects: Dialects = engines::dialects(&config.engines);
    let target: Target = engines::target(&config.scrape);
    let pace = Pace {
        interval: config.scrape.interval,
        idle_interval: config.scrape.idle_interval,
        timeout: config.scrape.timeout,
    };
    let (router, metrics) = (router.clone(), Arc::clone(metrics));
    let events = move |event: Event| {
        match &event {
            Event::Read { endpoint, took, read, .. } => {
                metrics.picks.scraped(*took);
                if read.restarted {
                    router.restarted(endpoint.id);
                    metrics.picks.restarted(&endpoint.member);
                }
            }
            Event::Failed { .. } => metrics.picks.scrape_failed(),
            Event::Warning { .. } => {}
        }
        event.log();
    };
    Ok(Scraper::new(Arc::clone(fleet), dialects, target, pace, events)?)
}

/// How long probes and scrapes that are under way at the end may take. Who has gone without a word never lets go by itself.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How often models' files are looked at; they are loaded again when two looks find the same change.
const LOOK_AT_MODELS: Duration = Duration::from_secs(5);

/// Loads models' files again when they change.
async fn look_at_models(models: Arc<Models>, metrics: Arc<Metrics>) {
    loop {
        tokio::time::sleep(LOOK_AT_MODELS).await;
        let (models, metrics) = (Arc::clone(&models), Arc::clone(&metrics));
        let look = move || {
            if !models.look().is_empty() {
                count_tokenizers(&models, &metrics);
            }
        };
        if tokio::task::spawn_blocking(look).await.is_err() {
            tracing::error!("loading a model's changed files failed: those loaded before stay in use");
        }
    }
}

fn count_tokenizers(models: &Models, metrics: &Metrics) {
    for (model, loaded) in models.loaded() {
        metrics.picks.tokenizer(model, loaded);
    }
}

/// Ready while the fleet is known and this process leads.
async fn show(mut synced: watch::Receiver<bool>, mut leads: watch::Receiver<bool>, readiness: Readiness) {
    loop {
        let (known, leading) = (*synced.borrow_and_update(), *leads.borrow_and_update());
        readiness.set(if known && leading { State::Ready } else { State::NotReady });
        // A sender that is gone says nothing new: the other one may.
        tokio::select! {
            Ok(()) = synced.changed() => {}
            Ok(()) = leads.changed() => {}
            else => return,
        }
    }
}

async fn until(mut flag: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is an end too.
    let _ = flag.wait_for(|over| *over).await;
}

fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
