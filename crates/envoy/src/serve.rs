//! The gRPC server around the exchanges.
//!
//! In: a bound listener, TLS or none, a handler, a health service, and a future that says when to stop. Out: one task a
//! stream, which carries messages between the gateway, its [`Exchange`] and the [`Handler`], and nothing else.
//!
//! A stream that the gateway lets go of ends its task, and with it the decision and the ticket, wherever they stand. A
//! stream whose task fails ends with an error: only a stream that owes the gateway nothing ends cleanly, for a clean end
//! tells a gateway to go on with what it has.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::Stream;
use tonic::codec::CompressionEncoding;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::{Exchange, Handler, Health, Limits, Refusal, Step, Tls, listen};

/// What may come in one message beside the body.
const BESIDE_THE_BODY: usize = 1 << 20;
/// Answers that wait for the gateway to take them, a stream.
const WAITING_ANSWERS: usize = 8;
/// How long the streams that are let go of when draining ends may take over it.
const LETTING_GO: Duration = Duration::from_secs(1);

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What one stream may use up.
    pub limits: Limits,
    /// The largest gRPC message that is read, in bytes; `None`: the largest body and a megabyte. Matters where gateways
    /// buffer bodies, which come as one message then.
    pub max_message: Option<usize>,
    /// How many streams one connection may have at a time (4,096).
    pub max_streams: u32,
    /// How many bytes a gateway may send on a stream before we have read them (256 KiB). A connection takes
    /// as many as all its streams together, so that a stream which isn't read holds up no other.
    pub stream_window: u32,
    /// How often a quiet connection is asked whether its gateway is still there (30 s).
    pub ping_every: Duration,
    /// How long running streams may go on after the shutdown (30 s).
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_message: None,
            max_streams: 4096,
            stream_window: 256 << 10,
            ping_every: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

/// Serves ext_proc and health on this listener until `shutdown`, then drains: no connection and no stream is taken any
/// more, running ones go on to their end or to the end of [`Settings::drain`], when they are let go of ([`Exchange::refuse`]).
/// Setting the readiness to draining beforehand is the caller's.
///
/// # Errors
///
/// When the server can't be run on this listener. A failing connection isn't an error.
pub async fn run<H: Handler>(
    listener: TcpListener,
    tls: Option<Tls>,
    handler: H,
    health: Health,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (let_go, going) = watch::channel(false);
    let (stop, stopped) = oneshot::channel::<()>();
    let processor = Processor { handler: Arc::new(handler), limits: settings.limits, going };
    let server = server(&settings)
        .add_service(health.service())
        .add_service(processor.service(&settings))
        .serve_with_incoming_shutdown(listen::accept(listener, tls), async { drop(stopped.await) });
    let mut server = pin!(server);
    tokio::select! {
        ended = &mut server => return ended.map_err(io::Error::other),
        () = shutdown => {}
    }
    drop(stop);
    if let Ok(ended) = tokio::time::timeout(settings.drain, &mut server).await {
        return ended.map_err(io::Error::other);
    }
    tracing::info!("the drain window is over: letting go of the streams that are left");
    let_go.send_replace(true);
    match tokio::time::timeout(LETTING_GO, &mut server).await {
        Ok(ended) => ended.map_err(io::Error::other),
        Err(_) => Ok(()),
    }
}

fn server(settings: &Settings) -> Server {
    let all_streams = u64::from(settings.stream_window) * u64::from(settings.max_streams);
    let connection_window = u32::try_from(all_streams).unwrap_or(u32::MAX).min(LARGEST_WINDOW);
    Server::builder()
        .max_concurrent_streams(settings.max_streams)
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(connection_window)
        .http2_keepalive_interval(Some(settings.ping_every))
        // Clients that hang up are a gateway's daily bread, and no attack of its own.
        .http2_max_pending_accept_reset_streams(Some(settings.max_streams as usize))
}

/// What HTTP/2 allows.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;

#[derive(Debug)]
struct Processor<H> {
    handler: Arc<H>,
    limits: Limits,
    going: watch::Receiver<bool>,
}

impl<H: Handler> Processor<H> {
    fn service(self, settings: &Settings) -> ExternalProcessorServer<Self> {
        let largest = settings.max_message.unwrap_or(settings.limits.max_body.saturating_add(BESIDE_THE_BODY));
        ExternalProcessorServer::new(self)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(largest)
    }
}

#[tonic::async_trait]
impl<H: Handler> ExternalProcessor for Processor<H> {
    type ProcessStream = Answers;

    async fn process(&self, request: Request<Streaming<ProcessingRequest>>) -> Result<Response<Answers>, Status> {
        let (answers, taken) = mpsc::channel(WAITING_ANSWERS);
        let carrier = Carrier {
            exchange: Exchange::new(self.limits, fresh_id()),
            limits: self.limits,
            handler: Arc::clone(&self.handler),
            going: self.going.clone(),
            answers,
        };
        tokio::spawn(carrier.carry(request.into_inner()));
        Ok(Response::new(Answers(Some(taken))))
    }
}

/// Carries one stream's messages.
struct Carrier<H: Handler> {
    exchange: Exchange<H::Ticket>,
    limits: Limits,
    handler: Arc<H>,
    going: watch::Receiver<bool>,
    answers: mpsc::Sender<Answer>,
}

/// A message, or the end of the stream.
type Answer = Result<ProcessingResponse, Last>;

#[derive(Debug)]
pub(crate) enum Last {
    /// Nothing is owed any more.
    Clean,
    Failed(Status),
}

/// The gateway let go of the stream: there is nobody left to answer.
struct Gone;

impl<H: Handler> Carrier<H> {
    async fn carry(mut self, messages: Streaming<ProcessingRequest>) {
        // Dropped with everything it holds, the ticket among it, before the gateway learns of the end.
        let last = match self.exchange_all(messages).await {
            Ok(last) => last,
            Err(Gone) => return,
        };
        let answers = self.answers.clone();
        drop(self);
        drop(answers.send(Err(last)).await);
    }

    async fn exchange_all(&mut self, mut messages: Streaming<ProcessingRequest>) -> Result<Last, Gone> {
        let handler = Arc::clone(&self.handler);
        let mut going = self.going.clone();
        let mut decision = None;
        let mut more = true;
        while more || decision.is_some() {
            let step = tokio::select! {
                biased;
                () = self.answers.closed() => return Err(Gone),
                outcome = settle(&mut decision) => self.exchange.decided(outcome),
                _ = going.wait_for(|going| *going) => self.exchange.refuse(&Refusal::ShuttingDown),
                message = messages.message(), if more => match message {
                    Ok(Some(message)) => self.exchange.receive(message),
                    Ok(None) => {
                        more = false;
                        continue;
                    }
                    Err(status) if status.code() == Code::OutOfRange => {
                        self.exchange.refuse(&Refusal::TooLarge { limit: self.limits.max_body })
                    }
                    Err(status) => return Ok(Last::Failed(status)),
                },
            };
            match step {
                Step::Wait => {}
                Step::Decide(inbound) => decision = Some(Box::pin(handler.decide(inbound))),
                Step::Send(replies) => {
                    for reply in replies {
                        self.answers.send(Ok(reply)).await.map_err(|_| Gone)?;
                    }
                }
                Step::Close => return Ok(Last::Clean),
            }
            if self.exchange.is_over() {
                return Ok(Last::Clean);
            }
            if !self.exchange.is_deciding() {
                decision = None;
            }
        }
        Ok(Last::Clean)
    }
}

/// The outcome of the decision that is under way, if one is.
async fn settle<F: Future>(decision: &mut Option<Pin<Box<F>>>) -> F::Output {
    match decision {
        Some(decision) => decision.await,
        None => std::future::pending().await,
    }
}

/// A stream's answers, as tonic sends them.
#[derive(Debug)]
pub(crate) struct Answers(Option<mpsc::Receiver<Answer>>);

impl Stream for Answers {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(answers) = &mut self.0 else { return Poll::Ready(None) };
        let last = match ready!(answers.poll_recv(cx)) {
            Some(Ok(message)) => return Poll::Ready(Some(Ok(message))),
            Some(Err(Last::Failed(status))) => Some(Err(status)),
            Some(Err(Last::Clean)) => None,
            None => Some(Err(Status::internal("the endpoint picker failed on this stream"))),
        };
        self.0 = None;
        Poll::Ready(last)
    }
}

/// A UUID, version 4.
fn fresh_id() -> String {
    let bits = rand::random::<u128>() & !(0xf << 76 | 0x3 << 62) | (0x4 << 76 | 0x2 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
