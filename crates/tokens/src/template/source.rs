//! A template's source, made ready for minijinja.
//!
//! In: Jinja2's source as transformers takes it; out: the same template in what minijinja knows, line for line, and
//! what vLLM reads off the source: whether it loops over the parts of a message's content.

/// How a message's content comes to the template, as vLLM tells from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentFormat {
    /// One text.
    String,
    /// A list of parts.
    Openai,
}

/// A source that minijinja can compile.
pub(super) struct Prepared {
    pub(super) text: String,
    pub(super) content_format: ContentFormat,
}

pub(super) fn prepare(source: &str) -> Prepared {
    Prepared { text: source.to_owned(), content_format: ContentFormat::String }
}
