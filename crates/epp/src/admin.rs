//! The HTTP port for people and Prometheus: `/metrics`, the live page and the stream of decisions, for those who may see them, and a
//! word at `/`.

mod bounded;
mod ends;
mod guard;
mod listen;
mod live;

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing};
use cluster::Reviews;
use envoy::{Terms, Tls};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::feed::Feed;
use crate::live::Live;
use crate::metrics::{Format, Metrics};
use crate::settings::MetricsAccess;
use crate::task::Task;
use crate::{certificate, decisions};
use bounded::Bounded;
use ends::Ends;
use guard::Guard;
use listen::Encrypted;

/// Who may see the pages, and how they are shown.
pub(crate) struct Access {
    guard: Option<Guard>,
    by_certificate: bool,
    tls: Option<Tls>,
    _follower: Option<Task>,
}

impl Access {
    /// As the operator has it. What guards is set up, or the picker doesn't start.
    ///
    /// # Errors
    /// Where there is no API server to ask, or the certificates can't be used.
    pub(crate) async fn new(wanted: &MetricsAccess) -> anyhow::Result<Self> {
        let guard = match wanted.by_review {
            true => Some(Guard::new(Reviews::connect().await.context("--metrics-endpoint-auth")?)),
            false => None,
        };
        if guard.is_none() && wanted.clients.is_none() {
            tracing::info!("the metrics are shown to everybody (--metrics-endpoint-auth is off)");
        }
        let by_certificate = wanted.clients.is_some();
        let Some(directory) = wanted.certificate.clone() else {
            return Ok(Self { guard, by_certificate, tls: None, _follower: None });
        };
        let read = |file: &std::path::PathBuf| std::fs::read(file).with_context(|| file.display().to_string());
        let clients = wanted.clients.as_ref().map(read).transpose().context("--metrics-client-ca-file")?;
        let terms = Terms { clients, http_1: true, ..Terms::default() };
        let tls = certificate::read(Some(&directory), &terms).context("--metrics-cert-dir")?;
        let follower = Task::of(certificate::follow(directory, tls.clone()));
        Ok(Self { guard, by_certificate, tls: Some(tls), _follower: Some(follower) })
    }
}

/// Serves until told that it has `ended`.
pub(crate) async fn run(
    listener: TcpListener,
    access: Access,
    metrics: Arc<Metrics>,
    feed: Feed,
    live: Option<Arc<Live>>,
    ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let page = routing::get(page).with_state(metrics);
    let mut decisions = Router::new().route_service(decisions::PATHS, decisions::server(feed));
    let mut open = Router::new().route("/", routing::get(|| async { WORD }));
    if let Some(live) = live {
        decisions = decisions.merge(live::data(live, ended.clone()));
        open = open.merge(live::page());
    }
    let page = match access.guard.clone() {
        Some(guard) => page.layer(middleware::from_fn_with_state(guard, Guard::stand)),
        None => page,
    };
    let pages =
        open.route("/metrics", page).merge(shielded(decisions, &access)).into_make_service_with_connect_info::<Ends>();
    let shutdown = until(ended);
    match &access.tls {
        Some(tls) => {
            axum::serve(Bounded::new(Encrypted::new(listener, tls)?), pages).with_graceful_shutdown(shutdown).await
        }
        None => axum::serve(Bounded::new(listener), pages).with_graceful_shutdown(shutdown).await,
    }
}

/// Decisions say more than figures do, addresses and what is cached where: they are shown to everybody nowhere. Where nobody is asked who
/// may see the metrics, they are for this machine alone.
fn shielded(decisions: Router, access: &Access) -> Router {
    match &access.guard {
        Some(guard) => decisions.layer(middleware::from_fn_with_state(guard.clone(), Guard::stand)),
        // Every connection has shown whose it is.
        None if access.by_certificate => decisions,
        None => decisions.layer(middleware::from_fn(ends::from_here)),
    }
}

const WORD: &str = "Warmpath, an endpoint picker. Metrics are at /metrics, a page for people is at /live\n";

async fn until(mut ended: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is an end too.
    let _ = ended.wait_for(|over| *over).await;
}

async fn page(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::asked_for(accept);
    // A large fleet's page takes a millisecond and more.
    match tokio::task::spawn_blocking(move || metrics.page(format)).await {
        Ok(Ok(page)) => {
            ([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")], page).into_response()
        }
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn where_nobody_is_asked_decisions_are_for_this_machine_alone() {
        let access = Access { guard: None, by_certificate: false, tls: None, _follower: None };
        let decisions = Router::new().route_service(decisions::PATHS, decisions::server(Feed::default()));
        let pages = shielded(decisions, &access).into_make_service_with_connect_info::<Ends>();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let _serving = Task::of(async move { drop(axum::serve(Bounded::new(listener), pages).await) });
        for (from, header, expected) in [
            ("127.0.0.1", "host: localhost:9090", "HTTP/1.1 200"),
            ("127.0.0.1", "host: localhost\r\nx-forwarded-for: 10.0.0.9", "HTTP/1.1 403"),
            ("127.0.0.1", "host: a-name-that-leads-here.example", "HTTP/1.1 403"),
            ("127.0.0.2", "host: localhost", "HTTP/1.1 403"),
        ] {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(format!("{from}:0").parse().expect("an address")).expect("it is this machine's");
            let mut stream = socket.connect(address).await.expect("a connection");
            let asked = format!(
                "POST /warmpath.v1.Decisions/Follow HTTP/1.1\r\n{header}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(asked.as_bytes()).await.expect("it can be written");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with(expected), "{from} {header}: {answer}");
        }
    }
}
