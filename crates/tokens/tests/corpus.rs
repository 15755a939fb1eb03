//! Real models on a corpus of chats and texts: text and ids equal to what vLLM's own code gives.
//!
//! `tests/fixtures/corpus` (its README says how it was made): requests, and for each model the sha256 of the rendered
//! text and the token ids, or the engine's error. Qwen3's files are carried; the others are fetched by
//! `cargo xtask fixtures`, and a test whose model isn't there fails and says so.

#![allow(clippy::unwrap_used, reason = "a fixture that doesn't read fails the test where it stands")]

use std::{
    collections::HashMap,
    env,
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokens::{Context, Encoded, Files, Tokenizer};

/// 2025-03-05T04:06:07Z, the day of the reference's clock.
const CLOCK: Duration = Duration::from_secs(1_741_147_567);

/// No more than this many differences are shown.
const SHOWN: usize = 12;

#[test]
fn qwen3_reads_what_the_engine_reads() {
    check_chats("qwen3");
}

#[test]
fn llama3_reads_what_the_engine_reads() {
    check_chats("llama3");
}

#[test]
fn gemma3_reads_what_the_engine_reads() {
    check_chats("gemma3");
}

#[test]
fn deepseek_v3_reads_what_the_engine_reads() {
    check_chats("deepseek-v3");
}

#[test]
fn gpt_oss_reads_what_the_engine_reads() {
    check_chats("gpt-oss");
}

/// Each template of `cleaned.jsonl.xz` on each request: what reaches a template.
#[test]
fn messages_reach_templates_as_the_engine_hands_them_over() {
    let bodies = unpack("requests.jsonl.xz");
    let bodies: HashMap<&str, &str> = bodies.lines().map(name_and_body).collect();
    let mut tokenizers: HashMap<String, Tokenizer> = HashMap::new();
    let mut differences = Vec::new();
    for row in rows("cleaned.jsonl.xz") {
        let (name, template) = (row["name"].as_str().unwrap(), row["template"].as_str().unwrap());
        let tokenizer = tokenizers.entry(template.to_owned()).or_insert_with(|| of_template(template));
        let encoded = encode(tokenizer, "/v1/chat/completions", bodies[name]);
        let rendered = encoded.as_ref().ok().and_then(|encoded| encoded.rendered.as_deref());
        if rendered != row["text"].as_str() {
            let difference = difference(&encoded, &row).unwrap_or("another text".to_owned());
            differences.push(format!("{name}: {difference}{}", around(&encoded, row["text"].as_str())));
        }
    }
    report("cleaned", &differences);
}

/// A model of one word, with a template.
fn of_template(template: &str) -> Tokenizer {
    let config = serde_json::json!({ "chat_template": template });
    Tokenizer::load(Files {
        tokenizer_json: include_bytes!("data/tiny_tokenizer.json").to_vec(),
        tokenizer_config: Some(config.to_string().into_bytes()),
        ..Files::default()
    })
    .unwrap()
}

/// Gemma 3 is shown images, and its template says where.
#[test]
fn gemma3s_images_stand_where_its_template_shows_them() {
    let tokenizer = load("gemma3");
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let turns = |last: &str| {
        let first = format!(r#"{{"role":"user","content":[{{"type":"text","text":"What is this?"}},{}]}}"#, image("a"));
        format!(
            r#"{{"messages":[{first},{{"role":"assistant","content":"A cat."}},{{"role":"user","content":[{last}]}}]}}"#
        )
    };
    let media = |last: &str| {
        let encoded = encode(&tokenizer, "/v1/chat/completions", &turns(last)).unwrap();
        assert_eq!(encoded.inexact, None);
        let text = encoded.rendered.unwrap();
        let ids = encoded.prompts.into_iter().next().unwrap();
        let shown = encoded.media.iter().map(|medium| {
            let place = medium.place.unwrap();
            (text[place.byte..].chars().take(16).collect::<String>(), ids[place.token], medium.hash)
        });
        (shown.collect::<Vec<_>>(), encoded.media[0].place.unwrap())
    };
    let (one, first) = media(r#"{"type":"text","text":"And?"}"#);
    let (two, same) = media(&format!(r#"{},{{"type":"text","text":"And this?"}}"#, image("b")));
    assert_eq!((one.len(), two.len()), (1, 2));
    assert_eq!((&one[0], first), (&two[0], same));
    assert_eq!((two[0].0.as_str(), two[0].1), ("<start_of_image>", 255_999));
    assert_eq!((two[1].0.as_str(), two[1].1), ("<start_of_image>", 255_999));
    assert_ne!(two[0].2, two[1].2);
}

#[test]
fn plain_texts_have_the_engines_ids_in_all_models() {
    for model in ["qwen3", "llama3", "gemma3", "deepseek-v3", "gpt-oss"] {
        check_texts(model);
    }
}

#[track_caller]
fn check_chats(model: &str) {
    let tokenizer = load(model);
    let rendered = if model == "qwen3" { rows("qwen3.rendered.jsonl.xz") } else { Vec::new() };
    let mut differences = Vec::new();
    for (request, expected) in unpack("requests.jsonl.xz").lines().zip(rows(&format!("{model}.jsonl.xz"))) {
        let (name, body) = name_and_body(request);
        assert_eq!(Some(name), expected["name"].as_str());
        let encoded = encode(&tokenizer, "/v1/chat/completions", body);
        if let Some(difference) = difference(&encoded, &expected) {
            let text = rendered.iter().find(|row| row["name"] == name).and_then(|row| row["text"].as_str());
            differences.push(format!("{name}: {difference}{}", around(&encoded, text)));
        }
    }
    report(model, &differences);
}

#[track_caller]
fn check_texts(model: &str) {
    let tokenizer = load(model);
    let mut differences = Vec::new();
    for (text, expected) in rows("texts.jsonl.xz").iter().zip(rows(&format!("{model}.texts.jsonl.xz"))) {
        let encoded = encode(&tokenizer, "/v1/completions", &serde_json::json!({ "prompt": text }).to_string());
        if let Some(difference) = difference(&encoded, &expected) {
            differences.push(format!("{text}: {difference}"));
        }
    }
    report(model, &differences);
}

/// The body as it is sent, to the byte: a row is `{"name":"chat/000","body":{...}}`.
fn name_and_body(row: &str) -> (&str, &str) {
    let (name, body) = row.split_once(r#"","body":"#).unwrap();
    (name.strip_prefix(r#"{"name":""#).unwrap(), body.strip_suffix('}').unwrap())
}

fn encode(tokenizer: &Tokenizer, path: &str, body: &str) -> Result<Encoded, String> {
    let request = request::parse(path, body.as_bytes()).map_err(|error| error.to_string())?;
    let context = Context::at(SystemTime::UNIX_EPOCH + CLOCK);
    tokenizer.encode(&request.prompt, &context).map_err(|error| error.to_string())
}

fn difference(encoded: &Result<Encoded, String>, expected: &Value) -> Option<String> {
    match (encoded, expected["error"].as_str()) {
        (Err(_), Some(_)) => None,
        (Err(ours), None) => Some(format!("an error only here: {ours}")),
        (Ok(_), Some(theirs)) => Some(format!("an error only in the reference: {theirs}")),
        (Ok(encoded), None) => differing_parts(encoded, expected),
    }
}

fn differing_parts(encoded: &Encoded, expected: &Value) -> Option<String> {
    let hash = encoded.rendered.as_ref().map(|text| hex(&Sha256::digest(text)));
    if let Some(expected) = expected["sha256"].as_str()
        && hash.as_deref() != Some(expected)
    {
        return Some("another text".to_owned());
    }
    let theirs: Vec<u32> =
        expected["ids"].as_array()?.iter().map(|id| id.as_u64().unwrap().try_into().unwrap()).collect();
    let [ours] = encoded.prompts.as_slice() else { return Some(format!("{} prompts", encoded.prompts.len())) };
    let at = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let from = at.saturating_sub(3);
    let tail = |ids: &[u32]| format!("{:?}", &ids[from..ids.len().min(at + 8)]);
    (*ours != theirs).then(|| {
        format!("from id {at} of {} (theirs {}): {} not {}", ours.len(), theirs.len(), tail(ours), tail(&theirs))
    })
}

/// Where a text that is known parts from ours.
fn around(encoded: &Result<Encoded, String>, theirs: Option<&str>) -> String {
    let Some((ours, theirs)) = encoded.as_ref().ok().and_then(|encoded| encoded.rendered.as_deref()).zip(theirs) else {
        return String::new();
    };
    let at = ours.chars().zip(theirs.chars()).take_while(|(ours, theirs)| ours == theirs).count();
    let near = |text: &str| text.chars().skip(at.saturating_sub(20)).take(60).collect::<String>();
    format!("\n    ours   {:?}\n    theirs {:?}", near(ours), near(theirs))
}

#[track_caller]
fn report(model: &str, differences: &[String]) {
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{model}: {} differ\n{shown}", differences.len());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the corpus.
fn unpack(file: &str) -> String {
    let packed = fs::read(root().join("tests/fixtures/corpus").join(file)).unwrap();
    let mut text = String::new();
    lzma_rust2::XzReader::new(packed.as_slice(), true).read_to_string(&mut text).unwrap();
    text
}

/// A file's rows, one JSON value a line.
fn rows(file: &str) -> Vec<Value> {
    unpack(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Qwen3 from the carried files, another model from where `cargo xtask fixtures` lays it.
#[track_caller]
fn load(model: &str) -> Tokenizer {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |target| root().join(target));
    let directory = match model {
        "qwen3" => root().join("tests/fixtures/qwen3"),
        other => target.join("fixtures/models").join(other),
    };
    assert!(
        directory.join("tokenizer_config.json").is_file(),
        "{} isn't there: `cargo xtask fixtures` fetches it",
        directory.display()
    );
    let files = Files::gather(|name| match fs::read(directory.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    });
    Tokenizer::load(files.unwrap()).unwrap()
}
