//! Where parsing, rendering and tokenizing run: on a bounded number of threads, never on the runtime's own.
//!
//! In: a closure; out: its value, or [`NotRun`] when as many wait as may, or when it panicked. A full pool is an answer at
//! once, never a stall.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A bounded share of the blocking threads.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// One permit a job, running or waiting.
    places: Arc<Semaphore>,
    /// One permit a running job.
    threads: Arc<Semaphore>,
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
    /// `threads` jobs at once, `queue` more waiting.
    pub(crate) fn new(threads: usize, queue: usize) -> Self {
        let threads = threads.max(1);
        Self { places: Arc::new(Semaphore::new(threads + queue)), threads: Arc::new(Semaphore::new(threads)) }
    }

    /// Runs `job` on a thread of its own and waits for its value.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, NotRun> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| NotRun::Busy)?;
        let thread = Arc::clone(&self.threads).acquire_owned().await.map_err(|_| NotRun::Busy)?;
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
        let running = cpu.run(move || held.recv().is_ok());
        let mut running = std::pin::pin!(running);
        tokio::select! {
            biased;
            _ = &mut running => unreachable!("it waits for us"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(cpu.run(|| 1).await, Err(NotRun::Busy));
        release.send(()).expect("the job listens");
        assert_eq!(running.await, Ok(true));
        assert_eq!(cpu.run(|| 2).await, Ok(2));
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_gives_its_place_back() {
        let cpu = Cpu::new(1, 0);
        for _ in 0..3 {
            assert_eq!(cpu.run(|| panic!("on purpose")).await, Err::<(), _>(NotRun::Panicked));
        }
        assert_eq!(cpu.run(|| 3).await, Ok(3));
    }
}
