//! When conversations begin. In: a rate, and how it swells; out: moments, a Poisson process whose rate may come in bursts.

use std::time::Duration;

use crate::draw::Draw;

/// A Poisson process; in the first part of each period its rate is another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Beginnings a second, on average.
    pub rate: f64,
    /// Bursts, if any.
    pub bursts: Option<Bursts>,
}

/// A period in whose beginning more come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// From one burst to the next.
    pub every: Duration,
    /// How long a burst lasts.
    pub lasts: Duration,
    /// How many times the average rate a burst has. What lies between has what is left of the average, or nothing.
    pub times: f64,
}

impl Arrivals {
    /// A steady process.
    pub fn steady(rate: f64) -> Arrivals {
        Arrivals { rate, bursts: None }
    }

    pub(super) fn moments(self, draw: Draw) -> Moments {
        Moments { arrivals: self, draw, at: 0.0 }
    }

    /// The rate at a moment, and when it changes next.
    fn rate_at(&self, at: f64) -> (f64, f64) {
        let Some(bursts) = self.bursts else { return (self.rate, f64::INFINITY) };
        let (every, lasts) = (bursts.every.as_secs_f64(), bursts.lasts.as_secs_f64());
        let period = (at / every).floor() * every;
        if at - period < lasts {
            return (self.rate * bursts.times, period + lasts);
        }
        let left = (every - bursts.times * lasts) / (every - lasts);
        (self.rate * left.max(0.0), period + every)
    }
}

/// The moments of a process, without end.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    arrivals: Arrivals,
    draw: Draw,
    at: f64,
}

impl Moments {
    pub(super) fn next(&mut self) -> Duration {
        // A draw of the standard process, stretched by the rates that it passes.
        let mut left = self.draw.exponential(1.0);
        loop {
            let (rate, until) = self.arrivals.rate_at(self.at);
            let here = (until - self.at) * rate;
            if left < here || until.is_infinite() {
                self.at += left / rate;
                return Duration::from_secs_f64(self.at);
            }
            left -= here;
            // Past the edge, so that rounding can't stop here for ever.
            self.at = until.max(self.at.next_up());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(arrivals: Arrivals, count: usize) -> Vec<f64> {
        let mut moments = arrivals.moments(Draw::new(3, 0));
        (0..count).map(|_| moments.next().as_secs_f64()).collect()
    }

    #[test]
    fn a_steady_process_has_its_rate() {
        let last = moments(Arrivals::steady(5.0), 50_000)[49_999];
        assert!((9_800.0..10_200.0).contains(&last), "{last}");
    }

    #[test]
    fn bursts_have_theirs_and_the_average_stays() {
        let bursts = Bursts { every: Duration::from_secs(10), lasts: Duration::from_secs(2), times: 4.0 };
        let moments = moments(Arrivals { rate: 5.0, bursts: Some(bursts) }, 50_000);
        let last = moments[49_999];
        assert!((9_700.0..10_300.0).contains(&last), "{last}");
        let within = moments.iter().filter(|at| *at % 10.0 < 2.0).count();
        assert!((39_000..41_000).contains(&within), "{within}");
    }

    #[test]
    fn a_burst_of_the_whole_rate_leaves_nothing_between() {
        let bursts = Bursts { every: Duration::from_secs(10), lasts: Duration::from_secs(1), times: 10.0 };
        let moments = moments(Arrivals { rate: 5.0, bursts: Some(bursts) }, 1_000);
        assert!(moments.iter().all(|at| at % 10.0 <= 1.0 + 1e-9));
    }
}
