//! Rust from `proto/**/*.proto`, by a compiler written in Rust: no protoc is needed. In: the proto files; out:
//! `crates/proto/src/generated`, which is committed, so that a build of the product generates nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, workspace};

/// Writes the generated files; or, to check, compares them with those that are there.
pub(crate) fn run(check: bool) -> Result<()> {
    let committed = workspace::root().join("crates/proto/src/generated");
    let fresh = workspace::target().join("codegen");
    generate(&fresh)?;
    if check {
        return compare(&read(&fresh)?, &read(&committed)?);
    }
    fs::create_dir_all(&committed)?;
    for (name, text) in read(&fresh)? {
        fs::write(committed.join(name), text)?;
    }
    for name in read(&committed)?.keys().filter(|name| !fresh.join(name).exists()) {
        fs::remove_file(committed.join(name))?;
    }
    Ok(())
}

fn generate(into: &Path) -> Result<()> {
    let root = workspace::root();
    let is_proto = |file: &PathBuf| file.starts_with("proto") && file.extension().is_some_and(|kind| kind == "proto");
    let files: Vec<PathBuf> = workspace::files()?.into_iter().filter(is_proto).collect();
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    ensure!(!files.is_empty(), "there is no .proto below proto/");
    let absolute = files.iter().map(|file| root.join(file));
    let descriptors = protox::compile(absolute, [root.join("proto")]).context("proto/ does not compile")?;
    let configured = tonic_prost_build::configure().out_dir(into).emit_rerun_if_changed(false);
    configured.compile_fds(descriptors).context("no Rust could be generated")?;
    for name in read(into)?.keys() {
        let mut format = std::process::Command::new("rustfmt");
        format.current_dir(&root).args(["--edition", "2024"]).arg(into.join(name));
        process::finish(&mut format)?;
    }
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(files)
}

fn compare(fresh: &BTreeMap<String, String>, committed: &BTreeMap<String, String>) -> Result<()> {
    let names = fresh.keys().chain(committed.keys());
    let mut stale: Vec<&str> =
        names.filter(|name| fresh.get(*name) != committed.get(*name)).map(String::as_str).collect();
    stale.sort_unstable();
    stale.dedup();
    if stale.is_empty() {
        return Ok(());
    }
    bail!("crates/proto/src/generated is not what proto/ says ({}); run `cargo xtask codegen`", stale.join(", "))
}
