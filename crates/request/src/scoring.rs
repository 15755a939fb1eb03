//! `/score` and `/rerank`: texts compared with texts.
//!
//! In: the body's members; out: a [`Request`] whose texts are each a prompt of its own, the queries first: as a model
//! reads them that embeds both sides. A model that reads query and document as one text reads another one, which no
//! body tells.

use std::borrow::Cow;

use crate::{Api, NotUnderstood, Prompt, Request, fields::Fields, inputs};

/// The names of the two sides; vLLM takes any of these pairs.
const SIDES: [(&str, &str); 4] =
    [("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2")];

pub(crate) fn read_score(body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    for (left, right) in SIDES {
        if body.has(left) && body.has(right) {
            return request(Api::Score, body, left, right);
        }
    }
    Err(NotUnderstood::NoPrompt { key: "text_1" })
}

pub(crate) fn read_rerank(body: Fields<'_>) -> Result<Request<'_>, NotUnderstood> {
    request(Api::Rerank, body, "query", "documents")
}

fn request<'a>(
    api: Api,
    mut body: Fields<'a>,
    left: &'static str,
    right: &'static str,
) -> Result<Request<'a>, NotUnderstood> {
    let mut texts: Vec<Cow<'a, str>> = inputs::texts(left, body.value(left)?)?;
    texts.append(&mut inputs::texts(right, body.value(right)?)?);
    Request::reading(api, body, Prompt::Texts { texts, add_special_tokens: true })
}
