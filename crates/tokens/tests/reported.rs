//! Five real models on what public reports were about: text and ids equal to the reference's.
//!
//! `data/reported.jsonl` and `data/contexts.jsonl.xz` (`data/README.md` says how they were made). Qwen3's files are
//! carried; the others are fetched by `cargo xtask fixtures`, and a test whose model isn't there fails and says so.

#![allow(clippy::unwrap_used, reason = "a fixture that doesn't read fails the test where it stands")]

use std::{
    env, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, SystemTime},
};

use request::{Prompt, json};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokens::{Context, Encoded, Files, Template, Tokenizer};

/// 2025-03-05T04:06:07Z.
const CLOCK: Duration = Duration::from_secs(1_741_147_567);

const MODELS: [&str; 5] = ["qwen3", "llama3", "gemma3", "deepseek-v3", "gpt-oss"];

#[test]
fn reported_requests_have_the_text_and_ids_of_the_reference() {
    let rows = reported();
    for row in &rows {
        let (model, name) = (text(row, "model"), text(row, "name"));
        let encoded = encode(model, text(row, "path"), &row["body"].to_string());
        if let Some(error) = row["error"].as_str() {
            let why = encoded.unwrap_err();
            assert!(why.contains(error), "{model}, {name}: {why}");
            continue;
        }
        let encoded = encoded.unwrap();
        assert_eq!(encoded.prompts, ids(&row["ids"]), "{model}, {name}");
        assert_eq!(encoded.rendered.as_deref().map(sha256).as_deref(), row["sha256"].as_str(), "{model}, {name}");
    }
    assert_eq!(rows.len(), 34);
}

#[test]
fn contexts_have_the_text_of_transformers() {
    let mut packed = Vec::new();
    lzma_rust2::XzReader::new(&include_bytes!("data/contexts.jsonl.xz")[..], true).read_to_end(&mut packed).unwrap();
    let mut seen = 0;
    for row in packed.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()) {
        let row = json::parse(row).unwrap();
        let (model, context) = (row.get("model").unwrap().as_str().unwrap(), row.get("context").unwrap());
        let rendered = template(model).render(context.as_object().unwrap(), SystemTime::UNIX_EPOCH + CLOCK).unwrap();
        assert_eq!(Some(&*sha256(&rendered)), row.get("sha256").unwrap().as_str(), "{model}, {:?}", row.get("name"));
        seen += 1;
    }
    assert_eq!(seen, 46);
}

/// ai-dynamo/dynamo#4161: no content, null and an empty text are the same to the engine.
#[test]
fn a_call_without_content_is_a_call_with_empty_content() {
    let rows = reported();
    let calls: Vec<&Value> = rows.iter().filter(|row| text(row, "name").starts_with("a call with ")).collect();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|row| row["ids"] == calls[0]["ids"]));
}

/// ai-dynamo/dynamo#9301: the next turn goes on where the last one ended, in every model.
#[test]
fn the_next_turn_extends_the_last_ones_tokens() {
    let rows = reported();
    let turn = |model: &str, name: &str| {
        ids(&rows.iter().find(|row| text(row, "model") == model && text(row, "name") == name).unwrap()["ids"]).concat()
    };
    for (model, first, second) in
        [("qwen3", 96, 113), ("llama3", 97, 114), ("deepseek-v3", 86, 96), ("gemma3", 93, 110)]
    {
        let turns = (turn(model, "turn 1"), turn(model, "turn 2"));
        assert_eq!((turns.0.len(), turns.1.len()), (first, second), "{model}");
        assert!(turns.1.starts_with(&turns.0), "{model}");
    }
}

/// ggml-org/llama.cpp#26965, #21919, #27783, huggingface/transformers#25873: long runs neither overflow a small stack
/// nor part from the reference. Counts by tokenizers 0.23.3.
#[test]
fn long_runs_without_spaces_have_the_counts_of_the_reference_in_all_models() {
    let counts = [
        [65_536, 1024, 131_072, 65_536],
        [65_536, 1024, 43_691, 131_072],
        [65_536, 4229, 131_072, 65_536],
        [65_536, 1024, 43_691, 65_536],
        [65_536, 1024, 43_691, 131_072],
    ];
    for (model, expected) in MODELS.into_iter().zip(counts) {
        let run = |run: &str| bare(model, &run.repeat(131_072)).len();
        assert_eq!(on_a_small_stack(|| ["Z", " ", "7", "好"].map(run)), expected, "{model}");
    }
}

/// The same reports: a megabyte of base64, which nothing has seen before.
#[test]
fn a_megabyte_of_base64_has_the_ids_of_the_reference_in_all_models() {
    let base64 = base64(1 << 20);
    for model in MODELS {
        let ours = on_a_small_stack(|| bare(model, &base64));
        let theirs = tokenizers::Tokenizer::from_bytes(files(model).tokenizer_json).unwrap();
        assert!(ours == theirs.encode_fast(base64.as_str(), false).unwrap().get_ids(), "{model}");
    }
}

/// huggingface/tokenizers#1541: merges as texts and as pairs, members that are null, normalizers of many kinds.
#[test]
fn tokenizers_of_all_forms_load_and_none_is_slow() {
    for model in MODELS {
        let warnings = tokenizer(model).warnings();
        let only_the_template = warnings.iter().all(|warning| warning.contains("chat template"));
        assert!(only_the_template, "{model}: {warnings:?}");
        assert!(!bare(model, "Hello, world!").is_empty(), "{model}");
    }
}

fn reported() -> Vec<Value> {
    include_str!("data/reported.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn text<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap()
}

fn ids(value: &Value) -> Vec<Vec<u32>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encode(model: &str, path: &str, body: &str) -> Result<Encoded, String> {
    let request = request::parse(path, body.as_bytes()).map_err(|error| error.to_string())?;
    let context = Context::at(SystemTime::UNIX_EPOCH + CLOCK);
    tokenizer(model).encode(&request.prompt, &context).map_err(|error| error.to_string())
}

/// The ids of a text alone.
fn bare(model: &str, text: &str) -> Vec<u32> {
    let prompt = Prompt::Texts { texts: vec![text.into()], add_special_tokens: false };
    tokenizer(model).encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).unwrap().prompts.concat()
}

/// On a thread with as much stack as tokio gives its own.
fn on_a_small_stack<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, job).unwrap().join().unwrap())
}

/// The same letters each time, that hold nothing twice.
fn base64(len: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..len).map(letter).collect()
}

fn tokenizer(model: &str) -> &'static Tokenizer {
    static LOADED: [OnceLock<Tokenizer>; MODELS.len()] = [const { OnceLock::new() }; MODELS.len()];
    let at = MODELS.iter().position(|name| *name == model).unwrap();
    LOADED[at].get_or_init(|| Tokenizer::load(files(model)).unwrap())
}

fn template(model: &str) -> Template {
    let config = files(model).tokenizer_config.unwrap();
    let config = json::parse(&config).unwrap();
    Template::compile(config.get("chat_template").unwrap().as_str().unwrap()).unwrap()
}

#[track_caller]
fn files(model: &str) -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from));
    let directory = match model {
        "qwen3" => root.join("tests/fixtures/qwen3"),
        other => target.join("fixtures/models").join(other),
    };
    let there = directory.join("tokenizer_config.json").is_file();
    assert!(there, "{} isn't there: `cargo xtask fixtures` fetches it", directory.display());
    let read = |name: &str| match fs::read(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    };
    Files::gather(read).unwrap()
}
