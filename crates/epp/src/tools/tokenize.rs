//! What the picker makes of a request, as JSON: for the one who asks why a cache stayed cold.
//!
//! In: a body; out: an object of five members, each on a line of its own.

use std::time::SystemTime;

use blocks::{Print, Seed};
use serde_json::{Value, json};
use tokens::Medium;

use super::asked::Asked;
use crate::flags::Reading;
use crate::models;

/// The answer, with a newline at its end:
///
/// - `rendered`: a chat's text as the template gives it; null for prompts that no template touches;
/// - `token_ids`: a list, or a list for each prompt where there are several;
/// - `block_hashes`: of the whole blocks, 16 hexadecimal digits each; nested likewise;
/// - `salt`: the border: what else entered the hashes; empty strings where there is nothing;
/// - `notes`: what is uncertain, `word: explanation` each.
///
/// # Errors
/// Why there are no tokens.
pub(super) fn answer(reading: &Reading, body: &[u8], now: SystemTime) -> Result<String, String> {
    let asked = Asked::read(body, reading)?;
    let tokenizer =
        models::tokenizer_in(&reading.model).map_err(|why| format!("{}: {why}", reading.model.display()))?;
    let tokenized = asked.tokenize(&tokenizer, reading, now).map_err(|why| why.to_string())?;
    let mut notes = asked.notes.clone();
    if let Some(why) = tokenized.encoded.inexact {
        notes.push(format!("inexact: {why}"));
    }
    if tokenized.encoded.multimodal {
        notes.push("multimodal: the engine puts further tokens in the place of images, sounds or films".into());
    }
    let prints = tokenized.fingerprint(reading.block_size).prints;
    let members = [
        ("rendered", json!(tokenized.encoded.rendered)),
        ("token_ids", one_or_many(&tokenized.encoded.prompts, |ids| json!(ids))),
        ("block_hashes", one_or_many(&prints, hashes)),
        ("salt", salt(&tokenized.seed, &tokenized.encoded.media)),
        ("notes", json!(notes)),
    ];
    let lines: Vec<String> = members.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

fn one_or_many<T>(prompts: &[T], value: impl Fn(&T) -> Value) -> Value {
    match prompts {
        [one] => value(one),
        _ => prompts.iter().map(value).collect(),
    }
}

fn hashes(print: &Print) -> Value {
    print.hashes.iter().map(|hash| format!("{:016x}", hash.0)).collect()
}

fn salt(seed: &Seed<'_>, media: &[Medium]) -> Value {
    let medium = |medium: &Medium| json!({ "hash": format!("{:016x}", medium.hash), "token": medium.place.map(|place| place.token) });
    let media: Vec<Value> = media.iter().map(medium).collect();
    json!({
        "model": seed.model,
        "revision": seed.revision,
        "adapter": seed.adapter,
        "tenant": seed.tenant,
        "cache_salt": seed.cache_salt,
        "media": media,
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::{Path, PathBuf};

    use request::Engine;

    use super::*;
    use crate::models::Models;
    use crate::understand::{Arrived, understand};

    fn qwen3() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3")
    }

    fn reading() -> Reading {
        Reading {
            model: qwen3(),
            path: None,
            name: None,
            revision: String::new(),
            adapter: String::new(),
            tenant: "t".to_owned(),
            engine: Engine::Vllm,
            block_size: NonZeroU32::new(4).expect("not zero"),
        }
    }

    /// The picker's own hashes for a body that came to `path`.
    fn served(path: &str, body: &str) -> Vec<Vec<String>> {
        let models = Models::load(&[config::Model {
            name: "qwen3".to_owned(),
            aliases: Vec::new(),
            path: qwen3(),
            revision: String::new(),
            adapters: Vec::new(),
        }]);
        let arrived = Arrived {
            path: path.to_owned(),
            encoding: None,
            body: Some(body.as_bytes().to_vec().into()),
            load_only: false,
            tenant: Some("t".to_owned()),
            rules: crate::understand::Rules::default(),
            rewrite: None,
            rewrites: std::sync::Arc::default(),
            random: 0.0,
            progress: crate::progress::Progress::default(),
        };
        let understood = understand(&arrived, &models, &[reading().block_size], SystemTime::UNIX_EPOCH);
        let prints = &understood.fingerprints[0].prints;
        prints.iter().map(|print| print.hashes.iter().map(|hash| format!("{:016x}", hash.0)).collect()).collect()
    }

    #[test]
    fn the_hashes_are_those_that_the_picker_makes() {
        for (path, body) in [
            (
                "/v1/chat/completions",
                r#"{"model":"qwen3","cache_salt":"s","messages":[{"role":"user","content":"x"}]}"#,
            ),
            ("/v1/messages", r#"{"model":"qwen3","system":"y","messages":[{"role":"user","content":"x"}]}"#),
            ("/v1/completions", r#"{"model":"qwen3","prompt":["one two three four five six","x"]}"#),
            (
                "/v1/chat/completions",
                r#"{"model":"qwen3","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://i"}}]}]}"#,
            ),
        ] {
            let answer = answer(&reading(), body.as_bytes(), SystemTime::UNIX_EPOCH).expect("understood");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            let served = served(path, body);
            let expected = if let [one] = &served[..] { json!(one) } else { json!(served) };
            assert_eq!(answer["block_hashes"], expected, "{body}");
            assert!(!served[0].is_empty(), "{body}");
        }
    }
}
