//! What a source of members (a file, a cluster) says of one endpoint.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// An endpoint's number in this process. Never used again after the endpoint has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One endpoint as its source describes it: where it is and how it is called.
///
/// Two members are the same endpoint if name, namespace, address and incarnation agree; labels may change in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name that people and metrics use, as `vllm-0`.
    pub name: String,
    /// The namespace it lives in; `default` where the source knows none.
    pub namespace: String,
    /// Where it serves. Prints as `10.0.0.1:8000` or `[fd00::1]:8000`, the form that gateways take.
    pub address: SocketAddr,
    /// The source's labels.
    pub labels: BTreeMap<String, String>,
    /// Changes when the server behind the same name and address is another one (a restarted container); else empty.
    pub incarnation: String,
}

impl Member {
    /// A member without labels, in namespace `default`.
    pub fn new(name: impl Into<String>, address: SocketAddr) -> Self {
        Self {
            name: name.into(),
            namespace: "default".into(),
            address,
            labels: BTreeMap::new(),
            incarnation: String::new(),
        }
    }

    /// What tells it from other servers: all but its labels.
    pub(crate) fn server(&self) -> (&str, &str, SocketAddr, &str) {
        (&self.name, &self.namespace, self.address, &self.incarnation)
    }
}
