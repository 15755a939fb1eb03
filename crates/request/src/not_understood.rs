//! Why a body wasn't understood: for a log line, a metric's label and a person. Never holds text of the prompt.

use std::fmt;

use crate::json;

/// Why a request is picked for by load alone. None of these is our refusal: the engine answers a bad body better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUnderstood {
    /// No API that we know has this path.
    UnknownPath,
    /// The body is empty.
    NoBody,
    /// The body isn't JSON.
    NotJson(json::Error),
    /// The body's lists and objects are nested beyond [`json::MAX_DEPTH`].
    TooDeep,
    /// The body is JSON, but not an object.
    NotAnObject {
        /// What it is: [`json::Value::kind`].
        found: &'static str,
    },
    /// A member that matters has another type than the engine takes.
    WrongType {
        /// Where: `messages[3].role`.
        key: String,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// Text that matters holds half of a surrogate pair, which no tokenizer takes.
    LoneSurrogate {
        /// The body's member that holds it.
        key: String,
    },
    /// `messages` is absent or empty.
    NoMessages,
    /// The prompt is absent or empty, or one in its list is.
    NoPrompt {
        /// The body's member that should hold it: `prompt`, `input`.
        key: &'static str,
    },
    /// The prompt is neither text nor texts nor (where ids are taken) ids nor lists of ids.
    BadPrompt {
        /// The body's member that holds it.
        key: &'static str,
        /// The place in its list (the innermost one for lists of ids), if it is a list.
        at: Option<usize>,
        /// What stands there.
        found: &'static str,
    },
    /// The prompt came as embeddings, which hold no text.
    PromptEmbeds,
    /// The prompt depends on something that isn't in the body, or that isn't read here.
    Unsupported {
        /// The body's member: `previous_response_id`, `input[2]`.
        key: String,
        /// What it is: `a reference to stored items`.
        what: &'static str,
    },
    /// A content coding that isn't known here, or several.
    UnknownEncoding {
        /// The header's value, cut after 40 characters.
        encoding: String,
    },
    /// The bytes aren't what `content-encoding` says.
    BadEncoding,
    /// Unpacked, the body is larger than allowed.
    TooLarge {
        /// The bound in bytes.
        cap: usize,
    },
}

impl NotUnderstood {
    /// The reason as a label: a few fixed words in snake_case.
    pub fn as_str(&self) -> &'static str {
        match self {
            NotUnderstood::UnknownPath => "unknown_path",
            NotUnderstood::NoBody => "no_body",
            NotUnderstood::NotJson(_) => "not_json",
            NotUnderstood::TooDeep => "too_deep",
            NotUnderstood::NotAnObject { .. } => "not_an_object",
            NotUnderstood::WrongType { .. } => "wrong_type",
            NotUnderstood::LoneSurrogate { .. } => "lone_surrogate",
            NotUnderstood::NoMessages => "no_messages",
            NotUnderstood::NoPrompt { .. } => "no_prompt",
            NotUnderstood::BadPrompt { .. } => "bad_prompt",
            NotUnderstood::PromptEmbeds => "prompt_embeds",
            NotUnderstood::Unsupported { .. } => "unsupported",
            NotUnderstood::UnknownEncoding { .. } => "unknown_encoding",
            NotUnderstood::BadEncoding => "bad_encoding",
            NotUnderstood::TooLarge { .. } => "too_large",
        }
    }
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotUnderstood::UnknownPath => f.write_str("no known API has this path"),
            NotUnderstood::NoBody => f.write_str("the body is empty"),
            NotUnderstood::NotJson(error) => write!(f, "the body is not JSON: {error}"),
            NotUnderstood::TooDeep => {
                write!(f, "the body nests lists and objects more than {} deep", json::MAX_DEPTH)
            }
            NotUnderstood::NotAnObject { found } => write!(f, "the body should be a JSON object, but is {found}"),
            NotUnderstood::WrongType { key, expected, found } => {
                write!(f, "`{key}` should be {expected}, but is {found}")
            }
            NotUnderstood::LoneSurrogate { key } => {
                write!(f, "`{key}` holds half of a surrogate pair, which is no text")
            }
            NotUnderstood::NoMessages => f.write_str("`messages` is absent or empty"),
            NotUnderstood::NoPrompt { key } => write!(f, "`{key}` is absent or empty"),
            NotUnderstood::BadPrompt { key, at: None, found } => {
                write!(f, "`{key}` should be a string or a list, but is {found}")
            }
            NotUnderstood::BadPrompt { key, at: Some(at), found } => {
                write!(f, "`{key}` should hold strings, token ids or lists of token ids, but item {at} is {found}")
            }
            NotUnderstood::PromptEmbeds => f.write_str("`prompt_embeds` holds no text to compare"),
            NotUnderstood::Unsupported { key, what } => write!(f, "`{key}` is {what}, which is not read here"),
            NotUnderstood::UnknownEncoding { encoding } => write!(f, "content-encoding {encoding:?} is unknown here"),
            NotUnderstood::BadEncoding => f.write_str("the body is not what content-encoding says"),
            NotUnderstood::TooLarge { cap } => write!(f, "the body is larger than {cap} bytes"),
        }
    }
}

impl std::error::Error for NotUnderstood {}
