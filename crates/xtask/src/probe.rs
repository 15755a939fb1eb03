//! The probe: in, a rate and a time; out, what heavy requests do to the others, in one run of the real picker.
//!
//! Small chats come at a steady rate all the time. First they are alone; then the three heavy kinds come in one after the
//! other (a run of 400 KB without a space, an image of 20 MB in a data URL, 100,000 messages), once as gateways stream
//! bodies and once as they buffer them. Shown are the small requests' latency, how long one poll of a task held a thread of
//! the runtime, and the picker's memory. The picker is built with tokio's word on polls (`epp`'s feature `poll-times`), in a
//! target folder of its own; the gateway is played by streams of ext_proc over loopback, and the engines by a page of metrics.

#[cfg(feature = "probe")]
mod bodies;
#[cfg(feature = "probe")]
mod engines;
#[cfg(feature = "probe")]
mod gateway;
#[cfg(feature = "probe")]
mod load;
#[cfg(feature = "probe")]
mod phase;
#[cfg(feature = "probe")]
mod report;
#[cfg(feature = "probe")]
mod site;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

/// What can be set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Small requests (2 KB) a second.
    #[arg(long, default_value_t = 100.0)]
    pub(crate) rate: f64,
    /// Seconds of each of the three phases.
    #[arg(long, default_value_t = 12)]
    pub(crate) seconds: u64,
    /// Milliseconds from one heavy request's start to the next one's.
    #[arg(long, default_value_t = 500)]
    pub(crate) heavy_every_ms: u64,
    /// Directory with the model's tokenizer.json, tokenizer_config.json and template; the repository carries Qwen3's.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures/qwen3")]
    pub(crate) model_dir: PathBuf,
    /// Endpoints to choose from.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) endpoints: u16,
    /// Builds with full optimisation and measures that (the build takes longer).
    #[arg(long)]
    pub(crate) release: bool,
    /// Measures what is built already.
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Writes the figures as JSON too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Builds, measures, prints; an error where anything could not start or a request failed.
#[cfg(feature = "probe")]
pub(crate) fn run(settings: &Settings) -> Result<()> {
    use anyhow::Context as _;

    crate::process::kill_all_on_signal()?;
    let site = site::Site::start(settings)?;
    let phases = phase::all(settings, &site)?;
    println!("\n{}", report::render(settings, &phases));
    if let Some(file) = &settings.json {
        let text = serde_json::to_string_pretty(&report::json(settings, &phases))?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    phase::must_have_answered_all(&phases)
}

/// Without the feature: the same command again, with it.
#[cfg(not(feature = "probe"))]
pub(crate) fn run(_: &Settings) -> Result<()> {
    let mut again = crate::process::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "probe", "--"]);
    crate::process::finish(again.args(std::env::args_os().skip(1)))
}
