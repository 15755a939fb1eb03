//! grpc.health.v1: what gateways, Kubernetes, charts and conformance tests probe.
//!
//! In: a service name, the [`Readiness`] that the program sets, and the pulse that the watchdog feels. Out: SERVING or
//! NOT_SERVING. `liveness` is SERVING unless the runtime has been stuck for long; every other name (the empty one, `readiness`, `inference-extension`, the ext_proc service,
//! whatever a chart made up) answers readiness, which ends
//! as soon as the runtime is stuck. Never SERVICE_UNKNOWN: a probe with another name must not take a good
//! picker down.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::Stream;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthApi, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::Watchdog;

/// Whether requests should come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not yet, or not at the moment.
    NotReady,
    /// Yes.
    Ready,
    /// Not any more: the process is ending.
    Draining,
}

/// What the watchdog feels of the runtime that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    Felt,
    /// It is stuck.
    Missed,
    /// It has been for so long that only a restart is left.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition {
    state: State,
    pulse: Pulse,
}

/// The process's readiness: set in one place, asked for by every health service. Clones are one and the same.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<watch::Sender<Condition>>);

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// Not ready, to begin with.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Condition { state: State::NotReady, pulse: Pulse::Felt })))
    }

    /// Sets it, and wakes who watches. Draining is for good: whatever is set later changes nothing.
    pub fn set(&self, state: State) {
        self.0.send_if_modified(|now| {
            let changes = now.state != state && now.state != State::Draining;
            if changes {
                now.state = state;
            }
            changes
        });
    }

    pub(crate) fn feel(&self, pulse: Pulse) {
        self.0.send_if_modified(|now| std::mem::replace(&mut now.pulse, pulse) != pulse);
    }

    /// What it is now.
    pub fn get(&self) -> State {
        self.0.borrow().state
    }
}

/// The health service, over a [`Readiness`].
#[derive(Debug, Clone)]
pub struct Health(Readiness);

impl Health {
    pub(crate) fn new(readiness: Readiness) -> Self {
        Self(readiness)
    }

    /// As a service that a tonic server takes.
    pub fn service(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone())
    }
}

/// Serves health alone, in plaintext, until `shutdown`, on the watchdog's thread. Liveness is asked for while the program
/// drains, so shut this one down last.
///
/// # Errors
///
/// When the listener fails.
pub async fn run_health(
    listener: TcpListener,
    watchdog: Watchdog,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = listener.into_std()?;
    let served = watchdog.runtime().spawn(serve(listener, watchdog.health(), shutdown));
    served.await.map_err(io::Error::other)?
}

async fn serve(
    listener: std::net::TcpListener,
    health: Health,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    tonic::transport::Server::builder()
        .add_service(health.service())
        .serve_with_incoming_shutdown(TcpListenerStream::new(TcpListener::from_std(listener)?), shutdown)
        .await
        .map_err(io::Error::other)
}

fn answer(service: &str, now: Condition) -> HealthCheckResponse {
    let serving = match service {
        "liveness" => now.pulse != Pulse::Gone,
        _ => now.state == State::Ready && now.pulse == Pulse::Felt,
    };
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl HealthApi for Health {
    type WatchStream = Watching;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(answer(&request.into_inner().service, *self.0.0.borrow())))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watching>, Status> {
        let changes = WatchStream::new(self.0.0.subscribe());
        Ok(Response::new(Watching { service: request.into_inner().service, changes, told: None, over: false }))
    }
}

/// Tells the state, then each change. It ends when draining begins: a stream that stays would hold the server's end up.
#[derive(Debug)]
pub struct Watching {
    service: String,
    changes: WatchStream<Condition>,
    told: Option<HealthCheckResponse>,
    over: bool,
}

impl Stream for Watching {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.over {
            let Some(condition) = ready!(Pin::new(&mut self.changes).poll_next(cx)) else { break };
            self.over = condition.state == State::Draining;
            let now = answer(&self.service, condition);
            if self.told.replace(now) != Some(now) {
                return Poll::Ready(Some(Ok(now)));
            }
        }
        Poll::Ready(None)
    }
}
