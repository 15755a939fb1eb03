//! `lab engine`: stand-ins for vLLM servers over HTTP. In: flags; out: listening engines until told to end. Several in
//! one process share one tokenizer; each has its own model, its own thread of time, and its own port.

mod answer;
mod app;
mod asked;
mod board;
mod checksums;
mod metrics;
mod refusal;
mod runner;
mod settings;
mod site;

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::serve::ListenerExt;
use tokens::Tokenizer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use app::app;
pub use runner::{Runner, Tokens};
pub use settings::Settings;
pub use site::{Common, Site};

use crate::flags::EngineFlags;

/// Runs the engines that were asked for until `end` completes. Each address is written to `out` once it listens.
pub async fn run(flags: &EngineFlags, out: &mut impl Write, end: impl Future<Output = ()>) -> anyhow::Result<()> {
    let settings = Settings::of(flags)?;
    let dir = flags.model.clone();
    let tokenizer = tokio::task::spawn_blocking(move || crate::model_dir::load(&dir)).await??;
    for warning in tokenizer.warnings() {
        writeln!(out, "{warning}")?;
    }
    let common = common(settings, Arc::new(tokenizer)).await?;
    let mut engines = JoinSet::new();
    let ports = ports(flags)?;
    for &port in &ports {
        let listener = TcpListener::bind((flags.host, port)).await.with_context(|| format!("listening on {port}"))?;
        let name = flags.engine_name.clone().map(|name| named(name, &listener, ports.len()));
        writeln!(out, "listening on {}", listener.local_addr()?)?;
        let (_, engine) = start(Arc::clone(&common), listener, name)?;
        engines.spawn(engine);
    }
    out.flush()?;
    tokio::select! {
        () = end => Ok(()),
        Some(ended) = engines.join_next() => ended?.context("an engine's listener ended"),
    }
}

/// Gets ready what all engines of a process share, off the async threads.
pub async fn common(settings: Settings, tokenizer: Arc<Tokenizer>) -> anyhow::Result<Arc<Common>> {
    let common = tokio::task::spawn_blocking(move || Common::new(settings, tokenizer)).await??;
    Ok(Arc::new(common))
}

/// Starts one engine on a listener: its address, and a future that serves it and never completes but by failure.
pub fn start(
    common: Arc<Common>,
    listener: TcpListener,
    name: Option<String>,
) -> anyhow::Result<(SocketAddr, impl Future<Output = std::io::Result<()>> + Send + 'static)> {
    let address = listener.local_addr()?;
    let Settings { shape, cost, .. } = *common.settings();
    let runner = Runner::start(&format!("engine-{}", address.port()), shape, cost)?;
    let site = Arc::new(Site::new(common, runner, name));
    // Tokens are small and must go out at once.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok((address, async move { axum::serve(listener, app(site)).await }))
}

fn named(name: String, listener: &TcpListener, engines: usize) -> String {
    match listener.local_addr() {
        Ok(address) if engines > 1 => format!("{name}-{}", address.port()),
        _ => name,
    }
}

fn ports(flags: &EngineFlags) -> anyhow::Result<Vec<u16>> {
    if !flags.ports.is_empty() {
        return Ok(flags.ports.clone());
    }
    if flags.port == 0 {
        return Ok(vec![0; flags.count.into()]);
    }
    let last = flags.port.checked_add(flags.count - 1).context("--port and --count: the last port is above 65535")?;
    Ok((flags.port..=last).collect())
}
