//! The real picker: the binary that cargo built, on ports of its own. In: engines' addresses and flags; out: a port for
//! the gateway, health ports, a metrics page.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::page;
use super::metrics::Page;
use super::program::{Program, free_port, root};

/// The file that says who serves.
const ENDPOINTS: &str = "endpoints.yaml";

/// The picker.
pub struct Picker {
    /// Where gateways go.
    pub port: u16,
    /// Where probes go.
    pub health_port: u16,
    /// The process.
    pub program: Program,
    /// Where scrapers go.
    pub metrics_port: u16,
    engines: usize,
    command: Vec<String>,
    folder: PathBuf,
}

impl Picker {
    /// Starts it and waits until it has read every engine.
    pub fn start(engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        let mut picker = Self::start_unready(engines, flags, folder);
        picker.wait_until_ready();
        picker
    }

    /// The same, of one whose runtime can be held up ([`Program::hold`]).
    pub fn start_holdable(engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        let script = root().join("tests/black_box/hold.py").display().to_string();
        let holder = ["python3", &script, env!("CARGO_BIN_EXE_epp")];
        let mut picker = Self::start_by(&holder, engines, flags, folder);
        picker.wait_until_ready();
        picker
    }

    /// The same with an environment: `NAME=VALUE`.
    pub fn start_in(environment: &[&str], engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        let command = [&["env"], environment, &[env!("CARGO_BIN_EXE_epp")]].concat();
        let mut picker = Self::start_by(&command, engines, flags, folder);
        picker.wait_until_ready();
        picker
    }

    /// Starts it and waits until it shows metrics.
    pub fn start_unready(engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        Self::start_by(&[env!("CARGO_BIN_EXE_epp")], engines, flags, folder)
    }

    /// Starts one whose endpoints are a cluster's, as the flags say, and waits until it shows metrics, to everybody.
    pub fn in_cluster(kubeconfig: &Path, flags: &[&str], folder: &Path) -> Self {
        Self::in_pod(kubeconfig, &[], flags, folder)
    }

    /// The same, with an environment as its pod gives it: `NAME=VALUE`.
    pub fn in_pod(kubeconfig: &Path, environment: &[&str], flags: &[&str], folder: &Path) -> Self {
        let access = format!("KUBECONFIG={}", kubeconfig.display());
        let command = [&["env", &access], environment, &[env!("CARGO_BIN_EXE_epp")]].concat();
        let open = ["--metrics-endpoint-auth=false"];
        Self::launch(&command, &[], &[&open, flags].concat(), folder)
    }

    fn start_by(command: &[&str], engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        let endpoints = folder.join(ENDPOINTS);
        fs::write(&endpoints, endpoints_file(engines)).expect("an endpoints file can be written");
        let endpoints = endpoints.display().to_string();
        let command = [command, &["--endpoints-file", &endpoints]].concat();
        Self::launch(&command, engines, flags, folder)
    }

    fn launch(command: &[&str], engines: &[SocketAddr], flags: &[&str], folder: &Path) -> Self {
        let (port, health_port, metrics_port) = (free_port(), free_port(), free_port());
        let mut all: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        all.extend(["--secure-serving=false", "--bind-address", "127.0.0.1"].map(str::to_owned));
        for (flag, port) in
            [("--grpc-port", port), ("--grpc-health-port", health_port), ("--metrics-port", metrics_port)]
        {
            all.extend([flag.to_owned(), port.to_string()]);
        }
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let program = launch(&all, metrics_port, folder);
        let (engines, folder) = (engines.len(), folder.to_path_buf());
        Self { port, health_port, program, metrics_port, engines, command: all, folder }
    }

    /// Another process in the place of the one that has ended; waits until it has read every engine.
    pub fn start_again(&mut self) {
        self.program = launch(&self.command, self.metrics_port, &self.folder);
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let (port, count) = (self.metrics_port, self.engines as f64);
        self.program.wait_until("every engine was read", || {
            page(port, "/metrics").is_some_and(|text| Page::read(&text).sum("llm_d_epp_ready_endpoints", &[]) == count)
        });
    }

    /// Where its metrics and decisions are.
    pub fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.metrics_port)
    }

    /// Its metrics now.
    pub fn metrics(&self) -> Page {
        Page::read(&self.page())
    }

    /// The same as text.
    pub fn page(&self) -> String {
        page(self.metrics_port, "/metrics").expect("the picker shows metrics")
    }

    /// Picks so far that named the engine at that address.
    pub fn picks_of(&self, engine: SocketAddr) -> f64 {
        let name = format!("endpoint_name=\"{}\"", endpoint_name(engine));
        self.metrics().sum("llm_d_epp_scheduler_attempts_total", &[&name, "status=\"success\""])
    }

    /// Requests that it holds as under way: by its counts of requests, which its books by endpoint must equal.
    pub fn in_flight(&self) -> f64 {
        let metrics = self.metrics();
        let (requests, books) = ("llm_d_epp_request_running", "llm_d_epp_inflight_requests");
        metrics.sum(requests, &[]).max(metrics.sum(books, &[]))
    }

    /// Replaces its endpoints file, in one step.
    pub fn set_endpoints(&self, engines: &[SocketAddr]) {
        let (beside, endpoints) = (self.folder.join("endpoints.new"), self.folder.join(ENDPOINTS));
        fs::write(&beside, endpoints_file(engines)).expect("an endpoints file can be written");
        fs::rename(beside, endpoints).expect("an endpoints file can be moved into place");
    }
}

fn launch(command: &[String], metrics_port: u16, folder: &Path) -> Program {
    let mut program = Program::start("epp", Command::new(&command[0]).args(&command[1..]), folder);
    program.wait_until("it shows metrics", || page(metrics_port, "/metrics").is_some());
    program
}

/// What the picker's endpoints file calls the engine at that address.
fn endpoint_name(engine: SocketAddr) -> String {
    format!("engine-{}", engine.port())
}

fn endpoints_file(engines: &[SocketAddr]) -> String {
    let line = |engine: &SocketAddr| {
        let (name, address, port) = (endpoint_name(*engine), engine.ip(), engine.port());
        format!("- {{ name: {name}, namespace: test, address: \"{address}\", port: \"{port}\" }}\n")
    };
    let lines: String = engines.iter().map(line).collect();
    if lines.is_empty() { "endpoints: []\n".to_owned() } else { format!("endpoints:\n{lines}") }
}
