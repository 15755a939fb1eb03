//! One request and its answer, measured. In: a body and a session key; out: [`Measured`], whatever happens.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{HeaderName, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;

use super::events::Events;
use crate::flags::LoadFlags;

/// Sends requests to one base URL over connections that are kept.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    target: Uri,
    session_header: HeaderName,
    engine_header: HeaderName,
    timeout: Duration,
}

/// What was measured of one request. Times in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// The session key sent.
    pub session: String,
    /// Which turn of its conversation, from 0.
    pub turn: usize,
    /// When it was due, from the start of the run.
    pub due_ms: f64,
    /// The answer's status; 0 where none came.
    pub status: u16,
    /// What went wrong, if anything.
    pub error: Option<String>,
    /// From due to the first content.
    pub ttft_ms: Option<f64>,
    /// From due to the end of the answer.
    pub total_ms: f64,
    /// Prompt tokens, as the engine counted them.
    pub prompt_tokens: Option<u64>,
    /// Of these, tokens that the engine had in its cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u64>,
    /// Which engine answered, where the answer says so.
    pub engine: Option<String>,
    /// The answer's text.
    #[serde(skip)]
    pub text: String,
}

impl Client {
    /// Checks the URL: plain HTTP, no path, and this machine's own unless remote hosts are allowed.
    pub(super) fn new(flags: &LoadFlags) -> anyhow::Result<Client> {
        let base: Uri = flags.url.parse().with_context(|| format!("--url {}", flags.url))?;
        ensure!(base.scheme_str() == Some("http"), "--url {}: only http:// is spoken here", flags.url);
        ensure!(matches!(base.path(), "" | "/"), "--url {}: no path may follow the port", flags.url);
        let authority = base.authority().with_context(|| format!("--url {}: no host", flags.url))?;
        if !flags.allow_remote && !is_loopback(authority.host()) {
            bail!("--url {}: not this machine; --allow-remote sends there all the same", flags.url);
        }
        let target = Uri::builder()
            .scheme("http")
            .authority(authority.clone())
            .path_and_query("/v1/chat/completions")
            .build()
            .with_context(|| format!("--url {}", flags.url))?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        Ok(Client {
            pool,
            target,
            session_header: flags.session_header.parse().context("--session-header")?,
            engine_header: flags.engine_header.parse().context("--engine-header")?,
            timeout: Duration::from_secs(flags.timeout_s.into()),
        })
    }

    /// Sends one request that was due at `due`; times are taken from then.
    pub(super) async fn send(&self, body: Vec<u8>, session: &str, due: Instant) -> Measured {
        let mut measured = Measured { session: session.to_owned(), ..Measured::default() };
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(body, due, &mut measured)).await;
        measured.error = match exchanged {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some(format!("no end within {} s", self.timeout.as_secs())),
        };
        measured.total_ms = milliseconds(due.elapsed());
        measured
    }

    async fn exchange(&self, body: Vec<u8>, due: Instant, measured: &mut Measured) -> anyhow::Result<()> {
        let request = Request::post(self.target.clone())
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(&self.session_header, &measured.session)
            .body(Full::new(Bytes::from(body)))?;
        let response = self.pool.request(request).await?;
        measured.status = response.status().as_u16();
        let engine = response.headers().get(&self.engine_header).and_then(|value| value.to_str().ok());
        measured.engine = engine.map(str::to_owned);
        let succeeded = response.status().is_success();
        let mut body = response.into_body();
        if !succeeded {
            let text = body.collect().await?.to_bytes();
            let text: String = String::from_utf8_lossy(&text).chars().take(300).collect();
            bail!("status {}: {text}", measured.status);
        }
        let mut events = Events::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            events.feed(&data);
            if measured.ttft_ms.is_none() && !events.text.is_empty() {
                measured.ttft_ms = Some(milliseconds(due.elapsed()));
            }
        }
        measured.take(events)
    }
}

impl Measured {
    fn take(&mut self, events: Events) -> anyhow::Result<()> {
        self.prompt_tokens = events.prompt_tokens;
        self.cached_tokens = events.cached_tokens;
        self.completion_tokens = events.completion_tokens;
        self.text = events.text;
        if let Some(fault) = events.fault {
            bail!("{fault}");
        }
        ensure!(events.finish_reason.is_some() && events.done, "the answer broke off");
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
