//! What every set-up on loopback needs: built programs, ports that are free, an endpoints file, a picker and an Envoy that
//! answer, a page from a port. In: names, ports and folders; out: servers that run, or an error that shows their log. It
//! knows nothing of what they are started for.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process::{self, Server};
use crate::workspace;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// The built programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    /// The picker.
    pub(crate) epp: PathBuf,
    /// Engines and load.
    pub(crate) lab: PathBuf,
}

impl Binaries {
    /// Builds them with these further arguments for cargo, or takes what is built already.
    pub(crate) fn build(release: bool, no_build: bool, arguments: &[&str]) -> Result<Self> {
        let folder = Self::folder(release);
        if !no_build {
            println!("Building (the first time takes minutes) ...");
            let mut cargo = process::cargo();
            cargo.args(["build", "--package", "epp", "--package", "lab"]).args(arguments);
            if release {
                cargo.arg("--release");
            }
            process::finish(&mut cargo)?;
        }
        Ok(Self { epp: folder.join("epp"), lab: folder.join("lab") })
    }

    /// Where cargo puts what it builds.
    pub(crate) fn folder(release: bool) -> PathBuf {
        workspace::target().join(if release { "release" } else { "debug" })
    }
}

/// An empty folder `target/NAME` for configuration and logs.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let folder = workspace::target().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// A model's directory, as typed or below the repository's root.
pub(crate) fn model_dir(typed: &Path) -> Result<PathBuf> {
    let given = if typed.is_absolute() || typed.exists() { typed.to_path_buf() } else { workspace::root().join(typed) };
    fs::canonicalize(&given).with_context(|| format!("there is no model directory {}", given.display()))
}

/// Ports that nobody listens on, never the same twice. They lie below those that the system takes for outgoing
/// connections, so that a server which is started again finds its own still free.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const SPAN: u16 = 12_000;
    let offset = (std::process::id() % 120) as u16 * 100;
    let all = (0..SPAN).map(|_| FIRST + offset.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % SPAN);
    let ports: Vec<u16> =
        all.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).take(count).collect();
    ensure!(ports.len() == count, "there are no {count} free ports on 127.0.0.1");
    Ok(ports)
}

/// The name by which tables and logs call the engine at that port.
pub(crate) fn engine_name(port: u16) -> String {
    format!("engine-{port}")
}

/// The endpoints file that the picker reads.
pub(crate) fn endpoints(namespace: &str, ports: &[u16]) -> String {
    let line = |port: &u16| {
        format!("- {{ name: {}, namespace: {namespace}, address: 127.0.0.1, port: \"{port}\" }}\n", engine_name(*port))
    };
    "endpoints:\n".to_owned() + &ports.iter().map(line).collect::<String>()
}

/// The same for a cluster of Envoy's.
pub(crate) fn envoy_endpoints(ports: &[u16]) -> String {
    let one = |port: &u16| {
        format!("{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }}")
    };
    format!("[ {} ]", ports.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Where a picker listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickerPorts {
    /// For the gateway.
    pub(crate) grpc: u16,
    /// For probes.
    pub(crate) health: u16,
    /// For Prometheus.
    pub(crate) metrics: u16,
}

/// The picker's command line: what every set-up has in common.
pub(crate) fn picker(binaries: &Binaries, endpoints: &Path, ports: PickerPorts) -> Command {
    let mut command = Command::new(&binaries.epp);
    command.arg("--endpoints-file").arg(endpoints);
    command.args(["--secure-serving=false", "--bind-address", "127.0.0.1"]);
    command.args(["--grpc-port", &ports.grpc.to_string()]);
    command.args(["--grpc-health-port", &ports.health.to_string()]);
    command.args(["--metrics-port", &ports.metrics.to_string()]);
    command
}

/// Waits until a picker has read that many endpoints.
pub(crate) fn picker_is_ready(picker: &Server, metrics: u16, endpoints: usize) -> Result<()> {
    wait_for("the picker", picker, || {
        get(metrics, "/metrics").is_ok_and(|page| sum(&page, "llm_d_epp_ready_endpoints") == endpoints as f64)
    })
}

/// Starts an Envoy of one worker with that configuration, written to the folder, and waits until it serves.
pub(crate) fn start_envoy(envoy: &Path, config: &str, admin: u16, folder: &Path) -> Result<Server> {
    let file = folder.join("envoy.yaml");
    fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new(envoy);
    command.arg("-c").arg(file).args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]);
    let envoy = Server::start("envoy", &mut command, folder)?;
    wait_for("Envoy", &envoy, || get(admin, "/ready").is_ok_and(|answer| answer.contains("LIVE")))?;
    Ok(envoy)
}

/// The sum of a metric's samples on a page; 0 where it has none.
pub(crate) fn sum(page: &str, name: &str) -> f64 {
    let is_sample = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    page.lines().filter(is_sample).filter_map(value).sum()
}

/// Waits until a server is ready; an error with the end of its log where it ends before.
pub(crate) fn wait_for(name: &str, server: &Server, mut is_ready: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is_ready() {
        server.must_run()?;
        ensure!(
            start.elapsed() < PATIENCE,
            "{name} did not answer in {} s; see {}",
            PATIENCE.as_secs(),
            server.log().display()
        );
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether the engine at that port says that it is healthy.
pub(crate) fn is_healthy(port: u16) -> bool {
    get(port, "/health").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// A GET's whole answer, head and body.
pub(crate) fn get(port: u16, path: &str) -> Result<String> {
    ask(port, "GET", path)
}

/// The whole answer to a request without a body.
pub(crate) fn ask(port: u16, method: &str, path: &str) -> Result<String> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{endpoints, free_ports, sum};

    #[test]
    fn a_metrics_samples_are_added_up_and_no_others() {
        let page = "# TYPE ready gauge\nready{name=\"a\"} 6.0\nready{name=\"b\"} 1\nready_not 5\n";
        assert_eq!(sum(page, "ready"), 7.0);
        assert_eq!(sum(page, "absent"), 0.0);
    }

    #[test]
    fn engines_are_listed_in_the_form_of_file_discovery() {
        assert_eq!(
            endpoints("demo", &[7]),
            "endpoints:\n- { name: engine-7, namespace: demo, address: 127.0.0.1, port: \"7\" }\n"
        );
    }

    #[test]
    fn no_port_is_given_out_twice() {
        let mut ports = free_ports(5).unwrap();
        ports.extend(free_ports(5).unwrap());
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 10);
    }
}
