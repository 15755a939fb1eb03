//! The soak's servers: engines, a process each, the picker, and Envoy with a listener that fails open and one that
//! fails closed. In: what to do to them; out: when it was done and when they answered again. They are gone when this
//! is dropped. Only processes that it started are ever signalled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::asks::LARGEST_BODY;
use super::{Listener, MODEL, Settings};
use crate::process::Server;
use crate::site::{self, Binaries, PickerPorts, engine_name};

/// How long a picker that was told to end may take over it: its drain window and a margin.
const DRAIN: Duration = Duration::from_secs(20);

/// The servers.
pub(crate) struct Site {
    folder: PathBuf,
    binaries: Binaries,
    model_dir: PathBuf,
    picker_port: u16,
    open: u16,
    closed: u16,
    admin: u16,
    envoy: Server,
    /// Each with its port; none while it is down.
    engines: Vec<(u16, Option<Server>)>,
    picker: Option<Picker>,
    /// Told to end, and not gone yet.
    leaving: Vec<(Server, Instant)>,
}

struct Picker {
    server: Server,
    metrics: u16,
}

/// What the picker says of itself, and the system of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    /// Requests under way, by its counts of requests or by its books, whichever is more.
    pub(crate) in_flight: f64,
    /// Its resident memory.
    pub(crate) rss_bytes: u64,
    /// What its index says that it takes.
    pub(crate) index_bytes: f64,
    /// Restarts of engines that it has noticed.
    pub(crate) restarts_seen: f64,
}

impl Site {
    /// Starts all; returns when all answer.
    pub(crate) fn start(settings: &Settings, envoy: &Path, binaries: &Binaries) -> Result<Self> {
        let folder = site::folder("soak")?;
        let ports = site::free_ports(usize::from(settings.engines) + 4)?;
        let (&[picker_port, open, closed, admin], engines) = ports.split_first_chunk::<4>().context("too few ports")?;
        fs::write(folder.join("endpoints.yaml"), site::endpoints("soak", engines))?;
        let config =
            fill(&folder, engines, &[("open", open), ("closed", closed), ("admin", admin), ("picker", picker_port)]);
        let mut site = Self {
            envoy: site::start_envoy(envoy, &config, admin, &folder)?,
            folder,
            binaries: binaries.clone(),
            model_dir: site::model_dir(&settings.model_dir)?,
            picker_port,
            open,
            closed,
            admin,
            engines: engines.iter().map(|port| (*port, None)).collect(),
            picker: None,
            leaving: Vec::new(),
        };
        for at in 0..site.engines.len() {
            site.start_engine(at)?;
        }
        site.start_picker()?;
        Ok(site)
    }

    /// Where clients go.
    pub(crate) fn port(&self, listener: Listener) -> u16 {
        match listener {
            Listener::Open => self.open,
            Listener::Closed => self.closed,
        }
    }

    /// Configuration and logs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// An error where something ended that nobody ended.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        self.envoy.must_run()?;
        for (_, engine) in &self.engines {
            engine.as_ref().map_or(Ok(()), Server::must_run)?;
        }
        self.picker.as_ref().map_or(Ok(()), |picker| picker.server.must_run())?;
        self.see_off()
    }

    /// Kills the picker, leaves its place empty for so long, and starts another.
    pub(crate) fn kill_picker(&mut self, down: Duration) -> Result<()> {
        self.picker = None;
        thread::sleep(down);
        self.start_picker()
    }

    /// Tells the picker to end, and starts another as soon as the port is free. Streams under way stay with the first.
    pub(crate) fn end_picker(&mut self) -> Result<()> {
        if let Some(picker) = self.picker.take() {
            picker.server.signal("TERM")?;
            let port = self.picker_port;
            site::wait_for("the picker's port", &self.envoy, || {
                std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).is_ok()
            })?;
            self.leaving.push((picker.server, Instant::now()));
        }
        self.start_picker()
    }

    /// Freezes the picker for so long.
    pub(crate) fn freeze_picker(&self, long: Duration) -> Result<()> {
        let picker = self.picker.as_ref().context("there is no picker")?;
        picker.server.signal("STOP")?;
        thread::sleep(long);
        picker.server.signal("CONT")
    }

    /// Freezes the picker for so long, and then kills it and starts another.
    pub(crate) fn freeze_and_kill_picker(&mut self, long: Duration) -> Result<()> {
        let picker = self.picker.as_ref().context("there is no picker")?;
        picker.server.signal("STOP")?;
        thread::sleep(long);
        self.kill_picker(Duration::ZERO)
    }

    /// Kills an engine.
    pub(crate) fn kill_engine(&mut self, at: usize) {
        self.engines[at].1 = None;
    }

    /// Starts an engine in its place, with an empty cache.
    pub(crate) fn start_engine(&mut self, at: usize) -> Result<()> {
        let port = self.engines[at].0;
        let mut command = Command::new(&self.binaries.lab);
        command.args(["engine", "--served-model-name", MODEL, "--port", &port.to_string()]);
        command.arg("--model").arg(&self.model_dir);
        command.args(["--num-gpu-blocks-override", "8192", "--enable-prompt-tokens-details", "--checksums"]);
        command.args(["--engine-name", &engine_name(port)]);
        // An answer takes a tenth of a second or two: long enough that something can happen to it.
        command.args(["--step-base-us", "8000", "--step-prefill-token-us", "3", "--step-sequence-us", "20"]);
        command.args(["--step-context-token-us", "0"]);
        let engine = Server::start(&engine_name(port), &mut command, &self.folder)?;
        site::wait_for("an engine", &engine, || site::is_healthy(port))?;
        self.engines[at].1 = Some(engine);
        Ok(())
    }

    /// How many engines there are, those that are down among them.
    pub(crate) fn engines_count(&self) -> usize {
        self.engines.len()
    }

    /// The engine's name.
    pub(crate) fn engine(&self, at: usize) -> String {
        engine_name(self.engines[at].0)
    }

    /// How many endpoints the picker could read last.
    pub(crate) fn ready_endpoints(&self) -> Option<f64> {
        let page = site::get(self.picker.as_ref()?.metrics, "/metrics").ok()?;
        Some(site::sum(&page, "llm_d_epp_ready_endpoints"))
    }

    /// What the picker is like now.
    pub(crate) fn picture(&self) -> Result<Picture> {
        let picker = self.picker.as_ref().context("there is no picker")?;
        let page = site::get(picker.metrics, "/metrics")?;
        let in_flight = |name: &str| site::sum(&page, name);
        Ok(Picture {
            in_flight: in_flight("llm_d_epp_request_running").max(in_flight("llm_d_epp_inflight_requests")),
            rss_bytes: rss_bytes(picker.server.id())?,
            index_bytes: site::sum(&page, "warmpath_index_bytes"),
            restarts_seen: site::sum(&page, "warmpath_engine_restarts_total"),
        })
    }

    /// Requests that the engines have under way.
    pub(crate) fn running(&self) -> f64 {
        let pages = self.engines.iter().filter_map(|(port, _)| site::get(*port, "/metrics").ok());
        let under_way = |page: String| {
            site::sum(&page, "vllm:num_requests_running") + site::sum(&page, "vllm:num_requests_waiting")
        };
        pages.map(under_way).sum()
    }

    /// Envoy's own counts of ext_proc, and of its connections.
    pub(crate) fn envoy_counts(&self) -> Result<Vec<(String, u64)>> {
        let page = site::get(self.admin, "/stats?filter=ext_proc|downstream_rq_active|downstream_cx_active")?;
        let read = |line: &str| {
            let (name, value) = line.trim().split_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(page.lines().filter_map(read).collect())
    }

    /// Lines of the pickers' log that tell of a panic.
    pub(crate) fn panics(&self) -> Result<usize> {
        let log = fs::read(self.folder.join("epp.log")).context("the pickers' log can't be read")?;
        Ok(String::from_utf8_lossy(&log).lines().filter(|line| line.contains("panicked at")).count())
    }

    /// Ends Envoy, which writes its access log out. Which engine each request went to, by its id.
    pub(crate) fn access_log(&mut self) -> Result<Vec<Logged>> {
        self.envoy.signal("TERM")?;
        let start = Instant::now();
        while self.envoy.ended()?.is_none() {
            ensure!(start.elapsed() < Duration::from_secs(10), "Envoy does not end");
            thread::sleep(Duration::from_millis(20));
        }
        let file = self.folder.join("access.log");
        let log = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(log.lines().filter_map(Logged::read).collect())
    }

    /// Waits until those who were told to end have ended.
    pub(crate) fn await_leaving(&mut self) -> Result<()> {
        while !self.leaving.is_empty() {
            self.see_off()?;
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Lets go of those who were told to end and have ended; an error where one failed or takes too long.
    fn see_off(&mut self) -> Result<()> {
        let mut stays = Vec::new();
        for (server, told) in self.leaving.drain(..) {
            match server.ended()? {
                Some(status) => {
                    ensure!(status.success(), "a picker that was told to end ended with {status}");
                }
                None => {
                    let late = DRAIN + Duration::from_secs(5);
                    ensure!(told.elapsed() < late, "a picker that was told to end is still there after {late:?}");
                    stays.push((server, told));
                }
            }
        }
        self.leaving = stays;
        Ok(())
    }

    fn start_picker(&mut self) -> Result<()> {
        // The one before may still be draining, with its pages up.
        let ports = site::free_ports(2)?;
        let ports = PickerPorts { grpc: self.picker_port, health: ports[0], metrics: ports[1] };
        let mut command = site::picker(&self.binaries, &self.folder.join("endpoints.yaml"), ports);
        command.arg("--model").arg(format!("{MODEL}={}", self.model_dir.display()));
        command.args(["--max-body-bytes", &LARGEST_BODY.to_string()]);
        command.args(["--drain-timeout", &format!("{}s", DRAIN.as_secs())]);
        let server = Server::start("epp", &mut command, &self.folder)?;
        let alive = self.engines.iter().filter(|(_, engine)| engine.is_some()).count();
        site::picker_is_ready(&server, ports.metrics, alive)?;
        // Its metrics are up before its tokenizer is loaded. What comes meanwhile waits at its port.
        let gateway = self.closed;
        site::wait_for("the picker behind Envoy", &server, || {
            site::get(gateway, "/v1/models").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        })?;
        self.picker = Some(Picker { server, metrics: ports.metrics });
        Ok(())
    }
}

/// A line of Envoy's access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    /// The request's id.
    pub(crate) id: String,
    /// The engine that it went to last, if to any.
    pub(crate) engine: Option<String>,
    /// Status, flags and details, as Envoy has them.
    pub(crate) words: String,
}

impl Logged {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let [id, status, flags, upstream, details] = words[..] else { return None };
        let port = upstream.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Some(Self { id: id.to_owned(), engine: port.map(engine_name), words: format!("{status} {flags} {details}") })
    }
}

fn fill(folder: &Path, engines: &[u16], ports: &[(&str, u16)]) -> String {
    let mut config = include_str!("envoy.yaml")
        .replace("{folder}", &folder.display().to_string())
        .replace("{engines}", &site::envoy_endpoints(engines));
    for (name, port) in ports {
        config = config.replace(&format!("{{{name}_port}}"), &port.to_string());
    }
    config
}

fn rss_bytes(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("the picker's memory can't be read")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Logged, fill};

    #[test]
    fn the_template_leaves_no_brace_unfilled() {
        let ports = [("open", 1), ("closed", 2), ("admin", 3), ("picker", 4)];
        let filled = fill(Path::new("/tmp/soak"), &[5, 6], &ports);
        assert!(!filled.contains("_port}") && !filled.contains("{engines}") && !filled.contains("{folder}"));
    }

    #[test]
    fn a_line_of_the_access_log_says_where_a_request_went() {
        let read = |line: &str| Logged::read(line).map(|logged| (logged.id, logged.engine, logged.words));
        let expected = ("soak-1-2".to_owned(), Some("engine-8001".to_owned()), "200 - via_upstream".to_owned());
        assert_eq!(read("soak-1-2 200 - 127.0.0.1:8001 via_upstream"), Some(expected));
        let expected = ("x".to_owned(), None, "500 - ext_proc_error{gRPC error 14}".to_owned());
        assert_eq!(read("x 500 - - ext_proc_error{gRPC error 14}"), Some(expected));
    }
}
