//! Prompts outside of chats: a text, a list of texts, ids of tokens, lists of ids.
//!
//! In: the member that holds them; out: a [`Prompt`]. Texts are never joined, ids never printed.

use std::borrow::Cow;

use crate::{NotUnderstood, Prompt, fields::lax_u64, json::Value};

/// Reads the value of `key` as vLLM's union of types would: a text, a list of texts, a list of ids, a list of lists of ids. A
/// list of ids may hold them in pydantic's lax spellings (`1.0`, `"1"`, `true`), unless all are strings.
pub(crate) fn prompts<'a>(
    key: &'static str,
    prompt: Option<Value<'a>>,
    add_special_tokens: bool,
) -> Result<Prompt<'a>, NotUnderstood> {
    let items = match prompt {
        None => return Err(NotUnderstood::NoPrompt { key }),
        Some(Value::Str(text)) if text.is_empty() => return Err(NotUnderstood::NoPrompt { key }),
        Some(Value::Str(text)) => return Ok(Prompt::Texts { texts: vec![text], add_special_tokens }),
        Some(Value::Array(items)) if items.is_empty() => return Err(NotUnderstood::NoPrompt { key }),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(NotUnderstood::BadPrompt { key, at: None, found: other.kind() }),
    };
    if items.iter().all(|item| matches!(item, Value::Str(_))) {
        let texts = items.into_iter().filter_map(into_text).collect();
        return Ok(Prompt::Texts { texts, add_special_tokens });
    }
    if matches!(items.first(), Some(Value::Array(_))) {
        let lists = items.iter().enumerate().map(|(at, item)| nested_ids(key, at, item));
        return Ok(Prompt::Tokens(lists.collect::<Result<_, _>>()?));
    }
    Ok(Prompt::Tokens(vec![ids(key, &items)?]))
}

/// Reads the value of `key` as a text or a list of texts.
pub(crate) fn texts<'a>(key: &'static str, value: Option<Value<'a>>) -> Result<Vec<Cow<'a, str>>, NotUnderstood> {
    let items = match value {
        None => return Err(NotUnderstood::NoPrompt { key }),
        Some(Value::Array(items)) if items.is_empty() => return Err(NotUnderstood::NoPrompt { key }),
        Some(Value::Array(items)) => items,
        Some(single) => vec![single],
    };
    let text = |(at, item)| match item {
        Value::Str(text) => Ok(text),
        other => Err(NotUnderstood::BadPrompt { key, at: Some(at), found: other.kind() }),
    };
    items.into_iter().enumerate().map(text).collect()
}

fn into_text(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

fn nested_ids(key: &'static str, at: usize, item: &Value<'_>) -> Result<Vec<u32>, NotUnderstood> {
    match item.as_array() {
        Some([]) => Err(NotUnderstood::NoPrompt { key }),
        Some(list) => ids(key, list),
        None => Err(NotUnderstood::BadPrompt { key, at: Some(at), found: item.kind() }),
    }
}

pub(crate) fn ids(key: &'static str, items: &[Value<'_>]) -> Result<Vec<u32>, NotUnderstood> {
    let id = |(at, item)| {
        lax_u64(item).and_then(|id| u32::try_from(id).ok()).ok_or_else(|| NotUnderstood::BadPrompt {
            key,
            at: Some(at),
            found: item.kind(),
        })
    };
    items.iter().enumerate().map(id).collect()
}
