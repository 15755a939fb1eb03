//! A model's tokenizer from a directory. In: a path; out: the tokenizer. Reads three files by name, nothing else.

use std::io;
use std::path::Path;

use anyhow::Context;
use tokens::{Files, Tokenizer};

/// Loads the tokenizer and chat template in `dir`; about a second of CPU work.
pub fn load(dir: &Path) -> anyhow::Result<Tokenizer> {
    let read = |name: &str| match std::fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let files = Files::gather(read).with_context(|| format!("reading the model's files in {}", dir.display()))?;
    Tokenizer::load(files).with_context(|| format!("loading the tokenizer in {}", dir.display()))
}
