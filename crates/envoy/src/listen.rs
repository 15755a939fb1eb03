//! From a listening socket to connections that speak h2, in the clear or under TLS.
//!
//! In: a bound listener. Out: a stream of [`Connection`]s, its handshakes done. A slow or broken handshake never holds up
//! another client, and a failing accept never spins. Accepting is done on the watchdog's thread, so that a client of a stuck
//! process is told at once; the rest where the streams are served.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::pace::Pace;
use crate::watchdog::{Door, Watched};
use crate::{Tls, Watchdog};

/// How long a client may take over its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait after an accept that failed (out of file descriptors, as a rule).
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Transport,
    reads: Pace,
    writes: Pace,
    /// Kept open for the watchdog to shut.
    _door: Door,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A client that nobody has spoken to yet.
type Caller = (std::net::TcpStream, Door);

/// Accepts until the stream of connections is dropped; the socket is closed then.
pub(crate) fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    watchdog: &Watchdog,
) -> io::Result<ReceiverStream<io::Result<Connection>>> {
    let (connections, accepted) = mpsc::channel(16);
    let (call, mut callers) = mpsc::unbounded_channel::<Caller>();
    let listener = listener.into_std()?;
    let listener = {
        let _there = watchdog.runtime().enter();
        TcpListener::from_std(listener)?
    };
    watchdog.runtime().spawn(answer_the_door(listener, call, watchdog.watched()));
    let tls = tls.map(|tls| TlsAcceptor::from(tls.config()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = connections.closed() => return,
                caller = callers.recv() => match caller {
                    Some(caller) => drop(tokio::spawn(greet(caller, tls.clone(), connections.clone()))),
                    None => return,
                },
            }
        }
    });
    Ok(ReceiverStream::new(accepted))
}

async fn answer_the_door(listener: TcpListener, call: mpsc::UnboundedSender<Caller>, watched: Arc<Watched>) {
    loop {
        let accepted = tokio::select! {
            () = call.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let entered = accepted.and_then(|(socket, _)| {
            let socket = socket.into_std()?;
            Ok(watched.open(&socket)?.map(|door| (socket, door)))
        });
        match entered {
            // Refused only when the server is ending.
            Ok(Some(caller)) => drop(call.send(caller)),
            // Stuck: it is closed at once.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn greet((socket, door): Caller, tls: Option<TlsAcceptor>, connections: mpsc::Sender<io::Result<Connection>>) {
    let stream = match tokio::time::timeout(HANDSHAKE, shake(socket, tls)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection came to nothing"),
        Err(_) => return tracing::debug!("a client didn't finish its TLS handshake"),
    };
    // Refused only when the server is ending, and then the connection may end with it.
    drop(connections.send(Ok(Connection { stream, reads: Pace::new(), writes: Pace::new(), _door: door })).await);
}

async fn shake(socket: std::net::TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Transport> {
    let socket = TcpStream::from_std(socket)?;
    socket.set_nodelay(true)?;
    match tls {
        Some(tls) => Ok(Transport::Tls(Box::new(tls.accept(socket).await?))),
        None => Ok(Transport::Plain(socket)),
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match &self.stream {
            Transport::Plain(socket) => socket.connect_info(),
            Transport::Tls(stream) => stream.get_ref().0.connect_info(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, reads, .. } = self.get_mut();
        reads.step(cx, |cx| {
            let before = buf.filled().len();
            let read = ready!(match stream {
                Transport::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
                Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            });
            Poll::Ready((read, buf.filled().len() - before))
        })
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, writes, .. } = self.get_mut();
        writes.step(cx, |cx| {
            let written = ready!(match stream {
                Transport::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
                Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            });
            let bytes = written.as_ref().map_or(0, |bytes| *bytes);
            Poll::Ready((written, bytes))
        })
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Transport::Plain(socket) => socket.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
