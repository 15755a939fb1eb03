//! A request routed: the decision, and what has to be undone or corrected as its answer comes. All of it undoes itself:
//! however the value ends, the booking is counted down once, and what the index learned is kept only if the answer began
//! well. Holds no lock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use blocks::{Fingerprint, Learned, PrefixIndex};
use fleet::{Booking, Endpoint};
use pick::{Ask, Candidate, Decision};

use crate::Router;

/// A request on its way. Drop it when the request ends, however it ends.
#[derive(Debug)]
pub struct Routed {
    /// What was asked, as the choice saw it.
    pub ask: Ask,
    /// All endpoints allowed, as they were read for the choice.
    pub candidates: Vec<Candidate>,
    /// The choice.
    pub decision: Decision,
    /// Where to send it: as many as the policy names, the best first. Never empty.
    pub destinations: Vec<SocketAddr>,
    /// Where it is; `None` when it is served where we know nobody.
    pub(crate) stay: Option<Stay>,
    pub(crate) fingerprints: Arc<[Fingerprint]>,
    pub(crate) router: Router,
}

/// A request at an endpoint.
#[derive(Debug)]
pub(crate) struct Stay {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Counts itself down with the stay.
    pub(crate) _booking: Booking,
    /// `None` where nothing was to be learned.
    pub(crate) lesson: Option<Lesson>,
    pub(crate) predicted_cached_tokens: u64,
}

/// Where a request was served, compared with where it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Where it is booked.
    AsPicked,
    /// At another endpoint of the fleet; booking and index were corrected.
    Elsewhere,
    /// At an address where no endpoint of the fleet serves; booking and index were corrected.
    Unknown,
}

impl Routed {
    /// Where the request is: the endpoint picked, or the one that [`Routed::served_by`] named.
    pub fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.stay.as_ref().map(|stay| &stay.endpoint)
    }

    /// Prompt tokens that the endpoint's engine should find in its cache.
    pub fn predicted_cached_tokens(&self) -> u64 {
        self.stay.as_ref().map_or(0, |stay| stay.predicted_cached_tokens)
    }

    /// The gateway says where the request was really served. To be told before [`Routed::succeeded`].
    pub fn served_by(&mut self, address: SocketAddr, now: Instant) -> Served {
        if self.endpoint().is_some_and(|endpoint| endpoint.member.address == address) {
            return Served::AsPicked;
        }
        // Before the new stay begins: at the same endpoint the index must not find what this very request brought.
        self.stay = None;
        let served = self.router.endpoint_at(address);
        self.stay = served.map(|endpoint| self.router.begin(endpoint, &self.fingerprints, now));
        if self.stay.is_some() { Served::Elsewhere } else { Served::Unknown }
    }

    /// Nobody says where the request is served, and it wasn't sent where it was picked for: nothing is booked or learned of it.
    pub fn served_by_nobody_knows(&mut self) {
        self.stay = None;
    }

    /// The answer began well (2xx): the endpoint has the prompt in its cache.
    pub fn succeeded(&mut self) -> Outcome {
        Outcome { lesson: self.lesson(), well: true }
    }

    /// The answer is an error, or there is none: nothing is believed to have come of the prompt. The booking stays until the
    /// end.
    pub fn failed(&mut self) -> Outcome {
        Outcome { lesson: self.lesson(), well: false }
    }

    fn lesson(&mut self) -> Option<Lesson> {
        self.fingerprints = Arc::default();
        self.stay.as_mut()?.lesson.take()
    }
}

/// What an answer means for the index, which learns it when this is dropped, on whatever thread: that takes some 30 ns a
/// block.
#[derive(Debug)]
pub struct Outcome {
    lesson: Option<Lesson>,
    well: bool,
}

impl Outcome {
    /// Blocks that were open until now.
    pub fn blocks(&self) -> usize {
        self.lesson.as_ref().and_then(|lesson| lesson.learned.as_ref()).map_or(0, Learned::blocks)
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if let Some(lesson) = self.lesson.take().filter(|_| self.well) {
            lesson.keep();
        }
    }
}

/// What the index learned. Taken back when dropped, unless kept.
#[derive(Debug)]
pub(crate) struct Lesson {
    index: Arc<PrefixIndex>,
    learned: Option<Learned>,
}

impl Lesson {
    pub(crate) fn new(index: Arc<PrefixIndex>, learned: Learned) -> Self {
        Self { index, learned: Some(learned) }
    }

    fn keep(mut self) {
        if let Some(learned) = self.learned.take() {
            self.index.keep(learned);
        }
    }
}

impl Drop for Lesson {
    fn drop(&mut self) {
        if let Some(learned) = self.learned.take() {
            self.index.undo(learned);
        }
    }
}
