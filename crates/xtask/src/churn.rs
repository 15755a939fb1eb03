//! The figures of a large pool: starts the measurement that stands in `tests/churn.rs`, with a real API server.

use anyhow::Result;

use crate::{apiserver, process};

/// Measures with the release build, and prints.
pub(crate) fn run() -> Result<()> {
    let assets = apiserver::find_or_build()?;
    let mut bench = process::cargo();
    bench.args(["bench", "--package", "epp", "--bench", "churn"]).env(apiserver::ASSETS, assets);
    process::finish(&mut bench)
}
