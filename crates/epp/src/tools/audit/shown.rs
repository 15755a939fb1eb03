//! Text made fit for a terminal: control characters shown, columns counted, colours only where wanted.

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    /// Whether a terminal reads it.
    pub(super) colour: bool,
}

impl Paint {
    /// A heading.
    pub(super) fn bold(self, text: &str) -> String {
        self.painted("1", text)
    }

    /// What differs.
    pub(super) fn parted(self, text: &str) -> String {
        self.painted("33", text)
    }

    fn painted(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Control characters as their pictures (`␊` for a newline), invisible ones by number, so that no text moves the
/// cursor, changes the order of what is read or hides.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => shown.push('\u{2421}'),
            '\u{80}'..='\u{a0}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e0fff}' => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            _ => shown.push(c),
        }
    }
    shown
}

/// The first `count` characters.
pub(super) fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// The last `count` characters.
pub(super) fn last(text: &str, count: usize) -> &str {
    let start = count.checked_sub(1).and_then(|count| text.char_indices().rev().nth(count));
    start.map_or(text, |(start, _)| &text[start..])
}

/// How many columns a terminal gives a text that holds no control characters: two for East Asian and most pictures,
/// none for what combines with the character before.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| column_of(u32::from(c))).sum()
}

fn column_of(c: u32) -> usize {
    match c {
        0x300..=0x36f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// With spaces up to a width.
pub(super) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_moves_the_cursor_or_hides() {
        assert_eq!(visible("a\n\tb\u{1b}[31m\u{7f}\u{9b}\u{202e}é東"), "a␊␉b␛[31m␡\\u{9b}\\u{202e}é東");
    }

    #[test]
    fn columns_are_a_terminals() {
        assert_eq!((columns("abc␊…"), columns("東京😀"), columns("e\u{301}")), (5, 6, 1));
        assert_eq!((first("東京a", 2), last("東京a", 2), last("a", 9), first("a", 9)), ("東京", "京a", "a", "a"));
    }
}
