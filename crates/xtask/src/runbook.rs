//! `docs/alerts.md` out of the rules in `deploy/prometheus`: the page that each alert's `runbook_url` leads to. In: rule files. Out:
//! Markdown.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_yaml::Value;

/// The rule files, and what the page says before each one's alerts.
const RULES: [(&str, &str); 2] = [
    ("deploy/prometheus/alerts.yaml", ""),
    (
        "deploy/prometheus/envoy-alerts.yaml",
        "Those that follow read Envoy's own counters, which Prometheus gets from the chart's pods in mode standalone.\n\n",
    ),
];

const HEAD: &str = "\
<!-- Made of deploy/prometheus by `cargo xtask chart`: change the rules there. -->

# Alerts

What each alert of [deploy/prometheus](../deploy/prometheus) means, and what to do. With the Prometheus Operator the chart installs them as a PrometheusRule.
`critical`: requests are refused or lost, or nobody knows; `warning`: they are served worse than they could be; `info`: somebody should know. Tests provoke each
of them at a real Prometheus (`tests/black_box/alerts.rs`), but for those about Envoy's own counters.

";

/// The page.
pub(crate) fn page(root: &Path) -> Result<String> {
    let mut page = HEAD.to_owned();
    for (file, before) in RULES {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        let rules: Value = serde_yaml::from_str(&text).with_context(|| file.to_owned())?;
        page += before;
        for group in rules["groups"].as_sequence().into_iter().flatten() {
            for rule in group["rules"].as_sequence().into_iter().flatten() {
                alert(&mut page, rule).with_context(|| format!("{file}: a rule without {rule:?}"))?;
            }
        }
    }
    Ok(page.trim_end().to_owned() + "\n")
}

fn alert(page: &mut String, rule: &Value) -> Option<()> {
    let (name, query, annotations) = (rule["alert"].as_str()?, rule["expr"].as_str()?, &rule["annotations"]);
    let span = rule["for"].as_str().map(|span| format!(" for {span}")).unwrap_or_default();
    let severity = rule["labels"]["severity"].as_str()?;
    let summary =
        annotations["summary"].as_str()?.replace("{{ $labels.", "`").replace("{{ $value", "`value").replace(" }}", "`");
    let runbook = annotations["runbook"].as_str()?;
    let _ = write!(
        page,
        "## {name}\n\n{severity}. {summary}\n\n```promql\n{query}\n```\n\nFires where that holds{span}.\n\n{runbook}\n\n"
    );
    Some(())
}
