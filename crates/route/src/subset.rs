//! A gateway's subset hint: which endpoints it allows, as text; whether an address is among them. Addresses are compared
//! by value, so that no spelling of an address is another address.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// The addresses allowed. What is no address allows nobody.
pub(crate) struct Subset {
    addresses: HashSet<SocketAddr>,
    /// At any port.
    hosts: HashSet<IpAddr>,
}

impl Subset {
    /// From `ip:port` or `ip`; IPv6 in brackets or, without a port, bare.
    pub(crate) fn parse<T: AsRef<str>>(hints: &[T]) -> Self {
        let mut subset = Self { addresses: HashSet::new(), hosts: HashSet::new() };
        for hint in hints {
            let hint = hint.as_ref().trim();
            let host = hint.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hint);
            if let Ok(address) = hint.parse::<SocketAddr>() {
                subset.addresses.insert(canonical(address));
            } else if let Ok(host) = host.parse::<IpAddr>() {
                subset.hosts.insert(host.to_canonical());
            }
        }
        subset
    }

    pub(crate) fn allows(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        self.addresses.contains(&address) || self.hosts.contains(&address.ip())
    }
}

/// Without what does not tell two endpoints apart: IPv4 written as IPv6, flow and scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hints: &str, address: &str, allowed: bool) {
        let hints: Vec<&str> = hints.split(',').collect();
        let address = address.parse().expect("an address");
        assert_eq!(Subset::parse(&hints).allows(address), allowed, "{address} in {hints:?}");
    }

    #[test]
    fn an_address_is_allowed_with_its_port_or_with_any() {
        check("10.0.0.1:8000", "10.0.0.1:8000", true);
        check("10.0.0.1:8000", "10.0.0.1:8001", false);
        check("10.0.0.9:1, 10.0.0.1 ", "10.0.0.1:8001", true);
        check("10.0.0.1", "10.0.0.2:8000", false);
    }

    /// ai-dynamo/dynamo#12063: an IPv6 address that could not be read back.
    #[test]
    fn every_spelling_of_an_address_is_the_same_address() {
        check("[fd00::10]:8000", "[fd00:0::10]:8000", true);
        check("[fd00:0::10]:8000", "[fd00::10]:8000", true);
        check("fd00::10", "[fd00::10]:8000", true);
        check("[fd00::10]", "[fd00::10]:8000", true);
        check("[::ffff:10.0.0.1]:8000", "10.0.0.1:8000", true);
        check("10.0.0.1", "[::ffff:10.0.0.1]:8000", true);
    }

    #[test]
    fn what_is_no_address_allows_nobody() {
        check("", "10.0.0.1:8000", false);
        check("vllm-0,10.0.0.1:,10.0.0:8000,10.0.0.1:99999", "10.0.0.1:8000", false);
    }
}
