//! `/v1/completions`: plain texts, or ids of tokens.
//!
//! In: the body's members; out: a [`Request`] with one or more prompts. A list of prompts stays a list: they are never
//! joined into one text.

use crate::{Api, End, NotUnderstood, Request, fields::Fields, inputs};

/// What vLLM generates where the body sets no `max_tokens`.
pub(crate) const DEFAULT_MAX_TOKENS: u64 = 16;

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let embeds = body.value("prompt_embeds")?;
    if embeds.is_some_and(|embeds| embeds.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(NotUnderstood::PromptEmbeds);
    }
    let prompt = body.value("prompt")?;
    let (stream, include_usage) = body.stream()?;
    let add_special_tokens = body.truth("add_special_tokens", true)?;
    Ok(Request {
        api: Api::Completions,
        model: body.model()?,
        stream,
        include_usage,
        cache_salt: body.cache_salt()?,
        adapter: None,
        truncation: body.truncation(End::Last)?,
        max_tokens: Some(body.count("max_tokens")?.unwrap_or(DEFAULT_MAX_TOKENS)),
        fills_cache: true,
        prompt: inputs::prompts("prompt", prompt, add_special_tokens)?,
    })
}
