//! Bounds of the admin port: how many connections there are at a time, and how long one may be held for nothing.
//!
//! In: a listener. Out: its connections, at most [`AT_ONCE`] of them, and each one ends over which no answer could be written for a
//! while: whoever sends a request byte by byte, reads none of the answer, or says nothing costs a place for so long and no more.
//! What streams has something to write more often than that, and who asks seldom connects again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time.
const AT_ONCE: usize = 128;
/// How long nothing may be written over one.
const QUIET: Duration = Duration::from_secs(30);

/// A listener with few connections, each of them busy.
pub(crate) struct Bounded<L> {
    listener: L,
    places: Arc<Semaphore>,
    quiet: Duration,
}

impl<L> Bounded<L> {
    pub(crate) fn new(listener: L) -> Self {
        Self::to(listener, AT_ONCE, QUIET)
    }

    fn to(listener: L, at_once: usize, quiet: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(at_once)), quiet }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Busy<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, peer) = self.listener.accept().await;
        (Busy { stream, quiet: self.quiet, until: Box::pin(sleep(self.quiet)), _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when nothing can be written over it for long.
pub(crate) struct Busy<S> {
    stream: S,
    quiet: Duration,
    until: Pin<Box<Sleep>>,
    /// Given back with the connection.
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Busy<S> {
    /// What is read and written over.
    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    fn over(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.until.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    fn written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.until.as_mut().reset(Instant::now() + self.quiet);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Busy<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let busy = self.get_mut();
        busy.over(context)?;
        Pin::new(&mut busy.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Busy<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let busy = self.get_mut();
        busy.over(context)?;
        let written = Pin::new(&mut busy.stream).poll_write(context, bytes);
        busy.written(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let busy = self.get_mut();
        busy.over(context)?;
        let written = Pin::new(&mut busy.stream).poll_write_vectored(context, slices);
        busy.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{Router, routing};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use crate::task::Task;

    const SHORT: Duration = Duration::from_millis(300);

    /// A page of a MB at `/`, for two connections at a time.
    async fn serve() -> (SocketAddr, Task) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let pages = Router::new().route("/", routing::get(|| async { "x".repeat(1 << 20) }));
        (address, Task::of(async move { drop(axum::serve(Bounded::to(listener, 2, SHORT), pages).await) }))
    }

    async fn connect(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.expect("a connection")
    }

    async fn get(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_request_that_comes_byte_by_byte_is_ended() {
        let (address, _serving) = serve().await;
        let mut slow = connect(address).await;
        let sent = timeout(SHORT * 10, async {
            slow.write_all(b"GET / HTTP/1.1\r\n").await?;
            loop {
                slow.write_all(b"a: b\r\n").await?;
                tokio::time::sleep(SHORT / 6).await;
            }
        });
        let ended: io::Result<()> = sent.await.expect("it is ended in time");
        assert!(ended.is_err());
    }

    #[tokio::test]
    async fn who_holds_all_places_for_nothing_keeps_others_waiting_for_so_long_and_no_more() {
        let (address, _serving) = serve().await;
        let _silent = connect(address).await;
        // It asks, and reads none of the answer.
        let mut deaf = connect(address).await;
        deaf.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(16).as_slice()).await.expect("it can be written");
        let mut other = connect(address).await;
        let begun = Instant::now();
        let answer = timeout(SHORT * 20, get(&mut other)).await.expect("it gets a place").expect("an answer");
        assert!(answer.len() > 1 << 20 && begun.elapsed() >= SHORT / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn an_answer_that_is_read_slowly_is_written_to_its_end() {
        let (address, _serving) = serve().await;
        let mut stream = connect(address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.expect("it can be written");
        let (mut read, mut part) = (0, vec![0; 64 << 10]);
        loop {
            tokio::time::sleep(SHORT / 10).await;
            match stream.read(&mut part).await.expect("it goes on") {
                0 => break,
                bytes => read += bytes,
            }
        }
        assert!(read > 1 << 20, "{read}");
    }
}
