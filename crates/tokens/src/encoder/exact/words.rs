//! Text to pre-tokens, as the regular expressions of the known models split it, without a regular expression.
//!
//! In: text as the normalizer left it, free of added tokens; out: its words, in order, none empty, together the whole
//! text. What the expressions would match is written out by hand, alternative by alternative; each function's order is
//! the order of the expression's. Time is linear in the text.

use memchr::memrchr2;

use super::classes::{LETTER, LOWER, MARK, NUMBER, SPACE, SYMBOL, UPPER};

/// A family of pre-tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Llama 3, Qwen and others after GPT-4; digits in groups of up to so many.
    Cl100k {
        /// 1 or 3.
        digits: u8,
    },
    /// gpt-oss, GPT-4o.
    O200k,
    /// DeepSeek V3: digits, then Han and Kana, then the rest.
    DeepSeek,
}

impl Family {
    /// The family of a list of `Split` patterns (behaviour `Isolated`, not inverted), if it is known.
    pub(super) fn of(patterns: &[&str]) -> Option<Family> {
        KNOWN.iter().find(|(known, _)| *known == patterns).map(|(_, family)| *family)
    }

    /// Hands every word of the text to `take`.
    pub(super) fn each<'t>(self, text: &'t str, table: &[u8], mut take: impl FnMut(&'t str)) {
        let text = Text { str: text, table };
        match self {
            Family::Cl100k { digits } => text.each(|at| text.cl100k(at, digits), take),
            Family::O200k => text.each(|at| text.o200k(at), take),
            Family::DeepSeek => text.deepseek(&mut take),
        }
    }
}

const KNOWN: [(&[&str], Family); 4] = [
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        Family::Cl100k { digits: 1 },
    ),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        Family::Cl100k { digits: 3 },
    ),
    (
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        Family::O200k,
    ),
    (
        &[
            r"\p{N}{1,3}",
            "[一-龥\u{3040}-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        ],
        Family::DeepSeek,
    ),
];

/// The text, with the class of its characters.
#[derive(Clone, Copy)]
struct Text<'t, 'c> {
    str: &'t str,
    table: &'c [u8],
}

impl<'t> Text<'t, '_> {
    fn each(self, next: impl Fn(usize) -> usize, mut take: impl FnMut(&'t str)) {
        let mut at = 0;
        while at < self.str.len() {
            let end = next(at);
            take(&self.str[at..end]);
            at = end;
        }
    }

    /// Class and length of the character at a place; nothing at the end.
    #[inline]
    fn class(self, at: usize) -> (u8, usize) {
        match self.str.as_bytes().get(at) {
            None => (0, 0),
            Some(byte) if byte.is_ascii() => (self.table[usize::from(*byte)], 1),
            Some(_) => match self.str[at..].chars().next() {
                Some(character) => (self.table[character as usize], character.len_utf8()),
                None => (0, 0),
            },
        }
    }

    fn byte(self, at: usize) -> u8 {
        self.str.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The end of the run of characters that have one of the flags.
    #[inline]
    fn run(self, mut at: usize, flags: u8) -> usize {
        loop {
            let (class, length) = self.class(at);
            if class & flags == 0 {
                return at;
            }
            at += length;
        }
    }

    /// The end of the run of characters that have none of the flags.
    fn run_without(self, mut at: usize, flags: u8) -> usize {
        loop {
            let (class, length) = self.class(at);
            if length == 0 || class & flags != 0 {
                return at;
            }
            at += length;
        }
    }

    fn run_of_bytes(self, at: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let run = self.str.as_bytes()[at..].iter().take_while(|byte| wanted(**byte)).count();
        at + run
    }

    fn cl100k(self, at: usize, digits: u8) -> usize {
        if let Some(end) = self.contraction(at) {
            return end;
        }
        let (class, length) = self.class(at);
        if class & LETTER != 0 {
            return self.run(at + length, LETTER);
        }
        if class & NUMBER != 0 {
            return self.number(at, digits);
        }
        if !is_newline(self.byte(at)) {
            let (next, next_length) = self.class(at + length);
            if next & LETTER != 0 {
                return self.run(at + length + next_length, LETTER);
            }
        }
        self.other(at, is_newline).unwrap_or_else(|| self.space(at))
    }

    fn o200k(self, at: usize) -> usize {
        if let Some(end) = self.cased_word(at) {
            return self.contraction(end).unwrap_or(end);
        }
        if self.class(at).0 & NUMBER != 0 {
            return self.number(at, 3);
        }
        self.other(at, |byte| is_newline(byte) || byte == b'/').unwrap_or_else(|| self.space(at))
    }

    /// The first two alternatives of o200k without their suffix: each with the optional first character, then without.
    fn cased_word(self, at: usize) -> Option<usize> {
        let (class, length) = self.class(at);
        let after = (class & (LETTER | NUMBER) == 0 && !is_newline(self.byte(at))).then_some(at + length);
        let begins = [after, Some(at)];
        let lower = begins.iter().flatten().find_map(|begin| self.ends_lower(*begin));
        lower.or_else(|| {
            begins.iter().flatten().find_map(|begin| {
                let end = self.run(*begin, UPPER);
                (end > *begin).then_some(end)
            })
        })
    }

    /// `[upper]*[lower]+`, where the two classes share characters: the greedy first part gives back as few as it must.
    fn ends_lower(self, begin: usize) -> Option<usize> {
        let mut at = begin;
        let mut last_shared = None;
        loop {
            let (class, length) = self.class(at);
            if class & UPPER == 0 {
                return if class & LOWER != 0 { Some(self.run(at + length, LOWER)) } else { last_shared };
            }
            at += length;
            if class & LOWER != 0 {
                last_shared = Some(at);
            }
        }
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`; the long s is an s there.
    fn contraction(self, at: usize) -> Option<usize> {
        let rest = self.str.as_bytes()[at..].strip_prefix(b"'")?;
        match rest.first()?.to_ascii_lowercase() {
            b's' | b't' | b'm' | b'd' => Some(at + 2),
            b'r' | b'v' => rest.get(1)?.eq_ignore_ascii_case(&b'e').then_some(at + 3),
            b'l' => rest.get(1)?.eq_ignore_ascii_case(&b'l').then_some(at + 3),
            _ => rest.starts_with("ſ".as_bytes()).then_some(at + 3),
        }
    }

    fn number(self, at: usize, most: u8) -> usize {
        let mut end = at;
        for _ in 0..most {
            let (class, length) = self.class(end);
            if class & NUMBER == 0 {
                break;
            }
            end += length;
        }
        end
    }

    /// ` ?[^\s\p{L}\p{N}]+` and the bytes that may follow it.
    fn other(self, at: usize, follows: impl Fn(u8) -> bool) -> Option<usize> {
        let begin = at + usize::from(self.byte(at) == b' ');
        let end = self.run_without(begin, SPACE | LETTER | NUMBER);
        (end > begin).then(|| self.run_of_bytes(end, follows))
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`; not empty where a space stands.
    fn space(self, at: usize) -> usize {
        let end = self.run(at, SPACE);
        if let Some(newline) = memrchr2(b'\r', b'\n', &self.str.as_bytes()[at..end]) {
            return at + newline + 1;
        }
        if end == self.str.len() {
            return end;
        }
        match self.str[at..end].char_indices().next_back() {
            Some((last, _)) if last > 0 => at + last,
            _ => end,
        }
    }

    /// Three splits, one after the other, each on what the one before left.
    fn deepseek(self, take: &mut impl FnMut(&'t str)) {
        let mut at = 0;
        while at < self.str.len() {
            let (class, _) = self.class(at);
            if class & NUMBER != 0 {
                let end = self.number(at, 3);
                take(&self.str[at..end]);
                at = end;
                continue;
            }
            let end = self.same_script(at);
            Text { str: &self.str[at..end], ..self }.deepseek_rest(take);
            at = end;
        }
    }

    /// The end of the run of Han and Kana, or of what is neither that nor a number.
    fn same_script(self, at: usize) -> usize {
        let mut characters = self.str[at..].char_indices();
        let Some((_, first)) = characters.next() else { return at };
        let east = is_east(first);
        characters
            .find(|(_, next)| is_east(*next) != east || self.table[*next as usize] & NUMBER != 0)
            .map_or(self.str.len(), |(offset, _)| at + offset)
    }

    /// The third split. Characters that it doesn't match stay together.
    fn deepseek_rest(self, take: &mut impl FnMut(&'t str)) {
        let (mut at, mut unmatched) = (0, 0);
        while at < self.str.len() {
            match self.deepseek_match(at) {
                None => at += self.class(at).1,
                Some(end) => {
                    if unmatched < at {
                        take(&self.str[unmatched..at]);
                    }
                    take(&self.str[at..end]);
                    (at, unmatched) = (end, end);
                }
            }
        }
        if unmatched < at {
            take(&self.str[unmatched..at]);
        }
    }

    fn deepseek_match(self, at: usize) -> Option<usize> {
        let (class, length) = self.class(at);
        let byte = self.byte(at);
        if byte.is_ascii_punctuation() && self.byte(at + 1).is_ascii_alphabetic() {
            return Some(self.run_of_bytes(at + 1, |byte| byte.is_ascii_alphabetic()));
        }
        if class & (LETTER | MARK) != 0 {
            return Some(self.run(at, LETTER | MARK));
        }
        if class & SYMBOL == 0 && !is_newline(byte) {
            let end = self.run(at + length, LETTER | MARK);
            if end > at + length {
                return Some(end);
            }
        }
        let begin = at + usize::from(byte == b' ');
        let end = self.run(begin, SYMBOL);
        if end > begin {
            return Some(self.run_of_bytes(end, is_newline));
        }
        (class & SPACE != 0).then(|| self.space(at))
    }
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn is_east(character: char) -> bool {
    matches!(character, '一'..='龥' | '\u{3040}'..='ヿ')
}

#[cfg(test)]
mod tests {
    use super::super::classes;
    use super::*;

    fn check(family: Family, text: &str, wanted: &[&str]) {
        let mut words = Vec::new();
        family.each(text, classes::table().expect("Oniguruma knows Unicode"), |word| words.push(word));
        assert_eq!(words, wanted);
    }

    #[test]
    fn words_are_those_of_the_expression() {
        let three = Family::Cl100k { digits: 3 };
        check(
            three,
            "I'm here  now\n\n  x 12345",
            &["I", "'m", " here", " ", " now", "\n\n", " ", " x", " ", "123", "45"],
        );
        check(three, "a \t\n b  ", &["a", " \t\n", " b", "  "]);
        check(Family::Cl100k { digits: 1 }, "12'\u{17f}!!\n\nx", &["1", "2", "'\u{17f}", "!!\n\n", "x"]);
        check(Family::O200k, "HTMLParser it's/\n/x 語AB", &["HTMLParser", " it's", "/\n/", "x", " 語", "AB"]);
        check(Family::DeepSeek, "a  1东京x\u{1}\u{2}y!foo", &["a", "  ", "1", "东京", "x", "\u{1}", "\u{2}y", "!foo"]);
    }
}
