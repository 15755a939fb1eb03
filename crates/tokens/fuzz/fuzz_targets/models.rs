//! Tiny models: tokenizers of a few hundred tokens in every shape that the encoder knows, each with a template.
//!
//! In: nothing; out: models, each with Hugging Face's `tokenizers` beside it, to which its ids are compared.

use request::{Prompt, json};
use serde_json::{Map, Value, json};
use tokens::{Encoded, Files, Tokenizer};

/// How Qwen's and Llama 3's tokenizers split text, up to the digits.
const WORDS: [&str; 2] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Merges of letters, spaces and the bytes of signs.
const MERGES: [&str; 22] = [
    "t h",
    "th e",
    "Ġ t",
    "Ġt h",
    "e r",
    "a n",
    "an d",
    "Ġ Ġ",
    "ĠĠ ĠĠ",
    "Ċ Ċ",
    "u s",
    "us er",
    "a s",
    "Ã ©",
    "æ Ĺ",
    "æĹ ¥",
    "ð Ł",
    "ðŁ ĳ",
    "' s",
    "< |",
    "| >",
    "Ì ģ",
];

/// Tokens that are found before the text is split.
const ADDED: [&str; 14] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|im_end|>\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<s>",
    "</s>",
];

/// A model and its oracle.
pub struct Model {
    pub tokenizer: Tokenizer,
    oracle: tokenizers::Tokenizer,
    /// Renders by the Harmony format: its texts never hold marks, whatever is written in them, but the oracle sees them.
    is_harmony: bool,
}

impl Model {
    fn new(tokenizer: &Value, template: &str, config: Option<&str>) -> Model {
        let tokenizer_json = tokenizer.to_string().into_bytes();
        let oracle = tokenizers::Tokenizer::from_bytes(&tokenizer_json).expect("a tokenizer");
        let files = Files {
            tokenizer_json,
            tokenizer_config: Some(br#"{"bos_token":"<s>","eos_token":{"content":"</s>"}}"#.to_vec()),
            config: config.map(|config| config.as_bytes().to_vec()),
            chat_template_jinja: Some(template.to_owned()),
            ..Files::default()
        };
        let tokenizer = Tokenizer::load_with(files, 1 << 20).expect("a model");
        tokenizer.warnings().iter().for_each(|warning| eprintln!("{warning}"));
        Model { tokenizer, oracle, is_harmony: config.is_none() }
    }

    /// Holds the ids to the oracle's.
    ///
    /// # Panics
    /// Where they differ.
    pub fn check(&self, prompt: &Prompt<'_>, encoded: &Encoded, longest: usize) {
        let check = |text: &str, add_special_tokens, ids: &[u32]| {
            if text.len() <= longest {
                let wanted = self.oracle.encode_fast(text, add_special_tokens).expect("ids");
                assert_eq!(ids, wanted.get_ids(), "{text:?}");
            }
        };
        match (prompt, &encoded.rendered) {
            (Prompt::Texts { texts, add_special_tokens }, _) => {
                assert_eq!(texts.len(), encoded.prompts.len());
                texts.iter().zip(&encoded.prompts).for_each(|(text, ids)| check(text, *add_special_tokens, ids));
            }
            (Prompt::Chat(chat), Some(text)) if !self.is_harmony => {
                check(text, chat.add_special_tokens, &encoded.prompts[0])
            }
            _ => {}
        }
    }
}

/// Qwen3's template and those of the folder.
pub fn templates() -> Vec<String> {
    let qwen3 = json::parse(include_bytes!("../../../../tests/fixtures/qwen3/tokenizer_config.json")).expect("JSON");
    let qwen3 = qwen3.get("chat_template").and_then(json::Value::as_str).expect("a template").to_owned();
    let own = [
        include_str!("../templates/chatml.jinja"),
        include_str!("../templates/strict.jinja"),
        include_str!("../templates/tools.jinja"),
    ];
    std::iter::once(qwen3).chain(own.map(str::to_owned)).collect()
}

/// Every model.
pub fn all() -> Vec<Model> {
    let [qwen3, chatml, strict, tools] = templates().try_into().expect("four templates");
    let nfc = json!({"type": "NFC"});
    let digits = WORDS.join("{1,3}");
    vec![
        Model::new(&bytes(&WORDS.concat(), &nfc, false), &qwen3, Some("{}")),
        Model::new(&bytes(&digits, &Value::Null, false), &chatml, Some("{}")),
        Model::new(&bytes(&digits, &Value::Null, true), &strict, Some("{}")),
        Model::new(&unsplit(), &tools, Some("{}")),
        Model::new(&bytes(&WORDS.concat(), &nfc, false), &chatml, None),
    ]
}

/// A tokenizer of bytes; with `strips`, an added token takes the spaces around it, which our own tables don't do.
fn bytes(pattern: &str, normalizer: &Value, strips: bool) -> Value {
    let merges: Vec<&str> = MERGES.to_vec();
    let mut tokens: Vec<String> = (0..=255).map(|byte| printed(byte).to_string()).collect();
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    json!({
        "version": "1.0",
        "added_tokens": added(tokens.len(), strips),
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        ]},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "BPE", "byte_fallback": false, "ignore_merges": false, "vocab": numbered(&tokens), "merges": merges},
    })
}

/// A tokenizer of characters, with bytes for those it doesn't have and no splitting.
fn unsplit() -> Value {
    let merges: Vec<String> = ["▁ t", "▁t h", "▁th e", "▁ ▁", "▁▁ ▁▁", "u s", "us e", "use r", "a n", "日 本", "\n \n"]
        .map(str::to_owned)
        .to_vec();
    let mut tokens = vec!["<unk>".to_owned()];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend((b'!'..=b'~').map(|byte| char::from(byte).to_string()));
    tokens.extend(["▁", "\n", "日", "本", "é"].map(str::to_owned));
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    json!({
        "version": "1.0",
        "added_tokens": added(tokens.len(), false),
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": numbered(&tokens), "merges": merges},
    })
}

fn added(first: usize, strips: bool) -> Value {
    let token = |(at, content): (usize, &&str)| {
        json!({"id": first + at, "content": content, "single_word": false, "lstrip": strips && at == 0, "rstrip": strips && at == 1,
            "normalized": false, "special": at % 2 == 0})
    };
    ADDED.iter().enumerate().map(token).collect()
}

fn numbered(tokens: &[String]) -> Map<String, Value> {
    tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect()
}

/// The character that byte-level tokenizers print for a byte.
fn printed(byte: u32) -> char {
    let stands = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let code = if stands(&byte) { byte } else { 256 + (0..byte).filter(|before| !stands(before)).count() as u32 };
    char::from_u32(code).unwrap_or(' ')
}
