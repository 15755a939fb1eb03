//! A real Envoy with one of the configurations that `deploy/envoy` ships, its ports exchanged. In: the picker's port
//! and the engines'; out: a port for clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::client::page;
use super::program::{Program, free_port, root, target};

/// How the gateway learns where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// From the header, into an ORIGINAL_DST cluster.
    OriginalDst,
    /// From metadata alone, by the override_host balancer, as Istio has it.
    OverrideHost,
}

impl Form {
    fn file(self) -> &'static str {
        match self {
            Form::OriginalDst => "original-dst.yaml",
            Form::OverrideHost => "override-host.yaml",
        }
    }
}

/// A configuration as it is shipped: bodies go back and forth part by part.
pub fn full_duplex(config: String) -> String {
    config
}

/// The same with bodies that the gateway keeps, and sends whole.
pub fn buffered(config: String) -> String {
    config.replace("FULL_DUPLEX_STREAMED", "BUFFERED")
}

/// The Envoy.
pub struct Envoy {
    /// Where clients go.
    pub port: u16,
    admin: u16,
    _program: Program,
}

impl Envoy {
    /// Starts it and waits until it serves. `edit` may change the configuration.
    pub fn start(form: Form, picker: u16, engines: &[u16], edit: impl Fn(String) -> String, folder: &Path) -> Self {
        let shipped = root().join("deploy/envoy").join(form.file());
        let shipped = fs::read_to_string(&shipped).expect("the shipped configuration can be read");
        let (port, admin) = (free_port(), free_port());
        let config = edit(with_ports(&shipped, port, admin, picker, engines));
        let file = folder.join("envoy.yaml");
        fs::write(&file, config).expect("a configuration can be written");
        let mut command = Command::new(binary());
        command.arg("-c").arg(file).args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]);
        let mut program = Program::start("envoy", &mut command, folder);
        program.wait_until("it is live", || page(admin, "/ready").is_some_and(|state| state.contains("LIVE")));
        Self { port, admin, _program: program }
    }

    /// One of its counters or gauges now; 0 while it has counted nothing.
    pub fn stat(&self, name: &str) -> u64 {
        let text = page(self.admin, &format!("/stats?filter=^{name}$")).expect("Envoy shows what it counts");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map_or(0, |value| value.parse().unwrap_or_else(|_| panic!("no number: {text}")))
    }
}

/// The shipped file is for hand use: clients 8080, admin 9901, picker 9002, engines 8001 to 8003.
fn with_ports(shipped: &str, clients: u16, admin: u16, picker: u16, engines: &[u16]) -> String {
    let mut config = shipped.to_owned();
    let mut exchange = |from: u16, to: u16| {
        config = config.replace(&format!("port_value: {from} "), &format!("port_value: {to} "));
    };
    exchange(8080, clients);
    exchange(9901, admin);
    exchange(9002, picker);
    for (engine, shipped) in engines.iter().zip(8001..) {
        exchange(shipped, *engine);
    }
    // Where fewer engines are meant, there are no others that a fallback could find.
    let left = (8001..=8003).skip(engines.len()).map(|port: u16| format!("port_value: {port} "));
    let left: Vec<_> = left.collect();
    config.lines().filter(|line| !left.iter().any(|port| line.contains(port))).map(|line| format!("{line}\n")).collect()
}

/// `$ENVOY_BIN`, one in PATH, or the one that `cargo xtask envoy` fetched.
pub fn binary() -> PathBuf {
    if let Some(named) = env::var_os("ENVOY_BIN") {
        return named.into();
    }
    let in_path = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("envoy"))
        .find(|at| at.is_file());
    let fetched = || {
        let versions = fs::read_dir(target().join("tools/envoy/lib")).ok()?;
        versions.flatten().map(|python| python.path().join("site-packages/envoy/_bin/envoy")).find(|at| at.is_file())
    };
    in_path.or_else(fetched).expect("there is no Envoy: `cargo xtask test` fetches one, or set ENVOY_BIN")
}
