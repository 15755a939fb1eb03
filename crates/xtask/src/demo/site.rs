//! The demo's servers on loopback: engines, the picker, Envoy. In: sizes and binaries; out: ports that answer. Their
//! configuration and logs stand in `target/demo`, where one can read them afterwards.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Binaries, Policy, Settings, Workload};
use crate::process::Server;
use crate::workspace;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ports, none of them taken when they were chosen.
struct Ports {
    engines: Vec<u16>,
    round_robin: u16,
    ring_hash: u16,
    warmpath: u16,
    admin: u16,
    picker: u16,
    health: u16,
    metrics: u16,
}

/// Servers that run, and how to start the picker again.
pub(crate) struct Site {
    folder: PathBuf,
    ports: Ports,
    binaries: Binaries,
    model: String,
    model_dir: PathBuf,
    config: Option<PathBuf>,
    picker: Option<Server>,
    envoy: Server,
    servers: Server,
}

impl Site {
    /// Starts engines with this workload's cache and Envoy before them; returns when both answer.
    pub(crate) fn start(settings: &Settings, workload: Workload, envoy: &Path, binaries: &Binaries) -> Result<Self> {
        let folder = workspace::target().join("demo").join(workload.name());
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        let ports = Ports::choose(settings.engines)?;
        fs::write(folder.join("endpoints.yaml"), endpoints(&ports.engines))?;
        let template = workspace::root().join("deploy/envoy/demo.yaml");
        let template = fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        fs::write(folder.join("envoy.yaml"), fill(&template, &ports))?;
        let model_dir = model_dir(settings)?;
        let engines = start_engines(settings, workload, binaries, &ports, &model_dir, &folder)?;
        let mut command = Command::new(envoy);
        command.arg("-c").arg(folder.join("envoy.yaml"));
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]);
        let envoy = Server::start("envoy", &mut command, &folder)?;
        for port in &ports.engines {
            wait_for("an engine", &engines, || {
                get(*port, "/health").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
            })?;
        }
        wait_for("Envoy", &envoy, || get(ports.admin, "/ready").is_ok_and(|answer| answer.contains("LIVE")))?;
        let (binaries, model) = (binaries.clone(), settings.model.clone());
        Ok(Self {
            folder,
            ports,
            binaries,
            model,
            model_dir,
            config: settings.config_file.clone(),
            picker: None,
            envoy,
            servers: engines,
        })
    }

    /// Empties every engine's cache, and starts the picker anew where the policy needs it.
    pub(crate) fn forget(&mut self, policy: Policy) -> Result<()> {
        self.envoy.must_run()?;
        self.servers.must_run()?;
        self.picker = None;
        for port in &self.ports.engines {
            let answer = ask(*port, "POST", "/reset_prefix_cache").context("an engine's cache could not be emptied")?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "an engine did not empty its cache: {answer}");
        }
        if policy == Policy::Warmpath {
            self.start_picker()?;
        }
        Ok(())
    }

    fn start_picker(&mut self) -> Result<()> {
        let mut command = Command::new(&self.binaries.epp);
        if let Some(file) = &self.config {
            command.arg("--config-file").arg(file);
        }
        command.arg("--endpoints-file").arg(self.folder.join("endpoints.yaml"));
        command.arg("--model").arg(format!("{}={}", self.model, self.model_dir.display()));
        command.args(["--secure-serving=false", "--bind-address", "127.0.0.1"]);
        command.args(["--grpc-port", &self.ports.picker.to_string()]);
        command.args(["--grpc-health-port", &self.ports.health.to_string()]);
        command.args(["--metrics-port", &self.ports.metrics.to_string()]);
        let picker = Server::start("epp", &mut command, &self.folder)?;
        let all = self.ports.engines.len() as f64;
        wait_for("the picker", &picker, || {
            get(self.ports.metrics, "/metrics").is_ok_and(|page| ready_endpoints(&page) == all)
        })?;
        self.picker = Some(picker);
        Ok(())
    }

    /// Where clients of that policy go.
    pub(crate) fn port(&self, policy: Policy) -> u16 {
        match policy {
            Policy::RoundRobin => self.ports.round_robin,
            Policy::RingHash => self.ports.ring_hash,
            Policy::Warmpath => self.ports.warmpath,
        }
    }

    /// The picker's metrics.
    pub(crate) fn metrics_port(&self) -> u16 {
        self.ports.metrics
    }

    /// Envoy's admin page.
    pub(crate) fn admin_port(&self) -> u16 {
        self.ports.admin
    }

    /// What the engines call themselves.
    pub(crate) fn engines(&self) -> Vec<String> {
        self.ports.engines.iter().map(|port| engine_name(*port)).collect()
    }

    /// The program that sends load.
    pub(crate) fn lab(&self) -> &Path {
        &self.binaries.lab
    }

    /// The model's tokenizer and template.
    pub(crate) fn model_dir(&self) -> &Path {
        &self.model_dir
    }

    /// Configuration and logs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Ports {
    fn choose(engines: u16) -> Result<Self> {
        // Held until all are chosen, so that no two are the same.
        let count = usize::from(engines) + 7;
        let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>().context("no free port on 127.0.0.1")?;
        let mut ports = Vec::with_capacity(count);
        for listener in &listeners {
            ports.push(listener.local_addr()?.port());
        }
        let [round_robin, ring_hash, warmpath, admin, picker, health, metrics, ref engines @ ..] = ports[..] else {
            bail!("too few ports");
        };
        Ok(Self { engines: engines.to_vec(), round_robin, ring_hash, warmpath, admin, picker, health, metrics })
    }
}

/// The name by which the tables call the engine at that port.
fn engine_name(port: u16) -> String {
    format!("engine-{port}")
}

fn model_dir(settings: &Settings) -> Result<PathBuf> {
    let given = if settings.model_dir.is_absolute() || settings.model_dir.exists() {
        settings.model_dir.clone()
    } else {
        workspace::root().join(&settings.model_dir)
    };
    fs::canonicalize(&given).with_context(|| format!("there is no model directory {}", given.display()))
}

fn start_engines(
    settings: &Settings,
    workload: Workload,
    binaries: &Binaries,
    ports: &Ports,
    model_dir: &Path,
    folder: &Path,
) -> Result<Server> {
    let list: Vec<String> = ports.engines.iter().map(u16::to_string).collect();
    let blocks = match workload {
        Workload::A => settings.blocks_a,
        Workload::B => settings.blocks_b,
    };
    let mut command = Command::new(&binaries.lab);
    command.args(["engine", "--served-model-name", &settings.model, "--ports", &list.join(",")]);
    command.arg("--model").arg(model_dir);
    command.args(["--num-gpu-blocks-override", &blocks.to_string(), "--enable-prompt-tokens-details"]);
    command.args(["--engine-name", "engine"]);
    Server::start("engines", &mut command, folder)
}

/// The endpoints file that the picker reads.
fn endpoints(ports: &[u16]) -> String {
    let line = |port: &u16| {
        format!("- {{ name: {}, namespace: demo, address: 127.0.0.1, port: \"{port}\" }}\n", engine_name(*port))
    };
    "endpoints:\n".to_owned() + &ports.iter().map(line).collect::<String>()
}

fn fill(template: &str, ports: &Ports) -> String {
    // Ports differ from run to run: the ring is made of the engines' numbers, so that a seed means the same draw each time.
    let engine = |(port, number): (&u16, u16)| {
        format!(
            "{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}, \
             metadata: {{ filter_metadata: {{ envoy.lb: {{ hash_key: engine-{number} }} }} }} }}"
        )
    };
    let engines: Vec<String> = ports.engines.iter().zip(1..).map(engine).collect();
    template
        .replace("{engines}", &format!("[ {} ]", engines.join(", ")))
        .replace("{round_robin_port}", &ports.round_robin.to_string())
        .replace("{ring_hash_port}", &ports.ring_hash.to_string())
        .replace("{warmpath_port}", &ports.warmpath.to_string())
        .replace("{admin_port}", &ports.admin.to_string())
        .replace("{picker_port}", &ports.picker.to_string())
}

/// By the picker's metrics page; none where it doesn't say.
fn ready_endpoints(page: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with("llm_d_epp_ready_endpoints"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn wait_for(name: &str, server: &Server, mut is_ready: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is_ready() {
        server.must_run()?;
        ensure!(
            start.elapsed() < PATIENCE,
            "{name} did not answer in {} s; see {}",
            PATIENCE.as_secs(),
            server.log().display()
        );
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn get(port: u16, path: &str) -> Result<String> {
    ask(port, "GET", path)
}

fn ask(port: u16, method: &str, path: &str) -> Result<String> {
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
    use super::{endpoints, fill, ready_endpoints};

    #[test]
    fn ready_endpoints_are_read_from_the_pickers_page() {
        let page = "# TYPE llm_d_epp_ready_endpoints gauge\nllm_d_epp_ready_endpoints{name=\"default\"} 6.0\n";
        assert_eq!(ready_endpoints(page), 6.0);
    }

    #[test]
    fn the_template_leaves_no_brace_unfilled() {
        let template = include_str!("../../../../deploy/envoy/demo.yaml");
        let ports = super::Ports::choose(2).unwrap();
        let filled = fill(template, &ports);
        let left: Vec<&str> =
            filled.lines().filter(|line| line.contains("_port}") || line.contains("{engines}")).collect();
        assert_eq!(left, Vec::<&str>::new());
    }

    #[test]
    fn engines_are_listed_in_the_form_of_file_discovery() {
        assert_eq!(
            endpoints(&[7]),
            "endpoints:\n- { name: engine-7, namespace: demo, address: 127.0.0.1, port: \"7\" }\n"
        );
    }
}
