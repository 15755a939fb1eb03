//! The files in `deploy` are what they say: the picker takes the configuration, and exports what dashboard and alerts ask
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::client::ask;
use super::envoy::{Envoy, Form};
use super::lab;
use super::picker::Picker;
use super::program::{folder, free_port, root, wait_until};
use super::promql;
use super::stage::streamed_chat;

#[test]
fn the_shipped_configuration_is_accepted() {
    let file = root().join("deploy/example/config.yaml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_epp")).arg("check-config").arg(file).output().expect("epp can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a picker shows besides whose endpoints are a cluster's, each with its label; the tests of `kubernetes` read them.
const OF_A_CLUSTER: [(&str, &str); 2] =
    [("warmpath_cluster_watching", "kind"), ("leader_election_master_status", "name")];

#[test]
fn dashboard_and_alerts_ask_only_for_series_that_are_exported() {
    let page = page_after_everything_has_happened();
    let (mut exported, mut labels) = (series(&page), labels(&page));
    exported.extend(OF_A_CLUSTER.map(|(family, _)| family.to_owned()));
    labels.extend(OF_A_CLUSTER.map(|(_, label)| label.to_owned()));
    for (file, queries, fewest) in [("the dashboard", dashboard(), 30), ("the alerts", alerts(), 12)] {
        let asked: BTreeSet<String> = queries.iter().flat_map(|query| promql::series(query)).collect();
        assert!(asked.len() > fewest, "{file} asks for {} series", asked.len());
        let missing: Vec<&String> = asked.difference(&exported).collect();
        assert_eq!(missing, Vec::<&String>::new(), "{file}");
        let by: BTreeSet<String> = queries.iter().flat_map(|query| promql::labels(query)).collect();
        let missing: Vec<&String> = by.difference(&labels).collect();
        assert_eq!(missing, Vec::<&String>::new(), "{file}: labels of no series");
    }
}

/// The labels on a page, and those that Prometheus adds to whatever it reads by the chart's monitor.
fn labels(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let of_page = lines.flat_map(promql::labels);
    of_page.chain(["job", "instance", "namespace", "pod"].map(str::to_owned)).collect()
}

/// A family shows only once something was counted: a good answer, a bad one, an engine that can't be read, one that
/// restarts.
fn page_after_everything_has_happened() -> String {
    let folder = folder("dashboard");
    let (mut engine, nobody) = (lab::Engine::start(&folder), SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let holdout = holdout(&folder);
    let flags = [&*lab::model_flag(), "--config-file", &holdout];
    let picker = Picker::start_unready(&[engine.address, nobody], &flags, &folder);
    let envoy = Envoy::start(Form::OriginalDst, picker.port, &[], |config| config, &folder);
    wait_until("the engine is read", || picker.metrics().sum("llm_d_epp_ready_endpoints", &[]) == 1.0);
    let json = [("content-type", "application/json")];
    let post = |body: &str| ask(envoy.port, "POST", "/v1/chat/completions", &json, body.as_bytes()).status;
    assert_eq!(post(&streamed_chat(lab::MODEL, &"More than one block. ".repeat(20))), 200);
    assert_eq!(post("no JSON"), 400);
    let count = |name: &str| picker.metrics().sum(name, &[]);
    wait_until("the bad answer was counted", || count("llm_d_epp_request_error_total") == 1.0);
    engine.kill();
    engine.start_again();
    wait_until("the restart was seen", || count("warmpath_engine_restarts_total") == 1.0);
    picker.page()
}

/// A config file that holds every second request out.
pub fn holdout(folder: &Path) -> String {
    let file = folder.join("holdout.yaml");
    let typed = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {holdout: {share: 0.5}}\n";
    fs::write(&file, typed).expect("the config can be written");
    file.display().to_string()
}

/// The series that a page's families can have.
fn series(page: &str) -> BTreeSet<String> {
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = families.flat_map(|(name, kind)| {
        let endings: &[&str] = match kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        endings.iter().map(move |ending| format!("{name}{ending}"))
    });
    names.collect()
}

/// The dashboard's queries, Grafana's variables filled in.
pub fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(root().join("deploy/grafana/warmpath.json")).expect("the dashboard can be read");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    queries.map(|query| query.replace("$__rate_interval", "5m")).collect()
}

/// The alerts' queries. The file is read as Prometheus reads it: a key that it doesn't know is an error.
fn alerts() -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rules {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Group {
        name: String,
        rules: Vec<Rule>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        alert: String,
        expr: String,
        #[serde(default)]
        r#for: Option<String>,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    }
    let text = fs::read_to_string(root().join("deploy/prometheus/alerts.yaml")).expect("the alerts can be read");
    let rules: Rules = serde_yaml::from_str(&text).expect("a file of rules");
    let mut names = BTreeSet::new();
    let mut queries = Vec::new();
    for group in &rules.groups {
        assert!(names.insert(&group.name), "two groups {}", group.name);
        for rule in &group.rules {
            let name = &rule.alert;
            assert!(names.insert(name), "two alerts {name}");
            let is_span = |text: &String| text.trim_end_matches(['s', 'm', 'h']).parse::<u32>().is_ok();
            assert!(rule.r#for.iter().all(is_span), "{name}: for {:?}", rule.r#for);
            assert!(["critical", "warning", "info"].contains(&&*rule.labels["severity"]), "{name}");
            let said: Vec<&str> = rule.annotations.keys().map(String::as_str).collect();
            assert_eq!(said, ["runbook", "runbook_url", "summary"], "{name}");
            let page = "https://github.com/warmpath/warmpath/blob/main/docs/alerts.md";
            assert_eq!(rule.annotations["runbook_url"], format!("{page}#{}", name.to_lowercase()));
            queries.push(rule.expr.clone());
        }
    }
    queries
}
