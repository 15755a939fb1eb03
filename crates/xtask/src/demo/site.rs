//! The demo's servers on loopback: engines, the picker, Envoy. In: sizes and binaries; out: ports that answer. Their
//! configuration and logs stand in `target/demo`, where one can read them afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Policy, Settings, Workload};
use crate::process::Server;
use crate::site::{self, Binaries, PickerPorts, engine_name};
use crate::workspace;

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
        let folder = site::folder(&format!("demo/{}", workload.name()))?;
        let ports = Ports::choose(settings.engines)?;
        fs::write(folder.join("endpoints.yaml"), site::endpoints("demo", &ports.engines))?;
        let template = workspace::root().join("deploy/envoy/demo.yaml");
        let template = fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        let model_dir = site::model_dir(&settings.model_dir)?;
        let engines = start_engines(settings, workload, binaries, &ports, &model_dir, &folder)?;
        let envoy = site::start_envoy(envoy, &fill(&template, &ports), ports.admin, &folder)?;
        for port in &ports.engines {
            site::wait_for("an engine", &engines, || site::is_healthy(*port))?;
        }
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
            let answer =
                site::ask(*port, "POST", "/reset_prefix_cache").context("an engine's cache could not be emptied")?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "an engine did not empty its cache: {answer}");
        }
        if policy == Policy::Warmpath {
            self.start_picker()?;
        }
        Ok(())
    }

    fn start_picker(&mut self) -> Result<()> {
        let ports = PickerPorts { grpc: self.ports.picker, health: self.ports.health, metrics: self.ports.metrics };
        let mut command = site::picker(&self.binaries, &self.folder.join("endpoints.yaml"), ports);
        if let Some(file) = &self.config {
            command.arg("--config-file").arg(file);
        }
        command.arg("--model").arg(format!("{}={}", self.model, self.model_dir.display()));
        let picker = Server::start("epp", &mut command, &self.folder)?;
        site::picker_is_ready(&picker, ports.metrics, self.ports.engines.len())?;
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
        let ports = site::free_ports(usize::from(engines) + 7)?;
        let [round_robin, ring_hash, warmpath, admin, picker, health, metrics, ref engines @ ..] = ports[..] else {
            bail!("too few ports");
        };
        Ok(Self { engines: engines.to_vec(), round_robin, ring_hash, warmpath, admin, picker, health, metrics })
    }
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

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn the_template_leaves_no_brace_unfilled() {
        let template = include_str!("../../../../deploy/envoy/demo.yaml");
        let ports = super::Ports::choose(2).unwrap();
        let filled = fill(template, &ports);
        let left: Vec<&str> =
            filled.lines().filter(|line| line.contains("_port}") || line.contains("{engines}")).collect();
        assert_eq!(left, Vec::<&str>::new());
    }
}
