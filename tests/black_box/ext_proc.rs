//! A gateway's side of ext_proc, without a gateway: in, a request; out, where the picker sends it. Each pick is a whole stream:
//! headers, a body, and the answer's way back, which the test plays.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HttpBody, HttpHeaders, ProcessingRequest, ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

use super::stage::CHAT;

const DESTINATION: &str = "x-gateway-destination-endpoint";

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// It goes there.
    Endpoint(String),
    /// The picker answers it, with that status.
    Refused(i32),
}

impl Pick {
    /// Where it goes; panics where it was refused.
    pub fn endpoint(self) -> String {
        match self {
            Pick::Endpoint(address) => address,
            Pick::Refused(status) => panic!("refused with {status}"),
        }
    }
}

/// A connection to a picker.
pub struct Gateway {
    runtime: Runtime,
    client: ExternalProcessorClient<Channel>,
}

impl Gateway {
    /// To the picker at that port, without TLS.
    pub fn connect(port: u16) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("a URL");
        let channel = runtime.block_on(endpoint.connect()).expect("the picker accepts connections");
        Self { runtime, client: ExternalProcessorClient::new(channel) }
    }

    /// Where a chat goes; it is answered with 200.
    pub fn chat(&self, body: &str) -> Pick {
        self.hinted(None, body)
    }

    /// The same, of the endpoints that the gateway's hint names.
    pub fn chat_within(&self, subset: &str, body: &str) -> Pick {
        let hint = Value { kind: Some(Kind::StringValue(subset.to_owned())) };
        let fields = [("x-gateway-destination-endpoint-subset".to_owned(), hint)].into();
        let filter_metadata = [("envoy.lb.subset_hint".to_owned(), Struct { fields })].into();
        self.hinted(Some(Metadata { filter_metadata, ..Metadata::default() }), body)
    }

    fn hinted(&self, metadata: Option<Metadata>, body: &str) -> Pick {
        let length = body.len().to_string();
        let headers =
            [(":method", "POST"), (":path", CHAT), ("content-length", &length), ("content-type", "application/json")];
        let mut head = said(Request::RequestHeaders(as_headers(&headers, false)));
        head.metadata_context = metadata;
        head.protocol_config = Some(ProtocolConfiguration {
            request_body_mode: BodySendMode::Buffered.into(),
            response_body_mode: BodySendMode::None.into(),
            ..ProtocolConfiguration::default()
        });
        let body = HttpBody { body: body.as_bytes().to_vec(), end_of_stream: true, ..HttpBody::default() };
        let answered = said(Request::ResponseHeaders(as_headers(&[(":status", "200")], true)));
        self.play(vec![head, said(Request::RequestBody(body)), answered])
    }

    /// Sends each message when the one before was answered.
    fn play(&self, messages: Vec<ProcessingRequest>) -> Pick {
        self.runtime.block_on(async {
            let (say, said) = tokio::sync::mpsc::channel(1);
            let mut client = self.client.clone();
            let mut messages = messages.into_iter();
            say.send(messages.next().expect("a head")).await.expect("the stream is open");
            let stream = tokio_stream::wrappers::ReceiverStream::new(said);
            let mut answers = client.process(stream).await.expect("the picker takes streams").into_inner();
            let mut destination = None;
            loop {
                let answer = answers.message().await.expect("the stream goes on");
                match answer.and_then(|answer| answer.response).expect("an answer") {
                    Response::ImmediateResponse(refusal) => {
                        return Pick::Refused(refusal.status.map_or(0, |status| status.code));
                    }
                    Response::RequestHeaders(headers) => destination = destination.or(named(headers.response)),
                    Response::RequestBody(body) => destination = destination.or(named(body.response)),
                    _ => {}
                }
                match messages.next() {
                    Some(message) => say.send(message).await.expect("the stream is open"),
                    None => return Pick::Endpoint(destination.expect("a destination was named")),
                }
            }
        })
    }
}

fn named(answer: Option<CommonResponse>) -> Option<String> {
    let set = answer?.header_mutation?.set_headers;
    let header = set.into_iter().filter_map(|option| option.header).find(|header| header.key == DESTINATION)?;
    String::from_utf8(header.raw_value).ok()
}

fn said(content: Request) -> ProcessingRequest {
    ProcessingRequest { request: Some(content), ..ProcessingRequest::default() }
}

fn as_headers(pairs: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let header = |(name, value): &(&str, &str)| HeaderValue {
        key: (*name).to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    let headers = Some(HeaderMap { headers: pairs.iter().map(header).collect() });
    HttpHeaders { headers, end_of_stream, ..HttpHeaders::default() }
}
