//! Packages of the npm registry, and what is made of them: in, a package's name and version; out, a checked file in a folder of
//! ours. Nothing is installed, and no script of a package runs.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::process;

/// Where packages are, without npm's own configuration.
const REGISTRY: &str = "https://registry.npmjs.org";

/// Fetches `@scope/name` as a tarball into the folder, by npm if there is one, else by Python from the public registry.
pub(crate) fn pack(scope: &str, name: &str, version: &str, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(format!("{scope}-{name}-{version}.tgz"));
    if starts("npm") {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--pack-destination"]).arg(folder);
        npm.arg(format!("@{scope}/{name}@{version}")).stdout(Stdio::null());
        process::finish(&mut npm)?;
    } else if starts("python3") {
        const GET: &str = "import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])";
        let address = format!("{REGISTRY}/@{scope}/{name}/-/{name}-{version}.tgz");
        process::finish(Command::new("python3").args(["-c", GET, &address]).arg(&file))?;
    } else {
        bail!("neither npm nor python3 is in PATH, and one of them is needed to fetch a package");
    }
    ensure!(file.is_file(), "the package was fetched, but {} isn't there", file.display());
    Ok(file)
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// An empty folder in the place of whatever was there.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Puts a folder in the place of another, whole or not at all.
pub(crate) fn replace(folder: &Path, by: &Path) -> Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    fs::rename(by, folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// An error where the file isn't the one that was meant.
pub(crate) fn check(path: &Path, expected: &str) -> Result<()> {
    let found = sha256(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(found == expected, "{}: its sha256 is {found}, not {expected}", path.display());
    Ok(())
}

fn sha256(path: &Path) -> io::Result<String> {
    Ok(Sha256::digest(fs::read(path)?).iter().map(|byte| format!("{byte:02x}")).collect())
}
