//! Where parsing, rendering and tokenizing run: on a bounded number of threads, never on the runtime's own.
//!
//! In: a closure; out: its value, or [`NotRun`] when as many wait as may, or when it panicked. A full pool is an answer at
//! once, never a stall.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// How much work a job is likely to be. Heavy jobs have threads of their own, so that light ones never wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Some milliseconds at most.
    Light,
    /// More.
    Heavy,
}

/// Bodies from this many bytes on are heavy.
const HEAVY: usize = 128 << 10;

impl Weight {
    /// Of a body so long.
    pub(crate) fn of(bytes: usize) -> Self {
        if bytes < HEAVY { Self::Light } else { Self::Heavy }
    }
}

/// A bounded share of the blocking threads.
#[derive(Debug)]
pub(crate) struct Cpu {
    light: Lane,
    heavy: Lane,
}

#[derive(Debug)]
struct Lane {
    /// One permit a job, running or waiting.
    places: Arc<Semaphore>,
    /// One permit a running job.
    threads: Arc<Semaphore>,
}

impl Lane {
    fn new(threads: usize, queue: usize) -> Self {
        let threads = threads.max(1);
        Self { places: Arc::new(Semaphore::new(threads + queue)), threads: Arc::new(Semaphore::new(threads)) }
    }
}

/// Why a job gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// Every place is taken.
    Busy,
    /// The job panicked: a defect of ours, and the request goes on by load.
    Panicked,
}

impl Cpu {
    /// `threads` light jobs at once, `queue` more waiting; beside them half as many heavy ones, and an eighth of the queue.
    pub(crate) fn new(threads: usize, queue: usize) -> Self {
        Self { light: Lane::new(threads, queue), heavy: Lane::new(threads / 2, queue / 8) }
    }

    /// Runs `job` on a thread of its own and waits for its value.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        weight: Weight,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotRun> {
        let lane = match weight {
            Weight::Light => &self.light,
            Weight::Heavy => &self.heavy,
        };
        let place = Arc::clone(&lane.places).try_acquire_owned().map_err(|_| NotRun::Busy)?;
        let thread = Arc::clone(&lane.threads).acquire_owned().await.map_err(|_| NotRun::Busy)?;
        let run = move || {
            let value = job();
            drop((thread, place));
            value
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| NotRun::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_pool_answers_at_once() {
        let cpu = Cpu::new(1, 0);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let running = cpu.run(Weight::Light, move || held.recv().is_ok());
        let mut running = std::pin::pin!(running);
        tokio::select! {
            biased;
            _ = &mut running => unreachable!("it waits for us"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(cpu.run(Weight::Light, || 1).await, Err(NotRun::Busy));
        release.send(()).expect("the job listens");
        assert_eq!(running.await, Ok(true));
        assert_eq!(cpu.run(Weight::Light, || 2).await, Ok(2));
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_gives_its_place_back() {
        let cpu = Cpu::new(1, 0);
        for _ in 0..3 {
            assert_eq!(cpu.run(Weight::Light, || panic!("on purpose")).await, Err::<(), _>(NotRun::Panicked));
        }
        assert_eq!(cpu.run(Weight::Light, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn a_light_job_never_waits_for_heavy_ones() {
        let cpu = Cpu::new(1, 0);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let mut heavy = std::pin::pin!(cpu.run(Weight::of(20 << 20), move || held.recv().is_ok()));
        tokio::select! {
            biased;
            _ = &mut heavy => unreachable!("it waits for us"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(cpu.run(Weight::of(20 << 20), || 1).await, Err(NotRun::Busy));
        assert_eq!(cpu.run(Weight::of(2 << 10), || 2).await, Ok(2));
        release.send(()).expect("the job listens");
        assert_eq!(heavy.await, Ok(true));
    }
}
