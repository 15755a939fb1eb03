//! Messages as vLLM hands them to a chat template.
//!
//! In: the messages and tools of a request; out: the values a template sees, following vLLM's `renderers/chat_utils.py`
//! and `renderers/hf.py`, and the order in which its models print their members: parts joined by newlines, or kept as a
//! list where the template loops over them; no content is empty content; tool calls' arguments parsed; reasoning under
//! both its names; developers as system where the template doesn't know them. What vLLM answers with an error is an
//! error here.

pub(crate) mod sglang;

use std::borrow::Cow;

use minijinja::Value;
use request::json::{self, Object};

use crate::{
    EncodeError, Template,
    media::{Met, Modality, Placeholders, content_hash, hash_of},
    template::{ContentFormat, Dict, List, to_template},
};

/// The line that Claude Code puts before its instructions; it changes with every request, and vLLM drops it.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// The members of parts that vLLM reads itself. Others reach a template that takes parts.
const KNOWN_PART_MEMBERS: [&str; 18] = [
    "audio_embeds",
    "audio_url",
    "closed",
    "data",
    "file",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "name",
    "prompt_cache_breakpoint",
    "refusal",
    "text",
    "thinking",
    "type",
    "uuid",
    "video_embeds",
    "video_url",
];

/// A cleaned-up chat.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Value>,
    /// The text that `continue_final_message` continues, of the last message.
    pub(crate) final_text: Option<String>,
    /// What isn't text, in order.
    pub(crate) media: Vec<Met>,
    /// Something stands in the text for what isn't text, and it isn't known here what.
    pub(crate) unknown_placeholder: bool,
}

/// What isn't text in a conversation, as it is met.
struct Media<'p> {
    met: Vec<Met>,
    template: &'p Template,
    placeholders: &'p Placeholders,
    /// How many of each kind there were.
    counts: [usize; 3],
    unknown_placeholder: bool,
}

impl Media<'_> {
    /// The next one: what is to stand for it where contents are texts.
    fn meet(&mut self, modality: Modality, hash: u64) -> Option<String> {
        let count = &mut self.counts[modality as usize];
        *count += 1;
        let in_text = self.placeholders.text(modality, *count);
        let placeholder = match self.template.content_format() {
            ContentFormat::String => in_text.clone(),
            ContentFormat::Openai => self.template.placeholder(modality).map(str::to_owned),
        };
        self.met.push(Met { hash, placeholder });
        in_text
    }

    /// A part of the prompt that comes without its tokens: in any template a text, in which vLLM puts it later.
    fn embedded<'m>(&mut self, part: &Object<'_>) -> Result<Part<'m>, EncodeError> {
        const PLACEHOLDER: &str = "<prompt_embeds>";
        let data = part.get("data").filter(|data| data.as_str().is_some_and(|data| !data.is_empty()));
        let data = data.ok_or_else(|| refused("a part of prompt_embeds holds no data"))?;
        self.met.push(Met { hash: hash_of(data), placeholder: Some(PLACEHOLDER.to_owned()) });
        Ok(Part::Text(Cow::Borrowed(PLACEHOLDER), Vec::new()))
    }
}

/// A message on its way to the template.
struct Message<'m> {
    role: &'m str,
    content: Content<'m>,
    others: Vec<(&'static str, Value)>,
}

/// A message's content on its way to the template.
enum Content<'m> {
    Text(Cow<'m, str>),
    Parts(Vec<Part<'m>>),
}

/// One part of a content, with the members that vLLM doesn't know.
enum Part<'m> {
    Text(Cow<'m, str>, Vec<(&'m str, Value)>),
    /// And what stands for it where contents are texts.
    Media(Modality, Vec<(&'m str, Value)>, Option<String>),
    ToolReference(Value),
}

/// Cleans up the messages for a template. With `tag`, the last message's text has it appended, so that the rendered text
/// can be cut there.
pub(crate) fn clean(
    messages: &[json::Value<'_>],
    template: &Template,
    placeholders: &Placeholders,
    tag: Option<&str>,
) -> Result<Conversation, EncodeError> {
    let mut conversation = Conversation::default();
    let mut media = Media { met: Vec::new(), template, placeholders, counts: [0; 3], unknown_placeholder: false };
    let mut cleaned = Vec::with_capacity(messages.len());
    for message in messages {
        let Some(message) = message.as_object() else { return Err(refused("a message isn't an object")) };
        cleaned.push(clean_message(message, template.content_format(), &mut media)?);
    }
    (conversation.media, conversation.unknown_placeholder) = (media.met, media.unknown_placeholder);
    if !template.knows_developers() && cleaned.iter().any(|message| message.role == "developer") {
        cleaned = with_one_system(cleaned);
    }
    if let Some(tag) = tag {
        let last = cleaned.last_mut().filter(|_| template.reads_content());
        let Some(last) = last else { return Err(refused("continue_final_message, but the template reads no content")) };
        conversation.final_text = Some(append(&mut last.content, tag)?);
    }
    conversation.messages = cleaned.into_iter().map(Message::into_value).collect();
    Ok(conversation)
}

/// Tools as vLLM's models print them: the known members in their order and no others, a missing description and missing
/// parameters null.
pub(crate) fn tools(tools: &[json::Value<'_>]) -> Result<Option<Value>, EncodeError> {
    let tools: Vec<Value> = tools.iter().map(tool).collect::<Result<_, _>>()?;
    Ok((!tools.is_empty()).then(|| List::collect(tools)))
}

fn tool(tool: &json::Value<'_>) -> Result<Value, EncodeError> {
    let Some(tool) = tool.as_object() else { return Err(refused("a tool isn't an object")) };
    let Some(function) = tool.get("function").and_then(json::Value::as_object) else {
        return Err(refused("a tool has no function"));
    };
    let member = |key: &'static str| (key, function.get(key).map_or(Value::from(()), to_template));
    let mut described = vec![member("name"), member("description"), member("parameters")];
    described.extend(present(function, "strict"));
    described.extend(present(function, "defer_loading").or_else(|| present(tool, "defer_loading")));
    let kind = tool.get("type").map_or_else(|| Value::from("function"), to_template);
    let fields = [("type", kind), ("function", Dict::collect(described))];
    Ok(Dict::collect(fields.into_iter().chain(present(tool, "defer_loading"))))
}

/// A member that isn't null.
fn present(object: &Object<'_>, key: &'static str) -> Option<(&'static str, Value)> {
    object.get(key).filter(|value| **value != json::Value::Null).map(|value| (key, to_template(value)))
}

/// An object's members, the known ones first and in their order, as vLLM's models print them.
fn in_order<'o, 'a>(
    object: &'o Object<'a>,
    known: &'static [&'static str],
) -> impl Iterator<Item = (&'o str, &'o json::Value<'a>)> {
    let first = known.iter().filter_map(|key| Some((*key, object.get(key)?)));
    first.chain(object.iter().filter(|(key, _)| !known.contains(key)))
}

fn clean_message<'m>(
    message: &'m Object<'_>,
    format: ContentFormat,
    media: &mut Media<'_>,
) -> Result<Message<'m>, EncodeError> {
    let Some(role) = message.get("role").and_then(json::Value::as_str) else {
        return Err(refused("a message has no role"));
    };
    let mut content = content(message.get("content"), format, role == "system", media)?;
    let mut others = Vec::new();
    match role {
        "assistant" => assistant_members(message, &mut others)?,
        "tool" => {
            content = joined_if_text(content);
            others.extend(message.get("tool_call_id").map(|id| ("tool_call_id", to_template(id))));
        }
        _ => {}
    }
    for key in ["name", "task"] {
        others.extend(message.get(key).and_then(json::Value::as_str).map(|text| (key, Value::from(text))));
    }
    if role == "developer" {
        others.push(("tools", message.get("tools").map_or(Value::from(()), to_template)));
    }
    Ok(Message { role, content, others })
}

fn assistant_members(message: &Object<'_>, others: &mut Vec<(&'static str, Value)>) -> Result<(), EncodeError> {
    if let Some(calls) = message.get("tool_calls").and_then(json::Value::as_array).filter(|calls| !calls.is_empty()) {
        let calls: Vec<Value> = calls.iter().map(tool_call).collect::<Result<_, _>>()?;
        others.push(("tool_calls", List::collect(calls)));
    }
    if let Some((_, reasoning)) = present(message, "reasoning").or_else(|| present(message, "reasoning_content")) {
        others.push(("reasoning", reasoning.clone()));
        others.push(("reasoning_content", reasoning));
    }
    Ok(())
}

fn tool_call(call: &json::Value<'_>) -> Result<Value, EncodeError> {
    let Some(call) = call.as_object() else { return Err(refused("a tool call isn't an object")) };
    let Some(function) = call.get("function").and_then(json::Value::as_object) else {
        return Err(refused("a tool call has no function"));
    };
    if call.get("type").is_some_and(|kind| kind.as_str() != Some("function")) {
        return Err(refused("a tool call isn't one of a function"));
    }
    let arguments = match function.get("arguments") {
        Some(json::Value::Str(text)) => parsed(text)?,
        Some(value @ json::Value::Object(_)) => to_template(value),
        _ => Dict::empty(),
    };
    let others = in_order(function, &["arguments", "name"]).filter(|(key, _)| *key != "arguments");
    let function = Dict::collect(
        std::iter::once(("arguments", arguments)).chain(others.map(|(key, value)| (key, to_template(value)))),
    );
    Ok(Dict::collect(
        in_order(call, &["id", "function", "type"])
            .map(|(key, value)| (key, if key == "function" { function.clone() } else { to_template(value) })),
    ))
}

/// Arguments that aren't a JSON object count as none. What Python reads and no text or no stack of ours holds is refused, and so
/// are integers that Python fails on.
fn parsed(arguments: &str) -> Result<Value, EncodeError> {
    use json::Fault::{TooDeep, TooManyDigits};
    match json::parse(arguments.as_bytes()) {
        Ok(json::Value::Object(object)) if object.iter().any(|(key, _)| object.lone_surrogate_in(key)) => {
            Err(refused("a tool call's arguments hold half of a surrogate pair"))
        }
        Ok(value @ json::Value::Object(_)) => Ok(to_template(&value)),
        Err(json::Error { fault: TooDeep | TooManyDigits, .. }) => {
            Err(refused("a tool call's arguments nest too deeply or hold too long an integer"))
        }
        _ => Ok(Dict::empty()),
    }
}

/// For a template that doesn't know developers: they are system, and all system messages are one, the first, unless the
/// first is the only one.
fn with_one_system(mut messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    for message in &mut messages {
        if message.role == "developer" {
            message.role = "system";
            message.others.retain(|(key, _)| *key != "tools");
        }
    }
    if messages.iter().skip(1).all(|message| message.role != "system") {
        return messages;
    }
    let (system, rest): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.role == "system");
    let texts: Vec<Cow<'_, str>> =
        system.into_iter().map(|message| message.content.into_text()).filter(|text| !text.is_empty()).collect();
    let merged = Message { role: "system", content: Content::Text(texts.join("\n\n").into()), others: Vec::new() };
    std::iter::once(merged).chain(rest).collect()
}

/// A system message's text without the billing header's line; `None` where nothing else is in it.
fn without_billing_header(text: &str) -> Option<&str> {
    if !text.starts_with(BILLING_HEADER) {
        return Some(text);
    }
    text.split_once('\n').map(|(_, rest)| rest).filter(|rest| !rest.is_empty())
}

fn content<'m>(
    content: Option<&'m json::Value<'_>>,
    format: ContentFormat,
    of_system: bool,
    media: &mut Media<'_>,
) -> Result<Content<'m>, EncodeError> {
    let parts = match content {
        None | Some(json::Value::Null) => Vec::new(),
        Some(json::Value::Str(text)) if format == ContentFormat::String && !of_system => {
            return Ok(Content::Text(Cow::Borrowed(text)));
        }
        Some(json::Value::Str(text)) => vec![Part::Text(Cow::Borrowed(text), Vec::new())],
        Some(json::Value::Array(parts)) => read_parts(parts, media)?,
        Some(_) => return Err(refused("a content is neither text nor a list of parts")),
    };
    let parts = if of_system { without_billing_headers(parts) } else { parts };
    Ok(match format {
        ContentFormat::Openai => Content::Parts(parts),
        ContentFormat::String => Content::Text(with_placeholders(parts, media)?),
    })
}

fn without_billing_headers(parts: Vec<Part<'_>>) -> Vec<Part<'_>> {
    let kept = parts.into_iter().filter_map(|part| match part {
        Part::Text(Cow::Borrowed(text), others) => Some(Part::Text(without_billing_header(text)?.into(), others)),
        Part::Text(Cow::Owned(text), others) => {
            Some(Part::Text(without_billing_header(&text)?.to_owned().into(), others))
        }
        other => Some(other),
    });
    kept.collect()
}

/// The parts as one text. What stands for what isn't text comes first, each on a line of its own, as often as the text
/// doesn't hold it already.
fn with_placeholders<'m>(mut parts: Vec<Part<'m>>, media: &mut Media<'_>) -> Result<Cow<'m, str>, EncodeError> {
    let mut wanted: Vec<(Modality, String)> = Vec::new();
    for part in &mut parts {
        if let Part::Media(modality, _, placeholder) = part {
            match placeholder.take() {
                Some(placeholder) => wanted.push((*modality, placeholder)),
                None => media.unknown_placeholder = true,
            }
        }
    }
    let text = joined(parts);
    if wanted.is_empty() {
        return Ok(text);
    }
    let mut kinds: Vec<Modality> = Vec::new();
    let mut counts: Vec<(String, usize)> = Vec::new();
    for (modality, _) in &wanted {
        if !kinds.contains(modality) {
            kinds.push(*modality);
        }
    }
    for kind in kinds {
        for (_, placeholder) in
            wanted.iter().filter(|(modality, placeholder)| *modality == kind && !placeholder.is_empty())
        {
            match counts.iter_mut().find(|(counted, _)| counted == placeholder) {
                Some((_, count)) => *count += 1,
                None => counts.push((placeholder.clone(), 1)),
            }
        }
    }
    let mut lines: Vec<&str> = Vec::new();
    for (placeholder, count) in &counts {
        let Some(missing) = count.checked_sub(text.matches(placeholder.as_str()).count()) else {
            return Err(refused("a text holds more placeholders of images and the like than there are of them"));
        };
        lines.extend(std::iter::repeat_n(placeholder.as_str(), missing));
    }
    if lines.is_empty() {
        return Ok(text);
    }
    if !text.is_empty() {
        lines.push(&text);
    }
    Ok(lines.join("\n").into())
}

/// Texts on lines of their own. vLLM skips what is falsy to Python.
fn joined(parts: Vec<Part<'_>>) -> Cow<'_, str> {
    let mut texts = parts.into_iter().filter_map(|part| match part {
        Part::Text(text, _) => Some(text),
        Part::ToolReference(name) => Some(name.to_string().into()),
        Part::Media(..) => None,
    });
    let mut whole = texts.next().unwrap_or_default();
    for text in texts {
        if whole.is_empty() {
            whole = text;
        } else if !text.is_empty() {
            let whole = whole.to_mut();
            whole.push('\n');
            whole.push_str(&text);
        }
    }
    whole
}

fn read_parts<'m>(parts: &'m [json::Value<'_>], media: &mut Media<'_>) -> Result<Vec<Part<'m>>, EncodeError> {
    parts.iter().filter_map(|part| read_part(part, media).transpose()).collect()
}

/// What a part of the request was read as; nothing where it holds none of what its type says.
fn read_part<'m>(part: &'m json::Value<'_>, media: &mut Media<'_>) -> Result<Option<Part<'m>>, EncodeError> {
    let part = match part {
        json::Value::Str(text) => return Ok(Some(Part::Text(Cow::Borrowed(text), Vec::new()))),
        json::Value::Object(part) => part,
        _ => return Err(refused("a content part is neither text nor an object")),
    };
    let kind = match part.get("type") {
        Some(json::Value::Str(kind)) => Some(kind.as_ref()),
        None | Some(json::Value::Null) => None,
        Some(_) => return Err(refused("a content part's type isn't text")),
    };
    let uuid = part.get("uuid").filter(|uuid| **uuid != json::Value::Null);
    match kind {
        Some("text" | "input_text" | "output_text") if uuid.is_none() => text_of(part, "text"),
        Some("refusal") if uuid.is_none() => text_of(part, "refusal"),
        Some("thinking") if uuid.is_none() => text_of(part, "thinking"),
        Some("prompt_embeds") if uuid.is_none() => media.embedded(part).map(Some),
        Some("tool_reference") => Ok(Some(Part::ToolReference(part.get("name").map_or(Value::from(()), to_template)))),
        _ => {
            let key = kind.filter(|kind| Modality::of(kind).is_some()).or_else(|| named_by_key(part, kind, uuid));
            let Some((key, modality)) = key.and_then(|key| Some((key, Modality::of(key)?))) else {
                return Err(refused("a content part of a type that the engine doesn't know"));
            };
            let hash = content_hash(modality, uuid.unwrap_or_else(|| shown(part, key)));
            let placeholder = media.meet(modality, hash);
            Ok(Some(Part::Media(modality, unknown_members(part), placeholder)))
        }
    }
}

fn unknown_members<'m>(part: &'m Object<'_>) -> Vec<(&'m str, Value)> {
    let unknown = part.iter().filter(|(key, _)| !KNOWN_PART_MEMBERS.contains(key));
    unknown.map(|(key, value)| (key, to_template(value))).collect()
}

/// Without a type, or with a name of the client's own, a part is what its keys say.
fn named_by_key<'p>(part: &'p Object<'_>, kind: Option<&str>, uuid: Option<&json::Value<'_>>) -> Option<&'p str> {
    if kind.is_some() && uuid.is_none() {
        return None;
    }
    part.iter().map(|(key, _)| key).find(|key| Modality::of(key).is_some())
}

/// The address or the data of a part.
fn shown<'p, 'a>(part: &'p Object<'a>, kind: &str) -> &'p json::Value<'a> {
    const NOTHING: json::Value<'static> = json::Value::Null;
    let key = if kind == "input_image" { "image_url" } else { kind };
    match part.get(key) {
        Some(json::Value::Object(object)) => object.get("url").unwrap_or_else(|| part.get(key).unwrap_or(&NOTHING)),
        Some(value) => value,
        None => &NOTHING,
    }
}

fn text_of<'m>(part: &'m Object<'_>, key: &str) -> Result<Option<Part<'m>>, EncodeError> {
    match part.get(key) {
        Some(json::Value::Str(text)) => Ok(Some(Part::Text(Cow::Borrowed(text), unknown_members(part)))),
        None | Some(json::Value::Null) => Ok(None),
        Some(_) => Err(refused("a text part's text isn't text")),
    }
}

/// A tool's answer in parts becomes one text, unless it holds more than text.
fn joined_if_text(content: Content<'_>) -> Content<'_> {
    match content {
        Content::Parts(parts) if parts.iter().all(|part| matches!(part, Part::Text(..))) => {
            Content::Text(Content::Parts(parts).into_text())
        }
        other => other,
    }
}

/// Appends to the text that a continuation continues, and gives that text.
fn append(content: &mut Content<'_>, tag: &str) -> Result<String, EncodeError> {
    let text = match content {
        Content::Text(text) => Some(text),
        Content::Parts(parts) => parts.iter_mut().rev().find_map(|part| match part {
            Part::Text(text, _) => Some(text),
            _ => None,
        }),
    };
    let Some(text) = text else { return Err(refused("continue_final_message, but the last message has no text")) };
    let whole = text.clone().into_owned();
    text.to_mut().push_str(tag);
    Ok(whole)
}

impl Message<'_> {
    fn into_value(self) -> Value {
        let fields = [("role", Value::from(self.role)), ("content", self.content.into_value())];
        Dict::collect(fields.into_iter().chain(self.others))
    }
}

impl<'m> Content<'m> {
    /// The text, or the parts' texts on lines of their own, empty ones too.
    fn into_text(self) -> Cow<'m, str> {
        let parts = match self {
            Content::Text(text) => return text,
            Content::Parts(parts) => parts,
        };
        let texts = parts.into_iter().filter_map(|part| match part {
            Part::Text(text, _) => Some(text),
            Part::Media(..) | Part::ToolReference(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n").into()
    }

    fn into_value(self) -> Value {
        match self {
            Content::Text(text) => Value::from(text),
            Content::Parts(parts) => List::collect(parts.into_iter().map(Part::into_value)),
        }
    }
}

impl Part<'_> {
    fn into_value(self) -> Value {
        let kind = |name: &str| ("type", Value::from(name));
        match self {
            Part::Text(text, others) => {
                Dict::collect([kind("text"), ("text", Value::from(text))].into_iter().chain(others))
            }
            Part::Media(modality, others, _) => Dict::collect([kind(modality.name())].into_iter().chain(others)),
            Part::ToolReference(name) => Dict::collect([kind("tool_reference"), ("name", name)]),
        }
    }
}

fn refused(why: &'static str) -> EncodeError {
    EncodeError::Messages(Cow::Borrowed(why))
}
