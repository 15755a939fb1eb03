//! One engine's place: what it is called, what runs it, and what it shares with the others of the process (settings,
//! tokenizer, words, and the threads that tokenize).

use std::sync::Arc;
use std::thread;

use tokens::Tokenizer;
use tokio::sync::Semaphore;

use super::runner::Runner;
use super::settings::Settings;
use crate::words::{NoWords, Words};

/// What all engines of a process share.
#[derive(Debug)]
pub struct Common {
    settings: Settings,
    tokenizer: Arc<Tokenizer>,
    words: Arc<Words>,
    stop_token: u32,
    cpu: Semaphore,
}

impl Common {
    /// Gets ready what is shared; asks the tokenizer for its words, a few milliseconds of CPU work.
    pub fn new(settings: Settings, tokenizer: Arc<Tokenizer>) -> Result<Common, NoWords> {
        let words = Arc::new(Words::of(&tokenizer)?);
        let stop_token = super::asked::stop_token(&tokenizer);
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Ok(Common { settings, tokenizer, words, stop_token, cpu: Semaphore::new(cpus) })
    }

    /// The settings of all engines.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// One engine's place.
#[derive(Debug)]
pub struct Site {
    common: Arc<Common>,
    pub(super) runner: Runner,
    /// Named in a header of every answer, if at all.
    pub(super) name: Option<String>,
}

impl Site {
    /// Puts a running engine in its place.
    pub fn new(common: Arc<Common>, runner: Runner, name: Option<String>) -> Site {
        Site { common, runner, name }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.common.settings
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.common.tokenizer
    }

    pub(super) fn words(&self) -> &Arc<Words> {
        &self.common.words
    }

    pub(super) fn stop_token(&self) -> u32 {
        self.common.stop_token
    }

    /// A place on a CPU for tokenizing; requests wait for one in turn, as in vLLM's own front end.
    pub(super) fn cpu(&self) -> &Semaphore {
        &self.common.cpu
    }
}
