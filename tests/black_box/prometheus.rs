//! A real Prometheus with the alerts that `deploy/prometheus` ships. In: pages to scrape; out: answers to queries, and which
//! alerts fire. So that a test needn't wait for half an hour, all spans of the alerts are cut to a 120th of what they are, and
//! pages are scraped and rules evaluated twice a second: two minutes are one second.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use super::client::{ask, page};
use super::program::{Program, folder, free_port, root, target, wait_until};

const FASTER: u32 = 120;

/// The rule files that are shipped.
pub const RULES: [&str; 2] = ["deploy/prometheus/alerts.yaml", "deploy/prometheus/envoy-alerts.yaml"];

/// The server. It is gone when dropped.
pub struct Prometheus {
    port: u16,
    _program: Program,
}

impl Prometheus {
    /// Starts one that scrapes these ports of this machine, as one job.
    pub fn start(test: &str, scraped: &[u16]) -> Self {
        let folder = folder(test).join("prometheus");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let port = free_port();
        let config = config(scraped, &write_rules(&folder));
        fs::write(folder.join("prometheus.yml"), config).expect("a configuration can be written");
        let mut command = Command::new(binary());
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.args(["--query.lookback-delta=3s", "--log.level=warn"]);
        let mut program = Program::start("prometheus", &mut command, &folder);
        program.wait_until("it is ready", || page(port, "/-/ready").is_some());
        Self { port, _program: program }
    }

    /// The series that a query gives, without those whose value is no number.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(query)));
        let data = &answer["data"];
        let series = data["result"].as_array().cloned().unwrap_or_default();
        assert_eq!(data["resultType"], "vector", "{query}");
        series.into_iter().filter(|series| series["value"][1] != "NaN").collect()
    }

    /// The alerts that fire now.
    pub fn firing(&self) -> BTreeSet<String> {
        let answer = self.ask("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().expect("a list of alerts");
        let fires = alerts.iter().filter(|alert| alert["state"] == "firing");
        fires.map(|alert| alert["labels"]["alertname"].as_str().expect("a name").to_owned()).collect()
    }

    /// Waits until all of them fire; `meanwhile` goes on happening. Gives all that have fired.
    #[track_caller]
    pub fn wait_for(&self, alerts: &[&str], mut meanwhile: impl FnMut()) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        wait_until(&format!("{alerts:?} have fired"), || {
            meanwhile();
            seen.append(&mut self.firing());
            alerts.iter().all(|alert| seen.contains(*alert))
        });
        seen
    }

    /// The rules that couldn't be evaluated, and why; all must have been tried.
    pub fn broken_rules(&self) -> Vec<Value> {
        let rules = || {
            let answer = self.ask("/api/v1/rules");
            let groups = answer["data"]["groups"].as_array().expect("groups").clone();
            groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect::<Vec<_>>()
        };
        wait_until("each rule was evaluated", || rules().iter().all(|rule| rule["health"] != "unknown"));
        rules().into_iter().filter(|rule| rule["health"] != "ok").collect()
    }

    #[track_caller]
    fn ask(&self, path: &str) -> Value {
        let reply = ask(self.port, "GET", path, &[], b"");
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_slice(&reply.body).expect("Prometheus answers with JSON")
    }
}

/// What promtool says of that file of rules.
pub fn check_rules(file: &Path) -> Result<(), String> {
    let output = Command::new(binary().with_file_name("promtool")).args(["check", "rules"]).arg(file).output();
    let output = output.expect("promtool can be run");
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}

/// In `$PROMETHEUS_BIN`, in PATH, or where `cargo xtask prometheus` unpacked it.
fn binary() -> PathBuf {
    if let Some(named) = env::var_os("PROMETHEUS_BIN") {
        return named.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([target().join("tools/prometheus/usr/bin")]);
    let found = folders.map(|folder| folder.join("prometheus")).find(|at| at.is_file());
    found.expect("there is no prometheus: `cargo xtask test` gets Debian's, or set PROMETHEUS_BIN")
}

fn config(scraped: &[u16], rules: &[PathBuf]) -> String {
    let targets: Vec<String> = scraped.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let rules: Vec<String> = rules.iter().map(|file| format!("\"{}\"", file.display())).collect();
    format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }}\nrule_files: [{}]\n\
         scrape_configs:\n- job_name: warmpath\n  static_configs: [{{ targets: [{}] }}]\n",
        rules.join(", "),
        targets.join(", ")
    )
}

/// The shipped rules, faster.
fn write_rules(folder: &Path) -> Vec<PathBuf> {
    let faster = |(at, shipped): (usize, &str)| {
        let rules = fs::read_to_string(root().join(shipped)).expect("the shipped rules can be read");
        let file = folder.join(format!("rules-{at}.yaml"));
        fs::write(&file, rules.lines().map(|line| format!("{}\n", faster(line))).collect::<String>()).expect("written");
        file
    };
    RULES.into_iter().enumerate().map(faster).collect()
}

/// A line of a rule file whose spans are cut: those in square brackets, and the one behind `for:`.
pub fn faster(line: &str) -> String {
    if let Some((before, span)) = line.split_once("for: ")
        && before.trim().is_empty()
    {
        return format!("{before}for: {}", cut(span.trim()));
    }
    let mut parts = line.split('[');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((span, rest)) => {
                let _ = write!(out, "[{}]{rest}", cut(span));
            }
            None => {
                let _ = write!(out, "[{part}");
            }
        }
    }
    out
}

fn cut(span: &str) -> String {
    let (number, unit) = span.split_at(span.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("a span of what: {span}"),
    };
    format!("{}ms", number.parse::<u32>().expect("a span") * unit * 1000 / FASTER)
}

fn encoded(query: &str) -> String {
    query.bytes().fold(String::new(), |mut all, byte| {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => write!(all, "{}", char::from(byte)),
            _ => write!(all, "%{byte:02X}"),
        };
        all
    })
}
