//! What is known of a request while the CPU still works on it, and whether anyone waits for more.
//!
//! In: what the work finds out, and the end of its caller's patience. Out: the same, to the other side. The work looks
//! between its stages whether it is given up; within one it isn't stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// What parsing finds out, before the work that costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The API as a label.
    pub(crate) api: &'static str,
    /// The model that the request names.
    pub(crate) model: Option<String>,
    /// Whether a streamed answer was asked for.
    pub(crate) stream: bool,
}

/// Shared by who works and who waits. Clones are one and the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    given_up: AtomicBool,
    parsed: Mutex<Option<Parsed>>,
}

/// Gives the work up when dropped: whoever waited for it has gone on, or is gone.
#[derive(Debug)]
pub(crate) struct Waiting(Progress);

impl Progress {
    /// Says that somebody waits, for as long as this is held.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting(self.clone())
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// Tells what was parsed.
    pub(crate) fn parsed(&self, parsed: Parsed) {
        *self.0.parsed.lock() = Some(parsed);
    }

    /// What was told last.
    pub(crate) fn known(&self) -> Option<Parsed> {
        self.0.parsed.lock().clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.given_up.store(true, Ordering::Relaxed);
    }
}
