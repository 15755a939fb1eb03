//! Why two prompts part, in words.
//!
//! In: two requests and where their texts part. Out: the reasons. For chats, the cause is found by trial: one thing of the
//! first is set as in the other, and where the text then agrees for longer, that was it. So no template has to be
//! understood.

mod message;
mod tools;

use request::Chat;
use request::json::Value;
use tokens::Medium;

use super::place::{self, Place};
use super::{Bench, Parting, Sheet, common_text, passing, passing::Passing};

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    /// As a word for machines; all are listed in `docs/tools.md`.
    pub(super) reason: Reason,
    /// As a sentence for a person.
    pub(super) words: String,
}

/// Why prompts part, or don't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Other models share nothing.
    OtherModel,
    /// Other `cache_salt`s share nothing.
    OtherSalt,
    /// Other images, sounds or films.
    OtherMedia,
    /// They don't part: the prompts are the same.
    Same,
    /// They don't part: one goes on where the other ends.
    Continuation,
    /// A chat and a plain prompt.
    OtherKind,
    /// The same tools in another order.
    ToolsOrder,
    /// A tool of the same name is described otherwise.
    ToolsChanged,
    /// Other tools.
    ToolsOther,
    /// Other arguments of the template.
    TemplateArguments,
    /// Other documents.
    Documents,
    /// A date or a time.
    Timestamp,
    /// An id.
    Id,
    /// Only white space differs.
    WhiteSpace,
    /// A message says something else.
    MessageText,
    /// A message has another role.
    MessageRole,
    /// A message holds other reasoning.
    MessageReasoning,
    /// A message holds other tool calls.
    MessageToolCalls,
    /// Another member of a message differs.
    MessageOther,
    /// Messages are left out of the history.
    HistoryCut,
    /// The template leaves out reasoning that is no longer of the last turn.
    ReasoningDropped,
    /// What the template puts before an answer isn't what it puts there in a history.
    GenerationPrompt,
    /// The template prints a message otherwise because of those behind it.
    LaterMessages,
    /// A plain prompt says something else.
    PromptText,
    /// A prompt of ids holds others.
    TokenIds,
}

impl Reason {
    /// The word in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::OtherModel => "other_model",
            Self::OtherSalt => "other_cache_salt",
            Self::OtherMedia => "other_media",
            Self::Same => "same",
            Self::Continuation => "continuation",
            Self::OtherKind => "other_kind",
            Self::ToolsOrder => "tools_order",
            Self::ToolsChanged => "tools_changed",
            Self::ToolsOther => "tools_other",
            Self::TemplateArguments => "template_arguments",
            Self::Documents => "documents",
            Self::Timestamp => "timestamp",
            Self::Id => "id",
            Self::WhiteSpace => "white_space",
            Self::MessageText => "message_text",
            Self::MessageRole => "message_role",
            Self::MessageReasoning => "message_reasoning",
            Self::MessageToolCalls => "message_tool_calls",
            Self::MessageOther => "message_other",
            Self::HistoryCut => "history_cut",
            Self::ReasoningDropped => "reasoning_dropped",
            Self::GenerationPrompt => "generation_prompt",
            Self::LaterMessages => "later_messages",
            Self::PromptText => "prompt_text",
            Self::TokenIds => "token_ids",
        }
    }

    fn because(self, words: impl Into<String>) -> Why {
        Why { reason: self, words: words.into() }
    }
}

/// What keeps the two from sharing anything, however alike their texts.
pub(super) fn borders(a: &Sheet<'_>, b: &Sheet<'_>) -> Vec<Why> {
    let (ours, theirs) = (&a.tokenized, &b.tokenized);
    let mut borders = Vec::new();
    if ours.seed.model != theirs.seed.model {
        borders.push(Reason::OtherModel.because(format!(
            "Nothing can be shared: one is for the model {:?}, the other for {:?}. (If both are names of one model: --name.)",
            ours.seed.model, theirs.seed.model
        )));
    }
    if ours.seed.cache_salt != theirs.seed.cache_salt {
        borders.push(Reason::OtherSalt.because(format!(
            "Nothing can be shared: the cache_salt differs ({} and {}).",
            salt(ours.seed.cache_salt),
            salt(theirs.seed.cache_salt)
        )));
    }
    let anywhere = |media: &[Medium]| media.iter().any(|medium| medium.place.is_none());
    if ours.encoded.media != theirs.encoded.media && (anywhere(&ours.encoded.media) || anywhere(&theirs.encoded.media))
    {
        borders.push(Reason::OtherMedia.because(
            "The images, sounds or films differ, and where they stand in the text isn't known. So the picker takes such prompts to share nothing.",
        ));
    }
    borders
}

fn salt(salt: &str) -> String {
    if salt.is_empty() { "none".to_owned() } else { format!("{salt:?}") }
}

/// Why the texts part, or don't.
pub(super) fn texts(a: &Sheet<'_>, b: &Sheet<'_>, parting: Option<&Parting>, bench: &Bench<'_>) -> Vec<Why> {
    let Some(parting) = parting else { return vec![no_parting(a, b, bench)] };
    let (Some(at), Some(ours), Some(theirs)) = (parting.at, a.text(), b.text()) else {
        return vec![Reason::TokenIds.because("The prompts came as token ids and hold others from there on.")];
    };
    if parting.by_media {
        let message = parting
            .place
            .as_ref()
            .map_or_else(String::new, |place| format!(" in message {} ({})", place.message + 1, place.role));
        return vec![Reason::OtherMedia.because(format!(
            "Another image, sound or film stands there{message}. What comes before it is shared, what comes after it isn't."
        ))];
    }
    let why = match (a.chat(), b.chat()) {
        (Some(chat), Some(other)) => {
            Trial { chat, other, text: theirs, at, place: parting.place.as_ref(), bench }.why()
        }
        (None, None) => text("prompt", Reason::PromptText, ours, theirs),
        _ => Reason::OtherKind.because("One is a chat, the other a prompt without a template."),
    };
    vec![why]
}

fn no_parting(a: &Sheet<'_>, b: &Sheet<'_>, bench: &Bench<'_>) -> Why {
    if a.ids() == b.ids() {
        return Reason::Same.because("The prompts are the same.");
    }
    if let (Some(chat), Some(other), Some(text)) = (a.chat(), b.chat(), b.text())
        && chat.messages == other.messages
    {
        let at = a.text().map_or(0, |ours| common_text(ours, text));
        return Trial { chat, other, text, at, place: None, bench }.why();
    }
    let (short, long) = if a.ids().len() <= b.ids().len() { (a, b) } else { (b, a) };
    let merged = match super::alike(short.ids(), long.ids()) == short.ids().len() {
        true => "",
        false => " Its last token isn't shared: together with what follows, the tokenizer cuts the text otherwise.",
    };
    Reason::Continuation.because(format!("{} goes on where {} ends.{merged}", long.name, short.name))
}

/// Why two texts differ, which are "the system message" or the like.
fn text(what: &str, otherwise: Reason, a: &str, b: &str) -> Why {
    let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    if squeezed(a) == squeezed(b) {
        return Reason::WhiteSpace.because(format!("The {what} differs in white space only."));
    }
    match passing::at(a, b, common_text(a, b)) {
        Some(Passing::Time) => Reason::Timestamp.because(format!(
            "A date or time stands in the {what} and changes: what comes after it is never shared. Put it at the end, or leave it out."
        )),
        Some(Passing::Id) => Reason::Id.because(format!(
            "An id stands in the {what} and changes: what comes after it is never shared. Put it at the end, or leave it out."
        )),
        None => otherwise.because(format!("The {what} says something else.")),
    }
}

/// Two chats whose texts part.
struct Trial<'t> {
    chat: &'t Chat<'t>,
    other: &'t Chat<'t>,
    /// The other's text.
    text: &'t str,
    /// Where they part, in bytes.
    at: usize,
    /// The message at that spot.
    place: Option<&'t Place>,
    bench: &'t Bench<'t>,
}

/// One thing that is set as in the other chat, and why it matters.
type Change<'t> = (fn(&mut Chat<'t>, &Chat<'t>), fn(&Chat<'t>, &Chat<'t>) -> Why);

impl<'t> Trial<'t> {
    fn why(&self) -> Why {
        let changes: [Change<'t>; 3] = [
            (set_arguments, arguments),
            (
                |chat, other| chat.documents.clone_from(&other.documents),
                |_, _| Reason::Documents.because("The documents differ."),
            ),
            (|chat, other| chat.tools.clone_from(&other.tools), tools::why),
        ];
        let mut tried = self.chat.clone();
        for (set, why) in changes {
            set(&mut tried, self.other);
            if self.agrees_for_longer(&tried) {
                return why(self.chat, self.other);
            }
        }
        self.messages(tried)
    }

    fn agrees_for_longer(&self, chat: &Chat<'_>) -> bool {
        self.bench.render(chat).is_some_and(|text| common_text(&text, self.text) > self.at || text == self.text)
    }

    /// All else is as in the other chat: it is the messages.
    fn messages(&self, mut tried: Chat<'t>) -> Why {
        let (ours, theirs) = (&self.chat.messages, &self.other.messages);
        let same = super::alike(ours, theirs);
        if let (Some(one), Some(another)) = (ours.get(same), theirs.get(same)) {
            tried.messages[same] = another.clone();
            if self.agrees_for_longer(&tried) {
                tried.messages[same] = one.clone();
                return message::why(same, self, &mut tried);
            }
        }
        self.later_messages(same)
    }

    /// The spot stands before the first message that differs.
    fn later_messages(&self, same: usize) -> Why {
        if let Some(message) = self.reasoning_near_the_spot(same) {
            return Reason::ReasoningDropped.because(format!(
                "The template leaves out the reasoning of message {} (assistant) in one of the two: it shows reasoning only of the \
                 turn under way, and a later user message ends that turn.",
                message + 1
            ));
        }
        let shorter = self.chat.messages.len().min(self.other.messages.len());
        if same == shorter && self.generation_prompt_parts() {
            return Reason::GenerationPrompt.because(
                "One goes on where the other ends, but what the template puts before an answer to come isn't what it puts \
                 before the same answer in a history.",
            );
        }
        Reason::LaterMessages
            .because("The template prints the same messages otherwise because of those that come after them.")
    }

    /// The assistant's message with reasoning at the spot or right behind it.
    fn reasoning_near_the_spot(&self, same: usize) -> Option<usize> {
        let at = self.place.map_or(0, |place| place.message);
        (at..=at + 1).find(|message| *message < same && self.chat.messages.get(*message).is_some_and(holds_reasoning))
    }

    /// Whether the shorter chat without its generation prompt is the other's beginning.
    fn generation_prompt_parts(&self) -> bool {
        let (short, long) = match self.chat.messages.len() <= self.other.messages.len() {
            true => (self.chat, self.other),
            false => (self.other, self.chat),
        };
        let bare = Chat { add_generation_prompt: false, ..short.clone() };
        match (self.bench.render(&bare), self.bench.render(long)) {
            (Some(bare), Some(long)) => long.starts_with(&bare),
            _ => false,
        }
    }
}

fn holds_reasoning(message: &Value<'_>) -> bool {
    place::role(message) == "assistant"
        && (["reasoning", "reasoning_content"].iter().any(|key| message.get(key).is_some_and(|value| !value.is_null()))
            || message::content(message).contains("</think>"))
}

fn set_arguments<'t>(chat: &mut Chat<'t>, other: &Chat<'t>) {
    chat.template_kwargs = other.template_kwargs.clone();
    chat.reasoning_effort.clone_from(&other.reasoning_effort);
    chat.add_generation_prompt = other.add_generation_prompt;
    chat.continue_final_message = other.continue_final_message;
}

/// The arguments that differ.
fn arguments(a: &Chat<'_>, b: &Chat<'_>) -> Why {
    let mut names: Vec<&str> = a.template_kwargs.iter().chain(b.template_kwargs.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| a.template_kwargs.get(name) != b.template_kwargs.get(name));
    let own = [
        ("reasoning_effort", a.reasoning_effort != b.reasoning_effort),
        ("add_generation_prompt", a.add_generation_prompt != b.add_generation_prompt),
        ("continue_final_message", a.continue_final_message != b.continue_final_message),
    ];
    names.extend(own.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name));
    Reason::TemplateArguments.because(format!("The template is given other arguments: {}.", names.join(", ")))
}
