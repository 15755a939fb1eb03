//! What differs between two messages at the same place.

use std::borrow::Cow;

use request::Chat;
use request::json::Value;

use super::{Reason, Trial, Why, text};
use crate::tools::audit::place::role;

/// Why message `at` parts the texts. `tried` is the first chat with all but its messages set as in the other.
pub(super) fn why<'t>(at: usize, trial: &Trial<'t>, tried: &mut Chat<'t>) -> Why {
    if let Some(why) = history_cut(at, &trial.chat.messages, &trial.other.messages) {
        return why;
    }
    let (ours, theirs) = (&trial.chat.messages[at], &trial.other.messages[at]);
    let what = format!("{} message", role(ours));
    let named = format!("{what} (message {})", at + 1);
    match decisive_member(at, trial, tried) {
        Some("role") => Reason::MessageRole.because(format!(
            "Message {} is of the role {} in one and {} in the other.",
            at + 1,
            role(ours),
            role(theirs)
        )),
        Some("reasoning") => Reason::MessageReasoning.because(format!("The {named} holds other reasoning.")),
        Some("tool_calls") => Reason::MessageToolCalls.because(format!("The {named} holds other tool calls.")),
        Some("content") => text(&named, Reason::MessageText, &content(ours), &content(theirs)),
        _ => Reason::MessageOther.because(format!("The {named} differs in something other than its content.")),
    }
}

/// The member that, set as in the other message, lets the texts agree for longer.
fn decisive_member<'t>(at: usize, trial: &Trial<'t>, tried: &mut Chat<'t>) -> Option<&'static str> {
    ["role", "reasoning", "content", "tool_calls"].into_iter().find(|key| {
        let theirs = trial.other.messages[at].get(key);
        if let Value::Object(message) = &mut tried.messages[at]
            && message.get(key) != theirs
        {
            message.insert((*key).into(), theirs.cloned().unwrap_or(Value::Null));
            return trial.agrees_for_longer(tried);
        }
        false
    })
}

/// The text of a content, parts joined by newlines.
pub(super) fn content<'m>(message: &'m Value<'_>) -> Cow<'m, str> {
    match message.get("content") {
        Some(Value::Str(text)) => Cow::Borrowed(text),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => Cow::Borrowed(""),
    }
}

/// Whether one chat is the other without some messages from `at` on.
fn history_cut(at: usize, ours: &[Value<'_>], theirs: &[Value<'_>]) -> Option<Why> {
    let cut = |long: &[Value<'_>], short: &[Value<'_>]| {
        (at + 1..long.len()).find(|from| {
            let rest = &long[*from..];
            let common = rest.len().min(short.len() - at);
            common > 0 && rest[..common] == short[at..at + common]
        })
    };
    let to = cut(ours, theirs).or_else(|| cut(theirs, ours))?;
    let which = if to == at + 1 { format!("message {to}") } else { format!("messages {} to {to}", at + 1) };
    Some(Reason::HistoryCut.because(format!(
        "One leaves out {which} of the other: a history cut at its beginning shares only what stands before the cut."
    )))
}
