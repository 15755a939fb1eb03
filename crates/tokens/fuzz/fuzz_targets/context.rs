//! Contexts of templates, and whole requests with tiny tokenizers.
//!
//! In: a fuzzer's bytes, made into a context for one of the templates or a request (seven of eight
//! times by a grammar, else as they are). Holds: nothing panics, work is bounded, a template that remembers prints what it
//! prints without a memory, and the ids are those of `tokenizers`. Errors are fine.

#![no_main]

mod models;

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use models::Model;
use request::json::{self, Value};
use request_fuzz::{
    bodies,
    pen::{ALWAYS, OFTEN, Pen, SELDOM},
    watch,
};
use tokens::{Context, EncodeError, Fault, Template, Tokenizer};

/// For four million steps and 256 MB of text, in a build with checks and counters.
const BOUND: Duration = Duration::from_secs(10);

/// The longest text whose ids are compared, in bytes.
const COMPARED: usize = 20_000;

/// What a template may remember, in bytes: little, so that much is forgotten.
const MEMO: usize = 1 << 20;

/// Each template without and with a memory.
static TEMPLATES: LazyLock<Vec<[Template; 2]>> = LazyLock::new(|| {
    let sources =
        models::templates().into_iter().chain(include_str!("../templates/expressions.txt").lines().map(str::to_owned));
    let compile = |source: String| {
        [Template::compile(&source), Template::remembering(&source, MEMO)]
            .map(|template| template.unwrap_or_else(|error| panic!("{source}: {error}")))
    };
    sources.map(compile).collect()
});

static MODELS: LazyLock<Vec<Model>> = LazyLock::new(models::all);

fuzz_target!(|data: &[u8]| {
    let mut source = Unstructured::new(data);
    let mut pen = Pen::new(&mut source);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(pen.byte()) << pen.below(32));
    let is_raw = watch::one_in(8, data);
    watch::count(if pen.one_in(2) { encode(&mut pen, now, is_raw) } else { render(&mut pen, now, is_raw) });
});

/// Whether the context was read, so that a template was rendered.
fn render(pen: &mut Pen<'_, '_>, now: SystemTime, is_raw: bool) -> bool {
    let [template, remembering] = &TEMPLATES[pen.below(TEMPLATES.len())];
    if is_raw {
        let raw = pen.rest();
        pen.out.extend_from_slice(raw);
    } else {
        context(pen);
        pen.spoil(48);
    }
    let Ok(Value::Object(context)) = json::parse(&pen.out) else { return false };
    let rendered = watch::within(BOUND, "a template", || template.render(&context, now));
    for _ in 0..2 {
        let remembered = watch::within(BOUND, "a template that remembers", || remembering.render(&context, now));
        match (&rendered, &remembered) {
            // What isn't rendered again takes fewer steps.
            (Err(error), Ok(_)) if error.fault == Fault::TooManySteps => {}
            _ => assert_eq!(
                rendered.as_ref().map_err(|error| error.fault),
                remembered.as_ref().map_err(|error| error.fault)
            ),
        }
    }
    rendered.map_or_else(|error| !error.to_string().is_empty(), |_| true)
}

/// What the templates read: a chat, and the expressions' names.
fn context(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("messages", OFTEN, &bodies::messages),
        ("tools", SELDOM * 2, &|pen| pen.list(0, &bodies::tool)),
        ("documents", SELDOM, &|pen| pen.list(0, &|pen| pen.any_object())),
        ("add_generation_prompt", OFTEN, &|pen| pen.truth()),
        ("enable_thinking", SELDOM, &|pen| pen.truth()),
        ("x", ALWAYS, &|pen| pen.any()),
        ("y", OFTEN, &|pen| pen.any()),
        ("s", ALWAYS, &|pen| pen.some_text()),
        ("t", ALWAYS, &|pen| pen.some_text()),
        ("n", ALWAYS, &number),
        ("m", OFTEN, &number),
        ("f", OFTEN, &|pen| pen.scalar()),
    ]);
}

fn number(pen: &mut Pen<'_, '_>) {
    if pen.one_in(4) {
        return pen.scalar();
    }
    let number = i32::from(pen.byte()) - 8;
    pen.push(&number.to_string());
}

/// Whether the request was read, so that it was encoded.
fn encode(pen: &mut Pen<'_, '_>, now: SystemTime, is_raw: bool) -> bool {
    let model = &MODELS[pen.below(MODELS.len())];
    let trust_request_template = pen.one_in(4);
    let path = if is_raw {
        let raw = pen.rest();
        pen.out.extend_from_slice(raw);
        "/v1/chat/completions".to_owned()
    } else {
        bodies::request(pen)
    };
    let Ok(request) = request::parse(&path, &pen.out) else { return false };
    let context = Context { trust_request_template, exclude_tools_when_tool_choice_none: true, ..Context::at(now) };
    let encoded = watch::within(BOUND, "a prompt", || model.tokenizer.encode(&request.prompt, &context));
    match &encoded {
        Ok(encoded) => model.check(&request.prompt, encoded, COMPARED),
        Err(error) => assert!(!matches!(error, EncodeError::Tokenizer(_)), "{error}"),
    }
    watch::within(BOUND, "an estimate", || Tokenizer::estimate().encode(&request.prompt, &context)).is_ok()
}
