//! The files in `deploy` are what they say: the picker takes the configuration, and exports what the dashboard asks for.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use super::client::ask;
use super::envoy::{Envoy, Form};
use super::lab;
use super::picker::Picker;
use super::program::{folder, free_port, root, wait_until};
use super::stage::streamed_chat;

#[test]
fn the_shipped_configuration_is_accepted() {
    let file = root().join("deploy/example/config.yaml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_epp")).arg("check-config").arg(file).output().expect("epp can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_dashboard_asks_only_for_series_that_are_exported() {
    let dashboard = fs::read_to_string(root().join("deploy/grafana/warmpath.json")).expect("the dashboard can be read");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    let exported = series(&page_after_everything_has_happened());
    let asked = asked(&dashboard);
    assert!(asked.len() > 30, "the dashboard asks for {} series", asked.len());
    let missing: Vec<&String> = asked.difference(&exported).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// A family shows only once something was counted: a good answer, a bad one, an engine that can't be read, one that
/// restarts.
fn page_after_everything_has_happened() -> String {
    let folder = folder("dashboard");
    let (mut engine, nobody) = (lab::Engine::start(&folder), SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let picker = Picker::start_unready(&[engine.address, nobody], &[&lab::model_flag()], &folder);
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

/// The series that a page's families can have.
fn series(page: &str) -> BTreeSet<String> {
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = families.flat_map(|(name, kind)| {
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        endings.iter().map(move |ending| format!("{name}{ending}"))
    });
    names.collect()
}

/// The series that a dashboard's queries name: what stands before a `{`.
fn asked(dashboard: &serde_json::Value) -> BTreeSet<String> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let name_before = |text: &str| text.rsplit(|letter| !is_name(letter)).next().unwrap_or_default().to_owned();
    queries
        .flat_map(|query| query.match_indices('{').map(|(at, _)| name_before(&query[..at])).collect::<Vec<_>>())
        .collect()
}
