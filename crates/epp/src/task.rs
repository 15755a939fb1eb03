//! A task that lasts as long as somebody holds it.

use std::future::Future;

use tokio::task::JoinHandle;

/// Ends the task when dropped.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Starts it.
    pub(crate) fn of(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
