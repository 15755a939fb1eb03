//! Other programs: cargo to its end, and servers in the background that never outlive us.
//!
//! A [`Server`] runs in a process group of its own (so that a Ctrl-C meant for us is not also theirs), writes to a log
//! file, and is killed when dropped. [`kill_all_on_signal`] does the same when we are interrupted.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, process, thread};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The cargo that runs us, at the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace::root());
    // What cargo told us of ourselves is not meant for the builds that we start: it would make them build again.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a program to its end; an error where it can't start or fails.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if status.success() { Ok(()) } else { bail!("{shown}: {status}") }
}

/// The command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let name = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut words: Vec<String> = words.map(name).collect();
    if let Some(program) = words.first_mut()
        && let Some(file) = Path::new(program).file_name()
    {
        *program = file.to_string_lossy().into_owned();
    }
    words.join(" ")
}

/// The servers under way, and whether more may start.
struct Running {
    children: Vec<Arc<Mutex<Child>>>,
    closing: bool,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { children: Vec::new(), closing: false });

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program in the background. Killed when dropped.
pub(crate) struct Server {
    name: String,
    log: PathBuf,
    child: Arc<Mutex<Child>>,
}

impl Server {
    /// Starts it with its output in `logs/NAME.log`.
    pub(crate) fn start(name: &str, command: &mut Command, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = start(command)?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    /// An error with the end of its log if it has ended.
    pub(crate) fn must_run(&self) -> Result<()> {
        let ended = locked(&self.child).try_wait().with_context(|| format!("cannot ask after {}", self.name))?;
        match ended {
            None => Ok(()),
            Some(status) => {
                bail!("{} ended ({status}); the end of {}:\n{}", self.name, self.log.display(), tail(&self.log))
            }
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        locked(&self.child).id()
    }

    /// The CPU time that it has used so far, of all its threads, to a hundredth of a second.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).context("CPU times can't be read")?;
        // After the name, which may hold anything: state is the first word, user and system time are the 12th and 13th.
        let words = stat.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
        let ticks: u64 = words.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
        // Linux tells programs a hundred ticks a second, whatever the kernel's own pace.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Sends it a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        // Held meanwhile, so that the process is not waited for and its id not another's.
        let child = locked(&self.child);
        finish(Command::new("kill").args([format!("-{name}"), child.id().to_string()]))
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Result<Option<ExitStatus>> {
        locked(&self.child).try_wait().with_context(|| format!("cannot ask after {}", self.name))
    }

    /// Its log file.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        forget(&self.child);
        kill(&self.child);
    }
}

/// Runs a program to its end, as one of those that are killed when we are interrupted.
pub(crate) fn wait_for(command: &mut Command) -> Result<ExitStatus> {
    let child = start(command.stdin(Stdio::null()).process_group(0))?;
    let status = loop {
        if let Some(status) = locked(&child).try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(20));
    };
    forget(&child);
    Ok(status)
}

/// Starts a program unless we are about to end, and puts it among those to be killed then.
fn start(command: &mut Command) -> Result<Arc<Mutex<Child>>> {
    let mut running = locked(&RUNNING);
    if running.closing {
        bail!("interrupted");
    }
    let child = command.spawn().with_context(|| format!("cannot start {}", show(command)))?;
    let child = Arc::new(Mutex::new(child));
    running.children.push(Arc::clone(&child));
    Ok(child)
}

fn forget(gone: &Arc<Mutex<Child>>) {
    locked(&RUNNING).children.retain(|child| !Arc::ptr_eq(child, gone));
}

fn kill(child: &Mutex<Child>) {
    let mut child = locked(child);
    // It may have ended by itself: nothing is left to kill then.
    let _ = child.kill();
    let _ = child.wait();
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// From now on Ctrl-C, SIGTERM and SIGHUP kill every [`Server`] and end us.
pub(crate) fn kill_all_on_signal() -> Result<()> {
    ctrlc::set_handler(|| {
        let mut running = locked(&RUNNING);
        running.closing = true;
        for child in running.children.drain(..) {
            kill(&child);
        }
        process::exit(130);
    })
    .context("cannot handle signals")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{Server, locked, wait_for};

    #[test]
    fn a_server_is_gone_once_it_is_dropped() {
        let logs = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        let server = Server::start("sleep", Command::new("sleep").arg("600"), &logs).unwrap();
        let process = format!("/proc/{}", locked(&server.child).id());
        server.must_run().unwrap();
        assert!(Path::new(&process).exists());
        drop(server);
        assert!(!Path::new(&process).exists());
        std::fs::remove_dir_all(logs).unwrap();
    }

    #[test]
    fn a_program_is_waited_for() {
        assert_eq!(wait_for(Command::new("sh").args(["-c", "exit 3"])).unwrap().code(), Some(3));
    }
}
