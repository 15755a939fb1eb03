//! A whole JSON answer, cut anywhere, of which only the top level's `usage` is kept.
//!
//! In: bytes as they come; out: each object that stands under `usage` at the top level, when it ends. It may stand
//! before or after megabytes of text: nothing else is kept, and of it no more than [`MAX_USAGE`]. Broken JSON gives
//! nothing, or what stood before the break, and is no error.

/// The largest `usage` that is kept, in bytes.
pub(crate) const MAX_USAGE: usize = 64 << 10;

/// The key that is looked for; one spelt with escapes isn't recognised.
const KEY: &[u8] = b"usage";

#[derive(Debug, Default)]
pub(crate) struct Whole {
    lexeme: Lexeme,
    /// Lists and objects open around the next byte.
    depth: usize,
    /// The next string at the top level is a key.
    key_next: bool,
    /// The current string is such a key, and this is its beginning.
    in_key: bool,
    key: Vec<u8>,
    /// The value that comes next at the top level is that of `usage`.
    usage_next: bool,
    /// We are in the object under `usage`, and this is its beginning.
    in_usage: bool,
    usage: Vec<u8>,
    /// The document is over, or isn't an object.
    over: bool,
    /// A `usage` was longer than [`MAX_USAGE`] and left out.
    pub(crate) capped: bool,
}

#[derive(Debug, Default)]
enum Lexeme {
    #[default]
    Outside,
    String,
    /// In a string, just after a backslash.
    Escape,
}

impl Whole {
    /// Reads on, and hands each object under `usage` that ends within `bytes` to `found`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(&[u8])) {
        while !bytes.is_empty() && !self.over {
            let was_in_usage = self.in_usage;
            let passed = match self.lexeme {
                Lexeme::Outside => self.outside(bytes),
                Lexeme::String => self.string(bytes),
                Lexeme::Escape => {
                    self.lexeme = Lexeme::String;
                    1
                }
            };
            if was_in_usage || self.in_usage {
                self.keep(&bytes[..passed]);
            }
            if was_in_usage && !self.in_usage {
                found(&self.usage);
                self.usage = Vec::new();
            }
            bytes = &bytes[passed..];
        }
    }

    /// Passes the next byte that means something outside of strings, or everything.
    fn outside(&mut self, bytes: &[u8]) -> usize {
        let mark = bytes.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b':' | b','));
        let before = &bytes[..mark.unwrap_or(bytes.len())];
        if self.depth == 0 && !before.iter().all(|byte| b" \t\r\n\xef\xbb\xbf".contains(byte)) {
            self.over = true;
        }
        let Some(mark) = mark else { return bytes.len() };
        match (bytes[mark], self.depth) {
            (b'{', 0) => {
                self.depth = 1;
                self.key_next = true;
            }
            (_, 0) => self.over = true,
            (b'{' | b'[', depth) => {
                self.in_usage |= depth == 1 && self.usage_next && bytes[mark] == b'{';
                self.depth += 1;
            }
            (b'}' | b']', _) => {
                self.depth -= 1;
                self.in_usage &= self.depth > 1;
                self.over = self.depth == 0;
            }
            (b'"', depth) => {
                self.lexeme = Lexeme::String;
                self.in_key = depth == 1 && std::mem::take(&mut self.key_next);
                self.key.clear();
            }
            (b':', 1) => self.usage_next = self.key == KEY,
            (b',', 1) => {
                self.key_next = true;
                self.usage_next = false;
            }
            _ => {}
        }
        mark + 1
    }

    /// Passes the string's end or the next backslash, or everything.
    fn string(&mut self, bytes: &[u8]) -> usize {
        let stop = memchr::memchr2(b'"', b'\\', bytes);
        let passed = stop.map_or(bytes.len(), |stop| stop + 1);
        let mut run = &bytes[..passed];
        if let Some(stop) = stop {
            self.lexeme = if bytes[stop] == b'"' { Lexeme::Outside } else { Lexeme::Escape };
            run = if bytes[stop] == b'"' { &bytes[..stop] } else { run };
        }
        if self.in_key {
            // One byte more than the key is enough to see that it is another.
            let room = (KEY.len() + 1).saturating_sub(self.key.len());
            self.key.extend_from_slice(&run[..run.len().min(room)]);
        }
        passed
    }

    fn keep(&mut self, piece: &[u8]) {
        // Space may stand before the object's first byte.
        let start = if self.usage.is_empty() { piece.iter().position(|byte| *byte == b'{').unwrap_or(0) } else { 0 };
        let piece = &piece[start..];
        if self.usage.len() + piece.len() > MAX_USAGE {
            self.capped = true;
            self.in_usage = false;
            self.usage_next = false;
            self.usage = Vec::new();
        } else {
            self.usage.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `answer` whole and byte by byte; `expected` are the objects found, joined by ` | `.
    fn check(answer: &str, expected: &str) {
        for size in [answer.len().max(1), 1, 7] {
            let mut whole = Whole::default();
            let mut found = Vec::new();
            for piece in answer.as_bytes().chunks(size) {
                whole.feed(piece, |usage| found.push(String::from_utf8_lossy(usage).into_owned()));
            }
            assert_eq!(found.join(" | "), expected, "{answer} in pieces of {size}");
        }
    }

    #[test]
    fn usage_is_found_wherever_it_stands_at_the_top_level() {
        check(r#"{"usage":{"a":1}}"#, r#"{"a":1}"#);
        check("\u{feff} {\n\"id\": \"x\", \"usage\" :\n {\"a\": {\"b\": [1]}}, \"z\": 1}\n", r#"{"a": {"b": [1]}}"#);
        check(r#"{"choices":[{"usage":{"a":1}},[{"usage":{}}]],"usage":{"a":2}}"#, r#"{"a":2}"#);
        check(r#"{"usage":{"a":1},"usage":{"a":2}}"#, r#"{"a":1} | {"a":2}"#);
        check(r#"{"usage":{"s":"}\"{\\"},"b":1}"#, r#"{"s":"}\"{\\"}"#);
    }

    #[test]
    fn text_that_looks_like_usage_is_text() {
        check(r#"{"text":"\"usage\":{\"a\":1}","x":"usage"}"#, "");
        check(r#"{"x":"usage","y":{"a":1}}"#, "");
        check(r#"{"usages":{"a":1},"usag":{"a":1},"us\u0061ge":{"a":1},"\\usage":{}}"#, "");
        check(r#"[{"usage":{"a":1}}]"#, "");
    }

    #[test]
    fn usage_that_is_no_object_gives_nothing() {
        check(r#"{"usage":null}"#, "");
        check(r#"{"usage":[{"a":1}],"b":{"a":2}}"#, "");
        check(r#"{"usage":"oops"}"#, "");
    }

    #[test]
    fn what_is_not_json_gives_nothing() {
        check("", "");
        check("no healthy upstream", "");
        check(r#"no {"usage":{"a":1}}"#, "");
        check(r#""usage":{"a":1}"#, "");
        check(r#"{"usage":{"a":1"#, "");
        check(r#"}}{"usage":{"a":1}}"#, "");
        check(r#"{"a":1} {"usage":{"a":1}}"#, "");
    }

    #[test]
    fn a_huge_usage_is_left_out_and_the_answer_says_so() {
        let answer = format!(r#"{{"usage":{{"a":"{}"}},"usage":{{"b":1}}}}"#, "x".repeat(MAX_USAGE));
        let mut whole = Whole::default();
        let mut found = Vec::new();
        whole.feed(answer.as_bytes(), |usage| found.push(usage.len()));
        assert!(whole.capped);
        assert_eq!(found.last(), Some(&7));
    }
}
