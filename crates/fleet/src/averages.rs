//! The whole fleet's load in a few numbers, for metrics. A view and a moment in, [`Averages`] out; what nobody said is
//! absent, never a zero.

use std::time::{Duration, Instant};

use crate::{Load, Standing, View};

/// The load of the endpoints that can be believed at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages {
    /// How many those are: read lately, and not failing.
    pub ready: usize,
    /// Waiting requests an endpoint.
    pub waiting: Option<Spread>,
    /// Running requests an endpoint.
    pub running: Option<Spread>,
    /// Share of the KV cache in use, 0..=1.
    pub kv_usage: Option<Spread>,
}

/// Mean and standard deviation of one figure over the ready endpoints that say it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (of the whole, not of a sample).
    pub deviation: f64,
}

/// The averages of `view` at `now`, where readings older than `stale_after` are not believed.
pub fn averages(view: &View, now: Instant, stale_after: Duration) -> Averages {
    let fresh =
        |endpoint: &&std::sync::Arc<crate::Endpoint>| endpoint.reading.standing(now, stale_after) == Standing::Fresh;
    let loads: Vec<&Load> =
        view.endpoints().iter().filter(fresh).filter_map(|endpoint| endpoint.reading.load.as_ref()).collect();
    let over = |figure: fn(&Load) -> Option<f64>| spread(loads.iter().filter_map(|load| figure(load)));
    Averages {
        ready: loads.len(),
        waiting: over(|load| load.waiting),
        running: over(|load| load.running),
        kv_usage: over(|load| load.kv_usage),
    }
}

fn spread(values: impl Iterator<Item = f64> + Clone) -> Option<Spread> {
    let count = values.clone().count() as f64;
    if count == 0.0 {
        return None;
    }
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Some(Spread { mean, deviation: variance.sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndpointId, Fleet, Mark, Member};

    /// Endpoints by their waiting requests and the age of their reading in seconds.
    fn check(endpoints: &[(Option<f64>, u64)], expected: &str) {
        let fleet = Fleet::new();
        let member = |port| Member::new(format!("e{port}"), ([127, 0, 0, 1], port).into());
        fleet.replace((1..).take(endpoints.len()).map(member).collect());
        let now = Instant::now() + Duration::from_secs(100);
        for (id, (waiting, age)) in endpoints.iter().enumerate() {
            let load = Load { waiting: *waiting, ..Load::unsaid(now - Duration::from_secs(*age)) };
            fleet.read(EndpointId(id as u32), Mark::default(), load);
        }
        let Averages { ready, waiting, .. } = averages(&fleet.view(), now, Duration::from_secs(2));
        let waiting = waiting.map_or("absent".into(), |w| format!("{} +- {}", w.mean, w.deviation));
        assert_eq!(format!("ready {ready} waiting {waiting}"), expected, "{endpoints:?}");
    }

    #[test]
    fn averages_keep_their_fraction() {
        check(&[(Some(3.0), 0), (Some(0.0), 0)], "ready 2 waiting 1.5 +- 1.5");
    }

    #[test]
    fn without_a_fresh_endpoint_there_is_no_average_and_ready_is_zero() {
        check(&[], "ready 0 waiting absent");
        check(&[(Some(3.0), 60), (Some(0.0), 60)], "ready 0 waiting absent");
        check(&[(Some(3.0), 60), (Some(1.0), 0)], "ready 1 waiting 1 +- 0");
    }

    #[test]
    fn an_endpoint_that_does_not_say_is_no_zero() {
        check(&[(Some(3.0), 0), (None, 0)], "ready 2 waiting 3 +- 0");
        check(&[(None, 0)], "ready 1 waiting absent");
    }

    #[test]
    fn an_endpoint_that_fails_is_not_ready() {
        let fleet = Fleet::new();
        fleet.replace(vec![Member::new("a", ([127, 0, 0, 1], 1).into())]);
        let now = Instant::now();
        fleet.read(EndpointId(0), Mark::default(), Load::unsaid(now));
        fleet.read_failed(EndpointId(0), now);
        assert_eq!(averages(&fleet.view(), now, Duration::from_secs(2)), Averages::default());
    }
}
