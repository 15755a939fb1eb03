//! The HTTP port for people and Prometheus: `/metrics`, for those who may see it, and a word at `/`.

mod guard;
mod listen;

use std::future::Future;
use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing};
use cluster::Reviews;
use envoy::{Terms, Tls};
use tokio::net::TcpListener;

use crate::certificate;
use crate::metrics::{Metrics, PAGE_TYPE};
use crate::settings::MetricsAccess;
use crate::task::Task;
use guard::Guard;
use listen::Encrypted;

/// Who may see the pages, and how they are shown.
pub(crate) struct Access {
    guard: Option<Guard>,
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
        let Some(directory) = wanted.certificate.clone() else { return Ok(Self { guard, tls: None, _follower: None }) };
        let read = |file: &std::path::PathBuf| std::fs::read(file).with_context(|| file.display().to_string());
        let clients = wanted.clients.as_ref().map(read).transpose().context("--metrics-client-ca-file")?;
        let terms = Terms { clients, http_1: true, ..Terms::default() };
        let tls = certificate::read(Some(&directory), &terms).context("--metrics-cert-dir")?;
        let follower = Task::of(certificate::follow(directory, tls.clone()));
        Ok(Self { guard, tls: Some(tls), _follower: Some(follower) })
    }
}

/// Serves until `shutdown`.
pub(crate) async fn run(
    listener: TcpListener,
    access: Access,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let page = routing::get(page).with_state(metrics);
    let page = match access.guard {
        Some(guard) => page.layer(middleware::from_fn_with_state(guard, Guard::stand)),
        None => page,
    };
    let pages = Router::new()
        .route("/", routing::get(|| async { "Warmpath, an endpoint picker. Metrics are at /metrics\n" }))
        .route("/metrics", page);
    match &access.tls {
        Some(tls) => axum::serve(Encrypted::new(listener, tls)?, pages).with_graceful_shutdown(shutdown).await,
        None => axum::serve(listener, pages).with_graceful_shutdown(shutdown).await,
    }
}

async fn page(State(metrics): State<Arc<Metrics>>) -> Response {
    // A large fleet's page takes a millisecond and more.
    match tokio::task::spawn_blocking(move || metrics.page()).await {
        Ok(Ok(page)) => ([(header::CONTENT_TYPE, PAGE_TYPE)], page).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
