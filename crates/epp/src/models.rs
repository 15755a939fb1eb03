//! Which tokenizer and which border belong to a served model.
//!
//! In: the configured models and their directories; out: for the name in a request, its [`Known`] model, or that nothing is
//! known. A directory that can't be read costs exactness, never a request: its model is picked for by load alone.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use tokens::{Files, Tokenizer};

/// The models that this picker can tokenize for.
#[derive(Debug)]
pub(crate) enum Models {
    /// None is configured: every prompt is estimated.
    Estimated(Tokenizer),
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
    tokenizer: Option<Tokenizer>,
}

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
    pub(crate) fn tokenizer(&self) -> Option<&Tokenizer> {
        self.model.tokenizer.as_ref()
    }
}

impl Models {
    /// Loads every model's files, about a second of CPU each: not for the runtime's threads. What can't be loaded is logged.
    pub(crate) fn load(configured: &[config::Model]) -> Self {
        if configured.is_empty() {
            tracing::warn!(
                "no model directory is configured: prompts are estimated at four bytes a token, and prefixes match \
                 only roughly; give --model NAME=DIR with the model's tokenizer.json and tokenizer_config.json"
            );
            return Self::Estimated(Tokenizer::estimate());
        }
        let mut by_name = HashMap::new();
        for entry in configured {
            let tokenizer = load(&entry.name, &entry.path);
            let model = Arc::new(Model { name: entry.name.clone(), revision: entry.revision.clone(), tokenizer });
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
        let Self::Configured { by_name, .. } = self else { return Vec::new() };
        let own = |(name, known): (&'_ String, &'_ Known)| name == known.name();
        let all = by_name.iter().filter(|entry| own(*entry));
        all.map(|(_, known)| (known.name(), known.tokenizer().is_some())).collect()
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

fn load(name: &str, directory: &Path) -> Option<Tokenizer> {
    match tokenizer_in(directory) {
        Ok(tokenizer) => {
            for warning in tokenizer.warnings() {
                tracing::warn!(model = name, directory = %directory.display(), "{warning}");
            }
            tracing::info!(model = name, directory = %directory.display(), "tokenizer loaded");
            Some(tokenizer)
        }
        Err(error) => {
            tracing::error!(
                model = name, directory = %directory.display(), error,
                "the model's tokenizer can't be used: its requests are picked for by load alone"
            );
            None
        }
    }
}
