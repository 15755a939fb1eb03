//! A gateway's side of one request: in, a body and how it is sent; out, how long its answer took. The bytes that come back
//! are counted, the answer's way back is played to its end, and whatever the picker does wrong is an error.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// The most of a body in one message when it is streamed, as Envoy reads it from a socket.
const PART: usize = 16 << 10;
/// What the engine says.
const ANSWER: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"At nine.\"}}],\"usage\":\
                      {\"prompt_tokens\":400,\"completion_tokens\":3,\"total_tokens\":403}}";

/// How bodies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// FULL_DUPLEX_STREAMED.
    Streamed,
    /// BUFFERED.
    Buffered,
}

/// A connection to the picker.
#[derive(Clone, Debug)]
pub(crate) struct Gateway(ExternalProcessorClient<Channel>);

impl Gateway {
    /// Connects, within a runtime.
    pub(crate) async fn connect(port: u16) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect().await?;
        Ok(Self(ExternalProcessorClient::new(channel).max_decoding_message_size(64 << 20)))
    }

    /// Sends a chat to its end and gives the time from its first message to the last answer about it.
    pub(crate) async fn chat(&mut self, body: Vec<u8>, mode: Mode) -> Result<Duration> {
        let start = Instant::now();
        let (say, said) = mpsc::channel(4);
        let length = body.len();
        say.send(head(length, mode)).await.context("the stream is over")?;
        let mut answers = self.0.process(ReceiverStream::new(said)).await?.into_inner();
        if mode == Mode::Buffered {
            let answer = next(&mut answers).await?;
            ensure!(matches!(answer, Response::RequestHeaders(_)), "not the answer to headers: {answer:?}");
        }
        let saying = say.clone();
        let send = async move {
            for message in parts(body, mode) {
                saying.send(message).await.context("the stream is over")?;
            }
            anyhow::Ok(())
        };
        let ((), back) = tokio::try_join!(send, answered(&mut answers, mode))?;
        let took = start.elapsed();
        ensure!(mode == Mode::Buffered || back == length, "{length} bytes were sent, {back} came back");
        for message in response() {
            say.send(message).await.context("the stream is over")?;
            next(&mut answers).await?;
        }
        Ok(took)
    }
}

/// Reads answers to the end of those about the request's body; gives the bytes that came back.
async fn answered(answers: &mut Streaming<ProcessingResponse>, mode: Mode) -> Result<usize> {
    let mut back = 0;
    loop {
        match next(answers).await? {
            Response::RequestHeaders(_) => {}
            Response::RequestBody(_) if mode == Mode::Buffered => return Ok(back),
            Response::RequestBody(body) => {
                let (bytes, end) = streamed(&body).context("a body's answer without a body")?;
                back += bytes;
                if end {
                    return Ok(back);
                }
            }
            other => bail!("not an answer to a request: {other:?}"),
        }
    }
}

fn streamed(body: &BodyResponse) -> Option<(usize, bool)> {
    match body.response.as_ref()?.body_mutation.as_ref()?.mutation.as_ref()? {
        Mutation::StreamedResponse(part) => Some((part.body.len(), part.end_of_stream)),
        _ => None,
    }
}

async fn next(answers: &mut Streaming<ProcessingResponse>) -> Result<Response> {
    answers.message().await?.and_then(|answer| answer.response).context("the picker ended the stream")
}

fn head(length: usize, mode: Mode) -> ProcessingRequest {
    let length = length.to_string();
    let headers = [
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        ("content-type", "application/json"),
        ("content-length", &length),
    ];
    let mut message = said(Request::RequestHeaders(as_headers(&headers)));
    let (request, response) = match mode {
        Mode::Streamed => (BodySendMode::FullDuplexStreamed, BodySendMode::FullDuplexStreamed),
        Mode::Buffered => (BodySendMode::Buffered, BodySendMode::Buffered),
    };
    message.protocol_config = Some(ProtocolConfiguration {
        request_body_mode: request.into(),
        response_body_mode: response.into(),
        ..ProtocolConfiguration::default()
    });
    message
}

fn parts(body: Vec<u8>, mode: Mode) -> Box<dyn Iterator<Item = ProcessingRequest> + Send> {
    let part = |body: Vec<u8>, end_of_stream| {
        said(Request::RequestBody(HttpBody { body, end_of_stream, ..HttpBody::default() }))
    };
    if mode == Mode::Buffered {
        return Box::new(std::iter::once(part(body, true)));
    }
    let count = body.len().div_ceil(PART);
    Box::new((0..count).map(move |at| {
        let bytes = &body[at * PART..body.len().min((at + 1) * PART)];
        part(bytes.to_vec(), at + 1 == count)
    }))
}

fn response() -> [ProcessingRequest; 2] {
    let headers = [(":status", "200"), ("content-type", "application/json")];
    let body = HttpBody { body: ANSWER.into(), end_of_stream: true, ..HttpBody::default() };
    [said(Request::ResponseHeaders(as_headers(&headers))), said(Request::ResponseBody(body))]
}

fn said(content: Request) -> ProcessingRequest {
    ProcessingRequest { request: Some(content), ..ProcessingRequest::default() }
}

fn as_headers(pairs: &[(&str, &str)]) -> HttpHeaders {
    let header = |(name, value): &(&str, &str)| HeaderValue {
        key: (*name).to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    HttpHeaders { headers: Some(HeaderMap { headers: pairs.iter().map(header).collect() }), ..HttpHeaders::default() }
}
