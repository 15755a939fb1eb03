//! A prompt's tokens, as the engine will see them.
//!
//! In: a [`request::Prompt`] and a model's files as bytes. Out: the messages as this template and engine take them,
//! the rendered text, and the token ids. This crate never reads a file, never asks the clock, and knows nothing of
//! endpoints or hashes.

mod encoder;
mod estimate;
mod files;
mod harmony;
mod media;
mod memo;
mod messages;
mod model;
mod requested;
mod template;
mod truncation;

pub use files::Files;
pub use memo::MemoStats;
pub use model::Model;
pub use template::{Fault, Template, TemplateError};

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use request::{Engine, Prompt, Truncation};

/// What a model remembers at most by default, in bytes: some thirty-five conversations of 100,000 tokens.
pub const DEFAULT_MEMO_BYTES: usize = 64 << 20;

/// What turns prompts into token ids: a model's own encoder and template, or an estimate.
#[derive(Debug)]
pub enum Tokenizer {
    /// A model's files.
    Model(Box<Model>),
    /// Four bytes of canonical text a token, for models whose files aren't at hand.
    Estimate,
}

/// What an encoding needs to know of the world.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The engine whose text and tokens are to be met.
    pub engine: Engine,
    /// How much of each prompt is read (vLLM's `truncate_prompt_tokens`).
    pub truncation: Option<Truncation>,
    /// What `strftime_now` prints, in UTC, as engines in containers have it.
    pub now: SystemTime,
    /// Whether a template that comes in the request is run (vLLM's `--trust-request-chat-template`).
    pub trust_request_template: bool,
    /// Whether tools are left out where `tool_choice` is `none` (vLLM's `--exclude-tools-when-tool-choice-none`).
    pub exclude_tools_when_tool_choice_none: bool,
}

impl Context {
    /// vLLM's defaults, at `now`.
    pub fn at(now: SystemTime) -> Context {
        Context {
            engine: Engine::Vllm,
            truncation: None,
            now,
            trust_request_template: false,
            exclude_tools_when_tool_choice_none: false,
        }
    }
}

/// A prompt in tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded {
    /// The token ids of each prompt of the request, in order.
    pub prompts: Vec<Vec<u32>>,
    /// A chat's text as the template rendered it, or the canonical text of an estimate.
    pub rendered: Option<String>,
    /// The ids are an estimate: four bytes of canonical text each.
    pub estimated: bool,
    /// The engine will put further tokens in the place of images, sounds or films, which aren't counted here.
    pub multimodal: bool,
    /// Why the engine's tokens may be others, where that can't be told here.
    pub inexact: Option<&'static str>,
    /// The images, sounds and films of a chat, in order; a chat is the only prompt of its request.
    pub media: Vec<Medium>,
    /// How much of the time went into the text of a chat; the rest into its tokens. Zero where the two aren't apart.
    pub rendering: Duration,
}

/// An image, a sound or a film in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Of its address or its data, or of the name that the client gave it.
    pub hash: u64,
    /// Where its placeholder begins, or something before it; `None` where that isn't known, so that it may stand anywhere.
    pub place: Option<Place>,
}

/// A place in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In the rendered text, in bytes.
    pub byte: usize,
    /// In the token ids.
    pub token: usize,
}

impl Encoded {
    /// All tokens of all prompts.
    pub fn tokens(&self) -> usize {
        self.prompts.iter().map(Vec::len).sum()
    }
}

/// Why a model's files can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is neither `tokenizer.json` nor `tokenizer.json.xz`.
    #[error("neither tokenizer.json nor tokenizer.json.xz is there")]
    NoTokenizer,
    /// `tokenizer.json` isn't a tokenizer that can be loaded.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
    /// `tokenizer_config.json` isn't a JSON object.
    #[error("tokenizer_config.json: {0}")]
    Config(String),
}

/// Why a prompt has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The model's files hold no template for this chat. The names of those that are there.
    #[error("no chat template for this request; named templates: {0:?}")]
    NoTemplate(Vec<String>),
    /// The request brings a template of its own, which isn't run.
    #[error("the request brings its own chat template, which this picker doesn't run")]
    RequestTemplate,
    /// The messages are such as the engine refuses.
    #[error("messages: {0}")]
    Messages(Cow<'static, str>),
    /// The template didn't render these messages.
    #[error("chat template: {0}")]
    Template(TemplateError),
    /// The tokenizer failed.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
}

impl EncodeError {
    /// A short name for metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            EncodeError::NoTemplate(_) => "no_template",
            EncodeError::RequestTemplate => "request_template",
            EncodeError::Messages(_) => "bad_messages",
            EncodeError::Template(error) => error.fault.as_str(),
            EncodeError::Tokenizer(_) => "tokenizer_failed",
        }
    }
}

impl Tokenizer {
    /// Loads a model's files. Takes about a second of CPU: call it off the async threads.
    ///
    /// # Errors
    /// Where the tokenizer can't be loaded or the configuration isn't JSON. A template that is missing or broken is no
    /// error here, since completions don't need it: see [`Tokenizer::warnings`].
    pub fn load(files: Files) -> Result<Tokenizer, LoadError> {
        Tokenizer::load_with(files, DEFAULT_MEMO_BYTES)
    }

    /// As [`Tokenizer::load`], remembering the texts of messages and the ids of texts within `memo_bytes`; 0 remembers nothing.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn load_with(files: Files, memo_bytes: usize) -> Result<Tokenizer, LoadError> {
        Ok(Tokenizer::Model(Box::new(Model::load(files, memo_bytes)?)))
    }

    /// The estimate: for models whose files aren't at hand.
    pub fn estimate() -> Tokenizer {
        Tokenizer::Estimate
    }

    /// What an operator should hear about the model's files: no template, one that doesn't compile, slow encoding.
    pub fn warnings(&self) -> &[String] {
        match self {
            Tokenizer::Model(model) => model.warnings(),
            Tokenizer::Estimate => &[],
        }
    }

    /// The tokens of a prompt. CPU work: about a microsecond a token where nothing is remembered.
    ///
    /// # Errors
    /// Where the engine would refuse the messages, or no template renders them.
    pub fn encode(&self, prompt: &Prompt<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        match self {
            Tokenizer::Model(model) => model.encode(prompt, context),
            Tokenizer::Estimate => estimate::encode(prompt, context),
        }
    }
}
