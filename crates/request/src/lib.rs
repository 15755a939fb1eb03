//! What is asked, and what was answered.
//!
//! In: a path and body bytes; out: a [`Request`] that borrows from them. In: answer bytes, however cut; out: usage and
//! the first content. This crate never knows HTTP transport, protobuf or endpoints, and never changes a byte.

pub mod json;

use std::borrow::Cow;

use json::Value;

/// Which of the engines' APIs a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
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
    /// The client's own border around what may be shared in the cache.
    pub cache_salt: Option<Cow<'a, str>>,
    /// `max_completion_tokens` or `max_tokens`.
    pub max_tokens: Option<u64>,
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
    /// The messages, each a JSON object with a string `role` (checked).
    pub messages: Vec<Value<'a>>,
    /// `tools`, if a list.
    pub tools: Option<Vec<Value<'a>>>,
    /// `documents`, if a list.
    pub documents: Option<Vec<Value<'a>>>,
    /// `chat_template_kwargs`, an object; empty if absent or null.
    pub template_kwargs: json::Object<'a>,
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
}
