//! A real Kubernetes API server and its etcd: those of `$KUBEBUILDER_ASSETS`, those in PATH, or those that Go builds once
//! from the modules that `crates/xtask/apiserver/go.mod` pins, into `target/tools/apiserver`. No other binaries of them are
//! published where a package manager finds them. Go keeps its own caches; nothing else outside `target/` is changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, workspace};

/// Where tests look for them: the name that Kubernetes' own test environments use.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The binaries, and the packages that they are built from.
const PROGRAMS: [(&str, &str); 2] =
    [("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"), ("etcd", "go.etcd.io/etcd/server/v3")];

/// The folder that holds both; builds them if they are nowhere.
pub(crate) fn find_or_build() -> Result<PathBuf> {
    if let Some(named) = env::var_os(ASSETS) {
        let named = PathBuf::from(named);
        ensure!(has_both(&named), "{ASSETS} is {}, where kube-apiserver and etcd don't both run", named.display());
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).find(|folder| has_both(folder)) {
        return Ok(found);
    }
    let built = workspace::target().join("tools/apiserver");
    let modules = workspace::root().join("crates/xtask/apiserver");
    let pinned = fs::read_to_string(modules.join("go.mod")).context("crates/xtask/apiserver/go.mod")?;
    // Written last, so that what stands beside it is whole and of these versions.
    let stamp = built.join("go.mod");
    if fs::read_to_string(&stamp).is_ok_and(|of| of == pinned) && has_both(&built) {
        return Ok(built);
    }
    build(&modules, &pinned, &built).with_context(|| {
        format!(
            "there is no kube-apiserver with an etcd in PATH, and none could be built; set {ASSETS} to a folder of both"
        )
    })?;
    fs::write(&stamp, pinned).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(built)
}

fn has_both(folder: &Path) -> bool {
    PROGRAMS.iter().all(|(name, _)| {
        let binary = folder.join(name);
        binary.is_file() && Command::new(binary).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

fn build(modules: &Path, pinned: &str, into: &Path) -> Result<()> {
    let has_go = Command::new("go").arg("version").stdout(Stdio::null()).status();
    ensure!(has_go.is_ok_and(|status| status.success()), "Go is needed to build them, and there is none in PATH");
    let version = version(pinned).context("crates/xtask/apiserver/go.mod requires no k8s.io/kubernetes")?;
    eprintln!("building kube-apiserver {version} and etcd into {} (some minutes, once)", into.display());
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    for (name, package) in PROGRAMS {
        // What it calls itself, which the API shows and tools go by.
        let flags = format!("-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={version}");
        let mut go = Command::new("go");
        go.current_dir(modules).env("CGO_ENABLED", "0").args(["build", "-trimpath", &flags, "-o"]);
        process::finish(go.arg(into.join(name)).arg(package))?;
    }
    if has_both(into) { Ok(()) } else { bail!("they were built, but don't run on this machine") }
}

/// The version of Kubernetes that a go.mod requires, such as `v1.35.4`.
fn version(go_mod: &str) -> Option<&str> {
    let mut lines = go_mod.lines().map(str::trim);
    lines.find_map(|line| line.trim_start_matches("require ").strip_prefix("k8s.io/kubernetes ")?.split(' ').next())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::version;
    use crate::workspace;

    #[test]
    fn the_version_is_the_pinned_one() {
        assert_eq!(version("module m\n\nrequire (\n\tk8s.io/kubernetes v1.2.3 // indirect\n)\n"), Some("v1.2.3"));
        let pinned = fs::read_to_string(workspace::root().join("crates/xtask/apiserver/go.mod")).expect("it is there");
        assert!(version(&pinned).is_some_and(|version| version.starts_with("v1.")));
    }
}
