//! The model's name in an answer put back to the one that was asked for, where the request was sent on under another.
//!
//! In: an answer's bytes, however cut; out: the same bytes, but for the value of `model` at the top level of each JSON
//! document, and of `model` in an object under `response` or `message` there, where that value is exactly the name that the
//! engine was given. Text is never touched. No more is kept back than one value that may still turn out to be the name.

use crate::rename::{quoted, unquoted};

/// Keys are looked at up to this many bytes: the longest of interest, written in escapes alone, quotes included.
const LONGEST_KEY: usize = "response".len() * 6 + 2;

/// Puts a name back while an answer passes.
#[derive(Debug)]
pub struct NameBack {
    /// The engine's name for the model.
    engine: String,
    /// What is written in its place, as JSON.
    asked: String,
    /// A value can't be the engine's name if it is longer, in bytes.
    longest: usize,
    form: Form,
    line: Line,
    document: Document,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The first byte that isn't space will tell.
    Unknown,
    Stream,
    Whole,
    Opaque,
}

/// Where in a stream's line we are.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// So many bytes of `data:` have come.
    Field(usize),
    /// In what follows it.
    Data,
    /// In another field.
    Other,
}

/// One JSON document, byte by byte.
#[derive(Debug, Default)]
struct Document {
    depth: usize,
    /// We are in a string.
    string: bool,
    /// Just after a backslash in it.
    escape: bool,
    /// The next string at this depth is a key.
    key_next: bool,
    /// The string read is a key.
    in_key: bool,
    key: Vec<u8>,
    /// What the last key at the top level was.
    top: Key,
    /// What the last key of interest was.
    last: Key,
    /// The object at depth 2 is one that holds a model.
    nested: bool,
    /// A value that may be the name, its opening quote first.
    held: Option<Vec<u8>>,
    /// The document is over, or isn't an object.
    over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    Model,
    /// `response` or `message`.
    Holder,
    #[default]
    Other,
}

impl NameBack {
    /// For an answer with these headers: `engine` becomes `asked`. An answer that is packed passes as it is.
    pub fn new(engine: &str, asked: &str, content_type: Option<&str>, content_encoding: Option<&str>) -> NameBack {
        let plain = content_encoding.is_none_or(|coding| matches!(coding.trim(), "" | "identity"));
        let media = content_type.map(|whole| whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let form = match media.as_deref() {
            _ if !plain => Form::Opaque,
            None => Form::Unknown,
            Some("text/event-stream") => Form::Stream,
            Some(json) if json == "application/json" || json.ends_with("+json") => Form::Whole,
            Some(_) => Form::Opaque,
        };
        NameBack {
            engine: engine.to_owned(),
            asked: quoted(asked),
            longest: engine.encode_utf16().count() * 6 + 2,
            form,
            line: Line::Field(0),
            document: Document::default(),
        }
    }

    /// The next bytes, as they go on.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + self.asked.len());
        for (at, byte) in bytes.iter().enumerate() {
            if self.form == Form::Unknown && !byte.is_ascii_whitespace() {
                self.form = match byte {
                    b'{' => Form::Whole,
                    b'd' | b'e' | b'i' | b'r' | b':' => Form::Stream,
                    _ => Form::Opaque,
                };
            }
            match self.form {
                Form::Unknown => out.push(*byte),
                Form::Opaque => {
                    out.extend_from_slice(&bytes[at..]);
                    break;
                }
                Form::Whole => self.document_byte(*byte, &mut out),
                Form::Stream => self.stream_byte(*byte, &mut out),
            }
        }
        out
    }

    /// What is kept back: the answer is over, or nothing may be. A name of which that is the beginning stays the engine's, and the
    /// answer can go on.
    pub fn let_go(&mut self) -> Vec<u8> {
        self.document.held.take().unwrap_or_default()
    }

    fn stream_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        const DATA: &[u8] = b"data:";
        if byte == b'\n' {
            out.append(&mut self.let_go());
            out.push(byte);
            self.line = Line::Field(0);
            return;
        }
        match self.line {
            // A mark of the byte order may stand before the first line.
            Line::Field(0) if matches!(byte, 0xef | 0xbb | 0xbf) => out.push(byte),
            Line::Field(seen) => {
                out.push(byte);
                self.line = match DATA.get(seen) == Some(&byte) {
                    true if seen + 1 == DATA.len() => {
                        self.document = Document::default();
                        Line::Data
                    }
                    true => Line::Field(seen + 1),
                    false => Line::Other,
                };
            }
            Line::Data => self.document_byte(byte, out),
            Line::Other => out.push(byte),
        }
    }

    fn document_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let document = &mut self.document;
        if let Some(mut held) = document.held.take() {
            held.push(byte);
            if !document.in_string(byte) {
                let is_name = unquoted(&held).as_deref() == Some(self.engine.as_str());
                out.extend_from_slice(if is_name { self.asked.as_bytes() } else { &held });
            } else if held.len() > self.longest {
                out.append(&mut held);
            } else {
                document.held = Some(held);
            }
            return;
        }
        if document.step(byte) {
            document.held = Some(vec![byte]);
        } else {
            out.push(byte);
        }
    }
}

impl Document {
    /// Reads a byte of a string; whether the string goes on.
    fn in_string(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escape => self.escape = false,
            b'\\' => self.escape = true,
            b'"' => self.string = false,
            _ => {}
        }
        self.string
    }

    /// Reads a byte; whether a value begins with it that may be the name.
    fn step(&mut self, byte: u8) -> bool {
        if self.over {
            return false;
        }
        if self.string {
            if self.in_key && self.key.len() < LONGEST_KEY {
                self.key.push(byte);
            }
            if !self.in_string(byte) && std::mem::take(&mut self.in_key) {
                self.read_key();
            }
            return false;
        }
        let of_interest = self.depth == 1 || self.depth == 2 && self.nested;
        match byte {
            b'"' => {
                self.string = true;
                self.in_key = of_interest && std::mem::take(&mut self.key_next);
                if self.in_key {
                    self.key.clear();
                    self.key.push(byte);
                    return false;
                }
                return of_interest && std::mem::take(&mut self.last) == Key::Model;
            }
            b'{' | b'[' => {
                self.over = self.depth == 0 && byte == b'[';
                self.nested = match self.depth {
                    1 => byte == b'{' && self.top == Key::Holder,
                    _ => self.nested,
                };
                self.depth += 1;
                self.key_next = self.depth == 1 || self.depth == 2 && self.nested;
                self.last = Key::Other;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.over = self.depth == 0;
                self.nested &= self.depth > 1;
                self.last = Key::Other;
            }
            b',' if of_interest => {
                self.key_next = true;
                self.last = Key::Other;
            }
            _ => self.over = self.depth == 0 && !byte.is_ascii_whitespace() && !matches!(byte, 0xef | 0xbb | 0xbf),
        }
        false
    }

    fn read_key(&mut self) {
        self.last = match unquoted(&self.key).as_deref() {
            Some("model") => Key::Model,
            Some("response" | "message") => Key::Holder,
            _ => Key::Other,
        };
        if self.depth == 1 {
            self.top = self.last;
        }
    }
}
