//! A real Prometheus and its promtool: those of `$PROMETHEUS_BIN`'s folder, those in PATH, or Debian's, whose package is unpacked once
//! into `target/tools/prometheus`. Nothing outside `target/` is changed, but for apt's lists where there are none.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, workspace};

/// Where tests look for it.
pub(crate) const BIN: &str = "PROMETHEUS_BIN";

/// Where Prometheus is, its promtool beside it; unpacks it if it is nowhere.
pub(crate) fn find_or_fetch() -> Result<PathBuf> {
    if let Some(named) = env::var_os(BIN) {
        let named = PathBuf::from(named);
        ensure!(runs(&named), "{BIN} is {}, beside which no promtool runs", named.display());
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).map(|folder| folder.join("prometheus")).find(|at| runs(at)) {
        return Ok(found);
    }
    let folder = workspace::target().join("tools/prometheus");
    let unpacked = folder.join("usr/bin/prometheus");
    if !runs(&unpacked) {
        unpack(&folder).with_context(|| {
            format!("there is no prometheus in PATH, and Debian's package can't be had; install one, or set {BIN}")
        })?;
        ensure!(runs(&unpacked), "Debian's prometheus was unpacked, but doesn't run on this machine");
    }
    Ok(unpacked)
}

fn runs(prometheus: &Path) -> bool {
    let works =
        |binary: &Path| Command::new(binary).arg("--version").output().is_ok_and(|output| output.status.success());
    works(prometheus) && works(&prometheus.with_file_name("promtool"))
}

fn unpack(into: &Path) -> Result<()> {
    eprintln!("unpacking Debian's prometheus into {}", into.display());
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("cannot empty {}", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let download = || process::finish(Command::new("apt-get").args(["download", "prometheus"]).current_dir(into));
    // A machine that is new has no lists of packages yet.
    download().or_else(|_| process::finish(Command::new("apt-get").arg("update")).and_then(|()| download()))?;
    let files = fs::read_dir(into)?.collect::<Result<Vec<_>, _>>()?;
    let mut packages =
        files.iter().map(fs::DirEntry::path).filter(|file| file.extension().is_some_and(|ext| ext == "deb"));
    let Some(package) = packages.next() else { bail!("apt-get downloaded no package") };
    process::finish(Command::new("dpkg-deb").arg("--extract").arg(package).arg(into))
}
