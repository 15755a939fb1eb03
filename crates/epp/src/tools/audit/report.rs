//! The findings, printed: as text for a person, as JSON for machines.

use serde_json::{Value, json};

use super::place::Within;
use super::shown::{self, Paint, visible};
use super::{Findings, Pair, Parting, Shared, Sheet};

/// What no comparison of requests can know.
const CAVEAT: &str = "A shared beginning is not yet a cache hit: that depends on where the requests go, and on what was evicted there in \
                      between. Engines reuse whole blocks only, and compute at least a prompt's last token anew.";

/// Characters shown before and after the spot.
const AROUND: usize = 28;

/// For machines. Positions count from 0; `docs/tools.md` documents each member.
pub(super) fn json(findings: &Findings<'_>) -> String {
    let first = &findings.sheets[0];
    let others = findings.sheets[1..].iter();
    let report = json!({
        "block_size": findings.block_size,
        "requests": findings.sheets.iter().map(request).collect::<Vec<_>>(),
        "pairs": others.zip(&findings.pairs).map(|(other, pair)| pair_json(first, other, pair)).collect::<Vec<_>>(),
        "common": { "tokens": findings.common.tokens, "blocks": findings.common.blocks },
        "caveat": CAVEAT,
    });
    format!("{report:#}\n")
}

fn request(sheet: &Sheet<'_>) -> Value {
    json!({
        "file": sheet.name,
        "api": sheet.asked.request.api.as_str(),
        "model": sheet.tokenized.seed.model,
        "tokens": sheet.ids().len(),
        "blocks": sheet.print.hashes.len(),
        "notes": sheet.asked.notes,
    })
}

fn pair_json(first: &Sheet<'_>, other: &Sheet<'_>, pair: &Pair) -> Value {
    json!({
        "a": first.name,
        "b": other.name,
        "tokens_alike": pair.alike,
        "tokens_shared": pair.shared.tokens,
        "blocks_shared": pair.shared.blocks,
        "share_of_a": share(pair.shared, first),
        "share_of_b": share(pair.shared, other),
        "parting": pair.parting.as_ref().map(|parting| parting_json(first, other, pair.alike, parting)),
        "why": pair.why.iter().map(|why| json!({ "reason": why.reason.as_str(), "words": why.words })).collect::<Vec<_>>(),
    })
}

/// Of its tokens, 0 to 1, to four digits.
fn share(shared: Shared, sheet: &Sheet<'_>) -> f64 {
    let all = sheet.ids().len().max(1) as f64;
    (shared.tokens as f64 / all * 10_000.0).round() / 10_000.0
}

fn parting_json(first: &Sheet<'_>, other: &Sheet<'_>, token: usize, parting: &Parting) -> Value {
    let texts = spots(first, other, parting);
    json!({
        "token": token,
        "character": texts.as_ref().map(|(spot, _)| spot.character),
        "message": parting.place.as_ref().map(|place| place.message),
        "role": parting.place.as_ref().map(|place| &place.role),
        "message_part": parting.place.as_ref().map(|place| match place.within {
            Within::Before => "before_content",
            Within::Content(_) => "content",
            Within::Behind => "behind_content",
        }),
        "message_character": parting.place.as_ref().and_then(|place| match place.within {
            Within::Content(characters) => Some(characters),
            Within::Before | Within::Behind => None,
        }),
        "before": texts.as_ref().map(|(spot, _)| spot.before),
        "a": texts.as_ref().map(|(spot, _)| spot.after),
        "b": texts.as_ref().map(|(_, spot)| spot.after),
    })
}

/// A spot in a text.
struct Spot<'t> {
    character: usize,
    before: &'t str,
    after: &'t str,
}

fn spots<'s>(first: &'s Sheet<'_>, other: &'s Sheet<'_>, parting: &Parting) -> Option<(Spot<'s>, Spot<'s>)> {
    let at = parting.at?;
    let of = |text: &'s str| Spot {
        character: text[..at].chars().count(),
        before: shown::last(&text[..at], AROUND),
        after: shown::first(&text[at..], AROUND),
    };
    Some((of(first.text()?), of(other.text()?)))
}

/// For a person.
pub(super) fn text(findings: &Findings<'_>, colour: bool) -> String {
    let paint = Paint { colour };
    let mut out = String::new();
    let label = |sheet: &Sheet<'_>| visible(sheet.name);
    let width = findings.sheets.iter().map(|sheet| shown::columns(&label(sheet))).max().unwrap_or_default();
    for sheet in &findings.sheets {
        let name = shown::padded(&label(sheet), width);
        let (tokens, blocks) = (sheet.ids().len(), sheet.print.hashes.len());
        out += &format!("{name}  {tokens} tokens, {} of {}\n", whole(blocks), findings.block_size);
        for note in &sheet.asked.notes {
            out += &format!("{}  note: {note}\n", " ".repeat(width));
        }
    }
    let first = &findings.sheets[0];
    for (other, pair) in findings.sheets[1..].iter().zip(&findings.pairs) {
        let heading = format!("{} and {}", label(first), label(other));
        out += &format!("\n{}\n", paint.bold(&heading));
        out += &pair_text(first, other, pair, width, paint);
    }
    if findings.sheets.len() > 2 {
        let Shared { tokens, blocks } = findings.common;
        out += &format!("\nCommon to all {}: {tokens} tokens, {}.\n", findings.sheets.len(), whole(blocks));
    }
    out + &format!("\n{CAVEAT}\n")
}

fn pair_text(first: &Sheet<'_>, other: &Sheet<'_>, pair: &Pair, width: usize, paint: Paint) -> String {
    let Shared { tokens, blocks } = pair.shared;
    let mut out = format!(
        "  share  {tokens} tokens, {}: {} of {}, {} of {}\n",
        whole(blocks),
        percent(share(pair.shared, first)),
        visible(first.name),
        percent(share(pair.shared, other)),
        visible(other.name)
    );
    if let Some(parting) = &pair.parting {
        out += &parting_text(first, other, pair.alike, parting, width, paint);
    }
    for why in &pair.why {
        out += &format!("  why    {}\n", visible(&why.words));
    }
    out
}

fn whole(blocks: usize) -> String {
    if blocks == 1 { "1 whole block".to_owned() } else { format!("{blocks} whole blocks") }
}

/// Whole percents; never 100 for less than all, nor 0 for more than nothing.
fn percent(share: f64) -> String {
    match share {
        0.0 => "nothing".to_owned(),
        1.0 => "all".to_owned(),
        _ => format!("{}%", (share * 100.0).round().clamp(1.0, 99.0)),
    }
}

fn parting_text(
    first: &Sheet<'_>,
    other: &Sheet<'_>,
    token: usize,
    parting: &Parting,
    width: usize,
    paint: Paint,
) -> String {
    let Some((ours, theirs)) = spots(first, other, parting) else {
        return format!("  part   after {token} tokens\n");
    };
    let mut out =
        format!("  part   after {token} tokens, {} characters: {}\n", ours.character, place_text(first, parting));
    let before = visible(ours.before);
    let dots = if ours.before.chars().count() < ours.character { "…" } else { "" };
    for (sheet, spot) in [(first, &ours), (other, &theirs)] {
        let name = shown::padded(&visible(sheet.name), width);
        out += &format!("         {name}  {dots}{before}{}\n", paint.parted(&visible(spot.after)));
    }
    let indent = 9 + width + 2 + shown::columns(dots) + shown::columns(&before);
    out + &format!("{}^\n", " ".repeat(indent))
}

/// Where, in words; messages and characters as a person counts them.
fn place_text(first: &Sheet<'_>, parting: &Parting) -> String {
    let Some(chat) = first.chat() else { return "in the prompt".to_owned() };
    let Some(place) = &parting.place else { return "before the first message's content".to_owned() };
    let (message, all) = (place.message + 1, chat.messages.len());
    let role = visible(&place.role);
    let which = format!("message {message} of {all} ({role})");
    match place.within {
        Within::Before => format!("in {which}, before its content"),
        Within::Content(characters) => format!("in {which}, after {characters} characters of its content"),
        Within::Behind => format!("behind the content of {which}"),
    }
}
