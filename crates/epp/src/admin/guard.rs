//! Who may see the metrics: whom the cluster's API server lets.
//!
//! In: a request's headers; out: that it may go on, or the answer that it gets instead: 401 without a token that is somebody's, 403
//! where its bearer has no right, 500 where the API server can't be asked. What it said is believed for a minute, and a refusal
//! for ten seconds. Tokens are neither kept nor logged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cluster::{Reviews, Verdict};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long it is believed that somebody may.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long it is believed that somebody may not.
const REFUSED: Duration = Duration::from_secs(10);
/// How many verdicts are kept.
const KEPT: usize = 1024;
/// How many are asked for at a time: who guesses tokens keeps the API server no busier than that.
const ASKED_AT_ONCE: usize = 4;
/// How long one may take, its turn included.
const WITHIN: Duration = Duration::from_secs(5);

/// Stands before the metrics. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Inner>);

struct Inner {
    reviews: Reviews,
    verdicts: Mutex<HashMap<Key, (Verdict, Instant)>>,
    turns: Semaphore,
    within: Duration,
    failing: AtomicBool,
}

/// Of a verb and a token.
type Key = [u8; 32];

impl Guard {
    pub(crate) fn new(reviews: Reviews) -> Self {
        Self::asking_within(reviews, WITHIN)
    }

    fn asking_within(reviews: Reviews, within: Duration) -> Self {
        let turns = Semaphore::new(ASKED_AT_ONCE);
        Self(Arc::new(Inner { reviews, verdicts: Mutex::default(), turns, within, failing: AtomicBool::new(false) }))
    }

    /// Lets a request pass, or answers it.
    pub(crate) async fn stand(State(guard): State<Self>, request: Request, next: Next) -> Response {
        let Some(token) = bearer(request.headers()) else { return refusal(&Verdict::Stranger) };
        match guard.verdict(token, request.method(), request.uri().path()).await {
            Ok(Verdict::Allowed) => next.run(request).await,
            Ok(refused) => refusal(&refused),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response(),
        }
    }

    async fn verdict(&self, token: &str, method: &Method, path: &str) -> Result<Verdict, String> {
        let verb = method.as_str().to_ascii_lowercase();
        let key: Key = Sha256::digest(format!("{verb} {path} {token}")).into();
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let Inner { reviews, turns, within, .. } = &*self.0;
        let asked = timeout(*within, async {
            let _turn = turns.acquire().await.map_err(|error| error.to_string())?;
            // It may have been asked for another request meanwhile.
            match self.known(&key) {
                Some(known) => Ok(known),
                None => reviews.review(token, &verb, path).await.map_err(|error| error.to_string()),
            }
        });
        let verdict = asked.await.unwrap_or_else(|_| Err(format!("no answer within {within:?}")));
        self.tell(verdict.as_ref().err());
        let verdict = verdict?;
        self.keep(key, &verdict);
        Ok(verdict)
    }

    fn known(&self, key: &Key) -> Option<Verdict> {
        let verdicts = self.0.verdicts.lock();
        verdicts.get(key).filter(|(_, until)| Instant::now() < *until).map(|(verdict, _)| verdict.clone())
    }

    fn keep(&self, key: Key, verdict: &Verdict) {
        let now = Instant::now();
        let span = if *verdict == Verdict::Allowed { ALLOWED } else { REFUSED };
        let mut verdicts = self.0.verdicts.lock();
        if verdicts.len() >= KEPT {
            verdicts.retain(|_, (_, until)| now < *until);
        }
        // Who guesses tokens drives out other guesses, and not those who may.
        if verdicts.len() >= KEPT {
            verdicts.retain(|_, (verdict, _)| *verdict == Verdict::Allowed);
        }
        if verdicts.len() >= KEPT {
            verdicts.clear();
        }
        verdicts.insert(key, (verdict.clone(), now + span));
    }

    /// Logged where it begins and where it ends, not each time.
    fn tell(&self, failed: Option<&String>) {
        let failing = self.0.failing.swap(failed.is_some(), Ordering::Relaxed);
        match failed {
            Some(why) if !failing => {
                tracing::warn!(why, "nobody is shown the metrics: the API server can't be asked who they are");
            }
            None if failing => tracing::info!("the API server can be asked again who may see the metrics"),
            _ => {}
        }
    }
}

/// The token, where there is one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn refusal(verdict: &Verdict) -> Response {
    match verdict {
        Verdict::Forbidden { user } => {
            (StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")).into_response()
        }
        _ => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "Unauthorized\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use axum::http::Uri;
    use axum::{Json, Router};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    /// An API server that knows the bearers of tokens beginning with `a`, lets those do all that end with `z`, never answers to
    /// `slow`, and counts what it is asked.
    struct Server {
        asked: Arc<AtomicUsize>,
        guard: Guard,
        serving: JoinHandle<()>,
    }

    async fn answer(State(asked): State<Arc<AtomicUsize>>, uri: Uri, Json(mut review): Json<Value>) -> String {
        asked.fetch_add(1, Ordering::Relaxed);
        let is_token = uri.path().ends_with("tokenreviews");
        let name = review["spec"][if is_token { "token" } else { "user" }].as_str().unwrap_or_default().to_owned();
        if name == "slow" {
            std::future::pending::<()>().await;
        }
        review["status"] = match is_token {
            true => json!({"authenticated": name.starts_with('a'), "user": {"username": name}}),
            false => json!({"allowed": name.ends_with('z')}),
        };
        review.to_string()
    }

    async fn server() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a URL");
        let asked = Arc::new(AtomicUsize::new(0));
        let pages = Router::new().fallback(answer).with_state(Arc::clone(&asked));
        let serving = tokio::spawn(async move { axum::serve(listener, pages).await.unwrap_or_default() });
        let client = kube::Client::try_from(kube::Config::new(url)).expect("a client");
        Server { asked, guard: Guard::asking_within(Reviews::new(client), Duration::from_millis(500)), serving }
    }

    impl Server {
        async fn check(&self, token: &str, expected: Option<Verdict>, asked_so_far: usize) {
            let verdict = self.guard.verdict(token, &Method::GET, "/metrics").await.ok();
            assert_eq!((verdict, self.asked.load(Ordering::Relaxed)), (expected, asked_so_far), "{token}");
        }
    }

    #[tokio::test]
    async fn a_verdict_is_believed_for_a_while() {
        let server = server().await;
        let forbidden = Some(Verdict::Forbidden { user: "ab".to_owned() });
        for _ in 0..2 {
            server.check("az", Some(Verdict::Allowed), 2).await;
        }
        for _ in 0..2 {
            server.check("ab", forbidden.clone(), 4).await;
        }
        for _ in 0..2 {
            server.check("nobody", Some(Verdict::Stranger), 5).await;
        }
        let put = server.guard.verdict("az", &Method::PUT, "/metrics").await;
        assert_eq!(
            (put, server.asked.load(Ordering::Relaxed)),
            (Ok(Verdict::Allowed), 7),
            "of one verb, not of another"
        );
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let server = server().await;
        for number in 0..=KEPT {
            server.guard.keep(Sha256::digest(number.to_string()).into(), &Verdict::Allowed);
        }
        assert_eq!(server.guard.0.verdicts.lock().len(), 1);
    }

    #[tokio::test]
    async fn who_guesses_tokens_does_not_make_those_who_may_be_asked_for_again() {
        let server = server().await;
        server.check("az", Some(Verdict::Allowed), 2).await;
        for number in 0..=KEPT {
            server.guard.keep(Sha256::digest(number.to_string()).into(), &Verdict::Stranger);
        }
        server.check("az", Some(Verdict::Allowed), 2).await;
    }

    #[tokio::test]
    async fn while_the_api_server_is_silent_or_away_nobody_new_may() {
        let server = server().await;
        server.check("az", Some(Verdict::Allowed), 2).await;
        server.check("slow", None, 3).await;
        server.serving.abort();
        let Server { asked, guard, serving } = server;
        let _ = serving.await;
        let ask = async |token: &str| guard.verdict(token, &Method::GET, "/metrics").await.ok();
        assert_eq!(ask("another").await, None);
        assert_eq!(ask("az").await, Some(Verdict::Allowed), "of whom it was asked before");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_token_is_a_bearers() {
        let check = |header: Option<&str>, token: Option<&str>| {
            let value = header.map(|header| (header::AUTHORIZATION, header.parse().expect("a header")));
            assert_eq!(bearer(&HeaderMap::from_iter(value)), token, "{header:?}");
        };
        check(None, None);
        check(Some("Bearer a.b"), Some("a.b"));
        check(Some("bearer  a"), Some("a"));
        check(Some("Basic a"), None);
        check(Some("Bearer "), None);
    }
}
