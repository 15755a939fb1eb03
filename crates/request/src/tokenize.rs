//! vLLM's `/tokenize`: what a text or a chat would be as tokens.
//!
//! In: the body's members; out: a [`Request`] that fills no cache, since nothing is computed.

use crate::{Api, NotUnderstood, Prompt, Request, chat::chat, fields::Fields};

pub(crate) fn read(mut body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    let messages = body.list("messages")?;
    let prompt = match body.text("prompt")? {
        // Of both, vLLM takes the text.
        Some(text) => Prompt::Texts { texts: vec![text], add_special_tokens: body.truth("add_special_tokens", true)? },
        None if messages.is_some() => Prompt::Chat(chat(&mut body, messages, true)?),
        None => return Err(NotUnderstood::NoPrompt { key: "prompt" }),
    };
    Ok(Request {
        cache_salt: None,
        truncation: None,
        fills_cache: false,
        ..Request::reading(Api::Tokenize, body, prompt)?
    })
}
