//! Qwen3's own tokenizer and template: text and ids against what transformers and a real vLLM gave.
//!
//! `data/qwen3_requests.json`: requests, with the text transformers 5.24 renders after vLLM's clean-up and the ids of
//! `tokenizers` 0.23.3. `data/qwen3_texts.json`: contexts and transformers' text.
//! `fixtures/replay`: what a real vLLM counted.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::LazyLock,
    time::SystemTime,
};

use request::{
    Prompt, Request,
    json::{self, Value},
};
use tokens::{Context, Encoded, Files, Template, Tokenizer};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn files() -> Files {
    Files::gather(|name| match std::fs::read(fixtures().join("qwen3").join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    })
    .expect("the fixture's files")
}

static QWEN3: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::load(files()).expect("Qwen3 loads"));

/// The same tokenizer without a memo, as Hugging Face has it.
static PLAIN: LazyLock<tokenizers::Tokenizer> =
    LazyLock::new(|| tokenizers::Tokenizer::from_bytes(files().tokenizer_json).expect("Qwen3 loads"));

fn encode(body: &str) -> Encoded {
    let request: Request<'_> = request::parse("/v1/chat/completions", body.as_bytes()).expect("a chat");
    QWEN3.encode(&request.prompt, &Context::at(SystemTime::UNIX_EPOCH)).expect("a prompt")
}

/// The rows of a JSON file with one object a line.
fn rows(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| line.starts_with('{')).map(|line| line.trim_end_matches(','))
}

/// The text of a member, as it stands in the row.
fn member<'t>(row: &'t Value<'t>, name: &str) -> &'t Value<'t> {
    row.get(name).expect("the row's member")
}

fn ids(value: &Value<'_>) -> Vec<u32> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id"))
        .collect()
}

#[test]
fn requests_give_the_texts_and_ids_of_the_reference() {
    for row in rows(include_str!("data/qwen3_requests.json")) {
        let parsed = json::parse(row.as_bytes()).unwrap();
        let name = member(&parsed, "name").as_str().unwrap();
        let body = serde_json::from_str::<serde_json::Value>(row).unwrap()["request"].to_string();
        let encoded = encode(&body);
        assert_eq!(encoded.rendered.as_deref(), member(&parsed, "rendered").as_str(), "{name}");
        if let Some(expected) = parsed.as_object().unwrap().get("token_ids") {
            assert_eq!(encoded.prompts, [ids(expected)], "{name}");
        }
    }
}

#[test]
fn contexts_give_the_texts_of_transformers() {
    let config = std::fs::read(fixtures().join("qwen3/tokenizer_config.json")).unwrap();
    let config = json::parse(&config).unwrap();
    let template = Template::compile(member(&config, "chat_template").as_str().unwrap()).unwrap();
    for row in rows(include_str!("data/qwen3_texts.json")) {
        let row = json::parse(row.as_bytes()).unwrap();
        let context = member(&row, "ctx").as_object().unwrap();
        let rendered = template.render(context, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(Some(rendered.as_str()), member(&row, "want").as_str(), "{:?}", member(&row, "name"));
    }
}

/// What `/v1/chat/completions/render`, `/v1/completions/render` and `/tokenize` of vLLM 0.32 answered.
#[test]
fn a_real_vllm_has_the_same_ids() {
    let chat =
        r#"{"messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Hello"}]}"#;
    let encoded = encode(chat);
    assert_eq!(
        encoded.rendered.as_deref(),
        Some(
            "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        )
    );
    let expected =
        [151644, 8948, 198, 2610, 525, 50537, 13, 151645, 198, 151644, 872, 198, 9707, 151645, 198, 151644, 77091, 198];
    assert_eq!(encoded.prompts, [expected]);
    let completion = Prompt::Texts { texts: vec!["Hello world".into()], add_special_tokens: true };
    let encoded = QWEN3.encode(&completion, &Context::at(SystemTime::UNIX_EPOCH)).unwrap();
    assert_eq!(encoded.prompts, [[9707, 1879]]);
}

#[test]
fn a_real_vllm_counted_the_same_tokens_in_all_of_320_requests() {
    let packed = std::fs::read(fixtures().join("replay/replay_320x32.jsonl.xz")).unwrap();
    let lines = BufReader::new(lzma_rust2::XzReader::new(packed.as_slice(), true)).lines();
    let mut seen = 0;
    for line in lines {
        let row: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let encoded = encode(&row["request"].to_string());
        assert_eq!(encoded.tokens() as u64, row["prompt_tokens"].as_u64().unwrap(), "request {seen}");
        seen += 1;
    }
    assert_eq!(seen, 320);
}

/// The ids of plain text.
fn ids_of(text: &str) -> Vec<u32> {
    let prompt = Prompt::Texts { texts: vec![text.into()], add_special_tokens: true };
    QWEN3.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).expect("a prompt").prompts.concat()
}

#[test]
fn the_memo_agrees_with_plain_encoding() {
    use proptest::prelude::*;
    let part = prop_oneof![
        prop::sample::select(vec![
            "<|im_start|>",
            "<|im_end|>",
            "<think>",
            "</think>",
            "<|endoftext|>",
            "<tool_call>",
            "<|im_",
            "im_end|>",
            "user",
            "\n",
            "  ",
            " ",
            "\n\n",
            "don't",
            "e\u{301}",
            "é",
            "好",
            "😀",
            "3.14",
            "\r\n",
            "\t",
            "\u{a0}"
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
        "\\PC{0,6}",
    ];
    let texts = prop::collection::vec(part, 0..16).prop_map(|parts| parts.concat());
    let config = proptest::test_runner::Config { cases: 2000, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&texts, |text| {
            let plain = PLAIN.encode_fast(text.as_str(), true).unwrap().get_ids().to_vec();
            prop_assert_eq!(&ids_of(&text), &plain);
            prop_assert_eq!(&ids_of(&text), &plain);
            Ok(())
        })
        .unwrap();
}

/// ggml-org/llama.cpp#26965, huggingface/transformers#25873: long runs neither overflow a small stack nor grow by the
/// square. Counts by tokenizers 0.23.3.
#[test]
fn long_runs_without_spaces_have_the_counts_of_the_reference() {
    let counts = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(|| ["Z", " ", "7", "好"].map(|run| ids_of(&run.repeat(131_072)).len()))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(counts, [65_536, 1024, 131_072, 65_536]);
}

/// huggingface/tokenizers#1539, #1680: many different long texts don't pile up.
#[test]
fn what_is_remembered_stays_within_its_budget() {
    let budget = 1 << 20;
    let Tokenizer::Model(model) = Tokenizer::load_with(files(), budget).unwrap() else { panic!("a model") };
    let tokenizer = Tokenizer::Model(model);
    for request in 0..300_usize {
        let letter = char::from(b'a' + u8::try_from(request % 26).unwrap());
        let text: String = std::iter::repeat_n(format!("{}{request}", letter.to_string().repeat(7)), 400).collect();
        let prompt = Prompt::Texts { texts: vec![text.into()], add_special_tokens: true };
        tokenizer.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).unwrap();
    }
    let Tokenizer::Model(model) = &tokenizer else { panic!("a model") };
    let stats = model.memo();
    assert!(stats.bytes <= budget && stats.pieces > 10, "{stats:?}");
}

/// ai-dynamo/dynamo#9301: the next turn goes on where the last one ended.
#[test]
fn the_next_turn_extends_the_last_ones_tokens() {
    let system = "You are kind. ".repeat(20);
    let first =
        serde_json::json!({"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Q1"}]});
    let mut second = first.clone();
    second["messages"].as_array_mut().unwrap().extend([
        serde_json::json!({"role": "assistant", "content": "A1 with text."}),
        serde_json::json!({"role": "user", "content": "Q2"}),
    ]);
    let (first, second) = (encode(&first.to_string()).prompts.concat(), encode(&second.to_string()).prompts.concat());
    assert_eq!((first.len(), second.len()), (96, 113));
    assert!(second.starts_with(&first));
}
