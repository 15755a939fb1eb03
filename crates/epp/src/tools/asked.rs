//! A request that a person hands to a tool, read as the picker reads it.
//!
//! In: a body and how to read it; out: the request in tokens and the border of its hashes, made by the code that serves; or
//! one line that says why there is none.

use std::borrow::Cow;
use std::time::SystemTime;

use blocks::Seed;
use request::{Api, NotUnderstood, Request, json};
use tokens::{EncodeError, Tokenizer};

use super::shape::{self, Guess};
use crate::flags::Reading;
use crate::understand::{Rules, Tokenized};

/// A body that was read.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// What it asks.
    pub(super) request: Request<'a>,
    /// What is uncertain or had to be done without.
    pub(super) notes: Vec<String>,
    /// The model's name in the border.
    model: Cow<'a, str>,
}

impl<'a> Asked<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Why it can't be understood.
    pub(super) fn read(body: &'a [u8], reading: &'a Reading) -> Result<Self, String> {
        let mut notes = Vec::new();
        let path = match &reading.path {
            Some(path) => path,
            None => guessed(body, &mut notes)?.path(),
        };
        let request = request::parse_for(reading.engine, path, body).map_err(|why| match why {
            NotUnderstood::UnknownPath => format!("{path}: {why}"),
            _ => why.to_string(),
        })?;
        if !request.fills_cache {
            notes.push(
                "fills_no_cache: the engine only looks at such a prompt, so the picker doesn't tokenize it".into(),
            );
        }
        let model = match (&reading.name, &request.model) {
            (Some(name), _) => Cow::Borrowed(name.as_str()),
            (None, Some(model)) => model.clone(),
            (None, None) => {
                notes.push(
                    "no_model: neither the body nor --name names the model; the directory's name stands for it".into(),
                );
                let directory = std::path::absolute(&reading.model).unwrap_or_else(|_| reading.model.clone());
                Cow::Owned(directory.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
        };
        Ok(Self { request, notes, model })
    }

    /// Its tokens, and the border of their hashes.
    ///
    /// # Errors
    /// Why it has none.
    pub(super) fn tokenize(
        &'a self,
        tokenizer: &Tokenizer,
        reading: &'a Reading,
        now: SystemTime,
    ) -> Result<Tokenized<'a>, EncodeError> {
        let border = Seed {
            model: &self.model,
            revision: &reading.revision,
            adapter: match (&self.request.adapter, reading.adapter.as_str()) {
                (Some(adapter), "") => adapter,
                (_, adapter) => adapter,
            },
            tenant: &reading.tenant,
            cache_salt: "",
        };
        let rules = Rules { engine: reading.engine, trust_request_template: false };
        Tokenized::of(&self.request, tokenizer, border, rules, now)
    }
}

/// The API that the shape tells. What is no JSON object is left to the request's own reader to name.
fn guessed(body: &[u8], notes: &mut Vec<String>) -> Result<Api, String> {
    let Ok(json::Value::Object(object)) = json::parse(body) else { return Ok(Api::ChatCompletions) };
    let Guess { api, or } = shape::guess(&object).ok_or(
        "no known API: the body holds neither messages, prompt, input, query with documents nor texts to score; --path \
         names the API",
    )?;
    if let Some(or) = or {
        notes.push(format!("guessed_path: taken for {}; it may be for {} as well, --path says", api.path(), or.path()));
    }
    Ok(api)
}
