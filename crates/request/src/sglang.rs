//! Bodies as SGLang reads them, where that isn't as vLLM does (its `entrypoints/openai/protocol.py` and `serving_*.py`).
//!
//! In: the body's members; out: a [`Request`]. Members that SGLang doesn't know are left aside as it leaves them:
//! `documents`, `chat_template`, `add_generation_prompt`, `add_special_tokens`, `truncate_prompt_tokens`. What parts
//! caches of SGLang is `cache_salt` with `extra_key` behind it, and the adapter of `lora_path`.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use std::borrow::Cow;

use crate::{Api, Chat, NotUnderstood, Prompt, Request, completions::DEFAULT_MAX_TOKENS, fields::Fields, inputs};

pub(crate) fn completions(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let prompt = body.value("prompt")?;
    let (stream, include_usage) = body.stream()?;
    let max_tokens = Some(body.count("max_tokens")?.unwrap_or(DEFAULT_MAX_TOKENS));
    let prompt = inputs::prompts("prompt", prompt, true)?;
    Ok(Request { stream, include_usage, max_tokens, ..request(Api::Completions, body, prompt)? })
}

/// A request that asks for no stream and sets no bound, with what all of them have in common.
fn request<'a>(api: Api, mut body: Fields<'a>, prompt: Prompt<'a>) -> Result<Request<'a>, NotUnderstood> {
    Ok(Request {
        api,
        model: body.model()?,
        prompt,
        stream: false,
        include_usage: false,
        cache_salt: salt(&mut body)?,
        adapter: body.text("lora_path")?.filter(|adapter| !adapter.is_empty()),
        truncation: None,
        fills_cache: true,
        max_tokens: None,
    })
}

/// What parts caches: both keys, one behind the other.
fn salt<'a>(body: &mut Fields<'a>) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
    let salt = body.text("cache_salt")?.filter(|salt| !salt.is_empty());
    let extra = body.text("extra_key")?.filter(|extra| !extra.is_empty());
    Ok(match (salt, extra) {
        (Some(salt), Some(extra)) => Some(Cow::Owned(format!("{salt}{extra}"))),
        (salt, extra) => salt.or(extra),
    })
}

/// A chat of these messages with everything else as SGLang has it by default.
fn plain(messages: Vec<crate::json::Value<'_>>) -> Chat<'_> {
    Chat {
        messages,
        tools: None,
        documents: None,
        template_kwargs: crate::json::Object::default(),
        template: None,
        add_generation_prompt: true,
        continue_final_message: false,
        add_special_tokens: false,
        reasoning_effort: None,
        tool_choice_none: false,
        by_responses: false,
    }
}
