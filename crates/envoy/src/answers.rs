//! A stream's answers on their way from its carrier to the wire: a short queue.
//!
//! In: answers, one by one, and the last word. Out: what tonic sends. The carrier waits while the queue is full, learns when
//! the gateway is gone, and can cut the stream off, which frees what waits even if nobody ever reads it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingResponse;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

/// Answers that wait for the gateway to take them, a stream. With the parts' size it bounds what a stream holds.
const WAITING: usize = 8;

/// How a stream ends.
#[derive(Debug)]
pub(crate) enum Last {
    /// Nothing is owed any more.
    Clean,
    Failed(Status),
}

type Answer = Result<ProcessingResponse, Last>;

/// The carrier's end.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: mpsc::Sender<Answer>,
    taken: Arc<Mutex<Taken>>,
}

/// The wire's end.
#[derive(Debug)]
pub(crate) struct Answers(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    queue: mpsc::Receiver<Answer>,
    /// How it was cut off.
    cut: Option<Status>,
    over: bool,
}

/// The gateway let go of the stream: there is nobody left to answer.
#[derive(Debug)]
pub(crate) struct Gone;

pub(crate) fn answers() -> (Sender, Answers) {
    let (sender, queue) = mpsc::channel(WAITING);
    let taken = Arc::new(Mutex::new(Taken { queue, cut: None, over: false }));
    (Sender { queue: sender, taken: Arc::clone(&taken) }, Answers(taken))
}

impl Sender {
    /// Waits for room.
    pub(crate) async fn send(&self, answer: ProcessingResponse) -> Result<(), Gone> {
        self.queue.send(Ok(answer)).await.map_err(|_| Gone)
    }

    /// The last word, after what waits.
    pub(crate) async fn end(&self, last: Last) {
        // Refused only by a gateway that is gone.
        drop(self.queue.send(Err(last)).await);
    }

    /// Comes back when the gateway is gone.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Ends the stream at once, and drops what waits.
    pub(crate) fn cut_off(self, status: Status) {
        let mut taken = lock(&self.taken);
        taken.cut = Some(status);
        taken.empty();
    }
}

impl Taken {
    fn empty(&mut self) {
        self.queue.close();
        while self.queue.try_recv().is_ok() {}
    }
}

impl Stream for Answers {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut taken = lock(&self.0);
        if taken.over {
            return Poll::Ready(None);
        }
        let last = match taken.cut.take() {
            Some(status) => Some(Err(status)),
            None => match ready!(taken.queue.poll_recv(cx)) {
                Some(Ok(message)) => return Poll::Ready(Some(Ok(message))),
                Some(Err(Last::Failed(status))) => Some(Err(status)),
                Some(Err(Last::Clean)) => None,
                None => Some(Err(Status::internal("the endpoint picker failed on this stream"))),
            },
        };
        taken.over = true;
        Poll::Ready(last)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        lock(&self.0).empty();
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    // Nothing in here is left half done by a panic.
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}
