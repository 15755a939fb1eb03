//! `/v1/completions`: plain texts, or ids of tokens.
//!
//! In: the body's members; out: a [`Request`] with one or more prompts. A list of prompts stays a list: they are never
//! joined into one text.

use std::borrow::Cow;

use crate::{
    Api, NotUnderstood, Prompt, Request,
    fields::{Fields, lax_u64},
    json::Value,
};

/// What vLLM generates where the body sets no `max_tokens`.
const DEFAULT_MAX_TOKENS: u64 = 16;

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let embeds = body.value("prompt_embeds")?;
    if embeds.is_some_and(|embeds| embeds.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(NotUnderstood::PromptEmbeds);
    }
    let prompt = body.value("prompt")?.ok_or(NotUnderstood::NoPrompt)?;
    let (stream, include_usage) = body.stream()?;
    let add_special_tokens = body.truth("add_special_tokens", true)?;
    Ok(Request {
        api: Api::Completions,
        model: body.model()?,
        stream,
        include_usage,
        cache_salt: body.cache_salt()?,
        max_tokens: Some(body.count("max_tokens")?.unwrap_or(DEFAULT_MAX_TOKENS)),
        prompt: prompts(prompt, add_special_tokens)?,
    })
}

/// Reads `prompt` as vLLM's union of types would: a text, a list of texts, a list of ids, a list of lists of ids. A
/// list of ids may hold them in pydantic's lax spellings (`1.0`, `"1"`, `true`), unless all are strings.
pub(crate) fn prompts(prompt: Value<'_>, add_special_tokens: bool) -> Result<Prompt<'_>, NotUnderstood> {
    let items = match prompt {
        Value::Str(text) if text.is_empty() => return Err(NotUnderstood::NoPrompt),
        Value::Str(text) => return Ok(Prompt::Texts { texts: vec![text], add_special_tokens }),
        Value::Array(items) if items.is_empty() => return Err(NotUnderstood::NoPrompt),
        Value::Array(items) => items,
        other => return Err(NotUnderstood::BadPrompt { at: None, found: other.kind() }),
    };
    if items.iter().all(|item| matches!(item, Value::Str(_))) {
        let texts = items.into_iter().filter_map(into_text).collect();
        return Ok(Prompt::Texts { texts, add_special_tokens });
    }
    if matches!(items.first(), Some(Value::Array(_))) {
        let lists = items.iter().enumerate().map(|(at, item)| nested_ids(at, item));
        return Ok(Prompt::Tokens(lists.collect::<Result<_, _>>()?));
    }
    Ok(Prompt::Tokens(vec![ids(&items)?]))
}

fn into_text(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

fn nested_ids(at: usize, item: &Value<'_>) -> Result<Vec<u32>, NotUnderstood> {
    match item.as_array() {
        Some([]) => Err(NotUnderstood::NoPrompt),
        Some(list) => ids(list),
        None => Err(NotUnderstood::BadPrompt { at: Some(at), found: item.kind() }),
    }
}

fn ids(items: &[Value<'_>]) -> Result<Vec<u32>, NotUnderstood> {
    let id = |(at, item)| {
        lax_u64(item)
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| NotUnderstood::BadPrompt { at: Some(at), found: item.kind() })
    };
    items.iter().enumerate().map(id).collect()
}
