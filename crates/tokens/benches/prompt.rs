//! What a prompt costs: `cargo bench -p tokens` (a model's name after `--` takes that one only).
//!
//! In: Qwen3's files and those that `cargo xtask fixtures` laid; texts of the repository itself: its sources, and the
//! corpus of chats. Out: a table of medians of CPU time on one thread, from the request's bytes to its token ids, beside
//! what Hugging Face's `tokenizers` takes for the ids alone, in the same run. `BENCH_TEXT=FILE` adds a text of one's own.
//! Never: a verdict; that is the reader's.
#![allow(clippy::print_stdout, reason = "a table is what comes out")]
#![allow(clippy::unwrap_used, reason = "a bench that can't go on should stop")]

use std::{
    env, fs,
    hint::black_box,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use cpu_time::ThreadTime;
use lzma_rust2::XzReader;
use serde_json::{Value, json};
use tokens::{Context, DEFAULT_MEMO_BYTES, Encoded, Files, Tokenizer};

/// The program's own allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CHAT: &str = "/v1/chat/completions";
const COMPLETION: &str = "/v1/completions";

/// Bytes of a conversation of about 100,000 tokens, and of a text seen for the first time.
const LONG: usize = 450_000;
/// Bytes of one turn: about 200 tokens.
const TURN: usize = 850;
/// Bytes of an instruction of about 20,000 tokens.
const INSTRUCTION: usize = 88_000;
/// Bytes of a question of about 500 tokens.
const QUESTION: usize = 2_200;

fn main() {
    let mut arguments = env::args().skip(1);
    // `cargo test --all-targets` starts benches, too, without this.
    if !arguments.any(|argument| argument == "--bench") {
        return;
    }
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut texts = vec![("code", sources()), ("chats", chats())];
    texts.extend(env::var_os("BENCH_TEXT").map(|file| ("own", fs::read_to_string(file).unwrap())));
    println!(
        "{:<12} {:<6} {:<40} {:>8} {:>7} {:>7} {:>9} {:>6}",
        "model", "text", "CPU ms, medians", "all", "parse", "encode", "reference", "ratio"
    );
    for (model, folder) in models() {
        if wanted.is_empty() || wanted.contains(&model) {
            let bench = Bench::load(model, &folder);
            texts.iter().for_each(|(name, text)| bench.rows(name, text));
        }
    }
}

struct Bench {
    model: String,
    tokenizer: Tokenizer,
    forgetful: Tokenizer,
    reference: tokenizers::Tokenizer,
}

impl Bench {
    fn load(model: String, folder: &Path) -> Bench {
        let files = Files::gather(|name| match fs::read(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        })
        .unwrap();
        let mut reference = tokenizers::Tokenizer::from_bytes(&files.tokenizer_json).unwrap();
        reference.with_padding(None);
        reference.with_truncation(None).unwrap();
        let tokenizer = Tokenizer::load_with(files.clone(), DEFAULT_MEMO_BYTES).unwrap();
        let forgetful = Tokenizer::load_with(files, 0).unwrap();
        Bench { model, tokenizer, forgetful, reference }
    }

    fn rows(&self, name: &str, text: &str) {
        let part = |from: usize, length: usize| cut(text, from, length);
        let mut turns: Vec<Value> = Vec::new();
        for at in 0..LONG / TURN {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            turns.push(json!({"role": role, "content": part(at * 1777, TURN)}));
        }
        turns.truncate(turns.len() / 2 * 2);
        self.row(name, "conversation of 450 KB, a new turn", &self.tokenizer, CHAT, 31, |round| {
            let mut turns = turns.clone();
            turns.push(json!({"role": "user", "content": format!("{round} {}", part(round * 7919, TURN))}));
            json!({"messages": turns})
        });
        let instruction = part(12_345, INSTRUCTION);
        let question = |round: usize| format!("{round} {}", part(round * 6007, QUESTION));
        self.row(name, "instruction, a new question apart", &self.tokenizer, CHAT, 31, |round| {
            json!({"messages": [{"role": "user", "content": instruction},
                {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": question(round)}]})
        });
        self.row(
            name,
            "instruction and new question in one",
            &self.tokenizer,
            CHAT,
            31,
            |round| json!({"messages": [{"role": "user", "content": format!("{instruction}\n\n{}", question(round))}]}),
        );
        self.row(
            name,
            "450 KB for the first time",
            &self.forgetful,
            COMPLETION,
            5,
            |round| json!({"prompt": format!("{round} {}", part(round, LONG))}),
        );
    }

    /// Encodes requests of which each has something new in it, the first of them unmeasured.
    fn row(
        &self,
        text: &str,
        what: &str,
        tokenizer: &Tokenizer,
        path: &str,
        rounds: usize,
        body: impl Fn(usize) -> Value,
    ) {
        let bodies = (0..rounds).map(|round| body(round).to_string());
        let (mut all, mut parsing, mut encoding, mut known) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        for (round, body) in bodies.enumerate() {
            let (parsed, whole, encoded) = cost(tokenizer, path, &body);
            if round == 0 {
                continue;
            }
            all.push(whole);
            parsing.push(parsed);
            known = encoded.rendered.unwrap_or_else(|| prompt_of(&body));
            let plain = request::Prompt::Texts { texts: vec![known.as_str().into()], add_special_tokens: false };
            encoding.push(time(|| tokenizer.encode(&plain, &context())).0);
        }
        // Last, so that what it leaves of the heap slows nothing of ours.
        let theirs = (0..3).map(|_| time(|| self.reference.encode_fast(known.as_str(), false)).0).collect();
        let [all, parsing, encoding, theirs] = [all, parsing, encoding, theirs].map(median);
        println!(
            "{:<12} {text:<6} {what:<40} {all:>8.2} {parsing:>7.2} {encoding:>7.2} {theirs:>9.1} {:>6.0}",
            self.model,
            theirs / all
        );
    }
}

/// The text of a completion's request.
fn prompt_of(body: &str) -> String {
    serde_json::from_str::<Value>(body).unwrap()["prompt"].as_str().unwrap().to_owned()
}

/// The time of parsing, that of all, and what came out.
fn cost(tokenizer: &Tokenizer, path: &str, body: &str) -> (Duration, Duration, Encoded) {
    let start = ThreadTime::now();
    let request = request::parse(path, body.as_bytes()).unwrap();
    let parsed = start.elapsed();
    let encoded = black_box(tokenizer.encode(&request.prompt, &context()).unwrap());
    drop(request);
    (parsed, start.elapsed(), encoded)
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = ThreadTime::now();
    let done = black_box(work());
    (start.elapsed(), done)
}

fn context() -> Context {
    Context::at(SystemTime::UNIX_EPOCH)
}

/// In milliseconds.
fn median(mut all: Vec<Duration>) -> f64 {
    all.sort_unstable();
    all[all.len() / 2].as_secs_f64() * 1e3
}

/// About `length` bytes of a text that goes round.
fn cut(text: &str, from: usize, length: usize) -> String {
    let mut start = from % text.len();
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let mut part = String::with_capacity(length + 4);
    let round = text[start..].chars().chain(text.chars().cycle());
    for character in round {
        if part.len() >= length {
            break;
        }
        part.push(character);
    }
    part
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names and folders of the models that are there.
fn models() -> Vec<(String, PathBuf)> {
    let target = root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let mut models = vec![("qwen3".to_owned(), root().join("tests/fixtures/qwen3"))];
    match fs::read_dir(target.join("fixtures/models")) {
        Ok(folders) => models.extend(
            folders
                .map(|folder| folder.unwrap())
                .map(|folder| (folder.file_name().into_string().unwrap(), folder.path())),
        ),
        Err(_) => println!("Qwen3 only: `cargo xtask fixtures` fetches the other models"),
    }
    models.sort();
    models
}

/// The sources of this repository: code, and English in its comments.
fn sources() -> String {
    let mut folders = vec![root().join("crates")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                Some(extension) if extension == "rs" => files.push(entry),
                _ if entry.is_dir() => folders.push(entry),
                _ => {}
            }
        }
    }
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// All texts of the corpus' chats: many languages, code, oddities.
fn chats() -> String {
    fn gather(value: &Value, text: &mut String) {
        match value {
            Value::String(own) => {
                text.push_str(own);
                text.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| gather(item, text)),
            Value::Object(members) => members.values().for_each(|member| gather(member, text)),
            _ => {}
        }
    }
    let packed = fs::read(root().join("tests/fixtures/corpus/requests.jsonl.xz")).unwrap();
    let mut rows = String::new();
    XzReader::new(packed.as_slice(), true).read_to_string(&mut rows).unwrap();
    let mut text = String::new();
    for row in rows.lines().filter_map(|row| serde_json::from_str::<Value>(row).ok()) {
        gather(&row["body"], &mut text);
    }
    text
}
