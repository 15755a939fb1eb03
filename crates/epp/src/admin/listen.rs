//! TLS in front of the admin port.
//!
//! In: a listener and what is shown to clients; out: connections whose handshake is done. Handshakes take place beside each other,
//! each in its time, so that who says nothing keeps nobody waiting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use envoy::Tls;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::task::Task;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How many may go on at a time.
const AT_ONCE: usize = 64;

/// A listener whose connections are encrypted.
pub(crate) struct Encrypted {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    _accepting: Task,
}

impl Encrypted {
    /// Over that one.
    ///
    /// # Errors
    /// Where it has no address.
    pub(crate) fn new(listener: TcpListener, tls: &Tls) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (done, ready) = mpsc::channel(1);
        let accepting = Task::of(accept(listener, TlsAcceptor::from(tls.config()), done));
        Ok(Self { address, ready, _accepting: accepting })
    }
}

async fn accept(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    done: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // `axum`'s own accepting waits where there are too many files, and never fails.
        let (stream, peer) = Listener::accept(&mut listener).await;
        let (handshake, done) = (acceptor.accept(stream), done.clone());
        tokio::spawn(async move {
            let _place = place;
            match tokio::time::timeout(HANDSHAKE, handshake).await {
                Ok(Ok(stream)) => drop(done.send((stream, peer)).await),
                Ok(Err(error)) => {
                    tracing::debug!(%error, %peer, "a connection to the metrics was no TLS that is taken")
                }
                Err(_) => tracing::debug!(%peer, "a connection to the metrics took too long to begin"),
            }
        });
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task that accepts ends with this value.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use envoy::Terms;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    #[tokio::test]
    async fn pages_are_encrypted_and_who_says_nothing_keeps_nobody_waiting() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let chain = params.self_signed(&key).expect("a certificate").pem();
        let terms = Terms { http_1: true, ..Terms::default() };
        let tls = Tls::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes(), &terms).expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let encrypted = Encrypted::new(listener, &tls).expect("an address");
        let address = encrypted.local_addr().expect("an address");
        let pages = axum::Router::new().route("/", axum::routing::get(|| async { "a page" }));
        let _serving = Task::of(async move { drop(axum::serve(encrypted, pages).await) });

        let _silent = TcpStream::connect(address).await.expect("a connection");
        let mut plain = TcpStream::connect(address).await.expect("a connection");
        plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("it can be written");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(chain.as_bytes()).expect("PEM")).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let stream = TcpStream::connect(address).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = TlsConnector::from(config).connect(name, stream).await.expect("a handshake");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.expect("it can be written");
        let mut answer = String::new();
        // Servers end connections without a word now and then; what was said counts.
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("a page"), "{answer}");
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "nothing is served in plain text");
    }
}
