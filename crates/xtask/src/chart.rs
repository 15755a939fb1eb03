//! What is made of the chart, and of which the chart is made. In: `charts/warmpath` with its files of values in `ci/`, alerts and
//! dashboard in `deploy/`. Out: their copies in the chart (Helm reads nothing outside of it), what each file of values renders
//! to in `tests/fixtures/chart`, plain manifests in `deploy/manifests`, and a page about the alerts; or, asked to check, where these differ.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};

use crate::helm::{self, Tool};
use crate::{runbook, workspace};

/// What stands in `deploy/` and in the chart.
const COPIES: [(&str, &str); 3] = [
    ("deploy/prometheus/alerts.yaml", "charts/warmpath/files/alerts.yaml"),
    ("deploy/prometheus/envoy-alerts.yaml", "charts/warmpath/files/envoy-alerts.yaml"),
    ("deploy/grafana/warmpath.json", "charts/warmpath/files/dashboard.json"),
];
/// The page about the alerts.
const ALERTS: &str = "docs/alerts.md";
const VALUES: &str = "charts/warmpath/ci";
const RENDERED: &str = "tests/fixtures/chart";
/// Files of values whose rendering is also carried as plain manifests.
const MANIFESTS: [(&str, &str); 2] = [
    ("manifest-gateway", "deploy/manifests/gateway.yaml"),
    ("manifest-standalone", "deploy/manifests/standalone.yaml"),
];

/// Writes all of it; or compares, and fails where something differs.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = workspace::root();
    let copied = COPIES.iter().map(|(from, to)| Ok((PathBuf::from(to), fs::read_to_string(root.join(from))?)));
    let copied: BTreeMap<PathBuf, String> = copied.collect::<io::Result<_>>().context("cannot read what is copied")?;
    // The chart renders its copies: they come first.
    settle(&root, &copied, check)?;
    settle(&root, &BTreeMap::from([(PathBuf::from(ALERTS), runbook::page(&root)?)]), check)?;
    settle(&root, &rendered(&root)?, check)
}

fn settle(root: &Path, files: &BTreeMap<PathBuf, String>, check: bool) -> Result<()> {
    let is_other =
        |(path, text): &(&PathBuf, &String)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(*text);
    let others: Vec<(&PathBuf, &String)> = files.iter().filter(is_other).collect();
    if check {
        let names: Vec<String> = others.iter().map(|(path, _)| path.display().to_string()).collect();
        ensure!(names.is_empty(), "not what the chart gives: {}; run `cargo xtask chart`", names.join(", "));
        return Ok(());
    }
    for (path, text) in others {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What each file of values renders to, by the file that it belongs into.
fn rendered(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let helm = helm::find_or_fetch(Tool::Helm)?;
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root.join(VALUES)).with_context(|| format!("cannot read {VALUES}"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix("-values.yaml") else { bail!("{VALUES}/{file} is no NAME-values.yaml") };
        let text = template(&helm, root, &path)?;
        if let Some((_, manifest)) = MANIFESTS.iter().find(|(values, _)| *values == name) {
            let made_of = format!("# Made of the chart by `cargo xtask chart`, with {VALUES}/{file}. Don't edit.\n");
            files.insert(PathBuf::from(manifest), made_of + &text);
        } else {
            files.insert(Path::new(RENDERED).join(format!("{name}.yaml")), text);
        }
    }
    Ok(files)
}

/// The chart with these values, as a release `warmpath` in the namespace `inference`, on a cluster with the APIs that the
/// file names in a line `# apis: A,B`.
fn template(helm: &Path, root: &Path, values: &Path) -> Result<String> {
    let text = fs::read_to_string(values)?;
    let apis = text.lines().find_map(|line| line.strip_prefix("# apis: "));
    let mut command = Command::new(helm);
    command.current_dir(root).args(["template", "warmpath", "charts/warmpath", "--namespace", "inference", "--values"]);
    command.arg(values).args(apis.iter().flat_map(|apis| ["--api-versions", apis.trim()]));
    let output = command.output().context("helm did not start")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", values.display(), errors.trim());
    Ok(String::from_utf8(output.stdout)?)
}
