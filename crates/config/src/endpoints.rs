//! The endpoints file, in the form of llm-d's `file-discovery`: text in, checked entries out. It opens no file.
//!
//! ```yaml
//! endpoints:
//! - name: vllm-0
//!   namespace: default    # the default
//!   address: 10.0.0.1     # an IPv4 or IPv6 address, no host name
//!   port: 8000            # a number, or a number in quotes
//!   labels: {llm-d.ai/engine-type: vllm}
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde::de::Deserializer;

use crate::error::Error;
use crate::place::Path;
use crate::scalar;
use crate::twice;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// One endpoint, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Its namespace, `default` where none is given.
    pub namespace: String,
    /// Where it serves.
    pub address: IpAddr,
    /// The port it serves at, 1 to 65535.
    pub port: u16,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// Reads an endpoints file. One without endpoints is a fleet of none.
///
/// # Errors
/// The first thing that is wrong, with its line: no YAML, an unknown key, a wrong type, an address that isn't an IP
/// address, a name or an address given twice, more than [`MAX_BYTES`].
pub fn parse(text: &str) -> Result<Vec<Endpoint>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::whole(format!("the file has {} bytes; at most {MAX_BYTES} are read.", text.len())));
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Error::whole("the file is empty; a fleet of none is written `endpoints: []`."));
    }
    twice::refuse(text)?;
    let file: File = serde_yaml::from_str(text)?;
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (at, typed) in file.endpoints.unwrap_or_default().into_iter().enumerate() {
        let path = Path::root("endpoints").index(at);
        let endpoint = typed.checked(text, &path)?;
        if let Some(earlier) = endpoints.iter().find(|e| e.name == endpoint.name && e.namespace == endpoint.namespace) {
            let message = format!("`{}/{}` is there already.", earlier.namespace, earlier.name);
            return Err(Error::at(text, &path.key("name"), message));
        }
        if let Some(earlier) = endpoints.iter().find(|e| e.address == endpoint.address && e.port == endpoint.port) {
            let message = format!("`{}` is at this address and port already.", earlier.name);
            return Err(Error::at(text, &path.key("address"), message));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    endpoints: Option<Vec<Typed>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    name: String,
    #[serde(default)]
    namespace: String,
    address: Address,
    port: Port,
    labels: Option<BTreeMap<String, String>>,
}

impl Typed {
    fn checked(self, text: &str, path: &Path) -> Result<Endpoint, Error> {
        if self.name.is_empty() {
            return Err(Error::at(text, &path.key("name"), "the name is empty."));
        }
        let namespace = if self.namespace.is_empty() { "default".into() } else { self.namespace };
        Ok(Endpoint {
            name: self.name,
            namespace,
            address: self.address.0,
            port: self.port.0,
            labels: self.labels.unwrap_or_default(),
        })
    }
}

struct Address(IpAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |text| {
            let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
            let address: IpAddr =
                bare.parse().map_err(|_| format!("`{text}` is no IP address; host names aren't resolved."))?;
            match address.to_canonical() {
                nowhere if nowhere.is_unspecified() => Err(format!("`{text}` is no address that can be reached.")),
                address => Ok(Self(address)),
            }
        })
    }
}

struct Port(u16);

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |text| match text.parse() {
            Ok(port) if port > 0 => Ok(Self(port)),
            _ => Err(format!("`{text}` is no port; a port is 1 to 65535.")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line an endpoint, or the error.
    fn check(text: &str, expected: &str) {
        let got = match parse(text) {
            Ok(endpoints) => endpoints
                .iter()
                .map(|e| format!("{}/{} {} {} {:?}", e.namespace, e.name, e.address, e.port, e.labels))
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn endpoints_are_read_with_either_kind_of_address() {
        check(
            "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000, labels: {zone: x}}\n- name: b\n  namespace: n\n  \
             address: fd00::1\n  port: \"8001\"\n- {name: c, address: \"[fd00::2]\", port: 1}",
            "default/a 10.0.0.1 8000 {\"zone\": \"x\"}\nn/b fd00::1 8001 {}\ndefault/c fd00::2 1 {}",
        );
        check("endpoints: []", "");
        check("endpoints:", "");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        check("# nothing\n", "line unknown: the file is empty; a fleet of none is written `endpoints: []`.");
        check(
            "endpoints:\n- name: a\n  adress: 10.0.0.1\n",
            "line 3, column 3: endpoints[0].adress: unknown key; known are name, namespace, address, port, labels. Did \
             you mean `address`?",
        );
        check(
            "endpoints:\n- name: a\n  address: vllm.example.com\n  port: 1\n",
            "line 3, column 12: endpoints[0].address: `vllm.example.com` is no IP address; host names aren't resolved.",
        );
        check(
            "endpoints:\n- name: a\n  address: 0.0.0.0\n  port: 1\n",
            "line 3, column 12: endpoints[0].address: `0.0.0.0` is no address that can be reached.",
        );
        check(
            "endpoints:\n- name: a\n  address: 10.0.0.1\n  port: 70000\n",
            "line 4, column 9: endpoints[0].port: `70000` is no port; a port is 1 to 65535.",
        );
        check("endpoints:\n- name: a\n  address: 10.0.0.1\n", "line 2, column 3: endpoints[0]: missing field `port`.");
        let two = |second: &str| format!("endpoints:\n- {{name: a, address: 10.0.0.1, port: 1}}\n- {second}\n");
        check(
            &two("{name: a, address: 10.0.0.2, port: 1}"),
            "line 3, column 10: endpoints[1].name: `default/a` is there already.",
        );
        check(
            &two("{name: b, address: 10.0.0.1, port: 1}"),
            "line 3, column 22: endpoints[1].address: `a` is at this address and port already.",
        );
        let large = format!("endpoints: []\n#{}", "x".repeat(MAX_BYTES));
        check(&large, &format!("line unknown: the file has {} bytes; at most 1048576 are read.", large.len()));
    }
}
