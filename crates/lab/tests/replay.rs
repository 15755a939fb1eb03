//! The engine model against a real vLLM: 320 recorded requests, one at a time, on a fresh engine of 320 blocks of 32
//! tokens (`vllm serve` 0.32 on a CPU, `--block-size 32 --num-gpu-blocks-override 320 --max-num-seqs 4`). Each row holds the
//! request, the prompt tokens and cached tokens that the engine counted, and the ids that it generated.

#![allow(clippy::unwrap_used)] // A fixture that does not read fails the test where it stands.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use lab::model::{Answer, Ask, Engine, Shape, StepCost, Text, border};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn rows() -> Vec<Value> {
    let file = std::fs::File::open(fixtures().join("replay/replay_320x32.jsonl.xz")).unwrap();
    let lines = BufReader::new(xz2::read::XzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// The cached tokens of each request, recorded and as the model counts them.
fn replayed() -> Vec<(u64, u64)> {
    let tokenizer = lab::model_dir::load(&fixtures().join("qwen3")).unwrap();
    let context = tokens::Context::at(UNIX_EPOCH);
    let shape = Shape {
        block_size: 32,
        blocks: 320,
        max_num_seqs: 4,
        max_num_batched_tokens: 2048,
        max_model_len: 8192,
        prefix_caching: true,
    };
    let mut engine = Engine::new(shape, StepCost::NOTHING);
    let mut counts = Vec::new();
    for (id, row) in rows().into_iter().enumerate() {
        let body = serde_json::to_vec(&row["request"]).unwrap();
        let request = request::parse("/v1/chat/completions", &body).unwrap();
        let prompt = tokenizer.encode(&request.prompt, &context).unwrap().prompts.remove(0);
        assert_eq!(Some(prompt.len() as u64), row["prompt_tokens"].as_u64(), "prompt tokens of request {id}");
        let answer: Vec<u32> = serde_json::from_value(row["answer_token_ids"].clone()).unwrap();
        let ask = Ask {
            id: id as u64,
            max_tokens: answer.len() as u32,
            text: Text::Tokens { prompt, answer: Answer::Told(answer) },
            border: border("", ""),
        };
        engine.submit(ask).unwrap();
        let mut cached = None;
        while let Some(step) = engine.step(Duration::ZERO) {
            cached = step.emitted.first().map(|emitted| u64::from(emitted.cached_tokens)).or(cached);
        }
        counts.push((row["cached_tokens"].as_u64().unwrap(), cached.unwrap()));
    }
    counts
}

#[test]
fn the_model_reuses_what_a_real_vllm_reused_in_each_of_320_requests() {
    let counts = replayed();
    let differ: Vec<_> = counts.iter().enumerate().filter(|(_, (recorded, modelled))| recorded != modelled).collect();
    assert_eq!((counts.len(), differ), (320, Vec::new()));
}
