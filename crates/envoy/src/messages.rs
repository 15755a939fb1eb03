//! A stream's messages as they come off the wire, and the gRPC method that they come by.
//!
//! In: an HTTP/2 body; out: `ProcessingRequest`s. A long one, as gateways that buffer bodies send, is held in parts within the
//! process's memory for bodies and decoded on a thread for such work: the threads that serve other streams only hand its
//! bytes over, a little at a time. That is why the reading is ours; answers are encoded as in any generated service.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::{self, Read};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{EncodeBody, SingleMessageCompressionOverride};
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic_prost::ProstEncoder;

use crate::BodyMemory;
use crate::answers::Answers;
use crate::memory::Incoming;
use crate::pace::Paced;

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// Longer ones are held in parts and decoded elsewhere, in bytes: copying as much takes some tens of microseconds.
const LONG: usize = 256 << 10;
/// Before each message: whether it is compressed, and its length in big endian.
const PREFIX: usize = 5;

/// One message.
#[derive(Debug)]
pub(crate) enum Message {
    Short(Box<ProcessingRequest>),
    /// Not decoded yet.
    Long(Packed),
    /// There was no memory for it: it has gone by.
    Unheld,
}

/// A stream's messages.
#[derive(Debug)]
pub(crate) struct Messages {
    body: Paced<Body>,
    /// What has come and isn't read yet.
    came: Bytes,
    packing: Packing,
    longest: usize,
    memory: BodyMemory,
    at: At,
}

/// Where in the stream it is.
#[derive(Debug)]
enum At {
    Prefix(Vec<u8>),
    Message { compressed: bool, left: usize, held: Held },
}

/// What of a message has come.
#[derive(Debug)]
enum Held {
    Short(Parts),
    Long(Incoming),
    Nothing,
}

impl Messages {
    /// Those of this request's body. One of more than `longest` bytes is an error (out of range); long ones take of `memory`.
    fn new(request: http::Request<Body>, longest: usize, memory: BodyMemory) -> Self {
        let packing = request.headers().get("grpc-encoding").map_or(Packing::None, |name| match name.as_bytes() {
            b"identity" => Packing::None,
            b"gzip" => Packing::Gzip,
            _ => Packing::Unknown,
        });
        let body = Paced::new(request.into_body());
        Self { body, came: Bytes::new(), packing, longest, memory, at: At::Prefix(Vec::new()) }
    }

    /// The next one; `None` once the gateway has said all, or is gone. Where every byte has to go back to the gateway, one
    /// for which the memory has no room is held all the same. Nothing is lost when this is dropped before it is ready.
    pub(crate) async fn next(&mut self, to_the_byte: bool) -> Result<Option<Message>, Status> {
        loop {
            if let Some(message) = self.read(to_the_byte)? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.came = frame.into_data().unwrap_or_default(),
                Some(Err(status)) if status.code() == tonic::Code::Cancelled => return Ok(None),
                Some(Err(status)) => return Err(status),
                None if matches!(&self.at, At::Prefix(prefix) if prefix.is_empty()) => return Ok(None),
                None => return Err(Status::internal("the stream ended within a message")),
            }
        }
    }

    /// A message, if the last byte of one is among those that have come.
    fn read(&mut self, to_the_byte: bool) -> Result<Option<Message>, Status> {
        loop {
            match &mut self.at {
                At::Prefix(prefix) => {
                    let more = self.came.len().min(PREFIX - prefix.len());
                    prefix.extend_from_slice(&self.came.split_to(more));
                    let [flag, a, b, c, d] = prefix[..] else { return Ok(None) };
                    self.at = self.begin(flag, u32::from_be_bytes([a, b, c, d]) as usize, to_the_byte)?;
                }
                At::Message { left, held, .. } => {
                    let part = self.came.split_to(self.came.len().min(*left));
                    *left -= part.len();
                    held.add(part);
                    if *left > 0 {
                        return Ok(None);
                    }
                    let At::Message { compressed, held, .. } = std::mem::replace(&mut self.at, At::Prefix(Vec::new()))
                    else {
                        return Ok(None);
                    };
                    let packing = if compressed { self.packing } else { Packing::None };
                    return held.message(packing, self.longest).map(Some);
                }
            }
        }
    }

    fn begin(&self, flag: u8, length: usize, to_the_byte: bool) -> Result<At, Status> {
        let compressed = match (flag, self.packing) {
            (0, _) => false,
            (1, Packing::Gzip) => true,
            (1, Packing::None) => return Err(Status::internal("a compressed message, and no grpc-encoding")),
            (1, Packing::Unknown) => return Err(Status::unimplemented("messages may be compressed by gzip")),
            _ => return Err(Status::internal("a message begins with neither 0 nor 1")),
        };
        if length > self.longest {
            return Err(too_long(self.longest));
        }
        let held = match length {
            0..=LONG => Held::Short(Parts::default()),
            _ if to_the_byte => Held::Long(Incoming::new(BodyMemory::new(usize::MAX))),
            _ if self.memory.has_room(length) => Held::Long(Incoming::new(self.memory.clone())),
            _ => Held::Nothing,
        };
        Ok(At::Message { compressed, left: length, held })
    }
}

fn too_long(longest: usize) -> Status {
    Status::out_of_range(format!("a message may have {longest} bytes"))
}

impl Held {
    fn add(&mut self, part: Bytes) {
        match self {
            Self::Short(parts) => parts.push(part),
            Self::Long(incoming) => {
                if incoming.add(part.to_vec()).is_err() {
                    *self = Self::Nothing;
                }
            }
            Self::Nothing => {}
        }
    }

    fn message(self, packing: Packing, longest: usize) -> Result<Message, Status> {
        let parts = match self {
            Self::Short(parts) if packing == Packing::None => {
                return decode(parts).map(|message| Message::Short(Box::new(message)));
            }
            Self::Short(parts) => parts,
            Self::Long(mut incoming) => incoming.take().parts().iter().cloned().collect(),
            Self::Nothing => return Ok(Message::Unheld),
        };
        Ok(Message::Long(Packed { parts, packing, longest }))
    }
}

/// How messages are compressed, where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Unknown,
}

/// A message that isn't decoded yet.
#[derive(Debug)]
pub(crate) struct Packed {
    parts: Parts,
    packing: Packing,
    longest: usize,
}

impl Packed {
    /// What it says.
    pub(crate) async fn open(self) -> Result<ProcessingRequest, Status> {
        match tokio::task::spawn_blocking(move || self.decode()).await {
            Ok(decoded) => decoded,
            Err(_) => Err(Status::internal("the endpoint picker failed on a message")),
        }
    }

    fn decode(self) -> Result<ProcessingRequest, Status> {
        if self.packing != Packing::Gzip {
            return decode(self.parts);
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(self.longest).unwrap_or(u64::MAX).saturating_add(1);
        let opened: io::Result<usize> = GzDecoder::new(self.parts.reader()).take(most).read_to_end(&mut bytes);
        opened.map_err(|error| Status::internal(format!("a compressed message: {error}")))?;
        if bytes.len() > self.longest {
            return Err(too_long(self.longest));
        }
        decode(&*bytes)
    }
}

fn decode(bytes: impl Buf) -> Result<ProcessingRequest, Status> {
    ProcessingRequest::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// Bytes in parts; each is given back once it is read.
#[derive(Debug, Default)]
struct Parts {
    parts: VecDeque<Bytes>,
    /// Of all parts together: it is asked for at every step.
    bytes: usize,
}

impl Parts {
    fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.bytes += part.len();
            self.parts.push_back(part);
        }
    }
}

impl FromIterator<Bytes> for Parts {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.push(part));
        all
    }
}

impl Buf for Parts {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(part) = self.parts.front_mut() {
            let read = bytes.min(part.len());
            part.advance(read);
            bytes -= read;
            if !part.is_empty() {
                return;
            }
            self.parts.pop_front();
        }
    }
}

/// Whoever takes a stream.
pub(crate) trait Process: Send + Sync + 'static {
    /// Begins to answer its messages.
    fn process(&self, messages: Messages) -> Answers;
}

/// The ext_proc service.
#[derive(Debug)]
pub(crate) struct Ears<P> {
    processor: Arc<P>,
    longest: usize,
    memory: BodyMemory,
}

impl<P> Ears<P> {
    /// Messages of more than `longest` bytes are refused; long ones take of `memory`.
    pub(crate) fn new(processor: P, longest: usize, memory: BodyMemory) -> Self {
        Self { processor: Arc::new(processor), longest, memory }
    }
}

impl<P> Clone for Ears<P> {
    fn clone(&self) -> Self {
        Self { processor: Arc::clone(&self.processor), longest: self.longest, memory: self.memory.clone() }
    }
}

impl<P> NamedService for Ears<P> {
    const NAME: &'static str = "envoy.service.ext_proc.v3.ExternalProcessor";
}

impl<P: Process> Service<http::Request<Body>> for Ears<P> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != PROCESS {
            return ready(Ok(Status::unimplemented("there is no such method").into_http()));
        }
        let answers = self.processor.process(Messages::new(request, self.longest, self.memory.clone()));
        let encoded = EncodeBody::new_server(
            ProstEncoder::default(),
            answers,
            None,
            SingleMessageCompressionOverride::default(),
            None,
        );
        let mut response = http::Response::new(Body::new(encoded));
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-accept-encoding", http::HeaderValue::from_static("identity,gzip"));
        ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use envoy_types::pb::envoy::service::ext_proc::v3::HttpBody;
    use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tonic::Code;

    use super::*;

    const LONGEST: usize = 1 << 20;

    fn said(bytes: usize) -> ProcessingRequest {
        let body = (0..bytes).map(|at| (at % 251) as u8).collect();
        let request = Some(Request::RequestBody(HttpBody { body, end_of_stream: true, ..HttpBody::default() }));
        ProcessingRequest { request, ..ProcessingRequest::default() }
    }

    /// As it goes over the wire.
    fn wire(message: &ProcessingRequest, gzip: bool) -> Vec<u8> {
        let mut bytes = message.encode_to_vec();
        if gzip {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&bytes).unwrap();
            bytes = packed.finish().unwrap();
        }
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[u8::from(gzip)], &length[..], &bytes].concat()
    }

    /// These bytes, cut there, as a request's body.
    fn request(bytes: &[u8], cuts: &[usize], encoding: Option<&str>) -> http::Request<Body> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| Bytes::copy_from_slice(&bytes[cut[0]..cut[1]]));
        let frames: Vec<_> = parts.map(|part| Ok::<_, Status>(Frame::data(part))).collect();
        let mut request = http::Request::new(Body::new(StreamBody::new(tokio_stream::iter(frames))));
        if let Some(encoding) = encoding {
            request.headers_mut().insert("grpc-encoding", encoding.parse().unwrap());
        }
        request
    }

    /// What is read until the end, `None` for what wasn't held; or how it fails.
    async fn read(
        request: http::Request<Body>,
        memory: &BodyMemory,
        to_the_byte: bool,
    ) -> Result<Vec<Option<ProcessingRequest>>, Code> {
        let mut messages = Messages::new(request, LONGEST, memory.clone());
        let mut read = Vec::new();
        while let Some(message) = messages.next(to_the_byte).await.map_err(|status| status.code())? {
            read.push(match message {
                Message::Short(message) => Some(*message),
                Message::Long(packed) => Some(packed.open().await.map_err(|status| status.code())?),
                Message::Unheld => None,
            });
        }
        Ok(read)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn messages_are_the_same_however_they_are_cut_and_packed(
            sizes in vec(prop_oneof![0_usize..300, 250_000_usize..400_000], 1..5),
            cuts in vec(any::<usize>(), 0..40),
            gzip in any::<bool>(),
            to_the_byte in any::<bool>(),
        ) {
            let messages: Vec<_> = sizes.iter().map(|size| said(*size)).collect();
            let bytes: Vec<u8> = messages.iter().flat_map(|message| wire(message, gzip)).collect();
            let memory = BodyMemory::new(1 << 20);
            let read = run(read(request(&bytes, &cuts, gzip.then_some("gzip")), &memory, to_the_byte)).unwrap();
            prop_assert!(read == messages.into_iter().map(Some).collect::<Vec<_>>());
            prop_assert_eq!(memory.held(), 0);
        }

        #[test]
        fn a_stream_that_ends_within_a_message_is_an_error(end in 1_usize..300_000, long in any::<bool>()) {
            let bytes = wire(&said(if long { 300_000 } else { 300 }), false);
            let end = 1 + end % (bytes.len() - 1);
            let memory = BodyMemory::new(1 << 20);
            let outcome = run(read(request(&bytes[..end], &[1, 3, 7], None), &memory, false));
            prop_assert_eq!(outcome.unwrap_err(), Code::Internal);
            prop_assert_eq!(memory.held(), 0);
        }
    }

    #[test]
    fn a_long_message_for_which_there_is_no_memory_goes_by_and_the_next_is_read() {
        let bytes = [wire(&said(300_000), false), wire(&said(10), false)].concat();
        let cuts: Vec<usize> = (0..bytes.len()).step_by(16_384).collect();
        // None at all; and some, which is used up on the way.
        for (most, taken) in [(200_000, 0), (400_000, 250_000)] {
            let memory = BodyMemory::new(most);
            let mut other = Incoming::new(memory.clone());
            other.add(vec![0; taken]).unwrap();
            let before = memory.held();
            let read = |to_the_byte| run(read(request(&bytes, &cuts, None), &memory, to_the_byte)).unwrap();
            assert!(read(false) == [None, Some(said(10))], "{most}");
            assert_eq!(memory.held(), before);
            assert!(read(true) == [Some(said(300_000)), Some(said(10))], "what has to go back is held all the same");
            assert_eq!(memory.held(), before);
        }
    }

    #[test]
    fn what_can_not_be_a_message_is_an_error() {
        let (memory, plain, packed) = (BodyMemory::new(1 << 20), wire(&said(9), false), wire(&said(9), true));
        let fails = |bytes: &[u8], encoding| run(read(request(bytes, &[], encoding), &memory, false)).unwrap_err();
        assert_eq!(fails(&wire(&said(LONGEST), false), None), Code::OutOfRange);
        assert_eq!(fails(&[7, 0, 0, 0, 1, 0], None), Code::Internal);
        assert_eq!(fails(&[0, 0, 0, 0, 1, 255], None), Code::Internal);
        assert_eq!(fails(&packed, None), Code::Internal);
        assert_eq!(fails(&packed, Some("zstd")), Code::Unimplemented);
        assert_eq!(fails(&[&[1], &plain[1..]].concat(), Some("gzip")), Code::Internal);
        let bomb = wire(&said(100 * LONGEST), true);
        assert!(bomb.len() < LONGEST);
        assert_eq!(fails(&bomb, Some("gzip")), Code::OutOfRange);
    }
}
