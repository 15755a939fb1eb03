//! The live page: what it is made of, the state as JSON and as a stream of events, and the search.
//!
//! In: requests, those for data from whom decisions are shown to; out: files that are in the program, and [`Live`]'s state, a second
//! apart. Who reads the stream is one of few, and is sent the newest state, never a queue of old ones. Nothing here changes anything.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware, routing};
use futures::StreamExt as _;
use futures::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::live::Live;

/// Readers of the stream at a time: few enough that they leave most of the port's connections to others.
const READERS: usize = 16;
/// How often the state is sent.
const EACH: Duration = Duration::from_secs(1);
/// How many states until a reader comes again, by itself, and shows again who it is: ten minutes.
const STATES: usize = 600;

/// What the page may load: its own two files, its own addresses, nothing else; and no text becomes HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page itself, for everybody: nothing of the picker is in it.
pub(super) fn page() -> Router {
    let files = Router::new()
        .route("/live", routing::get(async || file("text/html; charset=utf-8", include_str!("live/page.html"))))
        .route("/live.css", routing::get(async || file("text/css; charset=utf-8", include_str!("live/page.css"))))
        .route("/live.js", routing::get(async || file("text/javascript; charset=utf-8", include_str!("live/page.js"))));
    files.layer(middleware::map_response(protected))
}

/// What it shows, for those who may see it; streams end with `ended`.
pub(super) fn data(live: Arc<Live>, ended: watch::Receiver<bool>) -> Router {
    let shown = Shown { live, readers: Arc::new(Semaphore::new(READERS)), ended };
    let data = Router::new()
        .route("/live/state", routing::get(state))
        .route("/live/events", routing::get(events))
        .route("/live/decisions", routing::get(decisions));
    data.with_state(shown).layer(middleware::map_response(protected))
}

#[derive(Clone)]
struct Shown {
    live: Arc<Live>,
    readers: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Nobody frames it, keeps it, reads it from another site, or has it load what isn't its own.
async fn protected(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    response.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

async fn state(State(shown): State<Shown>) -> Response {
    match shown.live.json().await {
        Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[derive(Deserialize)]
struct Sought {
    id: String,
}

async fn decisions(State(shown): State<Shown>, Query(Sought { id }): Query<Sought>) -> Response {
    let found = shown.live.find(&id);
    Json(found.iter().map(|record| &**record).collect::<Vec<_>>()).into_response()
}

async fn events(State(shown): State<Shown>) -> Response {
    let Ok(place) = Arc::clone(&shown.readers).try_acquire_owned() else {
        let wait = [(header::RETRY_AFTER, "10")];
        return (StatusCode::SERVICE_UNAVAILABLE, wait, "As many as may look do look already\n").into_response();
    };
    let body = Body::from_stream(states(shown, place));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// One state after another, each made when the reader can take it, until it has had its time or the server ends. Its place is free again
/// when the stream is gone: with its connection, which ends where nothing can be written over it for long.
fn states(shown: Shown, place: OwnedSemaphorePermit) -> impl stream::Stream<Item = Result<Bytes, Infallible>> {
    let Shown { live, mut ended, .. } = shown;
    let mut ticks = interval(EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let each = stream::unfold((ticks, live, place), async |(mut ticks, live, place)| {
        ticks.tick().await;
        let event = [b"data: ", &*live.json().await?, b"\n\n"].concat();
        Some((Ok(Bytes::from(event)), (ticks, live, place)))
    });
    let over = async move { drop(ended.wait_for(|over| *over).await) };
    each.take(STATES).take_until(Box::pin(over))
}
