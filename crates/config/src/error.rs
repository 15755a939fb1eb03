//! What is wrong with a file: where, what, and what was probably meant. Made from the YAML parser's own errors, and by
//! the checks.

use std::fmt;

use crate::place::{Path, find};

/// Why a file is refused. Prints as ``line 4, column 9: plugins[0].type: ... Did you mean `queue-scorer`?``
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1; `None` where it isn't known.
    pub line: Option<usize>,
    /// The column, from 1; `None` where it isn't known.
    pub column: Option<usize>,
    /// The key that is wrong, as `plugins[0].type`; empty for the whole file.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
    /// The known name that was probably meant.
    pub suggestion: Option<String>,
}

impl Error {
    /// An error about what stands at `path` in `text`.
    pub(crate) fn at(text: &str, path: &Path, message: impl Into<String>) -> Self {
        let (line, column) = find(text, path).unzip();
        Self { line, column, path: path.to_string(), message: message.into(), suggestion: None }
    }

    /// An error about the whole file.
    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self { line: None, column: None, path: String::new(), message: message.into(), suggestion: None }
    }

    /// With the nearest of `known` to `typed`, if one is near.
    pub(crate) fn suggest<'a>(mut self, typed: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        self.suggestion = nearest(typed, known).map(Into::into);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (Some(line), None) => write!(f, "line {line}: ")?,
            _ => f.write_str("line unknown: ")?,
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, " Did you mean `{suggestion}`?")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<serde_yaml::Error> for Error {
    fn from(error: serde_yaml::Error) -> Self {
        let (line, column) = error.location().map(|at| (at.line(), at.column())).unzip();
        let text = error.to_string();
        let text = match (line, column) {
            (Some(line), Some(column)) => text.replace(&format!(" at line {line} column {column}"), ""),
            _ => text,
        };
        let (path, message) = match text.split_once(": ") {
            Some((path, message)) if is_path(path) => (path.to_string(), message),
            _ => (String::new(), text.as_str()),
        };
        let error = Self { line, column, path, message: message.to_string(), suggestion: None };
        error.unknown_field().unwrap_or_else(|error| error.finished())
    }
}

impl Error {
    /// Serde's ``unknown field `a`, expected one of `b`, `c` `` in our words, with a suggestion.
    fn unknown_field(self) -> Result<Self, Self> {
        let mut names = self.message.split('`').skip(1).step_by(2);
        match names.next() {
            Some(typed) if self.message.starts_with("unknown field `") => {
                let known: Vec<&str> = names.collect();
                let message = if known.is_empty() {
                    "unknown key; none is taken here.".to_string()
                } else {
                    format!("unknown key; known are {}.", known.join(", "))
                };
                let suggestion = nearest(typed, known.iter().copied()).map(Into::into);
                let path = if self.path.is_empty() { typed.to_string() } else { format!("{}.{typed}", self.path) };
                Ok(Self { path, message, suggestion, ..self })
            }
            _ => Err(self),
        }
    }

    fn finished(mut self) -> Self {
        if let Some((message, suggestion)) = self.message.split_once(" Did you mean `") {
            self.suggestion = Some(suggestion.trim_end_matches("`?").to_string());
            self.message = message.to_string();
        } else if !self.message.ends_with('.') {
            self.message.push('.');
        }
        self
    }
}

/// Whether `text` is a path as the parser writes it before a message: `plugins[0].parameters`.
fn is_path(text: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || "._-[]/".contains(c);
    !text.is_empty() && text.chars().all(good) && !text.starts_with("invalid")
}

/// The name among `known` that `typed` was probably meant to be.
fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(typed);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, _)| *distance <= (wanted.chars().count() / 3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// What is said of a name that isn't known; the nearest one is told apart again when it becomes an [`Error`].
pub(crate) fn unknown(what: &str, typed: &str, known: &[&str]) -> String {
    match nearest(typed, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{typed}`. Did you mean `{near}`?"),
        None => format!("unknown {what} `{typed}`; known are {}.", known.join(", ")),
    }
}
