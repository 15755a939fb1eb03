//! The gRPC server around the exchanges.
//!
//! In: a bound listener, TLS or none, a handler, a watchdog, and a future that says when to stop. Out: one task a stream. The
//! listener is looked after by the watchdog's thread, everything else runs where [`run`] was called.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::transport::Server;

use crate::answers::{Answers, answers};
use crate::carrier::{Carrier, Phase, Waits};
use crate::messages::{Ears, Messages, Process};
use crate::{BodyMemory, Exchange, Handler, Limits, Tls, Watchdog, listen};

/// What may come in one message beside the body.
const BESIDE_THE_BODY: usize = 1 << 20;
/// How long the streams that are let go of when draining ends may take over it, and then once more without regard to harm.
const LETTING_GO: Duration = Duration::from_secs(1);

/// How to serve.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What one stream may use up.
    pub limits: Limits,
    /// What all bodies together may use up (1 GiB). At the bound requests are decided without their bodies.
    pub body_memory: BodyMemory,
    /// How long a request waits for more of its body before it is decided without it (10 s). Matters in full duplex, where
    /// gateways keep no time.
    pub body_stall: Duration,
    /// How long a gateway may leave an answer untaken before its stream is ended with an error (5 min).
    pub untaken: Duration,
    /// The largest gRPC message that is read, in bytes; `None`: the largest body and a megabyte. Matters where gateways
    /// buffer bodies, which come as one message then.
    pub max_message: Option<usize>,
    /// How many streams one connection may have at a time (4,096).
    pub max_streams: u32,
    /// How many bytes a gateway may send on a stream before we have read them (256 KiB). A connection takes
    /// as many as all its streams together, so that a stream which isn't read holds up no other.
    pub stream_window: u32,
    /// How often a quiet connection is asked whether its gateway is still there (30 s).
    pub ping_every: Duration,
    /// How long running streams may go on after the shutdown (30 s).
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            body_memory: BodyMemory::new(1 << 30),
            body_stall: Duration::from_secs(10),
            untaken: Duration::from_secs(300),
            max_message: None,
            max_streams: 4096,
            stream_window: 256 << 10,
            ping_every: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

/// Serves ext_proc and health on this listener until `shutdown`, then drains: no connection and no stream is taken any
/// more, and running ones go on to their end ([`Exchange::drain`]) or to the end of [`Settings::drain`], when they are let go
/// of ([`Exchange::let_go`]). Setting the readiness to draining beforehand is the caller's.
///
/// While the watchdog finds this runtime stuck, connections are shut down and new ones are closed at once.
///
/// # Errors
///
/// When the server can't be run on this listener. A failing connection isn't an error.
pub async fn run<H: Handler>(
    listener: TcpListener,
    tls: Option<Tls>,
    handler: H,
    watchdog: Watchdog,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (phase, phases) = watch::channel(Phase::Serving);
    let (stop, stopped) = oneshot::channel::<()>();
    let processor = Processor::new(handler, &settings, phases);
    let server = server(&settings)
        .add_service(watchdog.health().service())
        .add_service(processor.service())
        .serve_with_incoming_shutdown(listen::accept(listener, tls, &watchdog)?, async { drop(stopped.await) });
    let mut server = pin!(server);
    tokio::select! {
        ended = &mut server => return ended.map_err(io::Error::other),
        () = shutdown => {}
    }
    phase.send_replace(Phase::Draining);
    drop(stop);
    for (next, window) in [
        (Phase::LettingGo, settings.drain),
        (Phase::Leaving, LETTING_GO),
        // Nothing follows: the streams had their time.
        (Phase::Leaving, LETTING_GO),
    ] {
        if let Ok(ended) = tokio::time::timeout(window, &mut server).await {
            return ended.map_err(io::Error::other);
        }
        tracing::info!(?next, "the drain window is over: letting go of the streams that are left");
        phase.send_replace(next);
    }
    Ok(())
}

fn server(settings: &Settings) -> Server {
    let all_streams = u64::from(settings.stream_window) * u64::from(settings.max_streams);
    let connection_window = u32::try_from(all_streams).unwrap_or(u32::MAX).min(LARGEST_WINDOW);
    Server::builder()
        .max_concurrent_streams(settings.max_streams)
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(connection_window)
        .http2_keepalive_interval(Some(settings.ping_every))
        // Clients that hang up are a gateway's daily bread, and no attack of its own.
        .http2_max_pending_accept_reset_streams(Some(settings.max_streams as usize))
}

/// What HTTP/2 allows.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;

#[derive(Debug)]
struct Processor<H> {
    handler: Arc<H>,
    limits: Limits,
    /// The largest message that is read, in bytes.
    longest: usize,
    body_memory: BodyMemory,
    waits: Waits,
    phase: watch::Receiver<Phase>,
}

impl<H: Handler> Processor<H> {
    fn new(handler: H, settings: &Settings, phase: watch::Receiver<Phase>) -> Self {
        Self {
            handler: Arc::new(handler),
            limits: settings.limits,
            longest: settings.max_message.unwrap_or(settings.limits.max_body.saturating_add(BESIDE_THE_BODY)),
            body_memory: settings.body_memory.clone(),
            waits: Waits { body_stall: settings.body_stall, untaken: settings.untaken },
            phase,
        }
    }

    fn service(self) -> Ears<Self> {
        let (longest, memory) = (self.longest, self.body_memory.clone());
        Ears::new(self, longest, memory)
    }
}

impl<H: Handler> Process for Processor<H> {
    fn process(&self, messages: Messages) -> Answers {
        let (sender, taken) = answers();
        let carrier = Carrier {
            exchange: Exchange::new(self.limits, self.body_memory.clone(), fresh_id()),
            most: self.limits.max_body.min(self.longest),
            waits: self.waits,
            handler: Arc::clone(&self.handler),
            phase: self.phase.clone(),
            answers: sender,
        };
        tokio::spawn(carrier.carry(messages));
        taken
    }
}

/// A UUID, version 4.
fn fresh_id() -> String {
    let bits = rand::random::<u128>() & !(0xf << 76 | 0x3 << 62) | (0x4 << 76 | 0x2 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
