//! A request's whole body, as it is held: in parts.
//!
//! In: parts, in order; out: the same, or one piece. A long body is put together only by whoever has to read it, on a thread
//! for such work: where bodies only pass, none of their bytes is touched.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// The body. Clones are one and the same.
#[derive(Clone, Default)]
pub struct Body(Arc<[Bytes]>);

impl Body {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.0
    }

    /// All of it in one piece. Copies a body of several parts, about a millisecond for some megabytes: not for a thread that
    /// others wait for.
    pub fn join(&self) -> Bytes {
        if let [whole] = &*self.0 {
            return whole.clone();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        self.0.iter().for_each(|part| whole.extend_from_slice(part));
        whole.freeze()
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(parts: Vec<Bytes>) -> Self {
        Self(parts.into())
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        vec![whole].into()
    }
}

impl From<Vec<u8>> for Body {
    fn from(whole: Vec<u8>) -> Self {
        Bytes::from(whole).into()
    }
}

/// By content, however it is parted.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.join() == other.join()
    }
}

impl Eq for Body {}

/// Says how long it is, and never what it says.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}
