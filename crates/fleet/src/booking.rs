//! What we have under way at an endpoint. A [`Booking`] is made on dispatch and counts itself down when dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// The point in an endpoint's dispatches at which a reading was asked for: what was booked later is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// An endpoint's open bookings. Outlives the endpoint while bookings are open.
#[derive(Debug, Default)]
pub struct Books(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    open: u32,
    open_tokens: u64,
    last: Option<Instant>,
    /// Mark that a dispatch made now falls under.
    mark: Mark,
    /// Open bookings by the mark they were made under; emptied below the mark of the newest good reading.
    by_mark: BTreeMap<Mark, u32>,
}

impl Books {
    /// Requests that we have under way.
    pub fn open(&self) -> u32 {
        self.0.lock().open
    }

    /// Prompt tokens, not expected in the cache, of the requests under way.
    pub fn open_tokens(&self) -> u64 {
        self.0.lock().open_tokens
    }

    /// Open bookings that no good reading can have seen.
    pub fn unseen(&self) -> u32 {
        self.0.lock().by_mark.values().sum()
    }

    /// When the last booking was made.
    pub fn last_booked(&self) -> Option<Instant> {
        self.0.lock().last
    }

    /// Marks the start of a reading.
    pub fn begin_reading(&self) -> Mark {
        let mut ledger = self.0.lock();
        ledger.mark.0 += 1;
        ledger.mark
    }

    /// A reading begun at `mark` succeeded: bookings made before it are in its figures.
    pub(crate) fn seen(&self, mark: Mark) {
        let mut ledger = self.0.lock();
        ledger.by_mark = ledger.by_mark.split_off(&mark);
    }

    /// Books one request with `tokens` prompt tokens to compute.
    pub fn book(self: &Arc<Self>, tokens: u64, now: Instant) -> Booking {
        let mut ledger = self.0.lock();
        let mark = ledger.mark;
        ledger.open += 1;
        ledger.open_tokens += tokens;
        ledger.last = Some(now);
        *ledger.by_mark.entry(mark).or_default() += 1;
        drop(ledger);
        Booking { books: Arc::clone(self), mark, tokens }
    }
}

/// One request under way at an endpoint. Dropping it is the request's end, however it ended.
#[derive(Debug)]
pub struct Booking {
    books: Arc<Books>,
    mark: Mark,
    tokens: u64,
}

impl Drop for Booking {
    fn drop(&mut self) {
        let mut ledger = self.books.0.lock();
        ledger.open -= 1;
        ledger.open_tokens -= self.tokens;
        if let Some(count) = ledger.by_mark.get_mut(&self.mark) {
            *count -= 1;
            if *count == 0 {
                ledger.by_mark.remove(&self.mark);
            }
        }
    }
}
