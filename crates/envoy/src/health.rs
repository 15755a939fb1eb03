//! grpc.health.v1: what gateways, Kubernetes, charts and conformance tests probe.
//!
//! In: a service name, the [`Readiness`] that the program sets, and the pulse that the watchdog feels. Out: SERVING or
//! NOT_SERVING. `liveness` is SERVING unless the runtime has been stuck for long; every other name (the empty one, `readiness`, `inference-extension`, the ext_proc service,
//! whatever a chart made up) answers readiness, which ends
//! as soon as the runtime is stuck. Never SERVICE_UNKNOWN: a probe with another name must not take a good
//! picker down. With leader election it is otherwise, as in llm-d: readiness has its own three names there, and others are unknown.

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
pub struct Readiness {
    condition: Arc<watch::Sender<Condition>>,
    names: Names,
}

/// What readiness may be called by a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Any,
    Known,
}

/// The names of readiness, where not every name is one.
const KNOWN: [&str; 3] = ["", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"];

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// Not ready, to begin with; asked for by any name.
    pub fn new() -> Self {
        Self::named(Names::Any)
    }

    /// The same, where one of several replicas is ready: asked for by its own names only.
    pub fn of_one_leader() -> Self {
        Self::named(Names::Known)
    }

    fn named(names: Names) -> Self {
        let condition = watch::Sender::new(Condition { state: State::NotReady, pulse: Pulse::Felt });
        Self { condition: Arc::new(condition), names }
    }

    /// Sets it, and wakes who watches. Draining is for good: whatever is set later changes nothing.
    pub fn set(&self, state: State) {
        self.condition.send_if_modified(|now| {
            let changes = now.state != state && now.state != State::Draining;
            if changes {
                now.state = state;
            }
            changes
        });
    }

    pub(crate) fn feel(&self, pulse: Pulse) {
        self.condition.send_if_modified(|now| std::mem::replace(&mut now.pulse, pulse) != pulse);
    }

    /// What it is now.
    pub fn get(&self) -> State {
        self.condition.borrow().state
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

fn answer(service: &str, names: Names, now: Condition) -> HealthCheckResponse {
    let serving = match service {
        "liveness" => Some(now.pulse != Pulse::Gone),
        name => (names == Names::Any || KNOWN.contains(&name))
            .then_some(now.state == State::Ready && now.pulse == Pulse::Felt),
    };
    let status = match serving {
        Some(true) => ServingStatus::Serving,
        Some(false) => ServingStatus::NotServing,
        None => ServingStatus::ServiceUnknown,
    };
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl HealthApi for Health {
    type WatchStream = Watching;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let Self(Readiness { condition, names }) = self;
        Ok(Response::new(answer(&request.into_inner().service, *names, *condition.borrow())))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watching>, Status> {
        let Self(Readiness { condition, names }) = self;
        let (service, changes) = (request.into_inner().service, WatchStream::new(condition.subscribe()));
        Ok(Response::new(Watching { service, names: *names, changes, told: None, over: false }))
    }
}

/// Tells the state, then each change. It ends when draining begins: a stream that stays would hold the server's end up.
#[derive(Debug)]
pub struct Watching {
    service: String,
    names: Names,
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
            let now = answer(&self.service, self.names, condition);
            if self.told.replace(now) != Some(now) {
                return Poll::Ready(Some(Ok(now)));
            }
        }
        Poll::Ready(None)
    }
}
