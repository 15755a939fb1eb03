//! A program in the background: started with its output in a log, killed when dropped, its log shown where a test
//! fails. And the small things that starting programs needs: ports, folders, waiting.

#![allow(clippy::print_stderr)] // A failing test shows its servers' logs.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that is waited for. Far more than it takes, so that a slow machine fails no test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that runs until it is dropped.
pub struct Program {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Program {
    /// Starts it with its output in `folder/NAME.log`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).expect("a log can be written");
        let errors = output.try_clone().expect("a log can be shared");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Self { name: name.to_owned(), log, child }
    }

    /// Waits until it is ready, and panics where it ends before.
    pub fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(&format!("{}: {what}", self.name), || {
            if let Some(status) = self.child.try_wait().expect("a child can be asked after") {
                panic!("{} ended ({status}):\n{}", self.name, self.log());
            }
            is_so()
        });
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops all its threads where they are, as a paused machine does.
    pub fn freeze(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.id());
        // A thread that waits for its turn stops when it gets it.
        let is_stopped = |task: PathBuf| {
            let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        };
        wait_until(&format!("{} is frozen", self.name), || {
            fs::read_dir(&tasks).expect("it runs, on Linux").flatten().all(|task| is_stopped(task.path()))
        });
    }

    /// The end of [`Program::freeze`].
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Stops all its threads but the watchdog's, where it was started by `hold.py`.
    pub fn hold(&self) {
        self.signal("USR1");
    }

    /// The end of [`Program::hold`].
    pub fn let_go(&self) {
        self.signal("USR2");
    }

    /// Ends it at once, as the kernel does where memory runs out.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(status.expect("kill can be run").success(), "{} could not be signalled", self.name);
    }

    /// The most memory that it has had resident, in bytes.
    pub fn peak_memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs, on Linux");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak.and_then(|kilobytes| kilobytes.parse::<usize>().ok()).expect("a number of kilobytes") << 10
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(&format!("{} has ended", self.name), || {
            status = self.child.try_wait().expect("a child can be asked after");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the end of {}:\n{}", self.log.display(), lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// Waits for a condition; panics with `what` where it doesn't come.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A port that nobody listens on. Below the range from which the system takes ports for outgoing connections, and never
/// the same twice in one process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let offset = (std::process::id() % 97) as u16 * 100;
    loop {
        let port = 20_000 + (offset + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// An empty folder for the test's logs and files.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("black_box").join(test);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an old folder can be removed");
    }
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// A program that cargo built beside the picker.
pub fn beside_the_picker(name: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_epp")).with_file_name(name);
    assert!(
        binary.exists(),
        "{} is not built; `cargo build --package {name}` or `cargo xtask test` builds it",
        binary.display()
    );
    binary
}

/// Where cargo builds, and `cargo xtask` leaves what it fetched.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder within cargo's")
}

/// The repository's root.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate is two folders below the root").to_path_buf()
}
