//! The piece memo against plain encoding, over generated tokenizers: whatever is remembered, the ids are the same.

use proptest::prelude::*;
use serde_json::json;

use super::{
    super::{Encoder, reference},
    *,
};

/// What differs between the tokenizers that the memo is held against.
struct Kind {
    name: &'static str,
    normalizer: serde_json::Value,
    pre_tokenizer: serde_json::Value,
    post_processor: serde_json::Value,
    added: Vec<serde_json::Value>,
    has_borders: bool,
}

fn added(id: u32, content: &str) -> serde_json::Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
}

fn with(mut token: serde_json::Value, flag: &str) -> serde_json::Value {
    token[flag] = json!(true);
    token
}

/// Tokenizers of every kind that matters, small: bytes as letters, a few merges, tokens that overlap.
fn kinds() -> Vec<Kind> {
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let spaced = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let metaspace =
        |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let split = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+(?!\\S)|\\s+|[^\\s\\p{L}]+"}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
    let none = json!(null);
    let template = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [900], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [901], "tokens": ["</s>"]}}});
    let plain = || {
        vec![
            added(900, "<s>"),
            added(901, "</s>"),
            added(902, "<s>b"),
            added(903, "[x]"),
            with(added(904, "Tok"), "normalized"),
        ]
    };
    let nfc = json!({"type": "NFC"});
    let lower = json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": true}]});
    let prepend = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    let kind = |name,
                normalizer: &serde_json::Value,
                pre_tokenizer: &serde_json::Value,
                post_processor: &serde_json::Value,
                added,
                has_borders| Kind {
        name,
        normalizer: normalizer.clone(),
        pre_tokenizer: pre_tokenizer.clone(),
        post_processor: post_processor.clone(),
        added,
        has_borders,
    };
    let mut strip = plain();
    strip[0] = with(added(900, "<s>"), "rstrip");
    strip[1] = with(added(901, "</s>"), "lstrip");
    let mut strip_spaced = strip.clone();
    strip_spaced.push(added(905, " y"));
    let mut word = plain();
    word[3] = with(added(903, "[x]"), "single_word");
    let mut normalized = plain();
    normalized.iter_mut().for_each(|token| token["normalized"] = json!(true));
    vec![
        kind("bytes", &nfc, &bytes, &none, plain(), true),
        kind("split", &none, &split, &template, plain(), true),
        kind("prefix space", &none, &spaced, &none, plain(), true),
        kind("metaspace first", &none, &metaspace("first"), &template, plain(), true),
        kind("metaspace always", &none, &metaspace("always"), &none, plain(), true),
        kind("lowercase and strip", &lower, &bytes, &none, plain(), true),
        kind("prepend", &prepend, &none, &template, plain(), true),
        kind("tokens that strip", &nfc, &bytes, &template, strip, true),
        kind("tokens that strip, and one with a space", &nfc, &bytes, &none, strip_spaced, false),
        kind("single words", &none, &bytes, &none, word, false),
        kind("only normalized tokens", &none, &bytes, &none, normalized, false),
    ]
}

fn encoder(kind: &Kind, memo_bytes: usize) -> Pieces {
    let mut vocab = serde_json::Map::new();
    // ByteLevel's letters for bytes, and the characters themselves for the others.
    for char in (0..=0x17f_u32).chain([0x2581]).filter_map(char::from_u32) {
        let id = vocab.len();
        vocab.insert(char.to_string(), json!(id));
    }
    let pairs = ["a b", "ab c", "Ġ a", "▁ a", "▁ ▁", "Ġ Ġ", "b c", "x ]"];
    for pair in pairs {
        let id = vocab.len();
        vocab.insert(pair.replace(' ', ""), json!(id));
    }
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": kind.added, "normalizer": kind.normalizer,
        "pre_tokenizer": kind.pre_tokenizer, "post_processor": kind.post_processor, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": pairs},
    });
    let file = file.to_string();
    let loaded = Encoder::load(file.as_bytes(), memo_bytes).unwrap();
    assert!(loaded.slow_because().is_some(), "{}", kind.name);
    Pieces::new(reference(file.as_bytes()).unwrap(), memo_bytes)
}

/// Texts that are dense in tokens, parts of tokens, and spaces.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "<s>", "</s>", "<s>b", "[x]", "Tok", "tok", "<s", ">", "<", " ", "  ", "\n", "a", "abc", "y", " y",
            "\u{301}", "é", "e\u{301}", "好", "▁", "😀", "\u{a0}"
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
        "\\PC{0,4}",
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

#[test]
fn borders_are_where_they_change_nothing() {
    for kind in kinds() {
        assert_eq!(encoder(&kind, 0).borders.is_some(), kind.has_borders, "{}", kind.name);
    }
}

#[test]
fn the_memo_and_plain_encoding_agree() {
    let encoders: Vec<(Kind, Pieces)> = kinds()
        .into_iter()
        .map(|kind| {
            let encoder = encoder(&kind, 1 << 18);
            (kind, encoder)
        })
        .collect();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&texts(), |text| {
            for (kind, encoder) in &encoders {
                for special in [false, true] {
                    let plain = encoder.encode_whole(&text, special).unwrap();
                    prop_assert_eq!(
                        &encoder.encode(&text, special).unwrap(),
                        &plain,
                        "{}, special {}, first",
                        kind.name,
                        special
                    );
                    prop_assert_eq!(
                        &encoder.encode(&text, special).unwrap(),
                        &plain,
                        "{}, special {}, again",
                        kind.name,
                        special
                    );
                }
            }
            Ok(())
        })
        .unwrap();
    for (kind, encoder) in &encoders {
        assert_eq!(encoder.memo().hit_bytes > 0, kind.has_borders, "{}", kind.name);
    }
}
