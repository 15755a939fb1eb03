//! How much memory requests' bodies may take up, over the whole process.
//!
//! In: a bound in bytes, and bodies part by part. Out: room, or none: a body never waits for it. What is taken is given back
//! when the last copy of the body goes, whoever holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

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

/// A body as it comes, and its share of the memory.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    share: Share,
}

#[derive(Debug)]
struct Share {
    memory: BodyMemory,
    bytes: usize,
}

impl Share {
    fn grow_to(&mut self, bytes: usize) -> bool {
        let grown = self.memory.take(bytes.saturating_sub(self.bytes));
        if grown {
            self.bytes = self.bytes.max(bytes);
        }
        grown
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

impl Body {
    /// Nothing yet.
    pub(crate) fn new(memory: BodyMemory) -> Self {
        Self { bytes: Vec::new(), share: Share { memory, bytes: 0 } }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a body of this length could be begun.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.share.memory.has_room(bytes)
    }

    /// Adds a part; gives it back if there is no room for it. The first part is kept as it came, so that a body of one part is
    /// never copied. `expected` is how long the whole is likely to be.
    pub(crate) fn add(&mut self, part: Vec<u8>, expected: usize) -> Result<(), Vec<u8>> {
        if self.bytes.is_empty() {
            if !self.share.grow_to(part.capacity()) {
                return Err(part);
            }
            self.bytes = part;
            return Ok(());
        }
        let needed = self.bytes.len() + part.len();
        if needed > self.bytes.capacity() {
            let roomy = needed.max(expected).max(2 * self.bytes.capacity());
            let Some(room) = [roomy, needed].into_iter().find(|room| self.share.grow_to(*room)) else {
                return Err(part);
            };
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(&part);
        Ok(())
    }

    /// What has come, as bytes that hold their share until the last clone of them is gone. The body is empty afterwards.
    pub(crate) fn take(&mut self) -> Bytes {
        let memory = self.share.memory.clone();
        let whole = std::mem::replace(self, Self::new(memory));
        if whole.bytes.is_empty() { Bytes::new() } else { Bytes::from_owner(whole) }
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_with_the_last_copy_of_the_body() {
        let memory = BodyMemory::new(10);
        let mut body = Body::new(memory.clone());
        body.add(vec![1; 4], 0).unwrap();
        body.add(vec![2; 3], 0).unwrap();
        assert!((7..=8).contains(&memory.held()));
        assert!(!memory.has_room(4));
        let whole = body.take();
        let copy = whole.slice(..2);
        drop((whole, body));
        assert!((7..=8).contains(&memory.held()));
        drop(copy);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn what_has_no_room_comes_back_and_takes_nothing() {
        let memory = BodyMemory::new(10);
        let mut body = Body::new(memory.clone());
        body.add(vec![1; 6], 0).unwrap();
        assert_eq!(body.add(vec![2; 5], 1 << 20).unwrap_err(), [2; 5]);
        assert_eq!((memory.held(), body.len()), (6, 6));
        body.add(vec![3; 4], 1 << 20).unwrap();
        assert_eq!(memory.held(), 10);
        drop(body);
        assert_eq!(memory.held(), 0);
    }
}
