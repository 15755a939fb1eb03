//! The operator's switch to pick by load alone, while the picker runs: `warmpath.load_only` of the config file.
//!
//! In: the config file's text, whenever it changes; out: whether prompts are left alone. A file that can't be read leaves
//! the switch as it is. Nothing else of a changed file takes effect before a restart, and the log says so.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Config;

/// The switch. Clones are one and the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadOnly(Arc<AtomicBool>);

impl LoadOnly {
    pub(crate) fn new(on: bool) -> Self {
        Self(Arc::new(AtomicBool::new(on)))
    }

    /// Whether prompts are left alone.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Follows the config file, of which `started` is in effect, for as long as it can be watched.
    pub(crate) async fn follow(self, path: PathBuf, started: Config) {
        let shown = path.display().to_string();
        let changed = |text: &str| self.take(text, &started, &shown);
        if let Err(error) = crate::follow::follow(path, "config file", changed).await {
            let error = format!("{error:#}");
            tracing::error!(error, "the config file isn't followed any more: load_only stays as it is");
        }
    }

    fn take(&self, text: &str, started: &Config, path: &str) {
        let config = match Config::read(text) {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(path, %error, "the changed config file can't be used: all stays as it was");
                return;
            }
        };
        if self.0.swap(config.load_only, Ordering::Relaxed) != config.load_only {
            tracing::warn!(load_only = config.load_only, "the operator's switch to pick by load alone was thrown");
        }
        if (Config { load_only: started.load_only, ..config }) != *started {
            tracing::warn!(path, "the config file changed: all but load_only takes effect at the next start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_throws_the_switch_and_a_broken_one_leaves_it() {
        let file = |ours: &str| format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{ours}");
        let started = Config::read(&file("")).expect("well formed");
        let switch = LoadOnly::new(started.load_only);
        let after = |text: &str| {
            switch.take(text, &started, "config.yaml");
            switch.is_on()
        };
        assert!(!switch.is_on());
        assert!(after(&file("warmpath: {load_only: true}\n")));
        assert!(after("warmpath: ["));
        assert!(after(&file("warmpath: {load_only: perhaps}\n")));
        assert!(!after(&file("")));
    }
}
