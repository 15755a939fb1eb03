//! What is planned, by time; what is planned for one moment comes out in the order in which it was planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

struct Planned<T> {
    at: Duration,
    number: u64,
    what: T,
}

/// A queue of moments.
pub(super) struct Moments<T> {
    heap: BinaryHeap<Planned<T>>,
    planned: u64,
}

impl<T> Default for Moments<T> {
    fn default() -> Moments<T> {
        Moments { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<T> Moments<T> {
    pub(super) fn plan(&mut self, at: Duration, what: T) {
        self.planned += 1;
        self.heap.push(Planned { at, number: self.planned, what });
    }

    pub(super) fn next(&mut self) -> Option<(Duration, T)> {
        self.heap.pop().map(|planned| (planned.at, planned.what))
    }
}

/// The earliest is the greatest: the heap gives the greatest first.
impl<T> Ord for Planned<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Planned<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_by_time_and_then_as_planned() {
        let mut moments = Moments::default();
        for (at, what) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b')] {
            moments.plan(Duration::from_secs(at), what);
        }
        let order: String = std::iter::from_fn(|| moments.next()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }
}
