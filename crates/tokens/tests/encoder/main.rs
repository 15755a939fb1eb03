//! Our encoder against Hugging Face's `tokenizers`, on random texts: the same ids, with the memo and without.
//!
//! Qwen3's files are carried; those of the other models are fetched by `cargo xtask fixtures`, and a test whose model
//! isn't there fails and says so.

#![allow(clippy::unwrap_used, reason = "a fixture that doesn't read fails the test where it stands")]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    thread,
    time::SystemTime,
};

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use request::Prompt;
use tokens::{Context, DEFAULT_MEMO_BYTES, Files, Tokenizer};

mod texts;

/// The ten kinds and one more: edits of a long text, whose chunks are met again in other surroundings.
const KINDS: u32 = texts::KINDS + 1;

/// Texts tried on each model. More in a release build, where there is time.
const ROUNDS: u32 = if cfg!(debug_assertions) { 900 } else { 60_000 };

#[test]
fn qwen3_is_encoded_as_by_the_reference() {
    check("qwen3");
}

#[test]
fn llama3_is_encoded_as_by_the_reference() {
    check("llama3");
}

#[test]
fn gemma3_is_encoded_as_by_the_reference() {
    check("gemma3");
}

#[test]
fn deepseek_v3_is_encoded_as_by_the_reference() {
    check("deepseek-v3");
}

#[test]
fn gpt_oss_is_encoded_as_by_the_reference() {
    check("gpt-oss");
}

#[test]
fn threads_that_share_a_memo_have_the_same_ids() {
    let model = Model::load("qwen3");
    thread::scope(|scope| {
        for seed in 0..2 {
            let model = &model;
            // Half of the texts are the other thread's too.
            scope.spawn(move || {
                for round in 0..60 {
                    let mut rng = StdRng::seed_from_u64(if round % 2 == 0 { round } else { round << 1 | seed });
                    model.check_text(&model.long_text(&mut rng));
                }
            });
        }
    });
}

#[track_caller]
fn check(name: &str) {
    let model = Model::load(name);
    let mut rng = StdRng::seed_from_u64(20_251_130);
    let mut long = String::new();
    for round in 0..ROUNDS {
        match round % KINDS {
            texts::KINDS => {
                if long.is_empty() || rng.random_bool(0.1) {
                    long = model.long_text(&mut rng);
                }
                model.edit(&mut rng, &mut long);
                model.check_text(&long);
            }
            kind => model.check_text(&model.texts.text(&mut rng, kind)),
        }
    }
}

/// A model three times, and its maker of texts.
struct Model {
    oracle: tokenizers::Tokenizer,
    remembering: Tokenizer,
    forgetful: Tokenizer,
    texts: texts::Generator,
}

impl Model {
    #[track_caller]
    fn load(name: &str) -> Model {
        let files = Files::gather(|file| match fs::read(folder(name).join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        })
        .unwrap();
        let file = files.tokenizer_json.clone();
        assert!(!file.is_empty(), "{} isn't there: run `cargo xtask fixtures` first", folder(name).display());
        let mut oracle = tokenizers::Tokenizer::from_bytes(&file).unwrap();
        oracle.with_padding(None);
        oracle.with_truncation(None).unwrap();
        let load = |memo_bytes| Tokenizer::load_with(files.clone(), memo_bytes).unwrap();
        let remembering = load(DEFAULT_MEMO_BYTES);
        let slow = remembering.warnings().iter().find(|warning| warning.contains("slow"));
        assert_eq!(slow, None, "{name}");
        Model { oracle, remembering, forgetful: load(0), texts: texts::Generator::new(&file) }
    }

    #[track_caller]
    fn check_text(&self, text: &str) {
        for add_special_tokens in [false, true] {
            let theirs = self.oracle.encode_fast(text, add_special_tokens).unwrap();
            for tokenizer in [&self.remembering, &self.forgetful] {
                let prompt = Prompt::Texts { texts: vec![text.into()], add_special_tokens };
                let ours = tokenizer.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).unwrap();
                assert!(ours.prompts == [theirs.get_ids()], "special tokens {add_special_tokens}: {text:?}");
            }
        }
    }

    fn long_text(&self, rng: &mut StdRng) -> String {
        let kind = rng.random_range(0..8);
        let mut text = String::new();
        while text.len() < 12_000 {
            text.push_str(&self.texts.text(rng, kind));
        }
        text
    }

    /// Puts something in or takes a character out, up to twice.
    fn edit(&self, rng: &mut StdRng, text: &mut String) {
        for _ in 0..rng.random_range(0..3_u32) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let Some(at) = places.choose(rng) else { return };
            if rng.next_u32() & 1 == 0 {
                text.insert_str(*at, &self.texts.text(rng, texts::KINDS - 1));
            } else {
                text.remove(*at);
            }
        }
    }
}

fn folder(model: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match model {
        "qwen3" => root.join("tests/fixtures/qwen3"),
        _ => target(&root).join("fixtures/models").join(model),
    }
}

/// Cargo's folder for what is built.
fn target(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
