//! Structured logs on standard error, by `tracing`. Prompts, keys and headers never appear at the default level.
//!
//! Lines are written by a thread of their own: whoever logs never waits for the one who reads them. Where that one is too
//! slow, lines are lost and their number is said; requests are not.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written. A decision among a hundred endpoints is a line of some 20 KB.
const WAITING: usize = 1024;
/// How long the end of the process waits for them.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Starts logging from that level on, `form` `json` or `console`, the latter in colour on a terminal. `RUST_LOG` overrides the level.
/// What is logged is written until the value is dropped.
pub(crate) fn start(level: &str, form: &str) -> Logging {
    let ours = ["cluster", "config", "engine", "envoy", "epp", "route", "tokens"];
    let directives = ours.map(|name| format!("{name}={level}")).join(",");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("warn,{directives}")));
    let lines = Lines::to(io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines.clone());
    if form == "console" {
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        builder.with_ansi(colour).init();
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    }
    Logging(lines)
}

/// Logging under way. Its drop waits a moment for the last lines.
#[derive(Debug)]
pub(crate) struct Logging(Lines);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Where lines go. Clones are one and the same.
#[derive(Clone, Debug)]
struct Lines {
    queue: SyncSender<Item>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    Line(Vec<u8>),
    /// To be told once everything before it is written.
    Written(SyncSender<()>),
}

impl Lines {
    fn to(writer: impl Write + Send + 'static) -> Self {
        let (queue, lines) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let lost_here = Arc::clone(&lost);
        thread::spawn(move || write(&lines, writer, &lost_here));
        Self { queue, lost }
    }

    fn finish(&self) {
        let (tell, written) = sync_channel(1);
        // A queue that is full belongs to a reader that has stopped: there is nothing to wait for.
        if self.queue.try_send(Item::Written(tell)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

/// Nobody is left to be told of a standard error that can't be written to.
fn write(lines: &Receiver<Item>, mut writer: impl Write, lost: &AtomicU64) {
    while let Ok(item) = lines.recv() {
        match item {
            Item::Line(line) => drop(writer.write_all(&line)),
            Item::Written(tell) => drop(tell.send(())),
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "lines of this log were lost: they are read too slowly");
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Takes a line at a time, as `tracing-subscriber` gives them.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Writes when it is let.
    struct Gated {
        gate: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Once the gate is gone, it stands open.
            let _ = self.gate.recv();
            self.written.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_logs_never_waits_and_what_is_lost_is_counted() {
        let ((open, gate), (written, lines)) = (channel(), channel());
        let mut log = Lines::to(Gated { gate, written });
        for number in 0..WAITING + 10 {
            log.write_all(format!("{number}\n").as_bytes()).expect("it takes everything");
        }
        let lost = log.lost.load(Ordering::Relaxed);
        assert!((9..=10).contains(&lost), "the thread may have taken one from the queue: {lost}");
        drop(open);
        let first: Vec<Vec<u8>> = lines.iter().take(2).collect();
        assert_eq!(first, [b"0\n".to_vec(), b"1\n".to_vec()], "in their order");
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let ((open, gate), (written, lines)) = (channel(), channel());
        let mut log = Lines::to(Gated { gate, written });
        drop(open);
        log.write_all(b"the last\n").expect("it takes everything");
        drop(Logging(log));
        assert_eq!(lines.try_recv(), Ok(b"the last\n".to_vec()));
    }
}
