//! A client whose watches can't spin, and of which one hears that they go on.
//!
//! In: a client. Out: the same one, but a watch that is asked for again within a second of the last time waits for the rest of it, and
//! each one that the API server grants is told. `kube`'s watcher backs off after errors alone: of a server (or what stands before
//! it) that ends each watch at once without one, it asks again at once; and a watch that goes on where it broke says nothing
//! until something changes, which for a pool may be days.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use kube::Client;
use kube::client::Body;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

/// How often a watch is asked for at most.
const APART: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Paced {
    client: Client,
    last: Arc<Mutex<Option<Instant>>>,
    granted: mpsc::UnboundedSender<()>,
}

/// For watches of one kind: paced, with what is told of those that are granted.
pub(crate) fn paced(client: &Client) -> (Client, impl Stream<Item = ()> + Send + use<>) {
    let (granted, mut told) = mpsc::unbounded_channel();
    let grants = stream::poll_fn(move |context| told.poll_recv(context));
    let namespace = client.default_namespace().to_owned();
    (Client::new(Paced { client: client.clone(), last: Arc::default(), granted }, namespace), grants)
}

type Request = http::Request<Body>;
type Response = http::Response<Body>;

impl Service<Request> for Paced {
    type Response = Response;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let paced = self.clone();
        Box::pin(async move {
            if !is_watch(&request) {
                return paced.client.send(request).await;
            }
            paced.turn().await;
            let response = paced.client.send(request).await?;
            if response.status().is_success() {
                // Nobody hears it once the watch is given up.
                let _ = paced.granted.send(());
            }
            Ok(response)
        })
    }
}

impl Paced {
    async fn turn(&self) {
        let mut last = self.last.lock().await;
        if let Some(last) = *last {
            sleep_until(last + APART).await;
        }
        *last = Some(Instant::now());
    }
}

fn is_watch(request: &Request) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}
