//! Decisions' records, told to whoever follows them as they happen: streams, pages.
//!
//! In: records; out: the same to each follower, in order. Who tells never waits: what a follower that is slow has not taken is
//! lost to it alone, counted, and said to it. Records and followers are bounded; without a follower nothing is kept, and nothing
//! need be made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use record::Record;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Records that may wait for the slowest follower, all followers together. One among a hundred endpoints takes some 60 KB.
const WAITING: usize = 256;
/// Followers at a time: streams, and the live page.
const FOLLOWERS: usize = 32 + 1;

/// Where records are told. Clones are one and the same.
#[derive(Clone, Debug)]
pub(crate) struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// None once it is closed.
    told: RwLock<Option<broadcast::Sender<Arc<Record>>>>,
    followers: AtomicUsize,
    /// How many of them want picks too.
    of_picks: AtomicUsize,
}

/// Which records a follower is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Those of requests that have ended: with their outcome.
    Ends,
    /// Before it, each as its pick is made: without one. The record of its end has all of it again.
    PicksAndEnds,
}

impl Default for Feed {
    fn default() -> Self {
        let told = RwLock::new(Some(broadcast::Sender::new(WAITING)));
        Self(Arc::new(Inner { told, followers: AtomicUsize::new(0), of_picks: AtomicUsize::new(0) }))
    }
}

impl Feed {
    /// Whether anybody wants the records of picks; else none need be made.
    pub(crate) fn wants_picks(&self) -> bool {
        self.0.of_picks.load(Ordering::Relaxed) > 0
    }

    /// Whether anybody wants the records of ends.
    pub(crate) fn wants_ends(&self) -> bool {
        self.0.followers.load(Ordering::Relaxed) > 0
    }

    /// Tells a record to all that follow. Never waits.
    pub(crate) fn tell(&self, record: Arc<Record>) {
        if let Some(told) = &*self.0.told.read() {
            // Refused only where nobody follows.
            let _ = told.send(record);
        }
    }

    /// What is told from now on; `None` where too many follow already, or no more is told.
    pub(crate) fn follow(&self, wanted: Told) -> Option<Follower> {
        let told = self.0.told.read();
        let receiver = told.as_ref()?.subscribe();
        let place = Place::take(&self.0, wanted)?;
        Some(Follower { receiver, place })
    }

    /// Whether no more is told.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.told.read().is_none()
    }

    /// Tells no more: followers take what waits for them, and end.
    pub(crate) fn close(&self) {
        self.0.told.write().take();
    }
}

/// One that follows.
#[derive(Debug)]
pub(crate) struct Follower {
    receiver: broadcast::Receiver<Arc<Record>>,
    place: Place,
}

/// What a follower is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// A record.
    Record(Arc<Record>),
    /// So many were told here that this follower was too slow for, whether it wanted them or not.
    Lost(u64),
}

impl Follower {
    /// The next one; `None` at the end. Nothing is lost where the wait is given up.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            match self.receiver.recv().await {
                Ok(record) if record.outcome.is_none() && self.place.wanted == Told::Ends => {}
                Ok(record) => return Some(Heard::Record(record)),
                Err(RecvError::Lagged(lost)) => return Some(Heard::Lost(lost)),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// A follower's place; free again when it is dropped.
#[derive(Debug)]
struct Place {
    of: Arc<Inner>,
    wanted: Told,
}

impl Place {
    fn take(of: &Arc<Inner>, wanted: Told) -> Option<Self> {
        let one_more = |taken: usize| (taken < FOLLOWERS).then_some(taken + 1);
        of.followers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        if wanted == Told::PicksAndEnds {
            of.of_picks.fetch_add(1, Ordering::Relaxed);
        }
        Some(Self { of: Arc::clone(of), wanted })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.followers.fetch_sub(1, Ordering::Relaxed);
        if self.wanted == Told::PicksAndEnds {
            self.of.of_picks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use record::{Asked, Ended, Outcome};

    use super::*;

    /// A record with that id, of a request that has ended or not.
    pub(crate) fn record(request_id: &str, ended: bool) -> Arc<Record> {
        let outcome = Outcome {
            status: Some(200),
            served: None,
            ttft_ms: None,
            took_ms: 1.0,
            prompt_tokens: None,
            cached_tokens: None,
            completion_tokens: None,
            ended: Ended::Complete,
            attempts: None,
        };
        Arc::new(Record {
            request_id: request_id.to_owned(),
            decided_at_unix_ms: 0,
            asked: Asked::default(),
            candidates: Vec::new(),
            chosen: Vec::new(),
            notes: Vec::new(),
            predicted_cached_tokens: None,
            decided_in_us: 0,
            holdout: false,
            outcome: ended.then_some(outcome),
        })
    }

    /// All that is told until the end: ids, or `lost N`.
    async fn heard(mut follower: Follower) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(heard) = follower.next().await {
            all.push(match heard {
                Heard::Record(record) => record.request_id.clone(),
                Heard::Lost(lost) => format!("lost {lost}"),
            });
        }
        all
    }

    #[tokio::test]
    async fn each_follower_is_told_what_it_wants_from_then_on_and_the_end() {
        let feed = Feed::default();
        feed.tell(record("before", true));
        assert!(!feed.wants_picks() && !feed.wants_ends());
        let ends = feed.follow(Told::Ends).expect("a place");
        assert!(!feed.wants_picks() && feed.wants_ends());
        let both = feed.follow(Told::PicksAndEnds).expect("a place");
        assert!(feed.wants_picks() && feed.wants_ends());
        feed.tell(record("pick", false));
        feed.tell(record("end", true));
        feed.close();
        feed.tell(record("after", true));
        assert!(feed.follow(Told::Ends).is_none(), "no more is told");
        assert_eq!(heard(ends).await, ["end"]);
        assert_eq!(heard(both).await, ["pick", "end"]);
        assert!(!feed.wants_picks() && !feed.wants_ends());
    }

    #[tokio::test]
    async fn who_is_slow_loses_the_oldest_and_is_told_how_many() {
        let feed = Feed::default();
        let follower = feed.follow(Told::Ends).expect("a place");
        for number in 0..WAITING + 3 {
            feed.tell(record(&number.to_string(), true));
        }
        feed.close();
        let heard = heard(follower).await;
        assert_eq!((heard.len(), heard[0].as_str(), heard[1].as_str()), (WAITING + 1, "lost 3", "3"));
    }

    #[test]
    fn followers_are_bounded_and_give_their_places_back() {
        let feed = Feed::default();
        let mut all: Vec<Follower> = (0..FOLLOWERS).map(|_| feed.follow(Told::Ends).expect("a place")).collect();
        assert!(feed.follow(Told::Ends).is_none());
        all.pop();
        assert!(feed.follow(Told::PicksAndEnds).is_some());
    }
}
