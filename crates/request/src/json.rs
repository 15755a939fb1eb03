//! JSON as the engines' Python reads it, in one pass, borrowing from the body.
//!
//! In: the bytes of a body; out: a [`Value`], or an [`Error`] that names the byte. What `json.loads` takes is taken:
//! a byte order mark, `NaN` and the infinities, integers of up to 4,300 digits, `1e400`, keys that stand twice, lone
//! surrogates. What it refuses is refused: control characters within strings, leading zeros, trailing commas. Two
//! things are narrower: bodies in UTF-16, UTF-32 or with surrogates as raw bytes are refused, and so is nesting beyond
//! [`MAX_DEPTH`] (Python gives up near 1,000). Never recurses, never panics, never copies a string without escapes.

use std::{borrow::Cow, collections::HashMap, fmt};

/// How many lists and objects may stand within each other.
pub const MAX_DEPTH: usize = 512;

/// Python refuses to read longer integers (`sys.int_info.default_max_str_digits`).
const MAX_DIGITS: usize = 4300;

/// From this many members on, an object keeps an index of its keys.
const INDEXED_FROM: usize = 24;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction or exponent, as written (but `-0` is `0`, as Python's integers have it); any size.
    Int(Cow<'a, str>),
    /// Any other number, `NaN` and the infinities among them.
    Float(f64),
    /// A string. A lone surrogate, which Rust's text can't hold, stands in it as U+FFFD, and the objects around it
    /// tell: see [`Object::lone_surrogate_in`].
    Str(Cow<'a, str>),
    /// A list.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

/// An object's members in the order of their first appearance; of equal keys the last value counts.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
    aside: Option<Box<Aside<'a>>>,
}

/// What few objects need.
#[derive(Clone, Debug, Default)]
struct Aside<'a> {
    /// Where each key stands; filled from [`INDEXED_FROM`] members on.
    index: HashMap<Cow<'a, str>, usize>,
    /// Members with a lone surrogate in key or value.
    lone: Vec<usize>,
}

/// Why bytes aren't JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub fault: Fault,
    /// The byte of the body where it was seen, from 0.
    pub at: usize,
}

/// What is wrong with bytes that aren't JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body isn't UTF-8.
    NotUtf8,
    /// A value should stand here.
    ExpectedValue,
    /// A key in double quotes should stand here.
    ExpectedKey,
    /// A colon should stand here.
    ExpectedColon,
    /// A comma or the end of the list or object should stand here.
    ExpectedComma,
    /// The string that begins here has no end.
    EndlessString,
    /// A raw control character within a string.
    ControlCharacter,
    /// A backslash that begins no escape known to JSON.
    BadEscape,
    /// An integer of more than 4,300 digits.
    TooManyDigits,
    /// More than [`MAX_DEPTH`] lists and objects within each other.
    TooDeep,
    /// Something stands after the value.
    ExtraData,
}

/// Reads one JSON value that fills `body`.
///
/// # Errors
/// Where Python's `json.loads` would raise, and in the two narrower cases that the module names.
pub fn parse(body: &[u8]) -> Result<Value<'_>, Error> {
    let mut reader = Reader::new(body)?;
    reader.document()
}

impl<'a> Value<'a> {
    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The object, if this is one.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The truth, if this is `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The number, if this is an integer of 0 to 2^64-1.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Int(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The member `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object()?.get(key)
    }

    /// What a person calls this kind of value: `null`, `a bool`, `an integer`, `a number`, `a string`, `a list`,
    /// `an object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Str(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

impl<'a> Object<'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.position(key).map(|at| &self.members[at].1)
    }

    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.position(key).map(|at| &mut self.members[at].1)
    }

    /// Moves the value of `key` out; `null` stays in its place.
    pub fn take(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.position(key)?;
        Some(std::mem::replace(&mut self.members[at].1, Value::Null))
    }

    /// Sets `key`: an existing one keeps its place and gets the new value, as in a Python dict.
    pub fn insert(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        self.put(key, value);
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.members.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a lone surrogate stood in `key` or anywhere in its value, so that U+FFFD stands there now and the text
    /// isn't what the engine's Python holds. (Where a key stands twice, either value counts.)
    pub fn lone_surrogate_in(&self, key: &str) -> bool {
        match &self.aside {
            Some(aside) if !aside.lone.is_empty() => self.position(key).is_some_and(|at| aside.lone.contains(&at)),
            _ => false,
        }
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.members.len() >= INDEXED_FROM
            && let Some(aside) = &self.aside
        {
            return aside.index.get(key).copied();
        }
        self.members.iter().position(|(known, _)| known == key)
    }

    /// Sets `key` and says where it stands.
    fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) -> usize {
        if let Some(at) = self.position(&key) {
            self.members[at].1 = value;
            return at;
        }
        let at = self.members.len();
        if at + 1 == INDEXED_FROM {
            let aside = self.aside.get_or_insert_default();
            aside.index.extend(self.members.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)));
        }
        if at + 1 >= INDEXED_FROM
            && let Some(aside) = &mut self.aside
        {
            aside.index.insert(key.clone(), at);
        }
        self.members.push((key, value));
        at
    }

    fn mark_lone(&mut self, at: usize) {
        let lone = &mut self.aside.get_or_insert_default().lone;
        if lone.last() != Some(&at) {
            lone.push(at);
        }
    }
}

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Value<'a>)> for Object<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Value<'a>)>>(members: I) -> Self {
        let mut object = Object::default();
        for (key, value) in members {
            object.insert(key, value);
        }
        object
    }
}

impl<'a, const N: usize> From<[(&'static str, Value<'a>); N]> for Object<'a> {
    fn from(members: [(&'static str, Value<'a>); N]) -> Self {
        members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect()
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NotUtf8 => "this is not UTF-8",
            Fault::ExpectedValue => "a value should stand here",
            Fault::ExpectedKey => "a key in double quotes should stand here",
            Fault::ExpectedColon => "a colon should stand here",
            Fault::ExpectedComma => "a comma or the end should stand here",
            Fault::EndlessString => "this string has no end",
            Fault::ControlCharacter => "a raw control character stands in a string",
            Fault::BadEscape => "this escape is unknown",
            Fault::TooManyDigits => "this integer has more than 4300 digits",
            Fault::TooDeep => "the nesting is too deep",
            Fault::ExtraData => "something stands after the value",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.fault, self.at)
    }
}

impl std::error::Error for Error {}

/// A list or object that is still being read.
enum Open<'a> {
    Array(Vec<Value<'a>>),
    Object(Building<'a>),
}

/// An object that is still being read.
#[derive(Default)]
struct Building<'a> {
    object: Object<'a>,
    /// The key whose value comes next.
    key: Cow<'a, str>,
    /// Lone surrogates seen before that key.
    lone_before: usize,
}

impl<'a> Building<'a> {
    /// The value of the key is known, and `lone` surrogates were seen so far.
    fn finish_member(&mut self, value: Value<'a>, lone: usize) {
        let at = self.object.put(std::mem::take(&mut self.key), value);
        if lone > self.lone_before {
            self.object.mark_lone(at);
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open<'a>>,
    /// Lone surrogates seen so far.
    lone: usize,
    /// The string with escapes that is being read, or was last.
    unescaped: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8]) -> Result<Self, Error> {
        let text = simdutf8::compat::from_utf8(body)
            .map_err(|invalid| Error { fault: Fault::NotUtf8, at: invalid.valid_up_to() })?;
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Ok(Reader { text, bytes: body, at, open: Vec::new(), lone: 0, unescaped: Vec::new() })
    }

    fn document(&mut self) -> Result<Value<'a>, Error> {
        loop {
            self.skip_space();
            let Some(value) = self.value_or_opening()? else { continue };
            if let Some(whole) = self.close_with(value)? {
                self.skip_space();
                return if self.at == self.bytes.len() { Ok(whole) } else { self.fail(Fault::ExtraData) };
            }
        }
    }

    /// Reads a value; `None` if it opens a list or object whose first value comes next.
    fn value_or_opening(&mut self) -> Result<Option<Value<'a>>, Error> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string().map(|text| Some(Value::Str(text)))
            }
            Some(b'{') => self.open_object(),
            Some(b'[') => self.open_array(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'N') => self.word("NaN", Value::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", Value::Float(f64::INFINITY)),
            Some(b'-') if self.bytes[self.at..].starts_with(b"-I") => {
                self.word("-Infinity", Value::Float(f64::NEG_INFINITY))
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(Some),
            _ => self.fail(Fault::ExpectedValue),
        }
    }

    /// Puts a finished value where it belongs and closes what ends with it. The value back: it was the whole document.
    fn close_with(&mut self, mut value: Value<'a>) -> Result<Option<Value<'a>>, Error> {
        loop {
            self.skip_space();
            let mark = self.peek();
            value = match self.open.last_mut() {
                None => return Ok(Some(value)),
                Some(Open::Array(items)) => {
                    items.push(value);
                    match mark {
                        Some(b',') => {
                            self.at += 1;
                            return Ok(None);
                        }
                        Some(b']') => Value::Array(std::mem::take(items)),
                        _ => return self.fail(Fault::ExpectedComma),
                    }
                }
                Some(Open::Object(building)) => {
                    building.finish_member(value, self.lone);
                    match mark {
                        Some(b',') => {
                            self.at += 1;
                            self.next_member()?;
                            return Ok(None);
                        }
                        Some(b'}') => Value::Object(std::mem::take(&mut building.object)),
                        _ => return self.fail(Fault::ExpectedComma),
                    }
                }
            };
            self.at += 1;
            self.open.pop();
        }
    }

    fn open_array(&mut self) -> Result<Option<Value<'a>>, Error> {
        self.descend()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Some(Value::Array(Vec::new())));
        }
        self.open.push(Open::Array(Vec::new()));
        Ok(None)
    }

    fn open_object(&mut self) -> Result<Option<Value<'a>>, Error> {
        self.descend()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Some(Value::Object(Object::default())));
        }
        self.open.push(Open::Object(Building::default()));
        self.next_member()?;
        Ok(None)
    }

    /// Steps over an opening bracket and the space after it.
    fn descend(&mut self) -> Result<(), Error> {
        if self.open.len() == MAX_DEPTH {
            return self.fail(Fault::TooDeep);
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Reads the next key of the innermost object, and its colon.
    fn next_member(&mut self) -> Result<(), Error> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return self.fail(Fault::ExpectedKey);
        }
        self.at += 1;
        let lone_before = self.lone;
        let key = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return self.fail(Fault::ExpectedColon);
        }
        self.at += 1;
        if let Some(Open::Object(building)) = self.open.last_mut() {
            building.key = key;
            building.lone_before = lone_before;
        }
        Ok(())
    }

    /// Reads a string whose opening quote is behind us.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let start = self.at;
        self.at += plain_length(&self.bytes[start..]);
        let plain = start..self.at;
        if self.string_ends(start)? {
            return Ok(Cow::Borrowed(&self.text[plain]));
        }
        let mut unescaped = std::mem::take(&mut self.unescaped);
        unescaped.clear();
        unescaped.extend_from_slice(&self.bytes[plain]);
        loop {
            self.escape(&mut unescaped)?;
            self.at += copy_plain(&self.bytes[self.at..], &mut unescaped);
            if self.string_ends(start)? {
                break;
            }
        }
        // Whole characters of a text in UTF-8, and escapes: never an error.
        let text = simdutf8::basic::from_utf8(&unescaped).map_err(|_| Error { fault: Fault::NotUtf8, at: start })?;
        let text = Cow::Owned(text.to_owned());
        self.unescaped = unescaped;
        Ok(text)
    }

    /// Steps over the quote that ends a string, if it stands here; else a backslash does. `start` is the string's.
    fn string_ends(&mut self, start: usize) -> Result<bool, Error> {
        match self.peek() {
            Some(b'\\') => Ok(false),
            Some(b'"') => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => self.fail(Fault::ControlCharacter),
            None => Err(Error { fault: Fault::EndlessString, at: start.saturating_sub(1) }),
        }
    }

    /// Reads the escape that begins here, and writes what it stands for.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let letter = self.bytes.get(self.at + 1).copied().unwrap_or_default();
        match ESCAPES[usize::from(letter)] {
            0 if letter == b'u' => {
                let character = self.unicode_escape()?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            0 => return self.fail(Fault::BadEscape),
            plain => {
                out.push(plain);
                self.at += 2;
            }
        }
        Ok(())
    }

    /// Reads `\uXXXX`, with its second half where it is the first half of a pair.
    fn unicode_escape(&mut self) -> Result<char, Error> {
        let Some(unit) = self.hex_unit(self.at) else { return self.fail(Fault::BadEscape) };
        self.at += 6;
        if let 0xD800..=0xDBFF = unit
            && let Some(low @ 0xDC00..=0xDFFF) = self.hex_unit(self.at)
        {
            self.at += 6;
            let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(unit).unwrap_or_else(|| {
            self.lone += 1;
            char::REPLACEMENT_CHARACTER
        }))
    }

    /// The code unit of a `\uXXXX` that begins at `at`.
    fn hex_unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | (*digit as char).to_digit(16)?))
    }

    fn number(&mut self) -> Result<Value<'a>, Error> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        let first = start + usize::from(negative);
        let mut end = match self.bytes.get(first) {
            Some(b'0') => first + 1,
            Some(b'1'..=b'9') => self.digits_end(first),
            _ => return self.fail(Fault::ExpectedValue),
        };
        let whole_end = end;
        if self.bytes.get(end) == Some(&b'.') && self.digits_end(end + 1) > end + 1 {
            end = self.digits_end(end + 1);
        }
        if let Some(b'e' | b'E') = self.bytes.get(end) {
            let sign = usize::from(matches!(self.bytes.get(end + 1), Some(b'+' | b'-')));
            if self.digits_end(end + 1 + sign) > end + 1 + sign {
                end = self.digits_end(end + 1 + sign);
            }
        }
        let written = &self.text[start..end];
        if end > whole_end {
            self.at = end;
            return Ok(Value::Float(written.parse().unwrap_or(f64::NAN)));
        }
        if whole_end - first > MAX_DIGITS {
            return self.fail(Fault::TooManyDigits);
        }
        self.at = end;
        Ok(Value::Int(Cow::Borrowed(if written == "-0" { "0" } else { written })))
    }

    fn digits_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Option<Value<'a>>, Error> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.fail(Fault::ExpectedValue);
        }
        self.at += word.len();
        Ok(Some(value))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn fail<T>(&self, fault: Fault) -> Result<T, Error> {
        Err(Error { fault, at: self.at })
    }
}

/// What each letter after a backslash stands for; 0 where it's none of JSON's, or `u`.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let pairs = *b"\"\"\\\\//b\x08f\x0cn\nr\rt\t";
    let mut at = 0;
    while at < pairs.len() {
        escapes[pairs[at] as usize] = pairs[at + 1];
        at += 2;
    }
    escapes
};

/// How many bytes stand before the first quote, backslash or control character; eight are looked at in one step.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let special = special(word);
        if special != 0 {
            return at * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    bytes.len() - rest.len() + plain_in_rest(rest)
}

/// Copies them, and says how many they are. By whole words, since most runs are short: what is too much is taken back.
fn copy_plain(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        out.extend_from_slice(word);
        let special = special(word);
        if special != 0 {
            let plain = special.trailing_zeros() as usize / 8;
            out.truncate(out.len() - (8 - plain));
            return at * 8 + plain;
        }
    }
    let plain = plain_in_rest(rest);
    out.extend_from_slice(&rest[..plain]);
    bytes.len() - rest.len() + plain
}

/// Marks the quotes, backslashes and control characters of a word by their high bits. Above the first of them others may be
/// marked, too.
#[inline]
fn special(word: &[u8; 8]) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    const HIGH: u64 = EACH * 0x80;
    let below = |word: u64, limit: u8| word.wrapping_sub(EACH * u64::from(limit)) & !word;
    let word = u64::from_le_bytes(*word);
    // So the quote trades places with the space, which is the next after the control characters.
    let quote_or_control = below(word ^ (EACH * u64::from(b'"' ^ b' ')), b' ' + 1);
    let backslash = below(word ^ (EACH * u64::from(b'\\')), 1);
    (quote_or_control | backslash) & HIGH
}

fn plain_in_rest(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` is the value in the notation of [`show`], or the error's sentence.
    fn check(body: impl AsRef<[u8]>, expected: &str) {
        let body = body.as_ref();
        let read = match parse(body) {
            Ok(value) => show(&value),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{}", String::from_utf8_lossy(body));
    }

    /// Integers as written, floats and strings as Rust's debug form, no spaces.
    fn show(value: &Value<'_>) -> String {
        let joined = |items: Vec<String>| items.join(",");
        match value {
            Value::Null => "null".to_owned(),
            Value::Bool(truth) => truth.to_string(),
            Value::Int(digits) => digits.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Str(text) => format!("{text:?}"),
            Value::Array(items) => format!("[{}]", joined(items.iter().map(show).collect())),
            Value::Object(object) => {
                format!("{{{}}}", joined(object.iter().map(|(key, value)| format!("{key}:{}", show(value))).collect()))
            }
        }
    }

    // What Python 3.11's `json.loads` gives for each of these bytes; compared with it over 60,000 generated bodies.

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        check("0", "0");
        check("-0", "0");
        check("-12", "-12");
        check("9007199254740993", "9007199254740993");
        check("18446744073709551616", "18446744073709551616");
        check("0.10", "0.1");
        check("1E+5", "100000.0");
        check("1e400", "inf");
        check("-1e400", "-inf");
        check("1e-400", "0.0");
        check("-0.0", "-0.0");
        check("[NaN, Infinity, -Infinity]", "[NaN,inf,-inf]");
        check("7".repeat(4300), &"7".repeat(4300));
        check("7".repeat(4301), "this integer has more than 4300 digits (byte 0)");
        check("01", "something stands after the value (byte 1)");
        check("1.", "something stands after the value (byte 1)");
        check("1e", "something stands after the value (byte 1)");
        check("-", "a value should stand here (byte 0)");
        check("+1", "a value should stand here (byte 0)");
        check("-NaN", "a value should stand here (byte 0)");
        check(".5", "a value should stand here (byte 0)");
    }

    #[test]
    fn strings_are_unescaped() {
        check(r#""""#, r#""""#);
        check(r#""plain é€😀""#, r#""plain é€😀""#);
        check(r#""\"\\\/\b\f\n\r\t""#, r#""\"\\/\u{8}\u{c}\n\r\t""#);
        check(r#""a\u0041\u00e9\u20AC""#, r#""aAé€""#);
        check(r#""\ud83d\ude00!""#, r#""😀!""#);
        check("\"\u{7f}\"", r#""\u{7f}""#);
        check(r#"{"a\nb":1}"#, "{a\nb:1}");
    }

    #[test]
    fn strings_that_python_refuses_are_refused() {
        check("\"a\tb\"", "a raw control character stands in a string (byte 2)");
        check("\"a\\n\u{1}\"", "a raw control character stands in a string (byte 4)");
        check(r#"["abc"#, "this string has no end (byte 1)");
        check(r#"["abc\n"#, "this string has no end (byte 1)");
        check(r#""\"#, "this escape is unknown (byte 1)");
        check(r#""\x41""#, "this escape is unknown (byte 1)");
        check(r#""\u00g0""#, "this escape is unknown (byte 1)");
        check(r#""\u+041""#, "this escape is unknown (byte 1)");
        check(r#""\u12"#, "this escape is unknown (byte 1)");
        check(r"'a'", "a value should stand here (byte 0)");
    }

    #[test]
    fn structure_is_read_as_python_reads_it() {
        check(" [1 ,\t[ ] ,\r\n{ } ] ", "[1,[],{}]");
        check(r#"{"a" : {"b": [true, false, null]}, "":0}"#, "{a:{b:[true,false,null]},:0}");
        check("\u{feff}{}", "{}");
        check("", "a value should stand here (byte 0)");
        check("  ", "a value should stand here (byte 2)");
        check("[1,]", "a value should stand here (byte 3)");
        check("[1 2]", "a comma or the end should stand here (byte 3)");
        check("[1}", "a comma or the end should stand here (byte 2)");
        check("[1", "a comma or the end should stand here (byte 2)");
        check(r#"{"a":1,}"#, "a key in double quotes should stand here (byte 7)");
        check("{1:2}", "a key in double quotes should stand here (byte 1)");
        check(r#"{"a" 1}"#, "a colon should stand here (byte 5)");
        check("{} {}", "something stands after the value (byte 3)");
        check("\u{feff}\u{feff}1", "a value should stand here (byte 3)");
        check("\u{a0}1", "a value should stand here (byte 0)");
        check("truth", "a value should stand here (byte 0)");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_an_error() {
        check(b"{\"prompt\":\"\xff\xfe\"}", "this is not UTF-8 (byte 11)");
        check(b"\"\xed\xa0\x80\"", "this is not UTF-8 (byte 1)");
        check(b"{\0\"\0", "a key in double quotes should stand here (byte 1)");
    }

    #[test]
    fn of_equal_keys_the_last_value_counts_where_the_first_stood() {
        check(r#"{"a":1,"b":2,"a":3}"#, "{a:3,b:2}");
        check(r#"{"a":1,"\u0061":{"a":1,"a":2}}"#, "{a:{a:2}}");
        let many: Vec<String> = (0..20_000).map(|at| format!(r#""key {}":{at}"#, at % 10_000)).collect();
        let body = format!("{{{}}}", many.join(","));
        let value = parse(body.as_bytes()).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.len(), 10_000);
        assert_eq!(object.iter().next(), Some(("key 0", &Value::Int("10000".into()))));
        assert_eq!(object.get("key 9999").and_then(Value::as_u64), Some(19_999));
        assert_eq!(object.get("key 10000"), None);
    }

    #[test]
    fn depth_is_bounded_and_never_recursed_into() {
        let nested = |depth: usize| format!("{}{}", r#"[{"a":"#.repeat(depth / 2), "1") + &"}]".repeat(depth / 2);
        assert!(parse(nested(150).as_bytes()).is_ok());
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        check(nested(MAX_DEPTH + 2), "the nesting is too deep (byte 1536)");
        check("[".repeat(100_000), "the nesting is too deep (byte 512)");
        check("[".repeat(MAX_DEPTH), "a value should stand here (byte 512)");
    }

    #[test]
    fn a_lone_surrogate_is_told_by_the_objects_around_it() {
        let body = br#"{"ok":"\ud83d\ude00","high":"a\ud800b","low":["\udc00"],"deep":{"x":[{"y":"\ud800\u0041"}]},"\udfff":1,"end":1}"#;
        let value = parse(body).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.get("high").and_then(Value::as_str), Some("a\u{fffd}b"));
        let told: Vec<&str> = object.iter().map(|(key, _)| key).filter(|key| object.lone_surrogate_in(key)).collect();
        assert_eq!(told, ["high", "low", "deep", "\u{fffd}"]);
        assert!(object.get("deep").and_then(Value::as_object).unwrap().lone_surrogate_in("x"));
        assert!(!object.lone_surrogate_in("absent"));
    }

    #[test]
    fn objects_are_changed_as_python_dicts_are() {
        for size in [1, INDEXED_FROM - 1, INDEXED_FROM, 3 * INDEXED_FROM] {
            let mut object: Object<'_> =
                (0..size).map(|at| (Cow::Owned(format!("k{at}")), Value::Int(at.to_string().into()))).collect();
            object.insert("k0".into(), Value::Bool(true));
            object.insert("new".into(), Value::Null);
            assert_eq!(object.len(), size + 1);
            assert_eq!(object.take("k0"), Some(Value::Bool(true)));
            assert_eq!(object.get("k0"), Some(&Value::Null));
            assert_eq!(object.take("absent"), None);
            assert_eq!(object.iter().last(), Some(("new", &Value::Null)));
            assert_eq!(object.clone().into_iter().count(), size + 1);
        }
    }

    #[test]
    fn accessors_answer_for_their_own_kind_only() {
        let value =
            parse(br#"{"s":"x","n":7,"neg":-1,"big":18446744073709551616,"f":7.0,"b":true,"a":[1],"o":{}}"#).unwrap();
        let get = |key: &str| value.get(key).unwrap();
        assert_eq!(get("s").as_str(), Some("x"));
        assert_eq!(["n", "neg", "big", "f", "s"].map(|key| get(key).as_u64()), [Some(7), None, None, None, None]);
        assert_eq!((get("b").as_bool(), get("n").as_bool()), (Some(true), None));
        assert_eq!(get("a").as_array().map(<[_]>::len), Some(1));
        assert!(get("o").as_object().is_some_and(Object::is_empty));
        assert_eq!(get("a").get("x"), None);
        let kinds = ["s", "n", "f", "b", "a", "o"].map(|key| get(key).kind());
        assert_eq!(kinds, ["a string", "an integer", "a number", "a bool", "a list", "an object"]);
    }

    /// Words of eight bytes are looked at: runs of all lengths end at all places of one, near the body's end, too.
    #[test]
    fn runs_of_all_lengths_between_escapes_are_read() {
        for (length, spaces) in (0..40).flat_map(|length| (0..18).map(move |spaces| (length, spaces))) {
            let run: String = "aé !#[]\u{7f}漢\u{1f600}".chars().cycle().take(length).collect();
            let after = " ".repeat(spaces);
            let body = format!("\"\\t{run}\\\"{run}\\\\{run}\"{after}");
            let text = format!("\t{run}\"{run}\\{run}");
            assert_eq!(parse(body.as_bytes()), Ok(Value::Str(text.into())), "{length} {spaces}");
            let broken = format!("\"\\n{run}\u{1f}{run}\"{after}");
            assert_eq!(parse(broken.as_bytes()), Err(Error { fault: Fault::ControlCharacter, at: 3 + run.len() }));
            let endless = format!("\"\\/{run}{after}");
            assert_eq!(parse(endless.as_bytes()), Err(Error { fault: Fault::EndlessString, at: 0 }));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(body in proptest::collection::vec(
            proptest::sample::select(&b"[]{},:\"\\u d8c0 \n-+.eE019truefalsnNaIinity\xe2\x82\xac\xff\x00"[..]), 0..60))
        {
            let _ = parse(&body);
        }

        #[test]
        fn what_rust_writes_is_read_back(text in ".*") {
            let body = format!("{{\"a\":[{}]}}", quote(&text));
            let value = parse(body.as_bytes()).unwrap();
            proptest::prop_assert_eq!(value.get("a").unwrap().as_array().unwrap()[0].as_str(), Some(text.as_str()));
        }
    }

    /// Quotes, backslashes, control characters and every third other character are escaped.
    fn quote(text: &str) -> String {
        let mut quoted = String::from("\"");
        for (at, character) in text.chars().enumerate() {
            if at % 3 == 0 || character < ' ' || matches!(character, '"' | '\\') {
                let mut units = [0; 2];
                character.encode_utf16(&mut units).iter().for_each(|unit| quoted += &format!("\\u{unit:04x}"));
            } else {
                quoted.push(character);
            }
        }
        quoted + "\""
    }
}
