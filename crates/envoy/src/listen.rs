//! From a listening socket to connections that speak h2, in the clear or under TLS.
//!
//! In: a bound listener. Out: a stream of [`Connection`]s, its handshakes done. A slow or broken handshake never holds up
//! another client, and a failing accept never spins.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::Tls;

/// How long a client may take over its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait after an accept that failed (out of file descriptors, as a rule).
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A client's connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Accepts until the stream of connections is dropped; the socket is closed then.
pub(crate) fn accept(listener: TcpListener, tls: Option<Tls>) -> ReceiverStream<io::Result<Connection>> {
    let (connections, accepted) = mpsc::channel(16);
    let tls = tls.map(|tls| TlsAcceptor::from(tls.config()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = connections.closed() => return,
                socket = listener.accept() => match socket {
                    Ok((socket, _)) => drop(tokio::spawn(greet(socket, tls.clone(), connections.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        tokio::time::sleep(AFTER_FAILURE).await;
                    }
                },
            }
        }
    });
    ReceiverStream::new(accepted)
}

async fn greet(socket: TcpStream, tls: Option<TlsAcceptor>, connections: mpsc::Sender<io::Result<Connection>>) {
    let connection = match tokio::time::timeout(HANDSHAKE, shake(socket, tls)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection came to nothing"),
        Err(_) => return tracing::debug!("a client didn't finish its TLS handshake"),
    };
    // Refused only when the server is ending, and then the connection may end with it.
    drop(connections.send(Ok(connection)).await);
}

async fn shake(socket: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Connection> {
    socket.set_nodelay(true)?;
    match tls {
        Some(tls) => Ok(Connection::Tls(Box::new(tls.accept(socket).await?))),
        None => Ok(Connection::Plain(socket)),
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match self {
            Self::Plain(socket) => socket.connect_info(),
            Self::Tls(stream) => stream.get_ref().0.connect_info(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
