//! Headers as a gateway gives them: names in lower case, values as bytes.
//!
//! In: Envoy's header maps. Out: [`Headers`]. A name is never compared with regard to case, and a value never has to be text.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};

/// Headers in the order in which they came; a name may stand more than once. Names are in lower case, Envoy's pseudo
/// headers (`:path`, `:status`) among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// The first value of this name (given in lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The first value of this name (given in lower case), if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Every value of this name (given in lower case).
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (lower(name.into()), value.into())).collect())
    }
}

impl From<HeaderMap> for Headers {
    fn from(map: HeaderMap) -> Self {
        map.headers.into_iter().map(read).collect()
    }
}

/// Envoy fills `raw_value`, older gateways `value`; where both are filled the bytes count.
fn read(header: HeaderValue) -> (String, Vec<u8>) {
    let value = if header.raw_value.is_empty() { header.value.into_bytes() } else { header.raw_value };
    (header.key, value)
}

fn lower(mut name: String) -> String {
    name.make_ascii_lowercase();
    name
}
