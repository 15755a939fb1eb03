//! Which API a body is for, told by its shape: a file has no path.
//!
//! In: the body as JSON; out: the API, and what speaks for another; or that nothing tells.

use request::Api;
use request::json::{Object, Value};

/// What a body looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    /// The API.
    pub(super) api: Api,
    /// The one that would take such a body as well.
    pub(super) or: Option<Api>,
}

/// Members that only Anthropic's bodies have.
const ANTHROPIC: [&str; 3] = ["system", "stop_sequences", "anthropic_version"];

/// Members that only embeddings' bodies have.
const EMBEDDINGS: [&str; 3] = ["encoding_format", "dimensions", "add_special_tokens"];

/// Members that only Responses' bodies have.
const RESPONSES: [&str; 9] = [
    "instructions",
    "max_output_tokens",
    "reasoning",
    "text",
    "tools",
    "store",
    "stream",
    "temperature",
    "previous_response_id",
];

/// The pairs of texts that are scored.
const PAIRS: [[&str; 2]; 4] =
    [["queries", "documents"], ["queries", "items"], ["data_1", "data_2"], ["text_1", "text_2"]];

/// Guesses; `None` where the body has none of the members that hold a prompt.
pub(super) fn guess(body: &Object<'_>) -> Option<Guess> {
    let has = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    let sure = |api| Some(Guess { api, or: None });
    if has("messages") {
        let anthropic = ANTHROPIC.into_iter().any(has) || blocks_of_anthropic(body);
        return sure(if anthropic { Api::Messages } else { Api::ChatCompletions });
    }
    if has("input") {
        return Some(of_input(body, &has));
    }
    if has("prompt") {
        return sure(Api::Completions);
    }
    if has("query") && has("documents") {
        return sure(Api::Rerank);
    }
    PAIRS.iter().any(|pair| pair.iter().all(|key| has(key))).then_some(Guess { api: Api::Score, or: None })
}

fn of_input(body: &Object<'_>, has: &impl Fn(&str) -> bool) -> Guess {
    let items = body.get("input").and_then(Value::as_array);
    let only_values = items.is_some_and(|items| !items.iter().any(|item| item.as_object().is_some()));
    let told = RESPONSES.into_iter().any(has) || items.is_some();
    if only_values || EMBEDDINGS.into_iter().any(has) {
        Guess { api: Api::Embeddings, or: None }
    } else {
        Guess { api: Api::Responses, or: (!told).then_some(Api::Embeddings) }
    }
}

/// Tools with an `input_schema`, or contents of kinds that OpenAI doesn't have.
fn blocks_of_anthropic(body: &Object<'_>) -> bool {
    let list = |value: Option<&Value<'_>>| value.and_then(Value::as_array).map_or(0, <[_]>::len);
    let tools = body.get("tools").and_then(Value::as_array).unwrap_or_default();
    let messages = body.get("messages").and_then(Value::as_array).unwrap_or_default();
    let contents = messages.iter().filter(|message| list(message.get("content")) > 0);
    let mut blocks = contents.filter_map(|message| message.get("content")?.as_array()).flatten();
    tools.iter().any(|tool| tool.get("input_schema").is_some())
        || blocks.any(|block| {
            let kind = block.get("type").and_then(Value::as_str);
            match kind {
                Some("image") => block.get("source").is_some(),
                _ => matches!(kind, Some("tool_use" | "tool_result" | "redacted_thinking")),
            }
        })
}

#[cfg(test)]
mod tests {
    use request::json;

    use super::*;

    fn check(body: &str, expected: &str) {
        let body = json::parse(body.as_bytes()).expect("JSON");
        let said = match guess(body.as_object().expect("an object")) {
            Some(Guess { api, or: None }) => api.path().to_owned(),
            Some(Guess { api, or: Some(or) }) => format!("{} or {}", api.path(), or.path()),
            None => "nothing".to_owned(),
        };
        assert_eq!(said, expected, "{body:?}");
    }

    #[test]
    fn the_shape_tells_the_api() {
        check(r#"{"messages":[{"role":"user","content":"x"}]}"#, "/v1/chat/completions");
        check(r#"{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}"#, "/v1/chat/completions");
        check(r#"{"messages":[],"system":"x"}"#, "/v1/messages");
        check(r#"{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}"#, "/v1/messages");
        check(r#"{"messages":[],"tools":[{"name":"f","input_schema":{}}]}"#, "/v1/messages");
        check(r#"{"prompt":["a","b"]}"#, "/v1/completions");
        check(r#"{"input":"x","instructions":"y"}"#, "/v1/responses");
        check(r#"{"input":[{"role":"user","content":"x"}]}"#, "/v1/responses");
        check(r#"{"input":["x"]}"#, "/v1/embeddings");
        check(r#"{"input":"x","encoding_format":"float"}"#, "/v1/embeddings");
        check(r#"{"input":"x"}"#, "/v1/responses or /v1/embeddings");
        check(r#"{"query":"x","documents":["y"]}"#, "/rerank");
        check(r#"{"text_1":"x","text_2":"y"}"#, "/score");
        check(r#"{"model":"m","messages":null}"#, "nothing");
    }
}
