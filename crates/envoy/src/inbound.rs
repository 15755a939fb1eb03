//! A request, as it is handed to whoever decides, and what a gateway may say about where it may go.
//!
//! In: the request's headers and body, and the metadata that stood beside them. Out: [`Inbound`]. The body is whole or not
//! there at all, never a part of it.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::value::Kind;

use crate::{Body, Headers};

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
    /// it is unread.
    pub body: Option<Body>,
    /// Why it is to be decided without the body that it has, or may have; `None` otherwise.
    pub unread: Option<Unread>,
    /// The endpoints to choose from (`ip:port` or a bare `ip`), where the gateway says; `Some` of an empty list allows none.
    pub subset: Option<Vec<String>>,
    /// The client's or gateway's `x-request-id`, or one made here, which is then set on the request. Not unique: a client
    /// can choose it.
    pub request_id: String,
}

/// Why a request's body wasn't waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// The gateway is set up not to show it before the decision.
    Hidden,
    /// There is no memory left to hold it in ([`crate::BodyMemory`]).
    Memory,
    /// No more of it has come for too long.
    Stalled,
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

/// What stands beside the response's headers about the endpoint that served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    By(SocketAddr),
    /// Something that is no address.
    Garbled,
    Untold(Untold),
}

/// Why the endpoint that served isn't known: what was missing in the gateway's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untold {
    /// The namespace `envoy.lb`.
    Namespace,
    /// The key `x-gateway-destination-endpoint-served` in it.
    Endpoint,
}

impl Served {
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::By(address) => Some(address),
            Self::Garbled | Self::Untold(_) => None,
        }
    }

    pub(crate) fn untold(self) -> Option<Untold> {
        match self {
            Self::By(_) => None,
            Self::Garbled => Some(Untold::Endpoint),
            Self::Untold(what) => Some(what),
        }
    }
}

/// The endpoint that served, as told beside the response's headers.
pub(crate) fn served(metadata: &Metadata) -> Served {
    let Some(namespace) = metadata.filter_metadata.get(SERVED_NAMESPACE) else {
        return Served::Untold(Untold::Namespace);
    };
    match namespace.fields.get(SERVED_KEY).and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(text)) => text.trim().parse().map_or(Served::Garbled, Served::By),
        _ => Served::Untold(Untold::Endpoint),
    }
}
