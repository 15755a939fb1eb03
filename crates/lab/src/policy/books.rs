//! What any balancer knows by itself: what it has under way where, and the last reading of each engine. In: picks, first
//! tokens, ends, readings; out: a [`Seat`] an engine.

use std::collections::HashMap;

use crate::model::{Gauges, RequestId};

/// What is known of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seat {
    /// Requests under way.
    pub(super) under_way: u32,
    /// Requests given to it so far.
    pub(super) given: u64,
    /// Prompt tokens not believed to be cached, of requests without a first token.
    pub(super) uncached: u64,
    /// The last reading.
    pub(super) gauges: Gauges,
}

#[derive(Clone, Copy, Debug)]
struct Booked {
    engine: usize,
    uncached: u64,
}

/// All engines.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    seats: Vec<Seat>,
    booked: HashMap<RequestId, Booked>,
}

const NOBODY: Seat =
    Seat { under_way: 0, given: 0, uncached: 0, gauges: Gauges { running: 0, waiting: 0, kv_usage: 0.0 } };

impl Books {
    pub(super) fn seat(&self, engine: usize) -> &Seat {
        self.seats.get(engine).unwrap_or(&NOBODY)
    }

    pub(super) fn book(&mut self, id: RequestId, engine: usize, uncached: u64) {
        let seat = self.seat_mut(engine);
        seat.under_way += 1;
        seat.given += 1;
        seat.uncached += uncached;
        self.booked.insert(id, Booked { engine, uncached });
    }

    pub(super) fn answers(&mut self, id: RequestId) {
        if let Some(booked) = self.booked.get_mut(&id) {
            self.seats[booked.engine].uncached -= std::mem::take(&mut booked.uncached);
        }
    }

    pub(super) fn ended(&mut self, id: RequestId) {
        if let Some(Booked { engine, uncached }) = self.booked.remove(&id) {
            let seat = &mut self.seats[engine];
            seat.under_way -= 1;
            seat.uncached -= uncached;
        }
    }

    pub(super) fn read(&mut self, engine: usize, gauges: Gauges) {
        self.seat_mut(engine).gauges = gauges;
    }

    fn seat_mut(&mut self, engine: usize) -> &mut Seat {
        if self.seats.len() <= engine {
            self.seats.resize(engine + 1, NOBODY);
        }
        &mut self.seats[engine]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_booked_is_given_back_once() {
        let mut books = Books::default();
        books.book(1, 2, 100);
        books.book(2, 2, 50);
        assert_eq!(*books.seat(2), Seat { under_way: 2, given: 2, uncached: 150, ..NOBODY });
        books.answers(1);
        books.answers(1);
        assert_eq!(books.seat(2).uncached, 50);
        books.ended(1);
        books.ended(1);
        books.ended(2);
        assert_eq!(*books.seat(2), Seat { given: 2, ..NOBODY });
        assert_eq!(*books.seat(0), NOBODY);
    }
}
