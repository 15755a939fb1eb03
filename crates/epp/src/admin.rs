//! The HTTP port for people and Prometheus: `/metrics`, and a word at `/`.

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use tokio::net::TcpListener;

use crate::metrics::{Metrics, PAGE_TYPE};

/// Serves until `shutdown`.
pub(crate) async fn run(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let pages = Router::new()
        .route("/", routing::get(|| async { "Warmpath, an endpoint picker. Metrics are at /metrics\n" }))
        .route("/metrics", routing::get(page))
        .with_state(metrics);
    axum::serve(listener, pages).with_graceful_shutdown(shutdown).await
}

async fn page(State(metrics): State<Arc<Metrics>>) -> Response {
    // A large fleet's page takes a millisecond and more.
    match tokio::task::spawn_blocking(move || metrics.page()).await {
        Ok(Ok(page)) => ([(header::CONTENT_TYPE, PAGE_TYPE)], page).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
