//! The two ends of a connection to the admin port, and whether it comes from this machine itself.
//!
//! In: a connection; out: a layer that lets requests from this machine pass and answers others with 403.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use tokio::net::TcpListener;

use super::bounded::Bounded;
use super::listen::Encrypted;

/// The ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    peer: SocketAddr,
    here: Option<SocketAddr>,
}

impl Connected<IncomingStream<'_, Bounded<TcpListener>>> for Ends {
    fn connect_info(stream: IncomingStream<'_, Bounded<TcpListener>>) -> Self {
        Self { peer: *stream.remote_addr(), here: stream.io().get_ref().local_addr().ok() }
    }
}

impl Connected<IncomingStream<'_, Bounded<Encrypted>>> for Ends {
    fn connect_info(stream: IncomingStream<'_, Bounded<Encrypted>>) -> Self {
        Self { peer: *stream.remote_addr(), here: stream.io().get_ref().get_ref().0.local_addr().ok() }
    }
}

/// What somebody is told who comes from elsewhere.
const ELSEWHERE: &str = "This is shown on this machine alone: forward the port, or set --metrics-endpoint-auth or --metrics-client-ca-file.\n";

/// Lets a request pass that comes from this machine, or answers it.
pub(super) async fn from_here(ConnectInfo(ends): ConnectInfo<Ends>, request: Request, next: Next) -> Response {
    let is_for_here = host(&request).is_some_and(|host| is_here_by_name(&host)) && !by_another_site(request.headers());
    if ends.are_here() && !by_proxy(request.headers()) && is_for_here {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, ELSEWHERE).into_response()
}

impl Ends {
    /// Whether both are this machine's own address. A proxy that runs here for others may have another (Istio's is 127.0.0.6).
    fn are_here(self) -> bool {
        let is_here = |address: SocketAddr| match address.ip().to_canonical() {
            IpAddr::V4(ip) => ip == Ipv4Addr::LOCALHOST,
            IpAddr::V6(ip) => ip == Ipv6Addr::LOCALHOST,
        };
        is_here(self.peer) && self.here.is_some_and(is_here)
    }
}

/// Whether a proxy says that it stands between.
fn by_proxy(headers: &HeaderMap) -> bool {
    let forwarded = ["forwarded", "via", "x-forwarded-", "x-real-ip", "x-envoy-"];
    headers.keys().any(|name| forwarded.iter().any(|known| name.as_str().starts_with(known)))
}

/// Where the client believes to be: the host, without a port.
fn host(request: &Request) -> Option<String> {
    let said = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    let authority: Authority = request.uri().authority().cloned().or_else(said)?;
    Some(authority.host().to_owned())
}

/// A site elsewhere can have its name mean this machine, and a browser here that runs its scripts then asks us: by that name.
fn is_here_by_name(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// Whether a browser says that it asks for a page of another site.
fn by_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_from_this_machine_is_known_by_both_ends() {
        let check = |peer: &str, here: &str, expected: bool| {
            let address = |ip: &str| SocketAddr::new(ip.parse().expect("an address"), 9090);
            let ends = Ends { peer: address(peer), here: Some(address(here)) };
            assert_eq!(ends.are_here(), expected, "{peer} {here}");
        };
        check("127.0.0.1", "127.0.0.1", true);
        check("::1", "::1", true);
        check("::ffff:127.0.0.1", "::ffff:127.0.0.1", true);
        check("10.0.0.1", "127.0.0.1", false);
        check("127.0.0.1", "10.0.0.2", false);
        check("127.0.0.6", "127.0.0.1", false);
    }

    #[test]
    fn a_proxy_betrays_itself() {
        let check = |name: &'static str, expected: bool| {
            let headers = HeaderMap::from_iter([(name.parse().expect("a name"), "x".parse().expect("a value"))]);
            assert_eq!(by_proxy(&headers), expected, "{name}");
        };
        for name in
            ["via", "x-forwarded-for", "x-forwarded-proto", "x-envoy-external-address", "forwarded", "x-real-ip"]
        {
            check(name, true);
        }
        check("user-agent", false);
    }

    #[test]
    fn a_site_whose_name_leads_here_is_elsewhere() {
        let check = |uri: &str, headers: &[(&str, &str)], expected: bool| {
            let mut request = axum::http::Request::get(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(axum::body::Body::empty()).expect("a request");
            let is_ours = host(&request).is_some_and(|host| is_here_by_name(&host));
            assert_eq!(is_ours && !by_another_site(request.headers()), expected, "{uri} {headers:?}");
        };
        for host in ["localhost:9090", "LOCALHOST", "127.0.0.1:1", "[::1]:9090", "[::1]"] {
            check("/live/state", &[("host", host)], true);
            check(&format!("http://{host}/live/state"), &[], true);
            check("/live/state", &[("host", host), ("sec-fetch-site", "same-origin")], true);
            check("/live/state", &[("host", host), ("sec-fetch-site", "cross-site")], false);
            check("/live/state", &[("host", host), ("sec-fetch-site", "same-site")], false);
        }
        for host in ["rebound.example:9090", "localhost.example", "127.0.0.1.example", ""] {
            check("/live/state", &[("host", host)], false);
        }
        check("http://rebound.example/live/state", &[("host", "localhost")], false);
        check("/live/state", &[], false);
    }
}
