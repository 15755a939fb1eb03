//! Where things are: the workspace's root, its target folder, its source files and its packages as cargo sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Our crates, and for each those of ours it depends on (normal dependencies only).
pub(crate) fn edges() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let output = process::cargo()
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .context("cargo metadata did not start")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let is_normal = |dependency: &&Value| dependency["kind"].is_null();
    let edges_of = |package: &Value| -> BTreeSet<String> {
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        let names = dependencies.iter().filter(is_normal).filter_map(|dependency| dependency["name"].as_str());
        names.filter(|name| ours.contains(name)).map(str::to_owned).collect()
    };
    let named = |package: &Value| package["name"].as_str().map(|name| (name.to_owned(), edges_of(package)));
    Ok(packages.iter().filter_map(named).collect())
}

/// Every file of the source tree, relative to the root: build products, git's own and what people's tools leave aside.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !matches!(&*name, "target" | ".git" | ".venv" | "__pycache__" | "node_modules") {
                    folders.push(path);
                }
            } else if name != ".git" {
                // In a worktree it is a file.
                found.push(path.strip_prefix(&root).unwrap_or(&path).to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}
