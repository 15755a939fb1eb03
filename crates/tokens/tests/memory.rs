//! What a tokenizer remembers is bounded, in the process' own memory.

use std::{fs, time::SystemTime};

use request::Prompt;
use tokens::{Context, DEFAULT_MEMO_BYTES, Files, Tokenizer};

/// Qwen3, with the memo it has by default.
fn qwen3() -> Tokenizer {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3");
    let files = Files::gather(|name| match fs::read(directory.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    });
    Tokenizer::load(files.expect("the fixture's files")).expect("Qwen3 loads")
}

/// Resident memory in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for it");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

/// Letters without a space, others for each request.
fn run(request: usize, len: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(request % 26).expect("a letter"));
    let part = format!("{}{request}", letter.to_string().repeat(1 + request % 9));
    part.repeat(len.div_ceil(part.len()))
}

/// huggingface/tokenizers#1539, #1680, daulet/tokenizers#43: 2,000 different runs of 100 KB leave nothing behind but what
/// the memo may hold.
#[test]
fn different_long_texts_do_not_pile_up() {
    let tokenizer = qwen3();
    let read = |request: usize| {
        let prompt = Prompt::Texts { texts: vec![run(request, 100_000).into()], add_special_tokens: true };
        tokenizer.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH)).expect("a prompt").tokens()
    };
    assert!((0..200).map(read).min().is_some_and(|tokens| tokens > 10_000));
    let before = resident();
    assert!((200..2000).map(read).min().is_some_and(|tokens| tokens > 10_000));
    let grown = resident().saturating_sub(before);
    assert!(grown <= DEFAULT_MEMO_BYTES + (32 << 20), "{} MB more than after 200 requests", grown >> 20);
}
