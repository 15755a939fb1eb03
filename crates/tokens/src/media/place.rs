//! Where images, sounds and films stand in a prompt.
//!
//! In: what was met in a chat, in order, with its placeholder; the rendered text and its ids. Out: each one's place, or that
//! it isn't known. As in the engine, which puts each in the place of the next placeholder of its kind that it finds: those
//! that a user wrote come in its way no less. A place that is told is never behind the true one.

use std::collections::HashMap;

use crate::{EncodeError, Medium, Place};

/// Of so many placeholders, which all differ (phi's are numbered), the places are looked for.
const MAX_PLACEHOLDERS: usize = 64;

/// What isn't text, as it is met in a chat.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) hash: u64,
    /// What stands in the text for it; `None` where that isn't known, or nothing does.
    pub(crate) placeholder: Option<String>,
}

/// Finds each one's place. `encode` gives the ids of a text; of the prompt's beginning where told so.
pub(crate) fn place(
    met: &[Met],
    text: &str,
    ids: &[u32],
    encode: impl Fn(&str, bool) -> Result<Vec<u32>, EncodeError>,
) -> Result<Vec<Medium>, EncodeError> {
    let mut media: Vec<Medium> = met.iter().map(|met| Medium { hash: met.hash, place: None }).collect();
    let mut by_placeholder: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, met) in met.iter().enumerate() {
        let Some(placeholder) = met.placeholder.as_deref().filter(|placeholder| !placeholder.is_empty()) else {
            continue;
        };
        if by_placeholder.len() < MAX_PLACEHOLDERS || by_placeholder.contains_key(placeholder) {
            by_placeholder.entry(placeholder).or_default().push(at);
        }
    }
    for (placeholder, same) in by_placeholder {
        let places = places(placeholder, text, ids, &encode)?;
        if places.len() >= same.len() {
            same.into_iter().zip(places).for_each(|(at, place)| media[at].place = Some(place));
        }
    }
    Ok(media)
}

/// Where a placeholder stands, each time. Where that can't be told time by time, all count as with the first: the ids may
/// not tell it, or marks of it stand alone somewhere, of which one may be all that the engine looks for.
fn places(
    placeholder: &str,
    text: &str,
    ids: &[u32],
    encode: impl Fn(&str, bool) -> Result<Vec<u32>, EncodeError>,
) -> Result<Vec<Place>, EncodeError> {
    let bytes: Vec<usize> = text.match_indices(placeholder).map(|(byte, _)| byte).collect();
    let Some(&first) = bytes.first() else { return Ok(Vec::new()) };
    let alone =
        marks(placeholder).filter(|mark| text.matches(mark).count() > bytes.len() * placeholder.matches(mark).count());
    let alone = alone.filter_map(|mark| text.find(mark)).min();
    let first = alone.map_or(first, |alone| first.min(alone));
    let tokens = found(&encode(placeholder, false)?, ids);
    if alone.is_none() && tokens.len() == bytes.len() {
        return Ok(bytes.into_iter().zip(tokens).map(|(byte, token)| Place { byte, token }).collect());
    }
    let token = encode(&text[..first], true)?.iter().zip(ids).take_while(|(a, b)| a == b).count();
    Ok(vec![Place { byte: first, token }; bytes.len()])
}

/// What stands in angle brackets in a placeholder, as special tokens do.
fn marks(placeholder: &str) -> impl Iterator<Item = &str> {
    placeholder
        .split_inclusive('>')
        .filter_map(|piece| Some(&piece[piece.rfind('<')?..]))
        .filter(|mark| mark.ends_with('>'))
}

/// Where `wanted` stands among the ids, none over another.
fn found(wanted: &[u32], ids: &[u32]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while !wanted.is_empty() && at + wanted.len() <= ids.len() {
        if ids[at..].starts_with(wanted) {
            found.push(at);
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One id a character, but `ab` is one: a placeholder that begins with `b` melts into an `a` before it.
    fn encode(text: &str, _: bool) -> Result<Vec<u32>, EncodeError> {
        Ok(text.replace("ab", "\u{1}").chars().map(u32::from).collect())
    }

    /// `hash@byte/token` of each medium, by its placeholder.
    fn check(placeholders: &[Option<&str>], text: &str, expected: &str) {
        let met: Vec<Met> = placeholders
            .iter()
            .zip(1..)
            .map(|(placeholder, hash)| Met { hash, placeholder: placeholder.map(str::to_owned) })
            .collect();
        let media = place(&met, text, &encode(text, true).expect("ids"), encode).expect("ids");
        let said: Vec<String> = media
            .iter()
            .map(|Medium { hash, place }| match place {
                Some(Place { byte, token }) => format!("{hash}@{byte}/{token}"),
                None => format!("{hash}@?"),
            })
            .collect();
        assert_eq!(said.join(" "), expected, "{text}");
    }

    #[test]
    fn each_stands_where_the_next_placeholder_of_its_kind_does() {
        check(&[], "xx", "");
        check(&[Some("<i>")], "x<i>", "1@1/1");
        check(&[Some("<i>"), Some("<v>"), Some("<i>")], "ab<i><i><v>", "1@2/1 2@8/7 3@5/4");
        check(&[Some("<1>"), Some("<2>")], "<2><1>", "1@3/3 2@0/0");
        check(&[Some("<i>")], "wrote <i>, and <i>", "1@6/6");
    }

    /// vLLM puts a Qwen's image in the place of `<|image_pad|>` alone.
    #[test]
    fn a_mark_that_stands_alone_may_be_the_first_ones_place() {
        let whole = Some("<s><i><e>");
        check(&[whole, whole], "x<s><i><e>y<s><i><e>", "1@1/1 2@11/11");
        check(&[whole, whole], "x<i><s><i><e>y<s><i><e>", "1@1/1 2@1/1");
        check(&[whole, whole], "x<s><i><e>y<s><i><e><i>", "1@1/1 2@1/1");
        check(&[Some("image <1")], "<1 image <1", "1@3/3");
    }

    #[test]
    fn what_has_no_placeholder_or_too_few_has_no_place() {
        check(&[None, Some("")], "<i>", "1@? 2@?");
        check(&[Some("<i>"), Some("<i>"), Some("<v>")], "<i><v>", "1@? 2@? 3@3/3");
    }

    #[test]
    fn a_placeholder_that_melts_into_what_stands_before_it_counts_from_there() {
        check(&[Some("b>")], "xxab>", "1@3/2");
        check(&[Some("b>"), Some("b>")], "xab>xb>", "1@2/1 2@2/1");
    }
}
