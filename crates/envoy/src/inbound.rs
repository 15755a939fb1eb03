//! A request, as it is handed to whoever decides, and what a gateway may say about where it may go.
//!
//! In: the request's headers and body, and the metadata that stood beside them. Out: [`Inbound`]. The body is whole or not
//! there at all, never a part of it.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::value::Kind;

use crate::Headers;

const SUBSET_NAMESPACE: &str = "envoy.lb.subset_hint";
const SUBSET_KEY: &str = "x-gateway-destination-endpoint-subset";
const SERVED_NAMESPACE: &str = "envoy.lb";
const SERVED_KEY: &str = "x-gateway-destination-endpoint-served";

/// A request to decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inbound {
    /// The request's headers, pseudo headers among them.
    pub headers: Headers,
    /// The HTTP method; empty if the gateway doesn't say.
    pub method: String,
    /// Path and query; empty if the gateway doesn't say.
    pub path: String,
    /// The whole body, at most [`crate::Limits::max_body`] bytes. `None` when there is none (a GET, an empty POST), and when
    /// the gateway is set up not to show it before the decision.
    pub body: Option<Bytes>,
    /// The endpoints to choose from (`ip:port` or a bare `ip`), where the gateway says; `Some` of an empty list allows none.
    pub subset: Option<Vec<String>>,
    /// The client's or gateway's `x-request-id`, or one made here, which is then set on the request. Not unique: a client
    /// can choose it.
    pub request_id: String,
}

/// The subset hint in this metadata. `None`: no word of it, so any endpoint will do.
pub(crate) fn subset(metadata: &Metadata) -> Option<Vec<String>> {
    let value = metadata.filter_metadata.get(SUBSET_NAMESPACE)?.fields.get(SUBSET_KEY)?;
    let mut endpoints = Vec::new();
    match &value.kind {
        Some(Kind::StringValue(text)) => split(text, &mut endpoints),
        Some(Kind::ListValue(list)) => {
            for element in &list.values {
                if let Some(Kind::StringValue(text)) = &element.kind {
                    split(text, &mut endpoints);
                }
            }
        }
        _ => {}
    }
    Some(endpoints)
}

fn split(text: &str, into: &mut Vec<String>) {
    into.extend(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
}

/// What is allowed after another message's hint: a hint that names endpoints replaces an earlier one.
pub(crate) fn merge(before: &mut Option<Vec<String>>, hint: Option<Vec<String>>) {
    match (&before, hint) {
        (Some(_), Some(hint)) if hint.is_empty() => {}
        (_, Some(hint)) => *before = Some(hint),
        (_, None) => {}
    }
}

/// The endpoint that served, as told beside the response's headers. `None` when it isn't told or isn't an address.
pub(crate) fn served(metadata: &Metadata) -> Option<std::net::SocketAddr> {
    let value = metadata.filter_metadata.get(SERVED_NAMESPACE)?.fields.get(SERVED_KEY)?;
    match &value.kind {
        Some(Kind::StringValue(text)) => text.trim().parse().ok(),
        _ => None,
    }
}
