//! `/v1/embeddings`: texts, ids of tokens, or a chat to embed.
//!
//! In: the body's members; out: a [`Request`] that generates nothing. A chat stands under `messages`, or under `input`
//! as a list of messages; vLLM's defaults for it differ from those of `/v1/chat/completions`.

use crate::{Api, NotUnderstood, Prompt, Request, chat::chat, fields::Fields, inputs, json::Value};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let messages = body.list("messages")?;
    let input = body.value("input")?;
    let prompt = match (messages, input) {
        (None, Some(Value::Array(items))) if is_messages(&items) => Prompt::Chat(chat(&mut body, Some(items), false)?),
        (None, input) => inputs::prompts("input", input, body.truth("add_special_tokens", true)?)?,
        (messages, _) => Prompt::Chat(chat(&mut body, messages, false)?),
    };
    Request::reading(Api::Embeddings, body, prompt)
}

fn is_messages(items: &[Value<'_>]) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get("role").is_some_and(|role| role.as_str().is_some()))
}
