//! Checksums for a client that wants to prove that nothing between it and the engine changed a byte. In: a request and
//! its answer; out: the same answer with a checksum (xxh3, 64 bits, in hexadecimal) of the body as it arrived here, and
//! one of the answer's body as it leaves: in a header, or, where the answer is a stream, in a comment at its end. Only
//! with `--checksums`; no byte of an answer is changed otherwise.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use tokio_stream::Stream;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::refusal::Refusal;
use super::site::Site;

/// Of the request's body, as it arrived.
const REQUEST_CHECKSUM: &str = "x-request-checksum";
/// Of the answer's body, as it leaves.
const ANSWER_CHECKSUM: &str = "x-answer-checksum";

/// Adds the checksums, if they are wanted.
pub(super) async fn add(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    if !site.settings().checksums {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, super::app::LONGEST_BODY).await else {
        return Refusal::bad_request("the body broke off, or is too long", None).into_response();
    };
    let arrived = value(xxh3_64(&body));
    let answer = next.run(Request::from_parts(parts, Body::from(body))).await;
    let mut answer = if is_stream(&answer) { at_the_end(answer) } else { in_a_header(answer).await };
    answer.headers_mut().insert(REQUEST_CHECKSUM, arrived);
    answer
}

fn value(checksum: u64) -> HeaderValue {
    // Sixteen hexadecimal digits are a value.
    HeaderValue::from_str(&format!("{checksum:016x}")).unwrap_or(HeaderValue::from_static(""))
}

fn is_stream(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

async fn in_a_header(answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Refusal::unavailable("the answer broke off").into_response();
    };
    parts.headers.insert(ANSWER_CHECKSUM, value(xxh3_64(&body)));
    Response::from_parts(parts, Body::from(body))
}

fn at_the_end(answer: Response) -> Response {
    let (parts, body) = answer.into_parts();
    let events = Sealed { events: body.into_data_stream(), sum: Some(Xxh3::new()) };
    Response::from_parts(parts, Body::from_stream(events))
}

/// A stream's events, and then a comment with the checksum of all of them.
struct Sealed {
    events: BodyDataStream,
    /// `None` once the comment is out.
    sum: Option<Xxh3>,
}

impl Stream for Sealed {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(sum) = &self.sum else { return Poll::Ready(None) };
        let seal = format!(": checksum {:016x}\n\n", sum.digest());
        let polled = Pin::new(&mut self.events).poll_next(context);
        match &polled {
            Poll::Ready(Some(Ok(event))) => {
                if let Some(sum) = &mut self.sum {
                    sum.update(event);
                }
                polled
            }
            Poll::Ready(Some(Err(_))) => {
                self.sum = None;
                polled
            }
            Poll::Ready(None) => {
                self.sum = None;
                Poll::Ready(Some(Ok(seal.into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
