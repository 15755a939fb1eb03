//! Which tokenizer and which border belong to a served model.
//!
//! In: the configured models and their directories; out: for the name in a request, its [`Known`] model, or that nothing is
//! known. A directory that can't be read costs exactness, never a request: its model is picked for by load alone. Files that
//! change are loaded again; ones that turn out broken leave the tokenizer that was loaded before.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokens::{Files, Tokenizer};

/// The models that this picker can tokenize for.
#[derive(Debug)]
pub(crate) enum Models {
    /// None is configured: every prompt is estimated.
    Estimated(Arc<Tokenizer>),
    /// By every name that a request may use.
    Configured {
        /// Names, aliases and adapters.
        by_name: HashMap<String, Known>,
        /// The one model of a pool that serves only one: what a request without a model means.
        only: Option<Known>,
    },
}

/// What is known of a name.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    model: Arc<Model>,
    adapter: String,
}

#[derive(Debug)]
struct Model {
    name: String,
    revision: String,
    directory: PathBuf,
    tokenizer: ArcSwapOption<Tokenizer>,
    files: Mutex<Seen>,
}

/// A directory's files that count, as they were at two moments.
#[derive(Debug)]
struct Seen {
    /// When they were loaded.
    loaded: Stamp,
    /// When they were last looked at: what still changes isn't loaded.
    last: Stamp,
}

/// Names, sizes and times of the files that count.
type Stamp = Vec<(OsString, u64, Option<SystemTime>)>;

impl Known {
    /// The model's own name, whatever alias was used.
    pub(crate) fn name(&self) -> &str {
        &self.model.name
    }

    /// Its revision.
    pub(crate) fn revision(&self) -> &str {
        &self.model.revision
    }

    /// The adapter asked for; empty for the base model.
    pub(crate) fn adapter(&self) -> &str {
        &self.adapter
    }

    /// Its tokenizer; `None` if its files couldn't be used.
    pub(crate) fn tokenizer(&self) -> Option<Arc<Tokenizer>> {
        self.model.tokenizer.load_full()
    }
}

impl Model {
    fn load(entry: &config::Model) -> Self {
        let stamp = stamp(&entry.path);
        let model = Self {
            name: entry.name.clone(),
            revision: entry.revision.clone(),
            directory: entry.path.clone(),
            tokenizer: ArcSwapOption::empty(),
            files: Mutex::new(Seen { last: stamp.clone(), loaded: stamp }),
        };
        model.reload();
        model
    }

    /// Loads the files; a failure leaves what was loaded before.
    fn reload(&self) {
        let (model, directory) = (self.name.as_str(), self.directory.display());
        match tokenizer_in(&self.directory) {
            Ok(tokenizer) => {
                for warning in tokenizer.warnings() {
                    tracing::warn!(model, %directory, "{warning}");
                }
                tracing::info!(model, %directory, "tokenizer loaded");
                self.tokenizer.store(Some(Arc::new(tokenizer)));
            }
            Err(error) if self.tokenizer.load().is_some() => tracing::error!(
                model, %directory, error,
                "the model's changed files can't be used: those loaded before stay in use"
            ),
            Err(error) => tracing::error!(
                model, %directory, error,
                "the model's tokenizer can't be used: its requests are picked for by load alone"
            ),
        }
    }

    /// Whether the files have changed since they were loaded, and have come to rest.
    fn is_due(&self) -> bool {
        let now = stamp(&self.directory);
        let mut seen = self.files.lock();
        let due = now != seen.loaded && now == seen.last;
        if due {
            seen.loaded.clone_from(&now);
        }
        seen.last = now;
        due
    }
}

fn stamp(directory: &Path) -> Stamp {
    let counts = |name: &str| {
        ["tokenizer", "chat_template", "config.json", "tool_use.jinja"].iter().any(|start| name.starts_with(start))
    };
    let more = fs::read_dir(directory.join("additional_chat_templates"));
    let entries = fs::read_dir(directory).into_iter().chain(more).flatten().flatten();
    let mut stamp: Stamp = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(counts))
        // Of what a link leads to: Kubernetes changes mounted files by changing links.
        .filter_map(|entry| {
            let file = fs::metadata(entry.path()).ok()?;
            Some((entry.file_name(), file.len(), file.modified().ok()))
        })
        .collect();
    stamp.sort();
    stamp
}

impl Models {
    /// Loads every model's files, about a second of CPU each: not for the runtime's threads. What can't be loaded is logged.
    pub(crate) fn load(configured: &[config::Model]) -> Self {
        if configured.is_empty() {
            tracing::warn!(
                "no model directory is configured: prompts are estimated at four bytes a token, and prefixes match \
                 only roughly; give --model NAME=DIR with the model's tokenizer.json and tokenizer_config.json"
            );
            return Self::Estimated(Arc::new(Tokenizer::estimate()));
        }
        let mut by_name = HashMap::new();
        for entry in configured {
            let model = Arc::new(Model::load(entry));
            for name in std::iter::once(&entry.name).chain(&entry.aliases) {
                by_name.insert(name.clone(), Known { model: Arc::clone(&model), adapter: String::new() });
            }
            for adapter in &entry.adapters {
                by_name.insert(adapter.clone(), Known { model: Arc::clone(&model), adapter: adapter.clone() });
            }
        }
        let only = match configured {
            [one] => by_name.get(&one.name).cloned(),
            _ => None,
        };
        Self::Configured { by_name, only }
    }

    /// Whether a request may use this name; any, where none is configured.
    pub(crate) fn know(&self, name: &str) -> bool {
        match self {
            Self::Estimated(_) => true,
            Self::Configured { by_name, .. } => by_name.contains_key(name),
        }
    }

    /// Every name that a request may use.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        match self {
            Self::Estimated(_) => Vec::new(),
            Self::Configured { by_name, .. } => by_name.keys().cloned().collect(),
        }
        .into_iter()
    }

    /// Every configured model by its own name, and whether its tokenizer can be used.
    pub(crate) fn loaded(&self) -> Vec<(&str, bool)> {
        self.own().map(|model| (model.name.as_str(), model.tokenizer.load().is_some())).collect()
    }

    /// The tokenizers that can be used, by their models' own names.
    pub(crate) fn tokenizers(&self) -> impl Iterator<Item = (String, Arc<Tokenizer>)> {
        self.own().filter_map(|model| Some((model.name.clone(), model.tokenizer.load_full()?)))
    }

    /// Looks at every model's files and loads those that have changed and come to rest. Not for the runtime's threads.
    /// Gives the names of the models loaded again.
    pub(crate) fn look(&self) -> Vec<&str> {
        let due = self.own().filter(|model| model.is_due());
        due.map(|model| {
            model.reload();
            model.name.as_str()
        })
        .collect()
    }

    fn own(&self) -> impl Iterator<Item = &Arc<Model>> {
        let by_name = match self {
            Self::Estimated(_) => None,
            Self::Configured { by_name, .. } => Some(by_name),
        };
        let is_own = |(name, known): &(&String, &Known)| known.adapter.is_empty() && **name == known.model.name;
        by_name.into_iter().flatten().filter(is_own).map(|(_, known)| &known.model)
    }
}

/// Loads the tokenizer of a model's directory; about a second of CPU.
///
/// # Errors
/// A file that can't be read or used, in words.
pub(crate) fn tokenizer_in(directory: &Path) -> Result<Tokenizer, String> {
    let read = |file: &str| match fs::read(directory.join(file)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let files = Files::gather(read).map_err(|error| error.to_string())?;
    Tokenizer::load(files).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = r#"{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;

    #[test]
    fn changed_files_are_loaded_once_they_rest_and_broken_ones_change_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("tokenizer.json");
        let entry = config::Model {
            name: "m".into(),
            aliases: vec!["alias".into()],
            path: directory.path().into(),
            revision: String::new(),
            adapters: vec!["adapter".into()],
        };
        let models = Models::load(&[entry]);
        assert_eq!(models.loaded(), [("m", false)]);
        assert!(models.look().is_empty());

        fs::write(&file, TINY).expect("written");
        assert!(models.look().is_empty(), "it may still be being written");
        assert_eq!(models.look(), ["m"]);
        assert_eq!(models.loaded(), [("m", true)]);
        assert!(models.look().is_empty());

        fs::write(&file, "404").expect("written");
        assert!(models.look().is_empty());
        assert_eq!(models.look(), ["m"]);
        assert_eq!(models.loaded(), [("m", true)], "what was loaded before stays");
    }
}
