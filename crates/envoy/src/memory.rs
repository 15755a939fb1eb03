//! How much memory requests' bodies may take up, over the whole process.
//!
//! In: a bound in bytes, and bodies part by part. Out: room, or none: a body never waits for it. What is taken is given back
//! when the last copy of the body goes, whoever holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::Body;
use crate::replies::LONGEST_PART;

/// The bound that all streams share. Clones are one and the same.
#[derive(Debug, Clone)]
pub struct BodyMemory(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    most: usize,
    held: AtomicUsize,
}

impl BodyMemory {
    /// At most this many bytes, of all bodies together.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Bound { most, held: AtomicUsize::new(0) }))
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// The most that may be held, in bytes.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Whether so much could be taken now. It takes nothing: a client's word for a length must not.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.held().saturating_add(bytes) <= self.0.most
    }

    fn take(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.0.most);
        self.0.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A body as it comes, part by part, and its share of the memory.
#[derive(Debug)]
pub(crate) struct Incoming {
    memory: BodyMemory,
    full: Vec<Bytes>,
    last: Part,
    bytes: usize,
}

impl Incoming {
    /// Nothing yet.
    pub(crate) fn new(memory: BodyMemory) -> Self {
        let last = Part::new(&memory);
        Self { memory, full: Vec::new(), last, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Whether a body of this length could be begun.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.memory.has_room(bytes)
    }

    /// Adds what came; gives it back if there is no room for it. It is kept as it came, but small pieces are put together, so
    /// that a body has few parts however it was cut.
    pub(crate) fn add(&mut self, piece: Vec<u8>) -> Result<(), Vec<u8>> {
        let length = piece.len();
        let together = self.last.bytes.len() + length;
        let added = if length >= SMALL || self.last.bytes.is_empty() || together > LONGEST_PART {
            Part::of(&self.memory, piece).map(|part| self.keep_last(part))
        } else {
            self.last.append(piece)
        };
        added.inspect(|()| self.bytes += length)
    }

    fn keep_last(&mut self, next: Part) {
        let full = std::mem::replace(&mut self.last, next);
        if !full.bytes.is_empty() {
            self.full.push(Bytes::from_owner(full));
        }
    }

    /// What has come, holding its share until the last copy of it is gone. This is empty afterwards.
    pub(crate) fn take(&mut self) -> Body {
        self.bytes = 0;
        self.keep_last(Part::new(&self.memory));
        std::mem::take(&mut self.full).into()
    }
}

/// A part of a body, which gives its share back when it goes.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    memory: BodyMemory,
    share: usize,
}

/// Pieces shorter than this are put together, in bytes. Gateways send 16 KiB as a rule, of which none is copied.
const SMALL: usize = 8 << 10;

/// Parts longer than this, as they come from gateways that buffer, are given back to the system by another thread: it takes
/// the system about a millisecond for some megabytes.
const LARGE: usize = 1 << 20;

impl Part {
    fn new(memory: &BodyMemory) -> Self {
        Self { bytes: Vec::new(), memory: memory.clone(), share: 0 }
    }

    fn of(memory: &BodyMemory, bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let mut part = Self::new(memory);
        if !part.grow_to(bytes.capacity()) {
            return Err(bytes);
        }
        part.bytes = bytes;
        Ok(part)
    }

    fn append(&mut self, piece: Vec<u8>) -> Result<(), Vec<u8>> {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            let roomy = LONGEST_PART.min(2 * self.bytes.capacity()).max(needed);
            let Some(room) = [roomy, needed].into_iter().find(|room| self.grow_to(*room)) else {
                return Err(piece);
            };
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(&piece);
        Ok(())
    }

    fn grow_to(&mut self, bytes: usize) -> bool {
        let grown = self.memory.take(bytes.saturating_sub(self.share));
        if grown {
            self.share = self.share.max(bytes);
        }
        grown
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.memory.give_back(self.share);
        if self.bytes.capacity() > LARGE
            && let Ok(runtime) = Handle::try_current()
        {
            let bytes = std::mem::take(&mut self.bytes);
            runtime.spawn_blocking(move || drop(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_with_the_last_copy_of_the_body() {
        let memory = BodyMemory::new(10);
        let mut body = Incoming::new(memory.clone());
        body.add(vec![1; 4]).unwrap();
        body.add(vec![2; 3]).unwrap();
        assert!((7..=8).contains(&memory.held()));
        assert!(!memory.has_room(4));
        let whole = body.take();
        let copy = whole.parts()[0].slice(..2);
        drop((whole, body));
        assert!((7..=8).contains(&memory.held()));
        drop(copy);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn what_has_no_room_comes_back_and_takes_nothing() {
        let memory = BodyMemory::new(10);
        let mut body = Incoming::new(memory.clone());
        body.add(vec![1; 6]).unwrap();
        assert_eq!(body.add(vec![2; 5]).unwrap_err(), [2; 5]);
        assert_eq!((memory.held(), body.len()), (6, 6));
        body.add(vec![3; 4]).unwrap();
        assert_eq!(memory.held(), 10);
        drop(body);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_body_has_few_parts_however_it_is_cut_and_takes_at_most_a_third_more_than_its_bytes() {
        for (piece, pieces) in [(1, 300_000), (1000, 1000), (16_384, 100), (40_000, 50), (100_000, 20)] {
            let memory = BodyMemory::new(usize::MAX);
            let mut body = Incoming::new(memory.clone());
            for number in 0..pieces {
                body.add(vec![number as u8; piece]).unwrap();
            }
            let bytes = piece * pieces;
            assert!(memory.held() <= bytes * 4 / 3 + LONGEST_PART, "{piece}: {} for {bytes}", memory.held());
            let whole = body.take();
            assert_eq!((whole.len(), body.len()), (bytes, 0));
            assert!(whole.parts().len() <= 1 + 2 * bytes / SMALL, "{piece}: {}", whole.parts().len());
            assert!(whole.join().chunks(piece).zip(0..pieces).all(|(part, number)| part[0] == number as u8));
        }
    }
}
