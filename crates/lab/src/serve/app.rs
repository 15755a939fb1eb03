//! The HTTP side of one engine. In: requests; out: answers as vLLM's. Keeps nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use request::Api;
use serde_json::json;
use tokio::task;

use super::answer::{Choice, Events, Frame};
use super::asked::Asked;
use super::refusal::Refusal;
use super::site::Site;
use super::{checksums, metrics};

/// What this stands in for, and that it is a stand-in.
const VERSION: &str = "0.32.0+warmpath.lab";

/// Longer bodies get a 413.
pub(super) const LONGEST_BODY: usize = 64 << 20;

/// The header that names the engine, where it is to be named.
const ENGINE_HEADER: &str = "x-engine-id";

/// The routes of one engine.
pub fn app(site: Arc<Site>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/health", get(healthy))
        .route("/ping", get(healthy).post(healthy))
        .route("/version", get(version))
        .route("/metrics", get(show_metrics))
        .route("/reset_prefix_cache", post(reset_prefix_cache))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), checksums::add))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), name_engine))
        .with_state(site)
}

async fn name_engine(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(name) = site.name.as_deref().and_then(|name| HeaderValue::from_str(name).ok()) {
        response.headers_mut().insert(ENGINE_HEADER, name);
    }
    response
}

async fn healthy() -> StatusCode {
    StatusCode::OK
}

async fn version() -> Response {
    Json(json!({ "version": VERSION })).into_response()
}

async fn method_not_allowed() -> Refusal {
    Refusal::plain(StatusCode::METHOD_NOT_ALLOWED)
}

async fn not_found() -> Refusal {
    Refusal::plain(StatusCode::NOT_FOUND)
}

async fn models(State(site): State<Arc<Site>>) -> Response {
    let settings = site.settings();
    let created = unix_seconds(site.runner.board().created);
    let longest = settings.shape.max_model_len;
    let card = |name: &str, root: &str, parent: Option<&str>, max_model_len: Option<u32>| {
        json!({"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": root, "parent": parent,
            "max_model_len": max_model_len, "permission": []})
    };
    let base = settings.names.iter().map(|name| card(name, &settings.root, None, Some(longest)));
    let adapters = settings.adapters.iter().map(|name| card(name, name, Some(settings.name()), None));
    let data: Vec<_> = base.chain(adapters).collect();
    Json(json!({"object": "list", "data": data})).into_response()
}

async fn show_metrics(State(site): State<Arc<Site>>) -> Response {
    let page = metrics::page(&site.runner.board(), site.settings());
    ([(header::CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")], page).into_response()
}

async fn reset_prefix_cache(State(site): State<Arc<Site>>) -> Response {
    if site.runner.reset_prefix_cache().await {
        StatusCode::OK.into_response()
    } else {
        Refusal::unavailable("the cache is in use: requests are running").into_response()
    }
}

async fn chat_completions(State(site): State<Arc<Site>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Api::ChatCompletions, site, &headers, body).await.unwrap_or_else(Refusal::into_response)
}

async fn completions(State(site): State<Arc<Site>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Api::Completions, site, &headers, body).await.unwrap_or_else(Refusal::into_response)
}

async fn answer(api: Api, site: Arc<Site>, headers: &HeaderMap, body: Bytes) -> Result<Response, Refusal> {
    json_only(headers)?;
    let asked = read(api, &site, body).await?;
    let frame = Frame {
        api,
        id: answer_id(api, headers),
        created: unix_seconds(SystemTime::now()),
        model: asked.model.clone(),
        include_usage: asked.include_usage,
        cached_tokens_in_usage: site.settings().cached_tokens_in_usage,
        return_token_ids: asked.return_token_ids,
        words: Arc::clone(site.words()),
    };
    let stream = asked.stream;
    let choices = submit(&site, asked).await?;
    if stream {
        let events = Body::from_stream(Events::new(frame, choices));
        return Ok(([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], events).into_response());
    }
    let answer = frame.whole(choices).await.ok_or_else(|| Refusal::unavailable("the engine has ended"))?;
    Ok(Json(answer).into_response())
}

fn json_only(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::bad_request("Unsupported Media Type: Only 'application/json' is allowed", None))
}

async fn read(api: Api, site: &Arc<Site>, body: Bytes) -> Result<Asked, Refusal> {
    // Never closed, so a permit always comes.
    let _permit = site.cpu().acquire().await.map_err(|_| Refusal::unavailable("the engine has ended"))?;
    let reader = Arc::clone(site);
    task::spawn_blocking(move || Asked::read(api, &body, &reader, SystemTime::now()))
        .await
        .map_err(|_| Refusal::plain(StatusCode::INTERNAL_SERVER_ERROR))?
}

async fn submit(site: &Site, asked: Asked) -> Result<Vec<Choice>, Refusal> {
    let mut choices = Vec::with_capacity(asked.asks.len());
    for ask in asked.asks {
        let prompt = ask.text.prompt_ids().to_vec();
        let submitted = site.runner.submit(ask).await.ok_or_else(|| Refusal::unavailable("the engine has ended"))?;
        let tokens = submitted.map_err(|unservable| Refusal::bad_request(unservable.to_string(), None))?;
        choices.push(Choice::new(tokens, prompt));
    }
    Ok(choices)
}

/// vLLM names an answer after the request's `x-request-id` where there is one.
fn answer_id(api: Api, headers: &HeaderMap) -> String {
    let prefix = match api {
        Api::ChatCompletions => "chatcmpl",
        _ => "cmpl",
    };
    match headers.get("x-request-id").and_then(|value| value.to_str().ok()) {
        Some(id) => format!("{prefix}-{id}"),
        None => format!("{prefix}-{:032x}", rand::random::<u128>()),
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
