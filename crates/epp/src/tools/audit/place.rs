//! Which message stands at a spot of a rendered text.
//!
//! In: a chat, its text and a place in it; out: the message. No template says where it puts what, so each message asked
//! about is marked with a character that no prompt holds, rendered again, and found where the text changes: by halves,
//! since later messages stand later.

use std::borrow::Cow;

use request::Chat;
use request::json::{Object, Value};

use super::{Bench, common_text};

/// The mark. Templates don't strip it.
const MARK: char = '\u{1}';

/// A message, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The message's place in the chat as the template is given it, from 0.
    pub(super) message: usize,
    /// Its role.
    pub(super) role: String,
    /// Where in it.
    pub(super) within: Within,
}

/// Where in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Before its content: at its role, or in its reasoning.
    Before,
    /// After so many characters of its content.
    Content(usize),
    /// Behind its content: in its tool calls, or where the template ends it; for the last message also in what asks for an answer.
    Behind,
}

/// The message at `at` (bytes) of `text`, which `chat` was rendered to; `None` before the first one's content.
pub(super) fn find(chat: &Chat<'_>, text: &str, at: usize, bench: &Bench<'_>) -> Option<Place> {
    let starts_by = |message: usize| start(chat, message, text, bench).map(|start| (message, start));
    let (mut low, mut high) = (0, chat.messages.len());
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        // Messages that the template leaves out have no start.
        match (low..=middle).rev().find_map(starts_by) {
            Some((message, start)) if start <= at => {
                found = Some((message, start));
                low = middle + 1;
            }
            Some((message, _)) => high = message,
            None => low = middle + 1,
        }
    }
    let (message, start) = found?;
    let end = spot(chat, message, true, text, bench).unwrap_or(start);
    let place =
        |message: usize, within| Some(Place { message, role: role(chat.messages.get(message)?).to_owned(), within });
    if at <= end {
        return place(message, Within::Content(text[start..at].chars().count()));
    }
    match next_begins(chat, message + 1, text, bench) {
        Some(begin) if (end..=at).contains(&begin) => place(message + 1, Within::Before),
        _ => place(message, Within::Behind),
    }
}

/// Where message `next` begins, if there is one: where the text of those before it ends.
fn next_begins(chat: &Chat<'_>, next: usize, text: &str, bench: &Bench<'_>) -> Option<usize> {
    if next == chat.messages.len() {
        return None;
    }
    let mut before = Chat { add_generation_prompt: false, continue_final_message: false, ..chat.clone() };
    before.messages.truncate(next);
    Some(common_text(&bench.render(&before)?, text))
}

/// A message's role.
pub(super) fn role<'m>(message: &'m Value<'_>) -> &'m str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// Where the message's content begins. Templates that cut reasoning out of a content may swallow a mark before it.
fn start(chat: &Chat<'_>, message: usize, text: &str, bench: &Bench<'_>) -> Option<usize> {
    spot(chat, message, false, text, bench).or_else(|| spot(chat, message, true, text, bench))
}

/// Where a mark at the content's beginning or end shows in the text.
fn spot(chat: &Chat<'_>, message: usize, end: bool, text: &str, bench: &Bench<'_>) -> Option<usize> {
    let mut marked = chat.clone();
    mark(marked.messages.get_mut(message)?, end);
    let rendered = bench.render(&marked)?;
    (rendered != text).then(|| common_text(&rendered, text))
}

fn mark(message: &mut Value<'_>, end: bool) {
    let Value::Object(object) = message else { return };
    match object.get_mut("content") {
        Some(Value::Str(text)) => mark_text(text, end),
        Some(Value::Array(parts)) => mark_parts(parts, end),
        _ => object.insert("content".into(), Value::Str(MARK.to_string().into())),
    }
}

fn mark_parts(parts: &mut Vec<Value<'_>>, end: bool) {
    let mut texts: Vec<&mut Cow<'_, str>> = parts.iter_mut().filter_map(text_of).collect();
    let text = if end { texts.pop() } else { texts.into_iter().next() };
    match text {
        Some(text) => mark_text(text, end),
        None => parts.push(Value::Object(Object::from([
            ("type", Value::Str("text".into())),
            ("text", Value::Str(MARK.to_string().into())),
        ]))),
    }
}

fn text_of<'p, 'a>(part: &'p mut Value<'a>) -> Option<&'p mut Cow<'a, str>> {
    let text = match part {
        Value::Str(_) => part,
        Value::Object(object) => object.get_mut("text")?,
        _ => return None,
    };
    match text {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

fn mark_text(text: &mut Cow<'_, str>, end: bool) {
    let at = if end { text.len() } else { 0 };
    text.to_mut().insert(at, MARK);
}
