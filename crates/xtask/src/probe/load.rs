//! The two streams of requests, each on a thread and a connection of its own, so that building and sending a heavy body
//! holds up no small one here. In: what to send and when; out: what each took.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::bodies::{self, Heavy};
use super::gateway::{Gateway, Mode};

/// What requests took, and what failed.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// From when a request was due to the last answer about it; the good ones, ascending.
    pub(crate) times: Vec<Duration>,
    /// Why others failed.
    pub(crate) errors: Vec<String>,
}

impl Taken {
    fn add(&mut self, outcome: Result<Duration>) {
        match outcome {
            Ok(took) => self.times.push(took),
            Err(error) => self.errors.push(format!("{error:#}")),
        }
    }

    /// That share of the times is at most this; nothing where there are none.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (self.times.len() as f64 * share).ceil() as usize;
        self.times.get(rank.clamp(1, self.times.len().max(1)) - 1).copied()
    }
}

/// Small requests at a steady rate, whether or not earlier ones are answered.
pub(crate) fn small(port: u16, rate: f64, span: Duration, first: u64) -> Result<Taken> {
    runtime()?.block_on(async {
        let gateway = Gateway::connect(port).await?;
        let begun = Instant::now();
        let count = (rate * span.as_secs_f64()) as u64;
        let mut asked = JoinSet::new();
        for number in 0..count {
            let due = begun + Duration::from_secs_f64(number as f64 / rate);
            tokio::time::sleep_until(due.into()).await;
            let mut gateway = gateway.clone();
            let body = bodies::small(first + number);
            asked.spawn(async move {
                gateway.chat(body, Mode::Streamed).await?;
                anyhow::Ok(due.elapsed())
            });
        }
        let mut taken = Taken::default();
        while let Some(outcome) = asked.join_next().await {
            taken.add(outcome.context("a request's task failed")?);
        }
        taken.times.sort_unstable();
        Ok(taken)
    })
}

/// One heavy request after the other, the kinds in turn, begun no sooner than `every` after the one before.
pub(crate) fn heavy(port: u16, mode: Mode, every: Duration, span: Duration, first: u64) -> Result<Vec<(Heavy, Taken)>> {
    runtime()?.block_on(async {
        let mut gateway = Gateway::connect(port).await?;
        let begun = Instant::now();
        let mut all: Vec<(Heavy, Taken)> = Heavy::ALL.map(|kind| (kind, Taken::default())).into();
        for number in first.. {
            let due = begun + every.saturating_mul((number - first) as u32);
            let kinds = all.len() as u64;
            let (kind, taken) = &mut all[(number % kinds) as usize];
            let body = kind.body(number);
            tokio::time::sleep_until(due.into()).await;
            if begun.elapsed() >= span {
                break;
            }
            taken.add(gateway.chat(body, mode).await);
        }
        all.iter_mut().for_each(|(_, taken)| taken.times.sort_unstable());
        Ok(all)
    })
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Taken;

    #[track_caller]
    fn check(milliseconds: &[u64], share: f64, expected: Option<u64>) {
        let times = milliseconds.iter().map(|time| Duration::from_millis(*time)).collect();
        let taken = Taken { times, errors: Vec::new() };
        assert_eq!(taken.quantile(share), expected.map(Duration::from_millis));
    }

    #[test]
    fn a_quantile_is_one_of_the_times() {
        check(&[], 0.5, None);
        check(&[3], 0.5, Some(3));
        check(&[1, 2, 3, 4], 0.5, Some(2));
        check(&[1, 2, 3, 4], 0.99, Some(4));
        check(&[1, 2, 3, 4], 1.0, Some(4));
    }
}
