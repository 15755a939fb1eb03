//! Engines on loopback for the tests of the folder above, and a small client. Not a test itself.

#![allow(dead_code, clippy::unwrap_used)] // Each test binary uses its part; what fails, fails the test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lab::flags::{Command, Flags};
use lab::serve::{Settings, common, start};
use serde_json::Value;
use tokens::Tokenizer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Qwen3's tokenizer and template.
pub(crate) fn model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3")
}

/// Loaded once for all tests of a binary.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    Arc::clone(&TOKENIZER)
}

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| Arc::new(lab::model_dir::load(&model()).unwrap()));

/// A running engine; when its last copy is dropped, it ends.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    _served: Arc<JoinSet<std::io::Result<()>>>,
}

impl Engine {
    /// One engine called `m` with these flags; its steps take no time unless the flags say so.
    pub(crate) async fn start(flags: &[&str]) -> Engine {
        Engine::several(flags, &[None]).await.remove(0)
    }

    /// Several in one process, named or not.
    pub(crate) async fn several(flags: &[&str], names: &[Option<&str>]) -> Vec<Engine> {
        let quick = ["--step-base-us", "--step-prefill-token-us", "--step-sequence-us", "--step-context-token-us"];
        let mut typed = vec!["lab".to_owned(), "engine".to_owned(), "--served-model-name=m".to_owned()];
        typed.push(format!("--model={}", model().display()));
        typed.extend(quick.iter().filter(|flag| !flags.contains(flag)).map(|flag| format!("{flag}=0")));
        typed.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let Command::Engine(flags) = Flags::parse_from(typed).command else { panic!("engine flags") };
        let common = common(Settings::of(&flags).unwrap(), tokenizer()).await.unwrap();
        let mut served = JoinSet::new();
        let mut addresses = Vec::new();
        for name in names {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, engine) = start(Arc::clone(&common), listener, name.map(str::to_owned)).unwrap();
            served.spawn(engine);
            addresses.push(address);
        }
        let served = Arc::new(served);
        addresses.into_iter().map(|address| Engine { address, _served: Arc::clone(&served) }).collect()
    }
}

/// Compares line by line; indentation and empty lines do not count.
pub(crate) fn check(told: &str, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(lines(told), lines(expected), "told:\n{told}");
}

/// Status and body of a POST; ids and times in the body made equal.
pub(crate) async fn post(engine: &Engine, path: &str, body: &Value) -> (u16, String) {
    send(engine, "POST", path, "application/json", &body.to_string()).await
}

/// Status and body of a GET.
pub(crate) async fn get(engine: &Engine, path: &str) -> (u16, String) {
    send(engine, "GET", path, "", "").await
}

pub(crate) async fn send(engine: &Engine, method: &str, path: &str, kind: &str, body: &str) -> (u16, String) {
    let response = request(engine, method, path, kind, body).await;
    let status = response.status().as_u16();
    (status, evened(&text(response).await))
}

/// Headers and body of a POST.
pub(crate) async fn answer(engine: &Engine, path: &str, body: &Value) -> (HeaderMap, String) {
    let response = request(engine, "POST", path, "application/json", &body.to_string()).await;
    (response.headers().clone(), text(response).await)
}

/// The data of a stream's events, one a line; ids and times made equal.
pub(crate) async fn events(engine: &Engine, path: &str, body: &Value) -> String {
    let response = open(engine, path, body).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let text = text(response).await;
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let events = text.split_terminator("\n\n").map(|event| evened(event.strip_prefix("data: ").unwrap()));
    events.collect::<Vec<_>>().join("\n")
}

/// A stream that has begun.
pub(crate) async fn open(engine: &Engine, path: &str, body: &Value) -> http::Response<Incoming> {
    request(engine, "POST", path, "application/json", &body.to_string()).await
}

pub(crate) async fn first_bytes(response: &mut http::Response<Incoming>) -> String {
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

pub(crate) async fn metrics(engine: &Engine) -> String {
    get(engine, "/metrics").await.1
}

/// The metrics page once it is as wished; asked for at most a thousand times.
pub(crate) async fn eventually(engine: &Engine, wished: impl Fn(&str) -> bool) -> String {
    let mut page = String::new();
    for _ in 0..1000 {
        page = metrics(engine).await;
        if wished(&page) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never as wished:\n{page}");
}

/// The value of the first sample that begins with this.
pub(crate) fn metric(page: &str, begins: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("no {begins}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Each request has a connection of its own, so that dropping an answer closes it.
async fn request(engine: &Engine, method: &str, path: &str, kind: &str, body: &str) -> http::Response<Incoming> {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", engine.address))
        .header("content-type", kind)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    client.request(request).await.unwrap()
}

async fn text(response: http::Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn evened(text: &str) -> String {
    let Ok(Value::Object(mut object)) = serde_json::from_str(text) else { return text.to_owned() };
    if let Some((prefix, _)) = object.get("id").and_then(Value::as_str).and_then(|id| id.split_once('-')) {
        object["id"] = Value::from(format!("{prefix}-ID"));
    }
    if let Some(created) = object.get_mut("created") {
        *created = Value::from(0);
    }
    Value::Object(object).to_string()
}
