//! How far requests share the beginning of their prompts, where they part, and why: for the one whose cache stays cold.
//!
//! In: bodies of requests; out: each compared with the first, and what all have in common, as text or JSON. Compared is
//! what the engine will read: tokens after templating, within the border that the picker hashes.

mod passing;
mod place;
mod report;
mod shown;
mod why;

use std::num::NonZeroU32;
use std::time::SystemTime;

use blocks::Print;
use request::{Chat, Prompt};
use tokens::{Context, Tokenizer};

use super::asked::Asked;
use crate::flags::Reading;
use crate::models;
use crate::understand::Tokenized;
use place::Place;
use why::Why;

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For machines: see `docs/tools.md`.
    Json,
    /// For a person.
    Text {
        /// With a terminal's colours.
        colour: bool,
    },
}

/// A request, ready to be compared.
#[derive(Debug)]
struct Sheet<'a> {
    name: &'a str,
    asked: &'a Asked<'a>,
    tokenized: Tokenized<'a>,
    print: Print,
}

/// Everything that was found out.
#[derive(Debug)]
struct Findings<'a> {
    sheets: Vec<Sheet<'a>>,
    block_size: NonZeroU32,
    /// Each sheet but the first against the first.
    pairs: Vec<Pair>,
    /// What all have in common.
    common: Shared,
}

/// A beginning that can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    tokens: usize,
    /// Whole blocks.
    blocks: usize,
}

/// A sheet against the first.
#[derive(Debug)]
struct Pair {
    /// Leading tokens that are the same, with the same images and the like among them, whatever the borders.
    alike: usize,
    /// What can be shared: nothing across a border.
    shared: Shared,
    /// Where the two part; `None` if one is the other's beginning.
    parting: Option<Parting>,
    why: Vec<Why>,
}

/// The spot where two prompts part.
#[derive(Debug)]
struct Parting {
    /// Where in the text, in bytes; `None` for prompts that came as ids.
    at: Option<usize>,
    /// In which message of the first request.
    place: Option<Place>,
    /// Whether another image, sound or film parts them there, and no text.
    by_media: bool,
}

/// Compares.
///
/// # Errors
/// The first request that can't be compared, and why.
pub(super) fn answer(
    reading: &Reading,
    bodies: &[(String, Vec<u8>)],
    form: Form,
    now: SystemTime,
) -> Result<String, String> {
    let tokenizer =
        models::tokenizer_in(&reading.model).map_err(|why| format!("{}: {why}", reading.model.display()))?;
    compared(&tokenizer, reading, bodies, form, now)
}

fn compared(
    tokenizer: &Tokenizer,
    reading: &Reading,
    bodies: &[(String, Vec<u8>)],
    form: Form,
    now: SystemTime,
) -> Result<String, String> {
    let asked: Vec<Asked<'_>> = bodies.iter().map(|body| read(body, reading)).collect::<Result<_, _>>()?;
    let sheets = bodies.iter().zip(&asked).map(|((name, _), asked)| sheet(name, asked, tokenizer, reading, now));
    let sheets: Vec<Sheet<'_>> = sheets.collect::<Result<_, _>>()?;
    let bench = Bench { tokenizer, now };
    let first = &sheets[0];
    let pairs = sheets[1..].iter().map(|other| pair(first, other, &bench)).collect();
    let common = common(&sheets);
    let findings = Findings { sheets, block_size: reading.block_size, pairs, common };
    Ok(match form {
        Form::Json => report::json(&findings),
        Form::Text { colour } => report::text(&findings, colour),
    })
}

fn read<'a>((name, body): &'a (String, Vec<u8>), reading: &'a Reading) -> Result<Asked<'a>, String> {
    Asked::read(body, reading).map_err(|why| format!("{name}: {why}"))
}

fn sheet<'a>(
    name: &'a str,
    asked: &'a Asked<'a>,
    tokenizer: &Tokenizer,
    reading: &'a Reading,
    now: SystemTime,
) -> Result<Sheet<'a>, String> {
    let tokenized = asked.tokenize(tokenizer, reading, now).map_err(|why| format!("{name}: {why}"))?;
    let mut prints = tokenized.fingerprint(reading.block_size).prints;
    match (prints.pop(), prints.len()) {
        (Some(print), 0) => Ok(Sheet { name, asked, tokenized, print }),
        (_, more) => Err(format!("{name}: holds {} prompts; requests of one prompt can be compared", more + 1)),
    }
}

impl Sheet<'_> {
    fn ids(&self) -> &[u32] {
        self.tokenized.encoded.prompts.first().map_or(&[], Vec::as_slice)
    }

    /// The text that the engine reads; `None` for a prompt of ids.
    fn text(&self) -> Option<&str> {
        match &self.asked.request.prompt {
            Prompt::Texts { texts, .. } => texts.first().map(AsRef::as_ref),
            Prompt::Chat(_) => self.tokenized.encoded.rendered.as_deref(),
            Prompt::Tokens(_) => None,
        }
    }

    fn chat(&self) -> Option<&Chat<'_>> {
        match &self.asked.request.prompt {
            Prompt::Chat(chat) => Some(chat),
            _ => None,
        }
    }
}

/// Renders chats that nobody sent, to see what a change of one thing does.
struct Bench<'a> {
    tokenizer: &'a Tokenizer,
    now: SystemTime,
}

impl Bench<'_> {
    /// The text of a chat; `None` if the template doesn't render it.
    fn render(&self, chat: &Chat<'_>) -> Option<String> {
        let encoded = self.tokenizer.encode(&Prompt::Chat(chat.clone()), &Context::at(self.now)).ok()?;
        encoded.rendered
    }
}

fn pair(first: &Sheet<'_>, other: &Sheet<'_>, bench: &Bench<'_>) -> Pair {
    let alike = beginning(first, other);
    let shared_blocks = first.print.hashes.iter().zip(&other.print.hashes).take_while(|(a, b)| a == b).count();
    let borders = why::borders(first, other);
    let shared = match borders.is_empty() {
        true => Shared { tokens: alike, blocks: shared_blocks },
        false => Shared { tokens: 0, blocks: 0 },
    };
    let parting = parting(first, other, alike, bench);
    let why = if borders.is_empty() { why::texts(first, other, parting.as_ref(), bench) } else { borders };
    Pair { alike, shared, parting, why }
}

/// `None` where one prompt is the other's beginning, in text or (without text) in ids.
fn parting(first: &Sheet<'_>, other: &Sheet<'_>, alike: usize, bench: &Bench<'_>) -> Option<Parting> {
    if let Some(medium) = other_medium(first, other).filter(|medium| medium.token == alike) {
        let (chat, text) = (first.chat()?, first.text()?);
        return Some(Parting {
            at: Some(medium.byte),
            place: place::find(chat, text, medium.byte, bench),
            by_media: true,
        });
    }
    let (Some(text), Some(theirs)) = (first.text(), other.text()) else {
        let ends = alike == first.ids().len() || alike == other.ids().len();
        return (!ends).then_some(Parting { at: None, place: None, by_media: false });
    };
    let at = common_text(text, theirs);
    if at == text.len() || at == theirs.len() {
        return None;
    }
    let place = first.chat().and_then(|chat| place::find(chat, text, at, bench));
    Some(Parting { at: Some(at), place, by_media: false })
}

/// How long the common beginning is, in bytes; never within a character.
fn common_text(a: &str, b: &str) -> usize {
    let mut at = alike(a.as_bytes(), b.as_bytes());
    while !a.is_char_boundary(at) || !b.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// How many tokens begin both, the same images and the like among them.
fn beginning(first: &Sheet<'_>, other: &Sheet<'_>) -> usize {
    let alike = alike(first.ids(), other.ids());
    other_medium(first, other).map_or(alike, |medium| medium.token)
}

/// Where an image, a sound or a film stands that only one of the two shows there, if that is within the ids that begin both.
fn other_medium(first: &Sheet<'_>, other: &Sheet<'_>) -> Option<tokens::Place> {
    let in_order = |sheet: &Sheet<'_>| {
        let placed = sheet.tokenized.encoded.media.iter().filter_map(|medium| Some((medium.place?, medium.hash)));
        let mut media: Vec<_> = placed.collect();
        media.sort_by_key(|(place, _)| place.token);
        media
    };
    let (ours, theirs) = (in_order(first), in_order(other));
    let same = alike(&ours, &theirs);
    let places = [ours.get(same), theirs.get(same)].into_iter().flatten().map(|(place, _)| *place);
    places.min_by_key(|place| place.token).filter(|place| place.token < alike(first.ids(), other.ids()))
}

fn alike<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common(sheets: &[Sheet<'_>]) -> Shared {
    let Some((first, others)) = sheets.split_first() else { return Shared { tokens: 0, blocks: 0 } };
    if others.iter().any(|other| !why::borders(first, other).is_empty()) {
        return Shared { tokens: 0, blocks: 0 };
    }
    let least = |of: &dyn Fn(&Sheet<'_>) -> usize| others.iter().map(of).min().unwrap_or_default();
    Shared {
        tokens: least(&|other| beginning(first, other)),
        blocks: least(&|other| alike(&first.print.hashes, &other.print.hashes)),
    }
}

#[cfg(test)]
mod tests;
