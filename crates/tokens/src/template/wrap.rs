//! `wordwrap`: lines broken as Python's `textwrap` breaks them.
//!
//! In: a text, a width in characters; out: its lines, each broken into pieces no longer than that where it can be.

use std::ops::Range;

use minijinja::Error;

use super::{args::wrong, meter, methods::split_lines};

/// How lines are broken.
pub(super) struct Style {
    pub(super) width: i64,
    pub(super) break_long_words: bool,
    pub(super) break_on_hyphens: bool,
}

/// The lines' pieces, with `between` between them.
pub(super) fn wrap(text: &str, style: &Style, between: &str) -> Result<String, Error> {
    let mut out = String::new();
    for (at, line) in split_lines(text, false).into_iter().enumerate() {
        if style.width <= 0 {
            return Err(wrong(format!("invalid width {} (must be > 0)", style.width)));
        }
        if at > 0 {
            super::python::append_text(&mut out, between)?;
        }
        let line: Vec<char> = line.chars().collect();
        for (at, piece) in pieces(&line, style)?.into_iter().enumerate() {
            if at > 0 {
                super::python::append_text(&mut out, between)?;
            }
            out.extend(piece.into_iter().flat_map(|range| &line[range]));
        }
    }
    Ok(out)
}

/// What each piece of a line is put together from.
fn pieces(line: &[char], style: &Style) -> Result<Vec<Vec<Range<usize>>>, Error> {
    let width = usize::try_from(style.width).unwrap_or(usize::MAX);
    let mut rest: Vec<Range<usize>> = chunks(line, style.break_on_hyphens);
    rest.reverse();
    let is_blank = |range: &Range<usize>| line[range.clone()].iter().all(|char| char.is_whitespace());
    let mut pieces: Vec<Vec<Range<usize>>> = Vec::new();
    while let Some(next) = rest.last() {
        meter::write(1)?;
        if !pieces.is_empty() && is_blank(next) {
            rest.pop();
        }
        let mut piece: Vec<Range<usize>> = Vec::new();
        let mut length = 0;
        while let Some(next) = rest.pop_if(|next| length + next.len() <= width) {
            length += next.len();
            piece.push(next);
        }
        if let Some(next) = rest.last_mut().filter(|next| next.len() > width) {
            if style.break_long_words {
                let end = next.start + broken_at(&line[next.clone()], width - length, style.break_on_hyphens);
                piece.push(next.start..end);
                next.start = end;
            } else if piece.is_empty() {
                piece.extend(rest.pop());
            }
        }
        piece.pop_if(|last| is_blank(last));
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    Ok(pieces)
}

/// How much of a word that is too long stands before a break.
fn broken_at(word: &[char], room: usize, on_hyphens: bool) -> usize {
    let hyphen = word[..room].iter().rposition(|char| *char == '-').filter(|at| *at > 0 && on_hyphens);
    match hyphen {
        Some(at) if word[..at].iter().any(|char| *char != '-') => at + 1,
        _ => room,
    }
}

fn is_space(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// A letter, as the hyphens of words stand between.
fn is_letter(char: char) -> bool {
    is_word(char) && !char.is_numeric()
}

/// Whether dashes at `at` stand between words, and where they end.
fn dashes(line: &[char], at: usize) -> Option<usize> {
    let before = *line.get(at.checked_sub(1)?)?;
    if !(is_word(before) || "!\"'&.,?".contains(before)) {
        return None;
    }
    let end = at + line[at..].iter().take_while(|char| **char == '-').count();
    (end >= at + 2 && line.get(end).is_some_and(|char| is_word(*char))).then_some(end)
}

/// Whether a hyphen at `at` may end a line.
fn is_breaking_hyphen(line: &[char], at: usize) -> bool {
    let letter = |at: Option<usize>| at.and_then(|at| line.get(at)).is_some_and(|char| is_letter(*char));
    let hyphen = |at: Option<usize>| at.and_then(|at| line.get(at)) == Some(&'-');
    let before = |back: usize| at.checked_sub(back);
    let behind = letter(before(1)) && (letter(before(2)) || hyphen(before(2)) && letter(before(3)));
    let ahead = letter(Some(at + 1)) && (letter(Some(at + 2)) || hyphen(Some(at + 2)) && letter(Some(at + 3)));
    line[at] == '-' && behind && ahead
}

/// A line's words, parts of hyphenated words, dashes and spaces.
fn chunks(line: &[char], on_hyphens: bool) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let space = is_space(line[at]);
        let mut end = at + 1;
        if space || !on_hyphens {
            end += line[end..].iter().take_while(|char| is_space(**char) == space).count();
        } else if let Some(after) = dashes(line, at) {
            end = after;
        } else {
            while end < line.len() && !is_space(line[end]) {
                if is_breaking_hyphen(line, end) {
                    end += 1;
                    break;
                }
                if dashes(line, end).is_some() {
                    break;
                }
                end += 1;
            }
        }
        chunks.push(at..end);
        at = end;
    }
    chunks
}
