//! A chat template, rendered as Hugging Face's transformers renders it.
//!
//! In: a template's source, then a context; out: the text. transformers runs Jinja2 in a sandbox with `trim_blocks`,
//! `lstrip_blocks`, loop controls, a `generation` tag, its own `tojson`, `raise_exception` and `strftime_now`; here
//! minijinja is brought to do the same: see the modules below for what differs. Nothing outside of the context is ever read.
//!
//! Any template is bounded, whatever it builds for itself: in its steps, in the text that it makes, in the lists that it
//! holds at once, in how deep it nests them, and in every walk over them. minijinja's fuel counts instructions and bytes;
//! it doesn't know how large a list is of which the parts are shared, nor how deep. So what a template makes and keeps
//! becomes a list or dict of ours (`source::kept`), which knows its depth and counts whoever reads it (`meter`). Beyond
//! the bounds a rendering ends in an error; `bounds` tests each way there is.
//!
//! What was printed for a message is remembered (`recall`), where the template's source proves that it hangs on nothing but
//! what can be compared (`source::bodies`): the message itself, and what else its loop's body reads. A template is a program
//! over all messages, and what it prints for an early one may hang on a later one: Qwen3's looks for the last question
//! from the end first, and prints the reasoning of answers after it only. That, too, is read by the body, and counts.

mod args;
#[cfg(test)]
mod bounds;
mod clock;
mod fields;
mod filters;
mod meter;
mod methods;
mod percent;
mod python;
mod recall;
mod source;
mod tojson;
mod turns;
mod unicode;
mod value;
mod wrap;

use std::{fmt, sync::Arc, time::SystemTime};

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, syntax::SyntaxConfig};
use request::json;

use crate::{
    MemoStats,
    media::{Modality, Printed},
};
pub(crate) use clock::date;
use meter::Meter;
pub(crate) use python::{strip, strip_end, write_float};
pub(crate) use recall::Recollection;
pub(crate) use source::ContentFormat;
pub(crate) use value::{Dict, List, to_template};

/// Steps that one rendering may take: each costs some tens of nanoseconds, and 64 bytes of text made on the way count
/// as one, so that all texts together stay below 256 MB.
const MAX_STEPS: u64 = 4_000_000;

/// The same for chats of more than [`LONG_CHAT`] messages.
const MAX_STEPS_LONG: u64 = 40_000_000;

/// How many messages make a chat long.
const LONG_CHAT: usize = 10_000;

/// A rendered text is never longer, in bytes.
const MAX_RENDERED: usize = 256 << 20;

/// The name under which the context holds the clock; no template can name it.
const NOW: &str = "\0now";

/// The name of a template in its environment.
const NAME: &str = "chat_template";

/// A compiled chat template.
pub struct Template {
    environment: Environment<'static>,
    /// Steps that a rendering may take.
    steps: u64,
    /// The same for long chats: with more steps, and without a memory, which one of them would fill.
    environment_long: Environment<'static>,
    /// Its loops, where their turns are remembered.
    loops: Option<recall::Loops>,
    content_format: ContentFormat,
    knows_developers: bool,
    reads_content: bool,
    /// What it prints for images, sounds and films.
    printed: Printed,
}

/// Why a template gave no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Whose fault it is.
    pub fault: Fault,
    /// What went wrong, in the template's own words where it raised.
    pub message: String,
    /// The template's line, from 1, where known.
    pub line: Option<usize>,
}

/// Whose fault it is that a template gave no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The template isn't one: the model's files are at fault.
    Syntax,
    /// The template called `raise_exception`: it refuses these messages, and so will the engine.
    Raised,
    /// The template failed on these messages, as it would in the engine.
    Failed,
    /// The template took too many steps.
    TooManySteps,
    /// The text grew too long.
    TooLong,
}

impl Fault {
    /// A short name for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Syntax => "template_syntax",
            Fault::Raised => "template_raised",
            Fault::Failed => "template_failed",
            Fault::TooManySteps => "template_too_many_steps",
            Fault::TooLong => "template_too_long",
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("content_format", &self.content_format).finish_non_exhaustive()
    }
}

/// A text would be longer than any may be.
#[derive(Debug)]
struct TextTooLong;

impl fmt::Display for TextTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text would be too long")
    }
}

impl std::error::Error for TextTooLong {}

/// A text would be longer than any may be.
fn too_long() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the text would be too long").with_source(TextTooLong)
}

/// What `raise_exception` raises.
#[derive(Debug)]
struct Raised;

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// Where it isn't one, with the line.
    pub fn compile(source: &str) -> Result<Template, TemplateError> {
        Template::prepared(source, None)
    }

    /// As [`Template::compile`], remembering within so many bytes what was printed for messages: for the same text, sooner.
    ///
    /// # Errors
    /// As [`Template::compile`].
    pub fn remembering(source: &str, memo_bytes: usize) -> Result<Template, TemplateError> {
        Template::prepared(source, Some(&Arc::new(Recollection::new(memo_bytes))))
    }

    /// Compiles a template that remembers what it printed, if it is told where.
    pub(crate) fn prepared(source: &str, recollection: Option<&Arc<Recollection>>) -> Result<Template, TemplateError> {
        let mut environment = environment();
        let prepared = source::prepare(source);
        if prepared.too_many_parts.is_some() {
            let message = "an expression has too many parts".into();
            return Err(TemplateError { fault: Fault::Syntax, message, line: prepared.too_many_parts });
        }
        environment.add_template_owned(NAME, prepared.text.clone()).map_err(describe)?;
        let mut environment_long = environment.clone();
        environment_long.set_fuel(Some(MAX_STEPS_LONG));
        let loops = match recollection {
            None => None,
            Some(recollection) => {
                let text = source::put_aside(prepared.text, &prepared.bodies);
                environment.add_template_owned(NAME, text).map_err(describe)?;
                Some(recall::Loops::new(prepared.bodies, Arc::clone(recollection)))
            }
        };
        Ok(Template {
            environment,
            steps: MAX_STEPS,
            environment_long,
            loops,
            content_format: prepared.content_format,
            knows_developers: source.contains("'developer'") || source.contains("\"developer\""),
            reads_content: source.contains("content"),
            printed: Printed::default(),
        })
    }

    /// Renders a context, with `strftime_now` at `now`, in UTC.
    ///
    /// # Errors
    /// Where the template raises, fails or takes too much.
    pub fn render(&self, context: &json::Object<'_>, now: SystemTime) -> Result<String, TemplateError> {
        let messages = context.get("messages").and_then(json::Value::as_array).map_or(0, <[_]>::len);
        self.render_value(Dict::collect(context.iter().map(|(key, value)| (key, to_template(value)))), messages, now)
    }

    /// What is remembered of loops' turns, and how that served.
    pub fn memo(&self) -> MemoStats {
        self.loops.as_ref().map(recall::Loops::stats).unwrap_or_default()
    }

    /// Whether messages' contents are to be lists of parts, as vLLM tells from the template.
    pub(crate) fn content_format(&self) -> ContentFormat {
        self.content_format
    }

    /// What it prints for a part that is no text.
    pub(crate) fn placeholder(&self, modality: Modality) -> Option<&str> {
        self.printed.by(self, modality)
    }

    /// Whether the template has messages of developers, as vLLM tells from the source.
    pub(crate) fn knows_developers(&self) -> bool {
        self.knows_developers
    }

    /// Whether a message can be continued, as transformers tells from the source.
    pub(crate) fn reads_content(&self) -> bool {
        self.reads_content
    }

    /// Renders a context with so many messages.
    pub(crate) fn render_value(
        &self,
        context: Value,
        messages: usize,
        now: SystemTime,
    ) -> Result<String, TemplateError> {
        let recall = self.loops.as_ref().map_or_else(Value::default, recall::Loops::begin);
        let context = value::Scope::new(context, [(NOW, clock::to_value(now)), (recall::RECALL, recall)]);
        let (environment, steps) = match messages > LONG_CHAT {
            true => (&self.environment_long, MAX_STEPS_LONG),
            false => (&self.environment, self.steps),
        };
        let template = environment.get_template(NAME).map_err(describe)?;
        let meter = Meter::start(steps);
        let rendered = template.render(Value::from_object(context));
        if meter.is_spent() {
            return Err(describe(Error::from(ErrorKind::OutOfFuel)));
        }
        let rendered = rendered.map_err(describe)?;
        if rendered.len() > MAX_RENDERED {
            return Err(TemplateError { fault: Fault::TooLong, message: "the text is too long".into(), line: None });
        }
        Ok(rendered)
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_debug(false);
    environment.set_formatter(|out, _, value| match python::text(value) {
        Some(text) => Ok(out.write_str(text)?),
        None if let Some(turns) = value.downcast_object_ref::<recall::Turns>() => {
            Ok(turns.texts().try_for_each(|text| out.write_str(text))?)
        }
        None => Ok(python::write_str(&mut meter::Paid(out), value)?),
    });
    environment.set_unknown_method_callback(methods::call);
    environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, python::to_str(message)).with_source(Raised))
    });
    environment.add_function("strftime_now", clock::strftime_now);
    filters::add(&mut environment);
    recall::add(&mut environment);
    environment
}

fn describe(error: Error) -> TemplateError {
    let source_is =
        |is: fn(&(dyn std::error::Error + 'static)) -> bool| std::error::Error::source(&error).is_some_and(is);
    let raised = source_is(|source| source.is::<Raised>());
    let fault = match error.kind() {
        _ if raised => Fault::Raised,
        _ if source_is(|source| source.is::<TextTooLong>()) => Fault::TooLong,
        ErrorKind::SyntaxError => Fault::Syntax,
        ErrorKind::OutOfFuel => Fault::TooManySteps,
        _ => Fault::Failed,
    };
    let message = match error.detail() {
        Some(detail) if raised => detail.to_owned(),
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    TemplateError { fault, message, line: error.line() }
}
