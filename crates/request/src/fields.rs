//! The members of a body, taken out one by one with the leniency of the engines.
//!
//! In: the body's object; out: typed values, or [`NotUnderstood`] that names the key. vLLM validates by pydantic in its
//! lax mode, where `"yes"` is true and `"5"` is five; so do we, and `null` counts as absent. Members that nobody asks
//! for are never looked at.

use std::borrow::Cow;

use crate::{
    End, NotUnderstood, Truncation,
    json::{Object, Value},
};

/// An object whose members are taken out: the body, or one within it.
pub(crate) struct Fields<'a> {
    object: Object<'a>,
    /// Where the object stands, for errors: nothing, or `tools[0]`.
    place: String,
}

impl<'a> Fields<'a> {
    /// The body's own members.
    pub(crate) fn new(object: Object<'a>) -> Self {
        Fields { object, place: String::new() }
    }

    /// The members of `value`, which stands at `place`.
    pub(crate) fn of(place: String, value: Value<'a>) -> Result<Self, NotUnderstood> {
        match value {
            Value::Object(object) => Ok(Fields { object, place }),
            other => Err(wrong_type(&place, "an object", &other)),
        }
    }

    /// Where the member `key` stands.
    pub(crate) fn place_of(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn wrong<T>(&self, key: &str, expected: &'static str, found: &Value<'_>) -> Result<T, NotUnderstood> {
        Err(wrong_type(&self.place_of(key), expected, found))
    }

    /// What is left of the object.
    pub(crate) fn into_object(self) -> Object<'a> {
        self.object
    }

    /// Whether there is such a member that isn't null and wasn't taken.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    /// Whether `type` is this word.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.object.get("type").and_then(Value::as_str) == Some(kind)
    }

    /// The member itself; `None` if absent or null. Text that Rust can't hold is an error.
    pub(crate) fn value(&mut self, key: &str) -> Result<Option<Value<'a>>, NotUnderstood> {
        if self.object.lone_surrogate_in(key) {
            return Err(NotUnderstood::LoneSurrogate { key: self.place_of(key) });
        }
        Ok(self.object.take(key).filter(|value| !value.is_null()))
    }

    /// A string.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => self.wrong(key, "a string", &other),
        }
    }

    /// A string that has to be there.
    pub(crate) fn needed_text(&mut self, key: &str) -> Result<Cow<'a, str>, NotUnderstood> {
        match self.text(key)? {
            Some(text) => Ok(text),
            None => self.wrong(key, "a string", &Value::Null),
        }
    }

    /// A bool.
    pub(crate) fn truth(&mut self, key: &str, default: bool) -> Result<bool, NotUnderstood> {
        match self.value(key)? {
            None => Ok(default),
            Some(value) => lax_bool(&value).map_or_else(|| self.wrong(key, "a bool", &value), Ok),
        }
    }

    /// A count, from 0.
    pub(crate) fn count(&mut self, key: &str) -> Result<Option<u64>, NotUnderstood> {
        match self.value(key)? {
            None => Ok(None),
            Some(value) => {
                lax_u64(&value).map_or_else(|| self.wrong(key, "an integer from 0", &value), |count| Ok(Some(count)))
            }
        }
    }

    /// A list.
    pub(crate) fn list(&mut self, key: &str) -> Result<Option<Vec<Value<'a>>>, NotUnderstood> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => self.wrong(key, "a list", &other),
        }
    }

    /// An object.
    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Object<'a>>, NotUnderstood> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => self.wrong(key, "an object", &other),
        }
    }

    /// `model`; an empty one names none.
    pub(crate) fn model(&mut self) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
        Ok(self.text("model")?.filter(|model| !model.is_empty()))
    }

    /// `cache_salt`, which vLLM refuses if empty.
    pub(crate) fn cache_salt(&mut self) -> Result<Option<Cow<'a, str>>, NotUnderstood> {
        match self.text("cache_salt")? {
            Some(salt) if salt.is_empty() => Err(NotUnderstood::WrongType {
                key: self.place_of("cache_salt"),
                expected: "a string that isn't empty",
                found: "an empty one",
            }),
            salt => Ok(salt),
        }
    }

    /// `truncate_prompt_tokens`, and from which side (`truncation_side` names the side that is cut off).
    pub(crate) fn truncation(&mut self, kept: End) -> Result<Option<Truncation>, NotUnderstood> {
        let side = self.text("truncation_side")?;
        let kept = match side.as_deref() {
            None => kept,
            Some("left") => End::Last,
            Some("right") => End::First,
            Some(_) => {
                let key = self.place_of("truncation_side");
                return Err(NotUnderstood::WrongType { key, expected: "left or right", found: "another" });
            }
        };
        let Some(value) = self.value("truncate_prompt_tokens")? else { return Ok(None) };
        let tokens = match &value {
            Value::Int(digits) if digits == "-1" => None,
            Value::Float(number) if *number == -1.0 => None,
            Value::Str(written) if written.trim() == "-1" => None,
            value => match lax_u64(value) {
                // More than any memory holds cuts nothing off.
                Some(count) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
                None => return self.wrong("truncate_prompt_tokens", "an integer from -1", value),
            },
        };
        Ok(Some(Truncation { tokens, kept }))
    }

    /// `stream`, and whether such a stream will carry usage.
    pub(crate) fn stream(&mut self) -> Result<(bool, bool), NotUnderstood> {
        let stream = self.truth("stream", false)?;
        let place = self.place_of("stream_options");
        let options = Value::Object(self.object("stream_options")?.unwrap_or_default());
        let include_usage = Fields::of(place, options)?.truth("include_usage", false)?;
        Ok((stream, stream && include_usage))
    }
}

/// The error for a member of another type than expected.
pub(crate) fn wrong_type(key: &str, expected: &'static str, found: &Value<'_>) -> NotUnderstood {
    NotUnderstood::WrongType { key: key.to_owned(), expected, found: found.kind() }
}

/// A bool as pydantic's lax mode reads one.
fn lax_bool(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::Int(digits) if digits == "0" => Some(false),
        Value::Int(digits) if digits == "1" => Some(true),
        Value::Float(number) if *number == 0.0 => Some(false),
        Value::Float(number) if *number == 1.0 => Some(true),
        Value::Str(word) => match word.to_ascii_lowercase().as_str() {
            "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
            "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// An integer from 0 as pydantic's lax mode reads one; none above 2^64-1.
pub(crate) fn lax_u64(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(digits) => digits.parse().ok(),
        Value::Bool(truth) => Some(u64::from(*truth)),
        // Exact up to 2^53, and no engine counts further.
        Value::Float(number) if number.fract() == 0.0 && (0.0..=9e15).contains(number) => Some(*number as u64),
        Value::Str(written) => {
            let written = written.trim();
            let whole = match written.split_once('.') {
                Some((_, "")) => return None,
                Some((whole, zeros)) => zeros.bytes().all(|digit| digit == b'0').then_some(whole)?,
                None => written,
            };
            if whole == "-0" { Some(0) } else { whole.parse().ok() }
        }
        _ => None,
    }
}
