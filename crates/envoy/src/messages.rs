//! A stream's messages as they come off the wire, and the gRPC method that they come by.
//!
//! In: gRPC messages; out: `ProcessingRequest`s. A long one, as gateways that buffer bodies send, is decoded on a thread for
//! such work, since decoding copies it: the threads that serve other streams only hand its bytes over. That is all in which
//! this differs from the service that is generated.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse};
use prost::Message as _;
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EnabledCompressionEncodings};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstEncoder;

use crate::answers::Answers;

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// Longer ones are decoded elsewhere, in bytes: copying as much takes some tens of microseconds.
const LONG: usize = 256 << 10;

/// One message.
#[derive(Debug)]
pub(crate) enum Message {
    Short(Box<ProcessingRequest>),
    /// Not decoded yet.
    Long(Bytes),
}

impl Message {
    /// What it says.
    pub(crate) async fn read(self) -> Result<ProcessingRequest, Status> {
        match self {
            Self::Short(message) => Ok(*message),
            Self::Long(bytes) => match tokio::task::spawn_blocking(move || decode(bytes)).await {
                Ok(decoded) => decoded,
                Err(_) => Err(Status::internal("the endpoint picker failed on a message")),
            },
        }
    }
}

fn decode(bytes: impl Buf) -> Result<ProcessingRequest, Status> {
    ProcessingRequest::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// How messages are read and answers are written.
#[derive(Debug)]
struct Wire;

impl Codec for Wire {
    type Encode = ProcessingResponse;
    type Decode = Message;
    type Encoder = ProstEncoder<ProcessingResponse>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Decoder for Wire {
    type Item = Message;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Message>, Status> {
        let length = bytes.remaining();
        if length > LONG {
            return Ok(Some(Message::Long(bytes.copy_to_bytes(length))));
        }
        decode(bytes).map(|message| Some(Message::Short(Box::new(message))))
    }
}

/// Whoever takes a stream.
pub(crate) trait Process: Send + Sync + 'static {
    /// Begins to answer its messages.
    fn process(&self, messages: Streaming<Message>) -> Answers;
}

/// The ext_proc service.
#[derive(Debug)]
pub(crate) struct Ears<P> {
    processor: Arc<P>,
    longest: usize,
}

impl<P> Ears<P> {
    /// Messages of more than `longest` bytes are refused.
    pub(crate) fn new(processor: P, longest: usize) -> Self {
        Self { processor: Arc::new(processor), longest }
    }
}

impl<P> Clone for Ears<P> {
    fn clone(&self) -> Self {
        Self { processor: Arc::clone(&self.processor), longest: self.longest }
    }
}

impl<P> NamedService for Ears<P> {
    const NAME: &'static str = "envoy.service.ext_proc.v3.ExternalProcessor";
}

impl<P: Process> Service<http::Request<Body>> for Ears<P> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != PROCESS {
            return Box::pin(ready(Ok(Status::unimplemented("there is no such method").into_http())));
        }
        let (method, longest) = (Method(Arc::clone(&self.processor)), self.longest);
        Box::pin(async move {
            let mut accepted = EnabledCompressionEncodings::default();
            accepted.enable(CompressionEncoding::Gzip);
            let mut grpc = Grpc::new(Wire)
                .apply_compression_config(accepted, EnabledCompressionEncodings::default())
                .apply_max_message_size_config(Some(longest), None);
            Ok(grpc.streaming(method, request).await)
        })
    }
}

struct Method<P>(Arc<P>);

impl<P: Process> StreamingService<Message> for Method<P> {
    type Response = ProcessingResponse;
    type ResponseStream = Answers;
    type Future = Ready<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<Message>>) -> Self::Future {
        ready(Ok(Response::new(self.0.process(request.into_inner()))))
    }
}
