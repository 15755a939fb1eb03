//! The files in `deploy` are what they say: the picker takes the configuration, and exports what the dashboard asks for.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::picker::Picker;
use super::program::{folder, root};
use super::scripted::Engine;

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
    let engine = Engine::plain();
    let picker = Picker::start(&[engine.address], &[], &folder("dashboard"));
    let exported = series(&picker.page());
    let asked = asked(&dashboard);
    assert!(asked.len() > 30, "the dashboard asks for {} series", asked.len());
    let missing: Vec<&String> = asked.difference(&exported).collect();
    assert_eq!(missing, Vec::<&String>::new());
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
