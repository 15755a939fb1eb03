//! A gateway's side of the protocol: its messages from words, its answers taken apart, and a client over loopback.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HeaderMutation, HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value};

/// What stands beside a message's content.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) modes: Option<(BodySendMode, BodySendMode)>,
    pub(crate) subset_text: Option<String>,
    pub(crate) subset_list: Option<Vec<String>>,
    pub(crate) served: Option<String>,
}

pub(crate) fn mode(name: &str) -> BodySendMode {
    match name {
        "none" => BodySendMode::None,
        "streamed" => BodySendMode::Streamed,
        "buffered" => BodySendMode::Buffered,
        "partial" => BodySendMode::BufferedPartial,
        "duplex" => BodySendMode::FullDuplexStreamed,
        other => panic!("no such mode: {other}"),
    }
}

/// A message, from a script's words.
pub(crate) fn message(words: &[&str], beside: Beside) -> ProcessingRequest {
    let end = words.contains(&"end");
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let content = match words {
        ["headers", method, path, ..] => {
            Request::RequestHeaders(headers([(":method", *method), (":path", *path)].into_iter().chain(pairs), end))
        }
        ["body", body, ..] => Request::RequestBody(part(data(body), end)),
        ["trailers"] => Request::RequestTrailers(HttpTrailers::default()),
        ["response", status, ..] => {
            Request::ResponseHeaders(headers([(":status", *status)].into_iter().chain(pairs), end))
        }
        ["chunk", body, ..] => Request::ResponseBody(part(data(body), end)),
        ["response-trailers"] => Request::ResponseTrailers(HttpTrailers::default()),
        other => panic!("no such message: {other:?}"),
    };
    framed(content, beside)
}

pub(crate) fn framed(content: Request, beside: Beside) -> ProcessingRequest {
    let subset = match (beside.subset_text, beside.subset_list) {
        (Some(text), _) => Some(Kind::StringValue(text)),
        (None, Some(list)) => {
            let values = list.into_iter().map(|text| Value { kind: Some(Kind::StringValue(text)) }).collect();
            Some(Kind::ListValue(ListValue { values }))
        }
        (None, None) => None,
    };
    let mut filter_metadata = HashMap::new();
    if let Some(kind) = subset {
        let hint = single("x-gateway-destination-endpoint-subset", kind);
        filter_metadata.insert("envoy.lb.subset_hint".to_owned(), hint);
    }
    if let Some(served) = beside.served {
        let served = single("x-gateway-destination-endpoint-served", Kind::StringValue(served));
        filter_metadata.insert("envoy.lb".to_owned(), served);
    }
    ProcessingRequest {
        request: Some(content),
        metadata_context: Some(Metadata { filter_metadata, ..Metadata::default() }),
        protocol_config: beside.modes.map(|(request, response)| ProtocolConfiguration {
            request_body_mode: request.into(),
            response_body_mode: response.into(),
            ..ProtocolConfiguration::default()
        }),
        ..ProcessingRequest::default()
    }
}

pub(crate) fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>, end_of_stream: bool) -> HttpHeaders {
    let headers = pairs.into_iter().map(|(name, value)| HeaderValue {
        key: name.to_owned(),
        raw_value: value.into(),
        ..HeaderValue::default()
    });
    HttpHeaders { headers: Some(HeaderMap { headers: headers.collect() }), end_of_stream, ..HttpHeaders::default() }
}

pub(crate) fn part(body: Vec<u8>, end_of_stream: bool) -> HttpBody {
    HttpBody { body, end_of_stream, ..HttpBody::default() }
}

/// The bytes that a script's word stands for.
pub(crate) fn data(word: &str) -> Vec<u8> {
    match word.strip_suffix('B').and_then(|count| count.parse().ok()) {
        Some(count) => pattern(count),
        None if word == "-" => Vec::new(),
        None => word.into(),
    }
}

/// Bytes that repeat at no round length.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Names and values that an answer sets; fails where it isn't said as gateways need it.
pub(crate) fn set_headers(mutation: &HeaderMutation) -> Vec<(String, String)> {
    mutation
        .set_headers
        .iter()
        .map(|option| {
            let header = option.header.as_ref().unwrap();
            assert_eq!(header.value, "", "only raw_value is read");
            assert_eq!(header.key, header.key.to_ascii_lowercase());
            assert_eq!(option.append_action(), HeaderAppendAction::OverwriteIfExistsOrAdd);
            (header.key.clone(), String::from_utf8(header.raw_value.clone()).unwrap())
        })
        .collect()
}

/// The destination in an answer's metadata, or nothing.
pub(crate) fn destination_in_metadata(reply: &ProcessingResponse) -> String {
    match in_metadata(reply, "x-gateway-destination-endpoint") {
        Some(Kind::StringValue(text)) => text.clone(),
        None => String::new(),
        other => panic!("not a text: {other:?}"),
    }
}

/// The scores in an answer's metadata, as ` score=n` each.
pub(crate) fn scores_in_metadata(reply: &ProcessingResponse) -> String {
    match in_metadata(reply, "x-gateway-destination-endpoint-scores") {
        Some(Kind::StructValue(scores)) => scores
            .fields
            .iter()
            .map(|(endpoint, score)| match score.kind {
                Some(Kind::NumberValue(score)) => format!(" {endpoint}={score}"),
                _ => panic!("not a number: {score:?}"),
            })
            .collect(),
        None => String::new(),
        other => panic!("not scores: {other:?}"),
    }
}

fn in_metadata<'r>(reply: &'r ProcessingResponse, name: &str) -> Option<&'r Kind> {
    match reply.dynamic_metadata.as_ref()?.fields.get("envoy.lb")?.kind.as_ref()? {
        Kind::StructValue(inner) => inner.fields.get(name)?.kind.as_ref(),
        other => panic!("not a struct: {other:?}"),
    }
}

/// An answer's wish for other modes: request body, response body; fails where a header or trailer would be hidden.
pub(crate) fn show_modes(mode: &ProcessingMode) -> String {
    let send = i32::from(HeaderSendMode::Send);
    let shown =
        [mode.request_header_mode, mode.response_header_mode, mode.request_trailer_mode, mode.response_trailer_mode];
    assert_eq!(shown, [send; 4]);
    format!("{:?},{:?}", mode.request_body_mode(), mode.response_body_mode()).to_lowercase()
}

fn single(name: &str, kind: Kind) -> Struct {
    Struct { fields: [(name.to_owned(), Value { kind: Some(kind) })].into() }
}
