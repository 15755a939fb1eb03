//! One question to a picker's metrics port, by HTTP/1.0: in, a path; out, the answer's text, or in a line why there is none.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::flags::Looking;
use crate::tools::decisions::printable;

/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// Whom is asked.
pub(super) struct Picker {
    /// As typed, without the scheme.
    host: String,
    port: u16,
    token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

impl Picker {
    /// # Errors
    /// Where the address, the token or the certificates can't be used.
    pub(super) fn new(asked: &Looking) -> Result<Self, String> {
        let (is_tls, host, port) = address(&asked.address)?;
        let tls = match (is_tls, &asked.ca_file) {
            (false, _) => None,
            (true, Some(file)) => Some(Arc::new(trusting(file)?)),
            (true, None) => return Err("https takes --ca-file".to_owned()),
        };
        let token = asked.token_file.as_ref().map(|file| {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let token = text.trim().to_owned();
            let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            is_one.then_some(token).ok_or_else(|| format!("{}: this is no token", file.display()))
        });
        Ok(Self { host, port, token: token.transpose()?, tls })
    }

    /// The text at that path.
    pub(super) fn get(&self, path: &str) -> Result<String, String> {
        let at = format!("{}:{}", self.host, self.port);
        let answer = self.exchange(path).map_err(|error| format!("{at}: {error}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{at}: this is no HTTP"))?;
        match head.split_whitespace().nth(1).unwrap_or_default() {
            "200" => Ok(body.to_owned()),
            "401" => Err(format!("{at}: a token is wanted that the cluster knows (--token-file)")),
            "403" => Err(format!(
                "{at}: not allowed: the token has no right to `get` /live/state, or, where no one is asked, it is shown on the picker's own \
                 machine alone (forward the port)"
            )),
            "404" => Err(format!("{at}: no live page is there (--live-page=false, or another port)")),
            status => Err(format!("{at}: the answer is {}", printable(status))),
        }
    }

    fn exchange(&self, path: &str) -> io::Result<String> {
        let mut stream = self.connect()?;
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}:{}\r\n{token}\r\n", self.port)?;
        stream.flush()?;
        let mut answer = Vec::new();
        match stream.take(LONGEST).read_to_end(&mut answer) {
            // Of TLS, some servers end without a word; a text that was cut is no JSON.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn connect(&self) -> io::Result<Box<dyn ReadWrite>> {
        let mut last = io::Error::other("the name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, WITHIN) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(WITHIN))?;
                    stream.set_write_timeout(Some(WITHIN))?;
                    return self.encrypted(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn encrypted(&self, stream: TcpStream) -> io::Result<Box<dyn ReadWrite>> {
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Whether by TLS, the host and the port.
fn address(typed: &str) -> Result<(bool, String, u16), String> {
    let wrong = || format!("--address {typed}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT");
    let (is_tls, rest) = match (typed.strip_prefix("https://"), typed.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, rest) => (false, rest.unwrap_or(typed)),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (rest, 9090),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte)) {
        true => Ok((is_tls, host.to_owned(), port)),
        false => Err(wrong()),
    }
}

fn trusting(file: &Path) -> Result<ClientConfig, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_may_have_a_scheme_and_a_port() {
        let check = |typed: &str, expected: Option<(bool, &str, u16)>| {
            let found = address(typed).ok();
            let found = found.as_ref().map(|(tls, host, port)| (*tls, host.as_str(), *port));
            assert_eq!(found, expected, "{typed}");
        };
        check("localhost:9090", Some((false, "localhost", 9090)));
        check("picker", Some((false, "picker", 9090)));
        check("http://10.0.0.1:1/live", Some((false, "10.0.0.1", 1)));
        check("https://[::1]:9091", Some((true, "::1", 9091)));
        check("[::1]", Some((false, "::1", 9090)));
        for wrong in ["", ":9090", "a b:1", "a:x", "a:70000", "a\r\nb:1"] {
            check(wrong, None);
        }
    }
}
