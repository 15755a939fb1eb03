//! What is asked, and what was answered.
//!
//! In: a path and body bytes; out: a [`Request`] that borrows from them. In: answer bytes, however cut; out: usage and
//! the first content. This crate never knows HTTP transport, protobuf or endpoints, and never changes a byte.

pub mod json;

mod answer;
mod chat;
mod completions;
mod embeddings;
mod encoding;
mod engine;
mod fields;
mod inputs;
mod messages;
mod name_back;
mod not_understood;
mod rename;
mod responses;
mod scoring;
mod sglang;
mod sse;
mod tokenize;
mod usage;
mod whole;

use std::borrow::Cow;

pub use answer::{Answer, Seen};
pub use encoding::decode_body;
pub use engine::Engine;
pub use name_back::NameBack;
pub use not_understood::NotUnderstood;
pub use rename::rename_model;
pub use usage::Usage;

use fields::Fields;
use json::{Object, Value};

/// Reads a request: `path` as it stands in the request line, `body` as it came (content coding undone by
/// [`decode_body`]).
///
/// # Errors
/// [`NotUnderstood`] where the path is none that we know, or where the engine would answer 400 for the prompt's sake:
/// the request is then to be passed on as it is.
pub fn parse<'a>(path: &str, body: &'a [u8]) -> Result<Request<'a>, NotUnderstood> {
    parse_for(Engine::Vllm, path, body)
}

/// As [`parse`], for an engine that may not be vLLM.
///
/// # Errors
/// As [`parse`].
pub fn parse_for<'a>(engine: Engine, path: &str, body: &'a [u8]) -> Result<Request<'a>, NotUnderstood> {
    let (api, sub_path) = Api::split(path).ok_or(NotUnderstood::UnknownPath)?;
    let fields = Fields::new(object(body)?);
    let mut request = match (api, engine) {
        (Api::ChatCompletions, Engine::Vllm) => chat::read(fields),
        (Api::ChatCompletions, Engine::Sglang) => sglang::chat::read(fields),
        (Api::Completions, Engine::Vllm) => completions::read(fields),
        (Api::Completions, Engine::Sglang) => sglang::completions(fields),
        (Api::Responses, Engine::Vllm) => responses::read(fields),
        (Api::Responses, Engine::Sglang) => sglang::responses::read(fields),
        (Api::Messages, Engine::Vllm) => messages::read(fields),
        (Api::Messages, Engine::Sglang) => sglang::messages::read(fields),
        (Api::Embeddings, _) => embeddings::read(fields),
        (Api::Score, _) => scoring::read_score(fields),
        (Api::Rerank, _) => scoring::read_rerank(fields),
        (Api::Tokenize, _) => tokenize::read(fields),
    }?;
    request.fills_cache &= sub_path.is_empty();
    Ok(request)
}

fn object(body: &[u8]) -> Result<Object<'_>, NotUnderstood> {
    if body.is_empty() {
        return Err(NotUnderstood::NoBody);
    }
    match json::parse(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(NotUnderstood::NotAnObject { found: other.kind() }),
        Err(json::Error { fault: json::Fault::TooDeep, .. }) => Err(NotUnderstood::TooDeep),
        Err(error) => Err(NotUnderstood::NotJson(error)),
    }
}

/// Which of the engines' APIs a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// Anthropic's `/v1/messages`
    Messages,
    /// `/v1/embeddings`
    Embeddings,
    /// `/score`, with or without `/v1`
    Score,
    /// `/rerank`, with or without `/v1` or `/v2`
    Rerank,
    /// vLLM's `/tokenize`
    Tokenize,
}

impl Api {
    /// Every API.
    pub const ALL: [Api; 8] = [
        Api::ChatCompletions,
        Api::Completions,
        Api::Responses,
        Api::Messages,
        Api::Embeddings,
        Api::Score,
        Api::Rerank,
        Api::Tokenize,
    ];

    /// The path that belongs to the API, without prefix.
    pub fn path(self) -> &'static str {
        match self {
            Api::ChatCompletions => "/v1/chat/completions",
            Api::Completions => "/v1/completions",
            Api::Responses => "/v1/responses",
            Api::Messages => "/v1/messages",
            Api::Embeddings => "/v1/embeddings",
            Api::Score => "/score",
            Api::Rerank => "/rerank",
            Api::Tokenize => "/tokenize",
        }
    }

    /// The API as a label: a word in snake_case.
    pub fn as_str(self) -> &'static str {
        match self {
            Api::ChatCompletions => "chat_completions",
            Api::Completions => "completions",
            Api::Responses => "responses",
            Api::Messages => "messages",
            Api::Embeddings => "embeddings",
            Api::Score => "score",
            Api::Rerank => "rerank",
            Api::Tokenize => "tokenize",
        }
    }

    /// The API that `path` belongs to. The query is left aside, a prefix before the API's path and sub-paths such as
    /// `/render` are allowed.
    pub fn of(path: &str) -> Option<Api> {
        Api::split(path).map(|(api, _)| api)
    }

    /// The API and what follows its path: nothing, or a sub-path with its slash.
    fn split(path: &str) -> Option<(Api, &str)> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        Api::ALL.into_iter().find_map(|api| {
            let mut ends = path.match_indices(api.path()).map(|(at, found)| &path[at + found.len()..]);
            ends.find(|rest| rest.is_empty() || rest.starts_with('/')).map(|rest| (api, rest))
        })
    }
}

/// One parsed request. Strings borrow from the body where JSON needed no unescaping.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The API asked.
    pub api: Api,
    /// The model asked for; `None` where the body names none (or null, or an empty string).
    pub model: Option<Cow<'a, str>>,
    /// What the engine is to read.
    pub prompt: Prompt<'a>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether a streamed answer will carry usage.
    pub include_usage: bool,
    /// The client's own border around what may be shared in the cache (for SGLang its `extra_key` with it).
    pub cache_salt: Option<Cow<'a, str>>,
    /// An adapter that the body names apart from the model: SGLang's `lora_path`, or what stands behind the colon in its
    /// `model`. `None` for vLLM, whose adapters are models by name.
    pub adapter: Option<Cow<'a, str>>,
    /// What of each prompt is read, where not all of it (vLLM's `truncate_prompt_tokens`).
    pub truncation: Option<Truncation>,
    /// Whether the engine will compute the prompt, so that its cache holds it afterwards. False for paths that only
    /// look at it: `/tokenize`, and sub-paths such as `/render` and `/count_tokens`.
    pub fills_cache: bool,
    /// How many tokens may be generated: chat's `max_completion_tokens`, else `max_tokens`, else (completions) 16; Responses'
    /// `max_output_tokens`. `None` where nothing is generated or no bound is set.
    pub max_tokens: Option<u64>,
}

impl<'a> Request<'a> {
    /// A request that vLLM reads and generates nothing for.
    fn reading(api: Api, mut body: Fields<'a>, prompt: Prompt<'a>) -> Result<Self, NotUnderstood> {
        Ok(Request {
            api,
            model: body.model()?,
            prompt,
            stream: false,
            include_usage: false,
            cache_salt: body.cache_salt()?,
            adapter: None,
            truncation: body.truncation(End::First)?,
            fills_cache: true,
            max_tokens: None,
        })
    }
}

/// How much of a prompt is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// So many tokens, special ones among them; `None` for as many as the engine takes, which no body tells.
    pub tokens: Option<usize>,
    /// Which ones are kept.
    pub kept: End,
}

/// An end of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its first tokens.
    First,
    /// Its last tokens.
    Last,
}

/// What the engine is to read, before templates and tokens.
#[derive(Clone, Debug)]
pub enum Prompt<'a> {
    /// Messages for a chat template.
    Chat(Chat<'a>),
    /// Plain texts, each a prompt of its own.
    Texts {
        /// The prompts.
        texts: Vec<Cow<'a, str>>,
        /// Whether the tokenizer adds its special tokens (default true for completions).
        add_special_tokens: bool,
    },
    /// Prompts that the client tokenized itself.
    Tokens(Vec<Vec<u32>>),
}

/// A chat as the client sent it: not cleaned up yet, which depends on the engine and the template.
#[derive(Clone, Debug)]
pub struct Chat<'a> {
    /// The messages, each a JSON object with a string `role`; `content` is absent, null, a string or a
    /// list of strings and objects; `tool_calls` are absent, null or a list of objects with a `function` that has a
    /// `name` (checked). There may be none: some engines refuse that, some don't.
    pub messages: Vec<Value<'a>>,
    /// `tools`: objects with a `function` that has a `name` (checked). `None` if absent or null.
    pub tools: Option<Vec<Value<'a>>>,
    /// `documents`: objects (checked). `None` if absent or null.
    pub documents: Option<Vec<Value<'a>>>,
    /// `chat_template_kwargs`, an object; empty if absent or null.
    pub template_kwargs: Object<'a>,
    /// `chat_template`: a template that came in the request. Not run unless the operator allows it.
    pub template: Option<Cow<'a, str>>,
    /// Default true.
    pub add_generation_prompt: bool,
    /// Default false.
    pub continue_final_message: bool,
    /// Default false: the template prints the special tokens itself.
    pub add_special_tokens: bool,
    /// `reasoning_effort`, which vLLM hands to the template.
    pub reasoning_effort: Option<Cow<'a, str>>,
    /// `tool_choice` is the string `none`.
    pub tool_choice_none: bool,
    /// It came by the Responses API, which some models have a format of their own for.
    pub by_responses: bool,
}
