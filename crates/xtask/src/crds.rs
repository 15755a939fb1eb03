//! The definitions (CRDs) of other projects' objects that the chart renders: as those projects publish them, in their Go modules.
//! Fetched by Go through its module proxy, checked, laid into `target/fixtures/crds`. What is there already isn't fetched again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{npm, workspace};

/// A module, and files of it with their sha256.
struct Module {
    at: &'static str,
    folder: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const MODULES: [Module; 3] = [
    Module {
        at: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        folder: "example/prometheus-operator-crd",
        files: &[
            (
                "monitoring.coreos.com_podmonitors.yaml",
                "8ce88c52c51209993511cae093089c9525f5552def88119e3f559123ee9d454b",
            ),
            (
                "monitoring.coreos.com_prometheusrules.yaml",
                "98fd16c9ab79fba8dcd6ef62c957c98cd6546ab74ce0a4ecf09ddf2fda03020e",
            ),
            (
                "monitoring.coreos.com_servicemonitors.yaml",
                "1dae27b7189b5ce7b9ab764656c18b4c75a45cde1e6f3af6a5e84c4317628919",
            ),
        ],
    },
    Module {
        at: "istio.io/api@v1.28.0",
        folder: "kubernetes",
        files: &[(
            "customresourcedefinitions.gen.yaml",
            "9b6971fdad8a2d9148d88e051407376f4a806f13d195493290ad960d329d4244",
        )],
    },
    Module {
        at: "sigs.k8s.io/gateway-api@v1.4.0",
        folder: "config/crd/standard",
        files: &[
            (
                "gateway.networking.k8s.io_gatewayclasses.yaml",
                "2f61e8c8c2289843a61d7b1bba31f8a5a46dbf20a1c54359209d638d3bd899c9",
            ),
            (
                "gateway.networking.k8s.io_gateways.yaml",
                "b0e29566bbe07fbe4ede55c2eff73865bd566f3063736ec9046224d7e20d6f88",
            ),
            (
                "gateway.networking.k8s.io_httproutes.yaml",
                "c2539410dec72b793ef840f484c19d13b48210074ec801b730e9fce2c5fc825c",
            ),
        ],
    },
];

/// Fetches what isn't there yet.
pub(crate) fn fetch() -> Result<()> {
    let folder = workspace::target().join("fixtures/crds");
    for module in &MODULES {
        let lies_there = |(file, sha256): &(&str, &str)| npm::check(&folder.join(file), sha256).is_ok();
        if module.files.iter().all(lies_there) {
            continue;
        }
        eprintln!("fetching {} into {}", module.at, folder.display());
        lay(module, &folder)
            .with_context(|| format!("{}, which the chart's tests need, could not be fetched", module.at))?;
    }
    Ok(())
}

fn lay(module: &Module, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let source = download(module.at)?.join(module.folder);
    for (file, sha256) in module.files {
        npm::check(&source.join(file), sha256)?;
        let partial = folder.join(format!("{file}.partial"));
        // Not `copy`: files of Go's cache are read-only, and copies of them would be.
        fs::write(&partial, fs::read(source.join(file))?)?;
        fs::rename(&partial, folder.join(file))?;
    }
    Ok(())
}

/// The module's folder in Go's cache.
fn download(module: &str) -> Result<PathBuf> {
    let mut go = Command::new("go");
    // Outside of any module of ours.
    go.current_dir(std::env::temp_dir()).args(["mod", "download", "-json", module]);
    let output = go.output().context("Go is needed (on Debian: apt-get install golang)")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "go mod download: {said}{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&said).context("go mod download printed no JSON")?;
    Ok(said["Dir"].as_str().context("go mod download named no folder")?.into())
}
