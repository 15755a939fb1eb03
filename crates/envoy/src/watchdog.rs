//! Looks after the runtime on which requests are served, from a thread of its own.
//!
//! In: a runtime's heartbeat. Out: what health says, and connections that end when the runtime is stuck, so that gateways go
//! on by their own rules. The thread has a small runtime of its own, on which the health port and the accept loop live: they
//! answer whatever the other one does. It counts its looks and not the time, so that a process which was frozen as a whole
//! isn't taken for a stuck one when it goes on.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::health::Pulse;
use crate::{Health, Readiness};

/// How often is looked in the time after which a runtime counts as stuck.
const LOOKS: u32 = 10;
/// Heartbeats at a time: one that waits behind a single stuck thread says nothing of the others.
const HEARTS: u32 = 4;

/// How long a runtime may give no sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Before it is not ready any more, and its connections are ended (5 s).
    pub stuck_after: Duration,
    /// Before it isn't alive any more, for whoever restarts it (30 s).
    pub dead_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { stuck_after: Duration::from_secs(5), dead_after: Duration::from_secs(30) }
    }
}

/// Looks after the runtime it was started on, until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Watchdog(Arc<Thread>);

#[derive(Debug)]
struct Thread {
    watched: Arc<Watched>,
    readiness: Readiness,
    runtime: Handle,
    hearts: Vec<JoinHandle<()>>,
    /// Ends the thread when dropped.
    _end: oneshot::Sender<()>,
}

/// What both runtimes see.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    beats: AtomicU64,
    stuck: AtomicBool,
    times: AtomicU64,
    doors: Mutex<Doors>,
}

/// A second handle on each open connection.
#[derive(Debug, Default)]
struct Doors {
    open: HashMap<u64, TcpStream>,
    next: u64,
}

/// Held by a connection as long as it is open.
#[derive(Debug)]
pub(crate) struct Door {
    watched: Arc<Watched>,
    number: u64,
}

impl Watchdog {
    /// Starts a watchdog for the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// When there is no thread to be had.
    pub fn start(readiness: Readiness, patience: Patience) -> io::Result<Self> {
        let every = (patience.stuck_after / LOOKS).max(Duration::from_millis(1));
        let watched = Arc::new(Watched::default());
        let own = Builder::new_current_thread().enable_all().build()?;
        let runtime = own.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let hearts = (0..HEARTS).map(|_| tokio::spawn(beat(Arc::clone(&watched), every))).collect();
        let look = look(Arc::clone(&watched), readiness.clone(), patience, every);
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            own.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    () = look => {}
                }
            });
        })?;
        Ok(Self(Arc::new(Thread { watched, readiness, runtime, hearts, _end: end })))
    }

    /// The health service that knows of both: the readiness that the program sets, and the runtime's pulse.
    pub fn health(&self) -> Health {
        Health::new(self.0.readiness.clone())
    }

    /// Whether the runtime is stuck now.
    pub fn is_stuck(&self) -> bool {
        self.0.watched.is_stuck()
    }

    /// How often it got stuck.
    pub fn times_stuck(&self) -> u64 {
        self.0.watched.times.load(Ordering::Relaxed)
    }

    /// The runtime that goes on whatever the watched one does.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    pub(crate) fn watched(&self) -> Arc<Watched> {
        Arc::clone(&self.0.watched)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        for heart in &self.hearts {
            heart.abort();
        }
    }
}

async fn beat(watched: Arc<Watched>, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        watched.beats.fetch_add(1, Ordering::Relaxed);
    }
}

async fn look(watched: Arc<Watched>, readiness: Readiness, patience: Patience, every: Duration) {
    let dead = u32::try_from(patience.dead_after.as_millis() / every.as_millis().max(1)).unwrap_or(u32::MAX);
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut quiet) = (0, 0_u32);
    loop {
        ticks.tick().await;
        let beats = watched.beats.load(Ordering::Relaxed);
        if beats != seen {
            (seen, quiet) = (beats, 0);
            if watched.stuck.swap(false, Ordering::SeqCst) {
                readiness.feel(Pulse::Felt);
                say(|| tracing::warn!("the runtime goes on: serving again"));
            }
            continue;
        }
        quiet = quiet.saturating_add(1);
        if quiet == LOOKS {
            watched.times.fetch_add(1, Ordering::Relaxed);
            readiness.feel(Pulse::Missed);
            let ended = watched.shut();
            say(move || {
                tracing::error!(
                    connections = ended,
                    "the runtime is stuck: not serving, and its connections are ended so that gateways go on without it"
                );
            });
        }
        if quiet >= dead.max(LOOKS + 1) {
            readiness.feel(Pulse::Gone);
        }
    }
}

/// Logs from elsewhere: the log itself may be what the runtime is stuck on.
fn say(words: impl FnOnce() + Send + 'static) {
    // Without a thread to be had it stays unsaid.
    drop(std::thread::Builder::new().spawn(words));
}

impl Watched {
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::SeqCst)
    }

    /// Enters a connection; `None` while the runtime is stuck.
    pub(crate) fn open(self: &Arc<Self>, socket: &TcpStream) -> io::Result<Option<Door>> {
        let second = socket.try_clone()?;
        let mut doors = self.doors();
        if self.is_stuck() {
            return Ok(None);
        }
        let number = doors.next;
        doors.next += 1;
        doors.open.insert(number, second);
        Ok(Some(Door { watched: Arc::clone(self), number }))
    }

    /// Ends every connection; gives how many there were.
    fn shut(&self) -> usize {
        let doors = self.doors();
        self.stuck.store(true, Ordering::SeqCst);
        for socket in doors.open.values() {
            // One that fails is closed already.
            drop(socket.shutdown(Shutdown::Both));
        }
        doors.open.len()
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        // Nothing in here is left half done by a panic.
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.watched.doors().open.remove(&self.number);
    }
}
