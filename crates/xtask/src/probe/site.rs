//! The picker under the probe, and what it says of itself. In: settings; out: a port for gateways, its metrics, its memory.
//! Its configuration and log stand in `target/probe-site`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Settings, bodies, engines};
use crate::process::Server;
use crate::{process, workspace};

/// How long the picker may take until it has read every engine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A picker that serves.
pub(crate) struct Site {
    /// Where gateways go.
    pub(crate) port: u16,
    metrics_port: u16,
    picker: Server,
}

impl Site {
    /// Builds it unless told otherwise, starts it, and waits until it has read its engines.
    pub(crate) fn start(settings: &Settings) -> Result<Self> {
        let binary = build(settings)?;
        let folder = workspace::target().join("probe-site");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        let engines = engines::start(settings.endpoints)?;
        fs::write(folder.join("endpoints.yaml"), endpoints(&engines))?;
        let model_dir = workspace::root().join(&settings.model_dir);
        let [port, health, metrics_port] = free_ports()?;
        let mut command = Command::new(binary);
        command.arg("--endpoints-file").arg(folder.join("endpoints.yaml"));
        command.arg("--model").arg(format!("{}={}", bodies::MODEL, model_dir.display()));
        command.args(["--secure-serving=false", "--bind-address", "127.0.0.1", "--grpc-port", &port.to_string()]);
        command.args(["--grpc-health-port", &health.to_string(), "--metrics-port", &metrics_port.to_string()]);
        let site = Self { port, metrics_port, picker: Server::start("epp", &mut command, &folder)? };
        site.wait_for(engines.len() as f64)?;
        Ok(site)
    }

    fn wait_for(&self, engines: f64) -> Result<()> {
        let start = Instant::now();
        while !self.page().is_ok_and(|page| page.sum("llm_d_epp_ready_endpoints", &[]) == engines) {
            self.picker.must_run()?;
            ensure!(start.elapsed() < PATIENCE, "the picker isn't ready; see {}", self.picker.log().display());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Its metrics now.
    pub(crate) fn page(&self) -> Result<Page> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.metrics_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(Page(text))
    }

    /// From now on the largest memory is counted anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        self.picker.must_run()?;
        fs::write(format!("/proc/{}/clear_refs", self.picker.id()), "5").context("the kernel forgets no peak")
    }

    /// The most memory that was resident at a time, in megabytes.
    pub(crate) fn peak_mb(&self) -> Result<f64> {
        self.picker.must_run()?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.picker.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(kilobytes.context("the kernel tells no peak of memory")? / 1024.0)
    }
}

fn build(settings: &Settings) -> Result<PathBuf> {
    let target = workspace::target().join("probe");
    if !settings.no_build {
        println!("Building the picker with tokio's word on polls, into {} ...", target.display());
        let mut cargo = process::cargo();
        cargo.args(["build", "--package", "epp", "--features", "poll-times"]);
        cargo.env("RUSTFLAGS", "--cfg tokio_unstable").env("CARGO_TARGET_DIR", &target);
        if settings.release {
            cargo.arg("--release");
        }
        process::finish(&mut cargo)?;
    }
    Ok(target.join(if settings.release { "release" } else { "debug" }).join("epp"))
}

fn endpoints(ports: &[u16]) -> String {
    let line =
        |port: &u16| format!("- {{ name: engine-{port}, namespace: probe, address: 127.0.0.1, port: \"{port}\" }}\n");
    "endpoints:\n".to_owned() + &ports.iter().map(line).collect::<String>()
}

fn free_ports() -> Result<[u16; 3]> {
    // Held until all are chosen, so that no two are the same.
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [listen()?, listen()?, listen()?];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

/// A page of metrics.
#[derive(Clone, Debug)]
pub(crate) struct Page(String);

impl Page {
    /// Labels and value of every series of that name.
    pub(crate) fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            Some((labels, value.split(' ').next()?.parse().ok()?))
        })
    }

    /// The sum of those whose labels hold each of `labels` (as `name="value"`).
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.series(name)
            .filter(|(all, _)| labels.iter().all(|label| all.contains(label)))
            .map(|(_, value)| value)
            .sum()
    }
}

/// The value of a label.
pub(crate) fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::{Page, label};

    #[test]
    fn series_are_read_with_their_labels() {
        let page = Page("# TYPE a gauge\na{x=\"1\",y=\"2\"} 3.0\na{x=\"2\"} 4\nab 5\nb 6 1\n".to_owned());
        assert_eq!(page.series("a").collect::<Vec<_>>(), [("x=\"1\",y=\"2\"", 3.0), ("x=\"2\"", 4.0)]);
        assert_eq!(page.sum("a", &["x=\"2\""]), 4.0);
        assert_eq!(page.sum("b", &[]), 6.0);
        assert_eq!(label("x=\"1\",y=\"2\"", "y"), Some("2"));
    }
}
