//! The reader of an answer, of any API: how much it used, and when its first content came.
//!
//! In: the answer's headers and its bytes, however cut; out: [`Seen`] for each part, [`Usage`] at any time. Memory is
//! bounded; nothing is an error: an answer that can't be read gives nothing. Bytes are only looked at.

use memchr::memmem;

use crate::{
    Usage,
    json::{self, Object, Value},
    sse::Events,
    whole::Whole,
};

/// Reads one answer as it passes.
#[derive(Debug)]
pub struct Answer {
    form: Form,
    usage: Usage,
    content_chunks: u64,
}

/// What a part of an answer brought. Ordered: the later is the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// No content: headers of the stream, usage, part of a line, or an answer that shows none.
    Nothing,
    /// Content, and some had come before.
    Content,
    /// The first content of the stream.
    FirstContent,
}

#[derive(Debug)]
enum Form {
    /// Nobody said; the first byte will tell.
    Unknown,
    Stream(Events),
    Whole(Whole),
    /// Nothing that we read.
    Opaque,
}

impl Answer {
    /// Prepares for an answer with these headers. Without a content type the first byte decides; a content encoding
    /// other than `identity` makes an answer opaque.
    pub fn new(content_type: Option<&str>, content_encoding: Option<&str>) -> Answer {
        let plain = content_encoding.is_none_or(|coding| matches!(coding.trim(), "" | "identity"));
        let media = content_type.map(|whole| whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let form = match media.as_deref() {
            _ if !plain => Form::Opaque,
            None => Form::Unknown,
            Some("text/event-stream") => Form::Stream(Events::default()),
            Some("application/json") => Form::Whole(Whole::default()),
            Some(json) if json.ends_with("+json") => Form::Whole(Whole::default()),
            Some(_) => Form::Opaque,
        };
        Answer { form, usage: Usage::default(), content_chunks: 0 }
    }

    /// Reads the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Seen {
        let bytes = self.recognise(bytes);
        let before = self.content_chunks;
        let (usage, content_chunks) = (&mut self.usage, &mut self.content_chunks);
        match &mut self.form {
            Form::Stream(events) => events.feed(bytes, |event| look_at(event, usage, content_chunks)),
            Form::Whole(whole) => whole.feed(bytes, |found| {
                if let Ok(Value::Object(found)) = json::parse(found) {
                    usage.merge(Usage::of(&found));
                }
            }),
            Form::Unknown | Form::Opaque => {}
        }
        self.seen_since(before)
    }

    /// The answer is over: a stream's last line counts even if it has no end.
    pub fn finish(&mut self) -> Seen {
        let before = self.content_chunks;
        let (usage, content_chunks) = (&mut self.usage, &mut self.content_chunks);
        if let Form::Stream(events) = &mut self.form {
            events.finish(|event| look_at(event, usage, content_chunks));
        }
        self.seen_since(before)
    }

    /// What the answer says it used, so far; `None` if it said nothing.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.known()
    }

    /// How many of a stream's events brought content: text, reasoning, or parts of tool calls.
    pub fn content_chunks(&self) -> u64 {
        self.content_chunks
    }

    /// Whether this is a stream: a whole answer shows no first content.
    pub fn is_stream(&self) -> bool {
        matches!(self.form, Form::Stream(_))
    }

    /// Whether a line of more than 1 MiB or a `usage` of more than 64 KiB was left out, so that usage may be missing.
    pub fn capped(&self) -> bool {
        match &self.form {
            Form::Stream(events) => events.capped,
            Form::Whole(whole) => whole.capped,
            Form::Unknown | Form::Opaque => false,
        }
    }

    /// Tells the form by the first byte that isn't space. The space before it is left out, in whichever piece it came.
    fn recognise<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if !matches!(self.form, Form::Unknown) {
            return bytes;
        }
        let bytes = bytes.trim_ascii_start();
        if let Some(first) = bytes.first() {
            self.form = match first {
                b'{' => Form::Whole(Whole::default()),
                // data, event, id, retry, or a comment.
                b'd' | b'e' | b'i' | b'r' | b':' => Form::Stream(Events::default()),
                _ => Form::Opaque,
            };
        }
        bytes
    }

    fn seen_since(&self, before: u64) -> Seen {
        match (before, self.content_chunks) {
            (before, now) if before == now => Seen::Nothing,
            (0, _) => Seen::FirstContent,
            _ => Seen::Content,
        }
    }
}

/// Looks at one event of a stream, if it can hold anything of interest.
fn look_at(event: &[u8], usage: &mut Usage, content_chunks: &mut u64) {
    let worth = [&b"\"choices\""[..], b"\"usage\"", b"\"delta\""];
    if !worth.iter().any(|key| memmem::find(event, key).is_some()) {
        return;
    }
    let Ok(Value::Object(event)) = json::parse(event) else { return };
    if let Some(told) = Usage::in_event(&event) {
        usage.merge(told);
    }
    if has_content(&event) {
        *content_chunks += 1;
    }
}

/// Whether an event brings something that the model generated.
fn has_content(event: &Object<'_>) -> bool {
    if let Some(choices) = event.get("choices").and_then(Value::as_array) {
        return choices.iter().any(choice_has_content);
    }
    match event.get("delta") {
        // Responses: `response.output_text.delta` and its kin.
        Some(Value::Str(delta)) => !delta.is_empty(),
        // Anthropic: `content_block_delta`.
        Some(Value::Object(delta)) => {
            ["text", "thinking", "partial_json"].iter().any(|key| delta.get(key).is_some_and(is_filled))
        }
        _ => false,
    }
}

fn choice_has_content(choice: &Value<'_>) -> bool {
    const PARTS: [&str; 7] =
        ["content", "reasoning", "reasoning_content", "tool_calls", "refusal", "function_call", "audio"];
    if choice.get("text").is_some_and(is_filled) {
        return true;
    }
    let delta = choice.get("delta").and_then(Value::as_object);
    delta.is_some_and(|delta| PARTS.iter().any(|part| delta.get(part).is_some_and(is_filled)))
}

fn is_filled(value: &Value<'_>) -> bool {
    match value {
        Value::Str(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
        _ => false,
    }
}
