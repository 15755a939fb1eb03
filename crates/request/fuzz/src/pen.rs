//! A pen that writes JSON as the fuzzer's bytes decide.
//!
//! In: bytes; out: JSON of a given shape with every freedom that JSON leaves (order, spaces, escapes, repeated keys),
//! now and then a value of another type. What is written stays below [`MOST`] and a bit.

use libfuzzer_sys::arbitrary::Unstructured;

/// From here on only the plainest values are written, in bytes.
const MOST: usize = 200_000;

/// Texts that meet something in a parser, a template or a tokenizer.
const TEXTS: [&str; 44] = [
    "hi",
    "user",
    "assistant",
    "system",
    "tool",
    "developer",
    "",
    " ",
    "\n",
    "\r\n",
    "\t",
    "text",
    "<think>",
    "</think>",
    "\n\n</think>\n\n",
    "<tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<|im_start|>",
    "<|im_end|>\n",
    "<|end",
    "don't",
    "I'LL",
    "\u{17f}",
    "123456",
    "٣¾",
    "é",
    "e\u{301}\u{323}",
    "日本語",
    "👩‍👩‍👧",
    "\u{feff}",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "ß",
    "İ",
    "%s",
    "%-5.2f%%",
    "{}",
    "{0!r:>5}",
    "{\"a\":1}",
    "[1]",
    "x-anthropic-billing-header: 1\n",
    "data:image/png;base64,AA",
];

/// Names that some reader looks for.
const NAMES: [&str; 24] = [
    "type",
    "text",
    "content",
    "role",
    "name",
    "id",
    "function",
    "arguments",
    "parameters",
    "description",
    "items",
    "keys",
    "get",
    "url",
    "image_url",
    "data",
    "usage",
    "strict",
    "uuid",
    "x",
    "y",
    "tools",
    "status",
    "enable_thinking",
];

/// Values as they stand in JSON, or nearly.
const SCALARS: [&str; 26] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "7",
    "0.5",
    "-0.0",
    "1e5",
    "1e400",
    "-1e-400",
    "NaN",
    "Infinity",
    "-Infinity",
    "\"5\"",
    "\"yes\"",
    "2147483648",
    "4294967296",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "170141183460469231731687303715884105728",
    "99999999999999999999999999999999999999999",
    "1.7976931348623157e308",
    "{}",
];

/// A member of an object: its name, in how many of 256 objects it stands, and its value.
pub type Member<'m> = (&'m str, u16, &'m dyn Fn(&mut Pen<'_, '_>));

/// Stands in every object.
pub const ALWAYS: u16 = 256;
/// In half of them.
pub const OFTEN: u16 = 128;
/// In one of eight.
pub const SELDOM: u16 = 32;

/// Writes JSON.
pub struct Pen<'u, 'd> {
    source: &'u mut Unstructured<'d>,
    /// What is written so far.
    pub out: Vec<u8>,
    depth: usize,
}

impl<'u, 'd> Pen<'u, 'd> {
    pub fn new(source: &'u mut Unstructured<'d>) -> Self {
        Pen { source, out: Vec::new(), depth: 0 }
    }

    /// The next byte; 0 where none is left.
    pub fn byte(&mut self) -> u8 {
        self.source.arbitrary().unwrap_or(0)
    }

    /// A number below `count`, which is at most 256.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// True once in so many times; false where no bytes are left.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    /// One of the list, its first where no bytes are left.
    pub fn choose<'l, T: ?Sized>(&mut self, list: &[&'l T]) -> &'l T {
        list[self.below(list.len())]
    }

    /// Up to so many of the fuzzer's own bytes.
    pub fn raw(&mut self, most: usize) -> &'d [u8] {
        let length = self.below(256).min(most).min(self.source.len());
        self.source.bytes(length).unwrap_or_default()
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'d [u8] {
        let length = self.source.len();
        self.source.bytes(length).unwrap_or_default()
    }

    pub fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn full(&self) -> bool {
        self.out.len() > MOST
    }

    /// A text of anyone's.
    pub fn words(&mut self) -> String {
        let mut words = self.choose(&TEXTS).to_owned();
        while !self.full() && words.len() < 4096 && self.one_in(3) {
            match self.below(8) {
                0..4 => words.push_str(self.choose(&TEXTS)),
                4..7 => words.push_str(&String::from_utf8_lossy(self.raw(24))),
                _ => words = words.repeat(1 + self.below(40)),
            }
        }
        if !self.full() && self.byte() == 255 {
            words = words.repeat(1 + 60_000 / words.len().max(1));
        }
        words
    }

    /// A text in JSON.
    pub fn text(&mut self, text: &str) {
        let every = if self.one_in(6) { 1 + self.below(4) } else { 0 };
        self.push("\"");
        for (at, character) in text.chars().enumerate() {
            match character {
                '"' | '\\' => self.push(&format!("\\{character}")),
                '\n' => self.push("\\n"),
                _ if character < ' ' || every > 0 && at % every == 0 => {
                    let mut units = [0; 2];
                    for unit in character.encode_utf16(&mut units) {
                        self.push(&format!("\\u{unit:04x}"));
                    }
                }
                _ => self.push(character.encode_utf8(&mut [0; 4])),
            }
        }
        if self.byte() == 254 {
            self.push("\\ud800");
        }
        self.push("\"");
    }

    /// Some text in JSON.
    pub fn some_text(&mut self) {
        let words = self.words();
        self.text(&words);
    }

    /// One of these texts in JSON, or seldom another.
    pub fn one_of(&mut self, texts: &[&str]) {
        if self.one_in(40) {
            return self.some_text();
        }
        let text = self.choose(texts);
        self.text(text);
    }

    pub fn truth(&mut self) {
        let word = self.choose(&["true", "false"]);
        self.push(word);
    }

    pub fn scalar(&mut self) {
        let value = self.choose(&SCALARS);
        self.push(value);
    }

    /// Any value.
    pub fn any(&mut self) {
        if self.depth > 6 || self.full() {
            return self.scalar();
        }
        match self.below(16) {
            0..4 => self.some_text(),
            4..8 => self.scalar(),
            8..11 => self.list(0, &|pen| pen.any()),
            11..15 => self.any_object(),
            _ if self.one_in(16) => {
                let depth = 2 * (1 + self.below(140));
                let (open, close) = if self.one_in(2) { ("[{\"a\":", "}]") } else { ("[[", "]]") };
                self.push(&open.repeat(depth));
                self.push("0");
                self.push(&close.repeat(depth));
            }
            _ => {
                let digits = "7".repeat(1 + 20 * self.below(256));
                self.push(&digits);
            }
        }
    }

    /// An object of anything.
    pub fn any_object(&mut self) {
        self.push("{");
        let count = self.below(5);
        for at in 0..count {
            self.comma(at);
            self.any_name();
            self.colon();
            self.nested(&|pen| pen.any());
        }
        self.push("}");
    }

    fn any_name(&mut self) {
        if self.one_in(4) {
            return self.some_text();
        }
        let name = self.choose(&NAMES);
        self.text(name);
    }

    /// A list of at least so many items.
    pub fn list(&mut self, least: usize, item: &dyn Fn(&mut Pen<'_, '_>)) {
        self.push("[");
        let more = if self.one_in(32) { 64 } else { 4 };
        let count = least + self.below(more);
        for at in 0..count {
            if self.full() && at >= least {
                break;
            }
            self.comma(at);
            self.value(item);
        }
        self.push("]");
    }

    /// An object of these members in some order, and a few more.
    pub fn object(&mut self, members: &[Member<'_>]) {
        self.push("{");
        let mut written = 0;
        let first = self.below(members.len().max(1));
        for at in 0..members.len() {
            let (name, often, value) = members[(first + at) % members.len()];
            let rounds = if u16::from(!self.byte()) < often { 1 + usize::from(self.one_in(128)) } else { 0 };
            for _ in 0..rounds {
                self.comma(written);
                self.text(name);
                self.colon();
                self.value(value);
                written += 1;
            }
        }
        while !self.full() && self.one_in(10) {
            self.comma(written);
            self.any_name();
            self.colon();
            self.nested(&|pen| pen.any());
            written += 1;
        }
        self.push("}");
    }

    /// The value meant, or once in 256 times another.
    fn value(&mut self, meant: &dyn Fn(&mut Pen<'_, '_>)) {
        if self.byte() == 255 { self.nested(&|pen| pen.any()) } else { self.nested(meant) }
    }

    fn nested(&mut self, value: &dyn Fn(&mut Pen<'_, '_>)) {
        self.depth += 1;
        value(self);
        self.depth -= 1;
    }

    fn comma(&mut self, at: usize) {
        if at > 0 {
            let comma = self.choose(&[",", ",", ", ", ",\n  ", " ,\r\n\t"]);
            self.push(comma);
        }
    }

    fn colon(&mut self) {
        let colon = self.choose(&[":", ": ", " :\n"]);
        self.push(colon);
    }

    /// Changes a byte of what is written, once in so many times.
    pub fn spoil(&mut self, once_in: usize) {
        if !self.out.is_empty() && self.one_in(once_in) {
            let at = usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % self.out.len();
            self.out[at] = self.byte();
        }
    }
}
