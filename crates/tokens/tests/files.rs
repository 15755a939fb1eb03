//! A model's files in the forms in which they are found: what loads, with which ids, and what is an error.

use std::{io, time::SystemTime};

use request::Prompt;
use serde_json::{Value, json};
use tokens::{Context, Files, LoadError, Tokenizer};

/// `plain`, packed by xz.
const PACKED: &[u8] = b"\
        \xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\x01\x00\x04\x70\
        \x6c\x61\x69\x6e\x00\x00\x00\x00\xe5\x25\x01\x2a\x9c\x61\x9b\x1c\x00\x01\x1d\x05\xb8\x2d\x80\xaf\x1f\xb6\xf3\x7d\
        \x01\x00\x00\x00\x00\x04\x59\x5a";

/// A tokenizer of bytes as letters with two merges, `change`d.
fn tokenizer_json(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5},
            "merges": ["a b", "ab c"],
        },
    });
    change(&mut file);
    file.to_string().into_bytes()
}

fn load(tokenizer_json: Vec<u8>) -> Result<Tokenizer, LoadError> {
    Tokenizer::load(Files { tokenizer_json, ..Files::default() })
}

/// Asserts the ids of `text`.
#[track_caller]
fn check(text: &str, change: impl FnOnce(&mut Value), expected: &[u32]) {
    let tokenizer = load(tokenizer_json(change)).expect("it loads");
    let prompt = Prompt::Texts { texts: vec![text.into()], add_special_tokens: true };
    let encoded = tokenizer.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).expect("it encodes");
    assert_eq!(encoded.prompts, [expected], "{text}");
}

/// huggingface/tokenizers#1541, #1645, robertknight/rten#391.
#[test]
fn merges_stand_as_texts_or_as_pairs() {
    check("abc ab", |_| {}, &[4, 5, 3]);
    check("abc ab", |file| file["model"]["merges"] = json!([["a", "b"], ["ab", "c"]]), &[4, 5, 3]);
    check("abc ab", |file| file["model"]["merges"] = json!([]), &[0, 1, 2, 5, 0, 1]);
}

#[test]
fn a_word_of_the_vocabulary_may_ignore_merges() {
    let vocabulary_first = |file: &mut Value| {
        file["model"]["merges"] = json!(["b c"]);
        file["model"]["vocab"]["bc"] = json!(6);
        file["model"]["ignore_merges"] = json!(true);
    };
    check("abc", vocabulary_first, &[4]);
    check(
        "abc",
        |file| {
            vocabulary_first(file);
            file["model"]["ignore_merges"] = json!(false);
        },
        &[0, 6],
    );
}

#[test]
fn members_that_are_null_or_absent_are_none() {
    for absent in ["truncation", "padding", "normalizer", "post_processor", "decoder", "added_tokens"] {
        check("abc", |file| drop(file.as_object_mut().and_then(|file| file.remove(absent))), &[4]);
    }
    for absent in ["type", "dropout", "fuse_unk", "byte_fallback", "ignore_merges"] {
        check("abc", |file| drop(file["model"].as_object_mut().and_then(|model| model.remove(absent))), &[4]);
    }
}

#[test]
fn truncation_and_padding_are_the_engines_business() {
    let cut = json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0});
    check("abc ab", |file| file["truncation"] = cut, &[4, 5, 3]);
    let pad = json!({"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"});
    check("abc ab", |file| file["padding"] = pad, &[4, 5, 3]);
}

#[test]
fn what_no_tokenizer_knows_is_an_error_and_never_a_panic() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let loaded = load(tokenizer_json(change));
        assert!(matches!(loaded, Err(LoadError::Tokenizer(_))), "{:?}", loaded.map(|_| ()));
    };
    refused(&|file| file["normalizer"] = json!({"type": "Sideways"}));
    refused(&|file| {
        file["pre_tokenizer"] =
            json!({"type": "Split", "pattern": {"Regex": "(" }, "behavior": "Isolated", "invert": false})
    });
    refused(&|file| file["pre_tokenizer"] = json!(7));
    refused(&|file| file["post_processor"] = json!({}));
    refused(&|file| file["model"] = json!({}));
    refused(&|file| file["model"]["type"] = json!("Oracle"));
    refused(&|file| file["model"]["vocab"] = json!([]));
    refused(&|file| file["model"]["vocab"]["a"] = json!(-1));
    refused(&|file| file["model"]["merges"] = json!(["a nowhere"]));
    refused(&|file| file["model"]["merges"] = json!([["a", "b", "c"]]));
    refused(&|file| file["added_tokens"] = json!([{"id": 7}]));
}

#[test]
fn files_are_found_by_their_names() {
    let gather = |files: &[(&str, &[u8])]| {
        Files::gather(|name| Ok(files.iter().find(|(own, _)| *own == name).map(|(_, bytes)| bytes.to_vec())))
    };
    let files = gather(&[("tokenizer.json.xz", PACKED), ("chat_template.jinja", b"{{ x }}")]).expect("they read");
    assert_eq!(
        (files.tokenizer_json.as_slice(), files.chat_template_jinja.as_deref()),
        (&b"plain"[..], Some("{{ x }}"))
    );
    let files = gather(&[("tokenizer.json.xz", b"not read"), ("tokenizer.json", b"{}")]).expect("they read");
    assert_eq!(files.tokenizer_json, b"{}");
    assert!(gather(&[]).is_ok_and(|files| files.tokenizer_json.is_empty()));
    assert!(gather(&[("tokenizer.json.xz", b"404")]).is_err());
    assert!(gather(&[("chat_template.jinja", b"\xff\xfe")]).is_err());
    let error = Files::gather(|_| Err(io::Error::other("no such disk"))).expect_err("it can't be read");
    assert_eq!(error.to_string(), "no such disk");
}

const HI: &str = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;

const NO_TOOLS: &str = r#"{"messages": [{"role": "user", "content": "hi"}], "tools": []}"#;

const TOOLS: &str =
    r#"{"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": {"name": "f"}}]}"#;

/// The text that a chat becomes by the model of these files.
fn rendered(files: &Files, body: &str) -> String {
    let tokenizer = Tokenizer::load(files.clone()).expect("it loads");
    let request = request::parse("/v1/chat/completions", body.as_bytes()).expect("a chat");
    let encoded = tokenizer.encode(&request.prompt, &Context::at(SystemTime::UNIX_EPOCH));
    encoded.expect("a prompt").rendered.unwrap_or_default()
}

#[test]
fn named_templates_stand_in_a_list_or_in_an_object() {
    for templates in [
        json!([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]),
        json!({"default": "D", "tool_use": "T", "rag": "R"}),
    ] {
        let tokenizer_config = Some(json!({ "chat_template": templates }).to_string().into_bytes());
        let files = Files { tokenizer_json: tokenizer_json(|_| {}), tokenizer_config, ..Files::default() };
        assert_eq!([HI, NO_TOOLS, TOOLS].map(|body| rendered(&files, body)), ["D", "D", "T"]);
    }
}

/// What the processors of Qwen2-VL and its like were saved with; vLLM takes the tokenizer's own for chats with tools.
#[test]
fn a_processors_template_stands_in_a_json_file() {
    let texts = |config: Value| {
        let config = config.to_string();
        let present =
            [("tokenizer_config.json", config.as_bytes()), ("chat_template.json", br#"{"chat_template": "P"}"#)];
        let read = |name: &str| Ok(present.iter().find(|(own, _)| *own == name).map(|(_, bytes)| bytes.to_vec()));
        let files = Files { tokenizer_json: tokenizer_json(|_| {}), ..Files::gather(read).expect("they read") };
        [HI, NO_TOOLS, TOOLS].map(|body| rendered(&files, body))
    };
    assert_eq!(texts(json!({})), ["P", "P", "P"]);
    assert_eq!(texts(json!({"chat_template": "D"})), ["P", "P", "D"]);
    assert_eq!(texts(json!({"chat_template": {"default": "D", "tool_use": "T"}})), ["P", "P", "T"]);
    let jinja =
        Files { chat_template_jinja: Some("J".into()), processor_template: Some("P".into()), ..Files::default() };
    let jinja = Files { tokenizer_json: tokenizer_json(|_| {}), ..jinja };
    assert_eq!(rendered(&jinja, HI), "J");
    assert!(Files::gather(|name| Ok((name == "chat_template.json").then(|| b"{".to_vec()))).is_err());
}

/// What transformers 5 saves of a model with several templates.
#[test]
fn a_template_for_tools_stands_in_a_file_of_its_own() {
    let model = |present: &[&str]| {
        let read = |name: &str| {
            Ok(match name {
                "tokenizer.json" => Some(tokenizer_json(|_| {})),
                "tokenizer_config.json" => Some(br#"{"chat_template": "C"}"#.to_vec()),
                "chat_template.jinja" if present.contains(&"default") => Some(b"D".to_vec()),
                "additional_chat_templates/tool_use.jinja" if present.contains(&"tool_use") => Some(b"T".to_vec()),
                _ => None,
            })
        };
        Files::gather(read).expect("they read")
    };
    let both = model(&["default", "tool_use"]);
    assert_eq!([HI, NO_TOOLS, TOOLS].map(|body| rendered(&both, body)), ["D", "D", "T"]);
    assert_eq!([HI, TOOLS].map(|body| rendered(&model(&["default"]), body)), ["D", "D"]);
    assert_eq!([HI, TOOLS].map(|body| rendered(&model(&[]), body)), ["C", "C"]);
    assert_eq!(rendered(&model(&["tool_use"]), TOOLS), "T");
}
