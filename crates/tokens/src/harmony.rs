//! gpt-oss' prompts: the Harmony format, which vLLM renders itself instead of a chat template.
//!
//! In: a chat; out: formatting tokens and the texts between them, each of which is encoded on its own and never holds a
//! formatting token, whatever is written in it. Follows vLLM 0.32's `parser/harmony_utils.py` (a first system or developer
//! message becomes the developer's instructions; reasoning before the last answer is dropped) and `openai_harmony`'s
//! rendering. What vLLM answers with an error is an error here.

mod tools;

use std::{borrow::Cow, time::SystemTime};

use request::{
    Chat,
    json::{self, Object},
};

use crate::{EncodeError, encoder::Encoder, template};
use tools::Tool;

/// What a gpt-oss names itself in `config.json`.
const MODEL_TYPE: &str = "gpt_oss";

/// A formatting token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Start,
    Channel,
    Message,
    End,
    Call,
}

impl Mark {
    const ALL: [Mark; 5] = [Mark::Start, Mark::Channel, Mark::Message, Mark::End, Mark::Call];

    fn as_str(self) -> &'static str {
        match self {
            Mark::Start => "<|start|>",
            Mark::Channel => "<|channel|>",
            Mark::Message => "<|message|>",
            Mark::End => "<|end|>",
            Mark::Call => "<|call|>",
        }
    }
}

/// A piece of a rendered chat.
#[derive(Debug)]
enum Piece {
    Mark(Mark),
    Text(String),
}

/// A message of the format.
struct Message {
    /// The role, and for a call the tool it goes to.
    author: String,
    channel: Option<&'static str>,
    /// What follows the channel's name: whom a tool answers, or what a call's arguments are.
    after_channel: &'static str,
    texts: Vec<String>,
    end: Mark,
}

/// The format, with a tokenizer's ids of its marks.
#[derive(Debug)]
pub(crate) struct Harmony {
    ids: [u32; Mark::ALL.len()],
}

impl Harmony {
    /// For a model that is a gpt-oss: its `config.json` says so or, where there is none, its tokenizer knows all marks.
    pub(crate) fn of(config: Option<&[u8]>, encoder: &Encoder) -> Option<Harmony> {
        let is_gpt_oss = match config.map(json::parse) {
            Some(Ok(config)) => config.get("model_type").and_then(json::Value::as_str) == Some(MODEL_TYPE),
            Some(Err(_)) => false,
            None => true,
        };
        if !is_gpt_oss {
            return None;
        }
        let mut ids = [0; Mark::ALL.len()];
        for (id, mark) in ids.iter_mut().zip(Mark::ALL) {
            let [only] = encoder.encode(mark.as_str(), false).ok()?[..] else { return None };
            *id = only;
        }
        Some(Harmony { ids })
    }

    /// The chat's text, and its ids.
    pub(crate) fn encode(
        &self,
        chat: &Chat<'_>,
        with_tools: bool,
        now: SystemTime,
        encoder: &Encoder,
    ) -> Result<(String, Vec<u32>), EncodeError> {
        let tools = chat.tools.as_deref().filter(|_| with_tools).unwrap_or_default();
        let messages = messages(chat, tools, &template::date(now))?;
        let (mut text, mut ids) = (String::new(), Vec::new());
        for piece in pieces(messages) {
            match piece {
                Piece::Mark(mark) => {
                    text.push_str(mark.as_str());
                    ids.push(self.ids[mark as usize]);
                }
                Piece::Text(piece) => {
                    for part in without_marks(&piece) {
                        ids.extend(encoder.encode(part, false)?);
                    }
                    text.push_str(&piece);
                }
            }
        }
        Ok((text, ids))
    }
}

/// A text cut so that no part holds a mark: behind each `<|` that letters follow. The pre-tokenizer of these models
/// splits there in any case: it takes a run of two and more signs by itself, and begins a word behind it.
fn without_marks(text: &str) -> impl Iterator<Item = &str> {
    let is_cut = |at: &usize| text[*at..].starts_with(|next: char| next.is_ascii_alphabetic());
    let mut cuts: Vec<usize> = text.match_indices("<|").map(|(at, mark)| at + mark.len()).filter(is_cut).collect();
    cuts.push(text.len());
    let mut from = 0;
    cuts.into_iter().map(move |to| &text[std::mem::replace(&mut from, to)..to])
}

fn pieces(messages: Vec<Message>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for message in messages {
        pieces.extend([Piece::Mark(Mark::Start), Piece::Text(message.author)]);
        if let Some(channel) = message.channel {
            let header = format!("{channel}{}", message.after_channel);
            pieces.extend([Piece::Mark(Mark::Channel), Piece::Text(header)]);
        }
        pieces.push(Piece::Mark(Mark::Message));
        pieces.extend(message.texts.into_iter().map(Piece::Text));
        pieces.push(Piece::Mark(message.end));
    }
    pieces.extend([Piece::Mark(Mark::Start), Piece::Text("assistant".to_owned())]);
    pieces
}

/// The chat's messages, those that the format puts before them first.
fn messages(chat: &Chat<'_>, tools: &[json::Value<'_>], date: &str) -> Result<Vec<Message>, EncodeError> {
    let all: Vec<&Object<'_>> = chat
        .messages
        .iter()
        .map(|message| message.as_object().ok_or_else(|| refused("a message isn't an object")))
        .collect::<Result<_, _>>()?;
    let (instructions, rest) = match all.split_first() {
        Some((first, rest)) if matches!(role(first), "system" | "developer") => (flattened(first)?, rest),
        _ => (None, all.as_slice()),
    };
    let tools = tools.iter().map(tool).collect::<Result<Vec<_>, _>>()?;
    let mut messages = vec![system(chat.reasoning_effort.as_deref(), date, !tools.is_empty())?];
    if !tools.is_empty() || instructions.as_deref().is_some_and(|text| !text.is_empty()) {
        messages.push(developer(instructions.as_deref(), &tools));
    }
    let names = names_of_calls(rest);
    for message in rest {
        add(&mut messages, message, &names)?;
    }
    let last_answer = messages.iter().rposition(|message| message.channel == Some("final")).unwrap_or(0);
    let mut at = 0;
    messages.retain(|message| {
        at += 1;
        at > last_answer || message.channel != Some("analysis")
    });
    Ok(messages)
}

fn system(effort: Option<&str>, date: &str, tools: bool) -> Result<Message, EncodeError> {
    let effort = effort.unwrap_or("medium");
    if !matches!(effort, "low" | "medium" | "high") {
        return Err(refused("gpt-oss knows no such reasoning_effort"));
    }
    let calls = if tools { "\nCalls to these tools must go to the commentary channel: 'functions'." } else { "" };
    Ok(Message::plain(
        "system",
        format!(
            "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: {date}\n\n\
             Reasoning: {effort}\n\n\
             # Valid channels: analysis, commentary, final. Channel must be included for every message.{calls}"
        ),
    ))
}

fn developer(instructions: Option<&str>, tools: &[Tool]) -> Message {
    let mut sections = Vec::new();
    if let Some(instructions) = instructions {
        sections.extend(["# Instructions".to_owned(), instructions.to_owned()]);
    }
    if !tools.is_empty() {
        sections.push(tools::section(tools));
    }
    Message::plain("developer", sections.join("\n\n"))
}

fn tool(tool: &json::Value<'_>) -> Result<Tool, EncodeError> {
    let function = tool.get("function").and_then(json::Value::as_object);
    let name = function.and_then(|function| function.get("name")).and_then(json::Value::as_str);
    let Some((function, name)) = function.zip(name) else { return Err(refused("a tool has no function")) };
    let description = match function.get("description") {
        None | Some(json::Value::Null) => String::new(),
        Some(json::Value::Str(text)) => text.clone().into_owned(),
        Some(_) => return Err(refused("a tool's description isn't text")),
    };
    let parameters = match function.get("parameters") {
        None | Some(json::Value::Null) => None,
        Some(schema @ json::Value::Object(_)) => Some(plain(schema)?),
        Some(_) => return Err(refused("a tool's parameters aren't an object")),
    };
    Ok(Tool { name: name.to_owned(), description, parameters })
}

/// The schema as `openai_harmony` reads it.
fn plain(value: &json::Value<'_>) -> Result<serde_json::Value, EncodeError> {
    Ok(match value {
        json::Value::Null => serde_json::Value::Null,
        json::Value::Bool(truth) => (*truth).into(),
        json::Value::Int(digits) => number(digits)?,
        json::Value::Float(float) => {
            let mut digits = String::new();
            template::write_float(&mut digits, *float);
            number(&digits)?
        }
        json::Value::Str(text) => text.as_ref().into(),
        json::Value::Array(items) => items.iter().map(plain).collect::<Result<Vec<_>, _>>()?.into(),
        json::Value::Object(object) => object
            .iter()
            .map(|(key, value)| Ok((key.to_owned(), plain(value)?)))
            .collect::<Result<serde_json::Map<_, _>, EncodeError>>()?
            .into(),
    })
}

/// A number as Python prints it and `serde_json` reads it, which rounds some of the longest otherwise than Rust does.
fn number(digits: &str) -> Result<serde_json::Value, EncodeError> {
    serde_json::from_str(digits).map_err(|_| refused("a tool's parameters hold a number out of range"))
}

/// The names that calls' ids stand for.
fn names_of_calls<'m>(messages: &[&'m Object<'_>]) -> Vec<(Option<&'m str>, &'m str)> {
    messages
        .iter()
        .flat_map(|message| calls(message))
        .map(|call| {
            let function = call.get("function");
            let name = function.and_then(|function| function.get("name")).and_then(json::Value::as_str);
            (call.get("id").and_then(json::Value::as_str), name.unwrap_or_default())
        })
        .collect()
}

fn add(messages: &mut Vec<Message>, message: &Object<'_>, names: &[(Option<&str>, &str)]) -> Result<(), EncodeError> {
    match role(message) {
        "assistant" => add_assistant(messages, message),
        "tool" => {
            let id = message.get("tool_call_id").map_or(Some(""), json::Value::as_str);
            let name = names.iter().rev().find(|(own, _)| *own == id).map_or("", |(_, name)| name);
            let text = flattened(message)?.unwrap_or_default();
            messages.push(Message {
                channel: Some("commentary"),
                after_channel: " to=assistant",
                ..Message::plain(&format!("functions.{name}"), text)
            });
            Ok(())
        }
        "system" | "developer" => {
            messages.extend(flattened(message)?.map(|instructions| developer(Some(&instructions), &[])));
            Ok(())
        }
        "user" => {
            messages.push(Message { texts: texts(message)?, ..Message::plain("user", String::new()) });
            Ok(())
        }
        _ => Err(refused("gpt-oss knows no such role")),
    }
}

fn add_assistant(messages: &mut Vec<Message>, message: &Object<'_>) -> Result<(), EncodeError> {
    let calls = calls(message);
    if !calls.is_empty() {
        let said = flattened(message)?.filter(|text| !text.is_empty());
        messages.extend(said.map(|text| Message { channel: Some("commentary"), ..Message::plain("assistant", text) }));
    }
    let reasoning = ["reasoning", "reasoning_content"].iter().find_map(|key| message.get(key)?.as_str());
    let reasoning = reasoning.filter(|text| !text.is_empty());
    messages.extend(
        reasoning.map(|text| Message { channel: Some("analysis"), ..Message::plain("assistant", text.to_owned()) }),
    );
    if calls.is_empty() {
        let texts = texts(message)?;
        if texts.first().is_some_and(|text| !text.is_empty()) {
            let answer = Message::plain("assistant", String::new());
            messages.push(Message { channel: Some("final"), texts, ..answer });
        }
    }
    for call in calls {
        let function = call.get("function");
        let text = |key| function.and_then(|function| function.get(key)).and_then(json::Value::as_str);
        let recipient = format!("assistant to=functions.{}", text("name").unwrap_or_default());
        messages.push(Message {
            channel: Some("commentary"),
            after_channel: " json",
            end: Mark::Call,
            ..Message::plain(&recipient, text("arguments").unwrap_or_default().to_owned())
        });
    }
    Ok(())
}

impl Message {
    fn plain(author: &str, text: String) -> Message {
        Message { author: author.to_owned(), channel: None, after_channel: "", texts: vec![text], end: Mark::End }
    }
}

fn role<'m>(message: &'m Object<'_>) -> &'m str {
    message.get("role").and_then(json::Value::as_str).unwrap_or_default()
}

fn calls<'m, 'a>(message: &'m Object<'a>) -> &'m [json::Value<'a>] {
    message.get("tool_calls").and_then(json::Value::as_array).unwrap_or_default()
}

/// A content's texts in one, nothing between them; `None` where there is none.
fn flattened(message: &Object<'_>) -> Result<Option<String>, EncodeError> {
    let parts = match message.get("content") {
        None | Some(json::Value::Null) => return Ok(None),
        Some(json::Value::Str(text)) => return Ok(Some(text.clone().into_owned())),
        Some(json::Value::Array(parts)) => parts,
        Some(_) => return Err(refused("a content is neither text nor a list of parts")),
    };
    let mut whole: Option<String> = None;
    for part in parts {
        let text = if matches!(part, json::Value::Str(_)) { Some(part) } else { part.get("text") };
        match text {
            None | Some(json::Value::Null) => {}
            Some(json::Value::Str(text)) => whole.get_or_insert_default().push_str(text),
            Some(_) => return Err(refused("a text part's text isn't text")),
        }
    }
    Ok(whole)
}

/// A content's texts, each of which the format encodes by itself.
fn texts(message: &Object<'_>) -> Result<Vec<String>, EncodeError> {
    let parts = match message.get("content") {
        None | Some(json::Value::Null) => return Ok(vec![String::new()]),
        Some(json::Value::Str(text)) => return Ok(vec![text.clone().into_owned()]),
        Some(json::Value::Array(parts)) if parts.is_empty() => return Ok(vec![String::new()]),
        Some(json::Value::Array(parts)) => parts,
        Some(_) => return Err(refused("a content is neither text nor a list of parts")),
    };
    let texts = parts.iter().map(|part| match part.as_object().map(|part| part.get("text")) {
        Some(None) => Ok(String::new()),
        Some(Some(json::Value::Str(text))) => Ok(text.clone().into_owned()),
        _ => Err(refused("a content part isn't one that gpt-oss takes")),
    });
    texts.collect()
}

fn refused(why: &'static str) -> EncodeError {
    EncodeError::Messages(Cow::Borrowed(why))
}
