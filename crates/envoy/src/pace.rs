//! How much one poll of a task may take from a socket or a body before others have their turn.
//!
//! In: what each step took. Out: whether there may be another. While a peer sends as fast as we read, h2 and tonic would go
//! on reading for as long as it does, twenty megabytes in one poll, and every other stream on that thread would wait.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Bytes a poll: some tens of microseconds for reading them and handing them on, more where memory is touched first.
const SHARE: usize = 32 << 10;
/// What a step costs beside its bytes, in bytes: a frame of one byte is work too.
const STEP: usize = 512;

/// What is left of a poll's share.
#[derive(Debug)]
pub(crate) struct Pace {
    left: usize,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { left: SHARE }
    }

    /// A step, unless the share is used up: then the task's next poll comes at once, after those that are waiting.
    /// `step` says how many bytes it took.
    pub(crate) fn step<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<(T, usize)>,
    ) -> Poll<T> {
        if self.left == 0 {
            self.left = SHARE;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready((out, bytes)) = step(cx) else {
            self.left = SHARE;
            return Poll::Pending;
        };
        self.left = self.left.saturating_sub(bytes.saturating_add(STEP));
        Poll::Ready(out)
    }
}

/// A body that is read at this pace.
#[derive(Debug)]
pub(crate) struct Paced<B> {
    body: B,
    pace: Pace,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, pace: Pace::new() }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, pace } = self.get_mut();
        pace.step(cx, |cx| {
            let frame = ready!(Pin::new(body).poll_frame(cx));
            let bytes = match &frame {
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                _ => 0,
            };
            Poll::Ready((frame, bytes))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Always has another frame of this length.
    struct Endless(usize);

    impl Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(Ok(Frame::data(vec![0; self.0].into()))))
        }
    }

    /// How many frames come before a poll ends, at first and after that.
    fn frames_a_poll(length: usize) -> [usize; 2] {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut body = Paced::new(Endless(length));
        [1, 2].map(|polls| {
            let frames = (0..10_000).take_while(|_| Pin::new(&mut body).poll_frame(&mut cx).is_ready()).count();
            assert_eq!(wakes.0.load(Ordering::Relaxed), polls, "whoever isn't woken never comes again");
            frames
        })
    }

    #[test]
    fn a_poll_ends_after_its_share_and_comes_again() {
        assert_eq!(frames_a_poll(16 << 10), [2, 2]);
        assert_eq!(frames_a_poll(1 << 20), [1, 1]);
        assert_eq!(frames_a_poll(1), [64, 64]);
    }

    #[test]
    fn whoever_waits_begins_with_a_whole_share() {
        let mut pace = Pace::new();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            assert!(pace.step(&mut cx, |_| Poll::Ready(((), 40_000))).is_ready());
            assert!(pace.step(&mut cx, |_| Poll::<((), usize)>::Pending).is_pending());
        }
    }
}
