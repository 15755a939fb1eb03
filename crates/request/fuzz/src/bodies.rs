//! Requests of every API.
//!
//! In: a pen; out: a path and a body as clients send them, with every member that a reader looks at.

use request::Api;

use crate::pen::{ALWAYS, OFTEN, Pen, SELDOM};

/// A path, and a body for it written with the pen.
pub fn request(pen: &mut Pen<'_, '_>) -> String {
    let api = Api::ALL[pen.below(Api::ALL.len())];
    let before = pen.choose(&["", "", "/v1", "/v2", "/pool/a"]);
    let after = pen.choose(&["", "", "", "?a=/score", "#x", "/render", "/count_tokens?b"]);
    match api {
        Api::ChatCompletions => chat(pen),
        Api::Completions => completions(pen),
        Api::Responses => responses(pen),
        Api::Messages => anthropic(pen),
        Api::Embeddings => embeddings(pen),
        Api::Score => score(pen),
        Api::Rerank => rerank(pen),
        Api::Tokenize => tokenize(pen),
    }
    pen.spoil(96);
    format!("{before}{}{after}", api.path())
}

/// A body of `/v1/chat/completions`.
pub fn chat(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("messages", ALWAYS, &messages),
        ("model", OFTEN, &|pen| pen.some_text()),
        ("tools", SELDOM * 2, &|pen| pen.list(0, &tool)),
        ("stream", SELDOM, &|pen| pen.truth()),
        ("stream_options", SELDOM, &|pen| pen.object(&[("include_usage", OFTEN, &|pen| pen.truth())])),
        ("documents", SELDOM, &|pen| pen.list(0, &|pen| pen.any_object())),
        ("chat_template_kwargs", SELDOM * 2, &arguments),
        ("chat_template", SELDOM / 2, &|pen| {
            pen.one_of(&["{{ messages }}", "{% for m in messages %}{{ m|tojson }}{% endfor %}"])
        }),
        ("add_generation_prompt", SELDOM, &|pen| pen.truth()),
        ("continue_final_message", SELDOM, &|pen| pen.truth()),
        ("add_special_tokens", SELDOM, &|pen| pen.truth()),
        ("reasoning_effort", SELDOM, &|pen| pen.one_of(&["low", "none", "high"])),
        ("tool_choice", SELDOM, &|pen| pen.one_of(&["none", "auto"])),
        ("cache_salt", SELDOM, &salt),
        ("max_tokens", SELDOM, &count),
        ("max_completion_tokens", SELDOM, &count),
    ]);
}

/// Messages of a chat.
pub fn messages(pen: &mut Pen<'_, '_>) {
    pen.list(1, &message);
}

/// A tool as chat completions have it.
pub fn tool(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("type", OFTEN, &|pen| pen.text("function")),
        ("function", ALWAYS, &function),
        ("defer_loading", SELDOM, &|pen| pen.truth()),
    ]);
}

/// What a request hands to the template.
pub fn arguments(pen: &mut Pen<'_, '_>) {
    pen.object(&[("enable_thinking", OFTEN, &|pen| pen.truth()), ("x", SELDOM, &|pen| pen.any())]);
}

fn message(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("role", ALWAYS, &|pen| pen.one_of(&["user", "assistant", "system", "tool", "developer", "user", "assistant"])),
        ("content", 240, &content),
        ("tool_calls", SELDOM, &|pen| pen.list(0, &tool_call)),
        ("reasoning_content", SELDOM, &|pen| pen.some_text()),
        ("reasoning", SELDOM, &|pen| pen.some_text()),
        ("tool_call_id", SELDOM, &|pen| pen.some_text()),
        ("name", SELDOM, &|pen| pen.some_text()),
        ("tools", SELDOM / 2, &|pen| pen.any()),
    ]);
}

fn content(pen: &mut Pen<'_, '_>) {
    match pen.below(16) {
        0..10 => pen.some_text(),
        10 => pen.push("null"),
        _ => pen.list(0, &part),
    }
}

fn part(pen: &mut Pen<'_, '_>) {
    if pen.one_in(8) {
        return pen.some_text();
    }
    let kinds = [
        "text",
        "text",
        "text",
        "input_text",
        "output_text",
        "refusal",
        "thinking",
        "image_url",
        "input_image",
        "input_audio",
        "audio_url",
        "video_url",
        "file",
        "tool_reference",
        "image_pil",
        "image_embeds",
    ];
    let kind = pen.choose(&kinds);
    pen.object(&[
        ("type", 250, &|pen| pen.text(kind)),
        ("text", 200, &|pen| pen.some_text()),
        ("image_url", OFTEN, &|pen| {
            if pen.one_in(2) { pen.some_text() } else { pen.object(&[("url", ALWAYS, &|pen| pen.some_text())]) }
        }),
        ("input_audio", SELDOM, &|pen| {
            pen.object(&[("data", ALWAYS, &|pen| pen.some_text()), ("format", OFTEN, &|pen| pen.some_text())])
        }),
        (kind, OFTEN, &|pen| pen.any()),
        ("name", SELDOM, &|pen| pen.some_text()),
        ("uuid", SELDOM / 2, &|pen| pen.some_text()),
    ]);
}

fn tool_call(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("id", OFTEN, &|pen| pen.some_text()),
        ("type", OFTEN, &|pen| pen.text("function")),
        ("function", ALWAYS, &|pen| {
            pen.object(&[
                ("name", ALWAYS, &|pen| pen.some_text()),
                ("arguments", 240, &|pen| match pen.below(4) {
                    0 => pen.one_of(&["{}", "{\"city\": \"Köln\", \"n\": 1.0}", "{\"a\": [NaN]", "[1]", ""]),
                    1 | 2 => pen.any_object(),
                    _ => pen.any(),
                }),
            ]);
        }),
    ]);
}

fn function(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("name", ALWAYS, &|pen| pen.some_text()),
        ("description", OFTEN, &|pen| pen.some_text()),
        ("parameters", OFTEN, &|pen| pen.any_object()),
        ("strict", SELDOM, &|pen| pen.truth()),
    ]);
}

fn salt(pen: &mut Pen<'_, '_>) {
    pen.one_of(&["a", "b"]);
}

fn count(pen: &mut Pen<'_, '_>) {
    let count = pen.choose(&["16", "0", "1.0", "\"7\"", "true", "18446744073709551615"]);
    pen.push(count);
}

fn texts(pen: &mut Pen<'_, '_>) {
    if pen.one_in(2) { pen.list(1, &|pen| pen.some_text()) } else { pen.some_text() }
}

/// A prompt outside of chats.
fn prompt(pen: &mut Pen<'_, '_>) {
    match pen.below(5) {
        0 => pen.one_of(&["hi"]),
        1 => pen.some_text(),
        2 => pen.list(1, &|pen| pen.some_text()),
        3 => pen.list(1, &count),
        _ => pen.list(1, &|pen| pen.list(1, &count)),
    }
}

fn completions(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("prompt", ALWAYS, &prompt),
        ("model", OFTEN, &|pen| pen.some_text()),
        ("stream", SELDOM, &|pen| pen.truth()),
        ("add_special_tokens", SELDOM, &|pen| pen.truth()),
        ("prompt_embeds", 4, &|pen| pen.any()),
        ("cache_salt", SELDOM, &salt),
        ("max_tokens", SELDOM, &count),
    ]);
}

fn embeddings(pen: &mut Pen<'_, '_>) {
    if pen.one_in(4) {
        return chat(pen);
    }
    pen.object(&[
        ("input", ALWAYS, &|pen| if pen.one_in(6) { messages(pen) } else { prompt(pen) }),
        ("model", OFTEN, &|pen| pen.some_text()),
    ]);
}

fn score(pen: &mut Pen<'_, '_>) {
    let sides = [("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2")];
    let (left, right) = sides[pen.below(4)];
    pen.object(&[(left, ALWAYS, &texts), (right, ALWAYS, &texts), ("model", OFTEN, &|pen| pen.some_text())]);
}

fn rerank(pen: &mut Pen<'_, '_>) {
    pen.object(&[("query", ALWAYS, &texts), ("documents", ALWAYS, &texts), ("cache_salt", SELDOM, &salt)]);
}

fn tokenize(pen: &mut Pen<'_, '_>) {
    if pen.one_in(2) {
        return chat(pen);
    }
    pen.object(&[("prompt", ALWAYS, &|pen| pen.some_text()), ("add_special_tokens", SELDOM, &|pen| pen.truth())]);
}

fn anthropic(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("messages", ALWAYS, &|pen| {
            pen.list(1, &|pen| {
                pen.object(&[
                    ("role", ALWAYS, &|pen| {
                        let role = pen.choose(&["user", "assistant", "user", "assistant", "system"]);
                        pen.text(role);
                    }),
                    ("content", ALWAYS, &blocks),
                ]);
            })
        }),
        ("system", OFTEN, &|pen| if pen.one_in(2) { pen.list(0, &block) } else { pen.some_text() }),
        ("model", OFTEN, &|pen| pen.some_text()),
        ("tools", SELDOM * 2, &|pen| {
            pen.list(0, &|pen| {
                pen.object(&[
                    ("name", ALWAYS, &|pen| pen.some_text()),
                    ("description", OFTEN, &|pen| pen.some_text()),
                    ("input_schema", ALWAYS, &|pen| pen.any_object()),
                    ("strict", SELDOM, &|pen| pen.truth()),
                ]);
            })
        }),
        ("thinking", SELDOM, &|pen| pen.object(&[("type", ALWAYS, &|pen| pen.one_of(&["disabled", "enabled"]))])),
        ("output_config", SELDOM, &|pen| pen.object(&[("effort", ALWAYS, &|pen| pen.one_of(&["low", "high"]))])),
        ("tool_choice", SELDOM, &|pen| pen.object(&[("type", ALWAYS, &|pen| pen.one_of(&["none", "auto"]))])),
        ("max_tokens", OFTEN, &count),
        ("stream", SELDOM, &|pen| pen.truth()),
    ]);
}

fn blocks(pen: &mut Pen<'_, '_>) {
    if pen.one_in(2) { pen.list(0, &block) } else { pen.some_text() }
}

fn block(pen: &mut Pen<'_, '_>) {
    let kind =
        pen.choose(&["text", "image", "thinking", "tool_use", "tool_result", "tool_reference", "document", "text"]);
    pen.object(&[
        ("type", ALWAYS, &|pen| pen.text(kind)),
        (if kind == "thinking" { "thinking" } else { "text" }, 240, &|pen| pen.some_text()),
        ("source", SELDOM * 3, &|pen| {
            pen.object(&[
                ("type", OFTEN, &|pen| pen.one_of(&["base64", "url"])),
                ("media_type", OFTEN, &|pen| pen.some_text()),
                ("data", OFTEN, &|pen| pen.some_text()),
                ("url", OFTEN, &|pen| pen.some_text()),
            ]);
        }),
        ("id", SELDOM, &|pen| pen.some_text()),
        ("name", SELDOM * 2, &|pen| pen.some_text()),
        ("tool_name", SELDOM, &|pen| pen.some_text()),
        ("input", SELDOM * 2, &|pen| pen.any_object()),
        ("tool_use_id", SELDOM * 2, &|pen| pen.some_text()),
        ("content", SELDOM * 2, &|pen| {
            if kind == "tool_result" { blocks(pen) } else { pen.some_text() }
        }),
    ]);
}

fn responses(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("input", ALWAYS, &|pen| if pen.one_in(3) { pen.some_text() } else { pen.list(1, &item) }),
        ("instructions", SELDOM * 2, &|pen| pen.some_text()),
        ("model", OFTEN, &|pen| pen.some_text()),
        ("tools", SELDOM * 2, &|pen| pen.list(0, &offered)),
        ("reasoning", SELDOM, &|pen| pen.object(&[("effort", OFTEN, &|pen| pen.one_of(&["low", "none"]))])),
        ("previous_response_id", 3, &|pen| pen.some_text()),
        ("tool_choice", SELDOM, &|pen| pen.one_of(&["none", "auto"])),
        ("max_output_tokens", SELDOM, &count),
        ("stream", SELDOM, &|pen| pen.truth()),
    ]);
}

fn item(pen: &mut Pen<'_, '_>) {
    let kinds = [
        "message",
        "message",
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "custom_tool_call",
        "custom_tool_call_output",
    ];
    let kind = pen.choose(&kinds);
    let often = if kind == "message" { OFTEN } else { ALWAYS };
    let is_message = if kind == "message" { ALWAYS } else { 0 };
    pen.object(&[
        ("type", often, &|pen| pen.text(kind)),
        ("role", is_message, &|pen| pen.one_of(&["user", "assistant", "system", "developer"])),
        ("content", is_message.max(OFTEN), &content),
        ("name", often, &|pen| pen.some_text()),
        ("arguments", often, &|pen| pen.some_text()),
        ("call_id", often, &|pen| pen.some_text()),
        ("output", OFTEN, &content),
        ("input", OFTEN, &|pen| pen.some_text()),
        ("summary", OFTEN, &|pen| pen.list(0, &part)),
        ("namespace", SELDOM, &|pen| pen.some_text()),
        ("status", SELDOM, &|pen| pen.one_of(&["completed", "in_progress", "incomplete"])),
    ]);
}

fn offered(pen: &mut Pen<'_, '_>) {
    let kind = pen.choose(&["function", "custom", "namespace", "web_search"]);
    pen.object(&[
        ("type", ALWAYS, &|pen| pen.text(kind)),
        ("name", ALWAYS, &|pen| pen.some_text()),
        ("description", OFTEN, &|pen| pen.some_text()),
        ("parameters", OFTEN, &|pen| pen.any_object()),
        ("tools", SELDOM, &|pen| {
            pen.list(0, &|pen| {
                pen.object(&[("type", ALWAYS, &|pen| pen.text("function")), ("name", ALWAYS, &|pen| pen.some_text())]);
            })
        }),
    ]);
}
