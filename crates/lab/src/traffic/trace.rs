//! Recorded requests as traffic: Mooncake's JSONL, Azure's CSV, and JSONL of one's own. In: the file's text, and how much faster
//! it is to be played; out: conversations of one turn, at the recorded times. What can't be read is an error with its line.
//!
//! What a trace doesn't say is not made up: Azure's has lengths alone, so nothing is shared there, and no trace says what was
//! answered, so that no answer is found again in a later prompt.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use tokens::Tokenizer;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{Conversation, Turn};
use crate::model::{Span, mix};

/// Tokens that one of Mooncake's hash ids stands for.
const MOONCAKE_BLOCK: u32 = 512;
/// Tokens of one's own prompts are told apart in pieces of this size: divides the block sizes of engines.
const PIECE: usize = 16;
/// What is said in an answer that has no recorded length.
const ANSWER: u32 = 128;

/// A trace, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace(Vec<Conversation>);

#[derive(Deserialize)]
struct Mooncake {
    /// Milliseconds.
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

#[derive(Deserialize)]
struct Own {
    /// Seconds, from any beginning.
    at: f64,
    /// The request's body.
    request: Value,
    #[serde(default = "chat")]
    path: String,
    session: Option<String>,
    output_tokens: Option<u32>,
}

fn chat() -> String {
    "/v1/chat/completions".to_owned()
}

impl Trace {
    /// Reads any of the three: CSV by its heading, JSONL by its keys. `tokenizer` is needed for requests of one's own.
    pub fn read(text: &str, tokenizer: Option<&Tokenizer>) -> Result<Trace> {
        let first = text.lines().find(|line| !line.trim().is_empty()).context("the trace is empty")?;
        let mut requests = match serde_json::from_str::<Value>(first) {
            Ok(row) if row.get("hash_ids").is_some() => each_line(text, mooncake)?,
            Ok(row) if row.get("request").is_some() => {
                let tokenizer = tokenizer.context("requests are to be tokenized: --model DIR is needed")?;
                each_line(text, |line, number| own(line, number, tokenizer))?
            }
            Ok(_) => bail!("line 1: neither `hash_ids` (Mooncake) nor `request` (one's own) is there"),
            Err(_) if first.contains("ContextTokens") => azure(text)?,
            Err(error) => return Err(error).context("line 1: neither JSON nor a heading with ContextTokens"),
        };
        requests.sort_by_key(|request| request.begins);
        let start = requests.first().map_or(Duration::ZERO, |request| request.begins);
        requests.iter_mut().for_each(|request| request.begins -= start);
        Ok(Trace(requests))
    }

    /// The requests, `rate` times as fast as recorded, `most` of them at most. Arrival times are otherwise kept.
    pub fn traffic(&self, rate: f64, most: usize) -> super::Traffic {
        let faster = move |request: Conversation| Conversation { begins: request.begins.div_f64(rate), ..request };
        Box::new(self.0.clone().into_iter().take(most).map(faster))
    }

    /// Requests in it.
    pub fn requests(&self) -> usize {
        self.0.len()
    }
}

fn each_line(text: &str, read: impl Fn(&str, u64) -> Result<Conversation>) -> Result<Vec<Conversation>> {
    let lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
    lines.map(|(line, number)| read(line, number).with_context(|| format!("line {number}"))).collect()
}

fn mooncake(line: &str, number: u64) -> Result<Conversation> {
    let row: Mooncake = serde_json::from_str(line)?;
    let mut left = row.input_length;
    let spans = row.hash_ids.iter().map(|id| {
        let tokens = left.min(MOONCAKE_BLOCK);
        left -= tokens;
        Span { id: mix(*id), tokens }
    });
    let spans: Vec<Span> = spans.filter(|span| span.tokens > 0).collect();
    ensure!(left == 0, "{} hash ids are too few for {} tokens", row.hash_ids.len(), row.input_length);
    one(seconds(row.timestamp / 1e3)?, number, number, spans, row.output_length)
}

fn azure(text: &str) -> Result<Vec<Conversation>> {
    let mut lines = text.lines().map(str::trim).zip(1_u64..).filter(|(line, _)| !line.is_empty());
    let (heading, _) = lines.next().context("the trace is empty")?;
    let column = |name: &str| {
        heading.split(',').position(|word| word.trim() == name).with_context(|| format!("no column {name}"))
    };
    let (at, input, output) = (column("TIMESTAMP")?, column("ContextTokens")?, column("GeneratedTokens")?);
    let row = |(line, number): (&str, u64)| {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let word = |at: usize| words.get(at).copied().with_context(|| format!("line {number}: too few columns"));
        let count = |at| word(at)?.parse::<u32>().with_context(|| format!("line {number}: no number of tokens"));
        let moment = clock(word(at)?).with_context(|| format!("line {number}: no time"))?;
        let spans = vec![Span { id: mix(number), tokens: count(input)? }];
        one(moment, number, number, spans, count(output)?).with_context(|| format!("line {number}"))
    };
    lines.map(row).collect()
}

/// `2023-11-16 18:15:46.6805900` as the time since a beginning of no meaning.
fn clock(text: &str) -> Option<Duration> {
    let (date, time) = text.trim_end_matches('Z').split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let time = time.split('+').next()?;
    let mut time = time.splitn(3, ':');
    let (hours, minutes) = (time.next()?.parse::<u64>().ok()?, time.next()?.parse::<u64>().ok()?);
    let seconds = time.next()?.parse::<f64>().ok().filter(|seconds| (0.0..61.0).contains(seconds))?;
    // Days of the civil calendar, March being the first month.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    let whole = u64::try_from(days).ok()? * 86_400 + hours * 3_600 + minutes * 60;
    Some(Duration::from_secs(whole) + Duration::from_secs_f64(seconds))
}

fn own(line: &str, number: u64, tokenizer: &Tokenizer) -> Result<Conversation> {
    let row: Own = serde_json::from_str(line)?;
    let body = serde_json::to_vec(&row.request)?;
    let request = request::parse(&row.path, &body).map_err(|error| anyhow::anyhow!("{error}"))?;
    let encoded = tokenizer.encode(&request.prompt, &tokens::Context::at(UNIX_EPOCH))?;
    let ids = encoded.prompts.into_iter().next().context("no prompt")?;
    let piece = |ids: &[u32]| {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Span { id: xxh3_64_with_seed(&bytes, ids.len() as u64), tokens: ids.len() as u32 }
    };
    let session = row.session.map_or(number, |session| xxh3_64(session.as_bytes()));
    let most = request.max_tokens.and_then(|most| u32::try_from(most).ok());
    let answer = row.output_tokens.or(most).unwrap_or(ANSWER);
    one(seconds(row.at)?, number, session, ids.chunks(PIECE).map(piece).collect(), answer)
}

fn seconds(figure: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(figure).with_context(|| format!("{figure} is no time"))
}

/// A request on its own. One without a session has a session of its own.
fn one(begins: Duration, number: u64, session: u64, says: Vec<Span>, answer: u32) -> Result<Conversation> {
    ensure!(!says.is_empty(), "the prompt is empty");
    let scenario = says[0].id;
    let answer = Span { id: mix(mix(number) ^ 1), tokens: answer.max(1) };
    let turn = Turn { think: Duration::ZERO, anew: true, scenario, says, answer };
    Ok(Conversation { begins, session, turns: vec![turn] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a request: when, its spans' tokens, its answer's.
    #[track_caller]
    fn check(trace: &str, expected: &str) {
        let read = Trace::read(trace, None).map(|trace| {
            let line = |request: Conversation| {
                let turn = &request.turns[0];
                let spans: Vec<u32> = turn.says.iter().map(|span| span.tokens).collect();
                format!("{:?} {spans:?} {}", request.begins, turn.answer.tokens)
            };
            trace.traffic(2.0, usize::MAX).map(line).collect::<Vec<_>>().join("\n")
        });
        assert_eq!(read.unwrap_or_else(|error| format!("{error:#}")), expected);
    }

    #[test]
    fn mooncakes_hash_ids_are_blocks_of_512_tokens_at_their_times() {
        check(
            r#"{"timestamp": 1000, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
               {"timestamp": 4000, "input_length": 512, "output_length": 0, "hash_ids": [0]}"#,
            "0ns [512, 188] 5\n1.5s [512] 1",
        );
        check(
            r#"{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0]}"#,
            "line 1: 1 hash ids are too few for 700 tokens",
        );
        check("[]", "line 1: neither `hash_ids` (Mooncake) nor `request` (one's own) is there");
    }

    #[test]
    fn azures_rows_are_lengths_at_times() {
        check(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-30 23:59:59.5000000,374,44\n2023-12-01 00:00:01.5,396,109\n",
            "0ns [374] 44\n1s [396] 109",
        );
        check("TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,374,44", "line 2: no time");
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        let days = |from, to| (clock(to).unwrap() - clock(from).unwrap()).as_secs() / 86_400;
        assert_eq!(days("2024-02-28 00:00:00", "2024-03-01 00:00:00"), 2);
        assert_eq!(days("2023-02-28 00:00:00", "2023-03-01 00:00:00"), 1);
        assert_eq!(days("2023-12-31 00:00:00", "2024-01-01 00:00:00"), 1);
        assert_eq!(days("2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"), 366);
    }

    #[test]
    fn ones_own_requests_are_tokenized_and_share_what_their_tokens_share() {
        let row = |at: f64, question: &str| {
            let request = serde_json::json!({"model": "m", "max_tokens": 9, "prompt": format!("{}{question}", "long ".repeat(60))});
            serde_json::json!({"at": at, "path": "/v1/completions", "request": request}).to_string()
        };
        let text = format!("{}\n{}\n", row(5.0, "one?"), row(6.5, "two?"));
        assert!(Trace::read(&text, None).unwrap_err().to_string().contains("--model"));
        let trace = Trace::read(&text, Some(&Tokenizer::estimate())).unwrap();
        let requests: Vec<Conversation> = trace.traffic(1.0, 9).collect();
        let says = |at: usize| &requests[at].turns[0].says;
        // 304 bytes are 76 pseudo-tokens: four pieces of 16 and one of 12.
        assert_eq!(says(0).iter().map(|span| span.tokens).collect::<Vec<_>>(), [16, 16, 16, 16, 12]);
        assert_eq!((says(0)[..4] == says(1)[..4], says(0)[4] == says(1)[4]), (true, false));
        assert_eq!((requests[1].begins, requests[1].turns[0].answer.tokens), (Duration::from_millis(1500), 9));
    }
}
