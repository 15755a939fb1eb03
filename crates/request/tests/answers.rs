//! Answers in, however cut; usage and first content out. The bodies have the shapes that vLLM 0.32, SGLang, the
//! Responses API and Anthropic's API send; the odd ones follow public bug reports, each named.

use proptest::prelude::*;
use request::{Answer, Seen};

const SSE: Option<&str> = Some("text/event-stream; charset=utf-8");
const JSON: Option<&str> = Some("application/json");

/// A chat as vLLM streams it, with `include_usage`: a role, text, reasoning, a tool call, the end, usage.
const CHAT_STREAM: &str = "data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}

data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"Hm: \\\"usage\\\"?\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}

data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße 😀\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}

data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}

data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null,\"token_ids\":null}]}

data: {\"id\":\"chatcmpl-8c47\",\"object\":\"chat.completion.chunk\",\"created\":1764464400,\"model\":\"qwen3\",\"choices\":[],\"usage\":{\"prompt_tokens\":1818,\"total_tokens\":1822,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":1792}}}

data: [DONE]

";

const CHAT_WHOLE: &str = r#"{"id":"chatcmpl-8c47","object":"chat.completion","created":1764464400,"model":"qwen3","choices":[{"index":0,"message":{"role":"assistant","content":"The \"usage\":{\"prompt_tokens\":7} of it","refusal":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"service_tier":null,"usage":{"prompt_tokens":18,"total_tokens":22,"completion_tokens":4,"prompt_tokens_details":null},"prompt_logprobs":null,"kv_transfer_params":null}"#;

/// Reads the answer in pieces; `expected` is the line of [`report`] but for the place of the first content.
fn check(content_type: Option<&str>, answer: &str, expected: &str) {
    for size in [answer.len().max(1), 1, 2, 3, 64] {
        let ends: Vec<usize> = (1..).map(|piece| piece * size).take_while(|end| *end < answer.len()).collect();
        assert_eq!(report(content_type, answer.as_bytes(), &ends).0, expected, "pieces of {size}");
    }
}

/// Reads `answer` cut at `ends`: what came out, and within which piece the first content was seen.
fn report(content_type: Option<&str>, answer: &[u8], ends: &[usize]) -> (String, Option<usize>) {
    let mut reader = Answer::new(content_type, None);
    let mut seen = Vec::new();
    let mut from = 0;
    for end in ends.iter().copied().chain([answer.len()]) {
        seen.push(reader.feed(&answer[from..end]));
        from = end;
    }
    seen.push(reader.finish());
    let firsts: Vec<usize> = (0..seen.len()).filter(|at| seen[*at] == Seen::FirstContent).collect();
    assert!(firsts.len() <= 1 && firsts.is_empty() == (reader.content_chunks() == 0));
    assert!(seen.iter().take(firsts.first().copied().unwrap_or(seen.len())).all(|seen| *seen == Seen::Nothing));
    let count = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    let usage = reader.usage().map_or("no usage".to_owned(), |usage| {
        let [prompt, completion, cached] =
            [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens].map(count);
        format!("prompt {prompt} completion {completion} cached {cached}")
    });
    let form = if reader.is_stream() { "stream" } else { "whole" };
    assert!(!reader.capped());
    (format!("{form}, {usage}, {} chunks of content", reader.content_chunks()), firsts.first().copied())
}

#[test]
fn a_streamed_chat_gives_usage_and_content() {
    let expected = "stream, prompt 1818 completion 4 cached 1792, 3 chunks of content";
    check(SSE, CHAT_STREAM, expected);
    check(SSE, &CHAT_STREAM.replace('\n', "\r\n"), expected);
    check(SSE, &CHAT_STREAM.replace("data: ", "data:"), expected);
    check(None, CHAT_STREAM, expected);
    check(SSE, CHAT_STREAM.trim_end(), expected);
}

#[test]
fn the_first_content_is_seen_with_the_byte_that_ends_its_line() {
    let line_end = CHAT_STREAM.find("\\\"usage\\\"").and_then(|at| Some(at + CHAT_STREAM[at..].find('\n')?)).unwrap();
    let (_, before) = report(SSE, CHAT_STREAM.as_bytes(), &[line_end]);
    assert_eq!(before, Some(1));
    let (_, with) = report(SSE, CHAT_STREAM.as_bytes(), &[line_end + 1]);
    assert_eq!(with, Some(0));
}

#[test]
fn a_role_a_ping_and_an_end_are_no_content() {
    let stream = ": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\ndata: [DONE]\n\n";
    check(SSE, stream, "stream, no usage, 0 chunks of content");
}

#[test]
fn a_streamed_completion_gives_usage_and_content() {
    let stream = "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n\
                  data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" x\",\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":null}\n\n\
                  data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"total_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    check(SSE, stream, "stream, prompt 2 completion 1 cached ?, 1 chunks of content");
}

#[test]
fn usage_with_every_chunk_grows() {
    // `continuous_usage_stats`
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":10,\"completion_tokens\":1}}\n\n\
                  data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":11,\"completion_tokens\":2}}\n\n";
    check(SSE, stream, "stream, prompt 9 completion 2 cached ?, 2 chunks of content");
}

#[test]
fn a_whole_answer_gives_usage_only() {
    check(JSON, CHAT_WHOLE, "whole, prompt 18 completion 4 cached ?, 0 chunks of content");
    check(None, CHAT_WHOLE, "whole, prompt 18 completion 4 cached ?, 0 chunks of content");
    check(Some("application/vnd.x+json"), CHAT_WHOLE, "whole, prompt 18 completion 4 cached ?, 0 chunks of content");
    check(
        JSON,
        r#"{"usage":{"input_tokens":20,"cache_read_input_tokens":16,"output_tokens":9},"content":[]}"#,
        "whole, prompt 20 completion 9 cached 16, 0 chunks of content",
    );
    check(
        JSON,
        r#"{"object":"list","data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0}}"#,
        "whole, prompt 5 completion 0 cached ?, 0 chunks of content",
    );
}

#[test]
fn a_responses_stream_tells_at_its_end() {
    // kubernetes-sigs/gateway-api-inference-extension#2573
    let stream = r#"event: response.created
data: {"type":"response.created","response":{"id":"r","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":8},"output_tokens":5,"total_tokens":16}}}

"#;
    check(SSE, stream, "stream, prompt 11 completion 5 cached 8, 1 chunks of content");
}

#[test]
fn an_anthropic_stream_tells_part_by_part() {
    // llm-d/llm-d-router#2437
    let stream = r#"event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":16,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

"#;
    check(SSE, stream, "stream, prompt 20 completion 9 cached 16, 2 chunks of content");
    // Anthropic's own ends without the prompt's tokens.
    let short = stream.replace("\"input_tokens\":0,", "");
    check(SSE, &short, "stream, prompt 20 completion 9 cached 16, 2 chunks of content");
}

#[test]
fn usage_of_wrong_types_is_absent_field_by_field() {
    // llm-d/llm-d#1363, llm-d/llm-d-router#1240
    let both = |usage: &str, expected: &str| {
        check(
            JSON,
            &format!(r#"{{"choices":[],"usage":{usage}}}"#),
            &format!("whole, {expected}, 0 chunks of content"),
        );
        let stream = format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\n");
        check(SSE, &stream, &format!("stream, {expected}, 0 chunks of content"));
    };
    both(r#""oops""#, "no usage");
    both(r#"{"prompt_tokens":"1024","completion_tokens":3}"#, "prompt ? completion 3 cached ?");
    both(r#"{"prompt_tokens_details":0,"prompt_tokens":5}"#, "prompt 5 completion ? cached ?");
    both(r#"{"prompt_tokens_details":{"cached_tokens":null},"prompt_tokens":5}"#, "prompt 5 completion ? cached ?");
    both("null", "no usage");
    both(r#"{"prompt_tokens":-1}"#, "no usage");
    both("[1]", "no usage");
    both(r#"{"prompt_tokens":1e+300}"#, "no usage");
    check(JSON, r#""not an object""#, "whole, no usage, 0 chunks of content");
    check(JSON, "null", "whole, no usage, 0 chunks of content");
}

#[test]
fn what_we_cannot_read_gives_nothing() {
    // kubernetes-sigs/gateway-api-inference-extension#1436
    check(Some("text/plain"), "no healthy upstream", "whole, no usage, 0 chunks of content");
    check(JSON, "no healthy upstream", "whole, no usage, 0 chunks of content");
    check(None, "no healthy upstream", "whole, no usage, 0 chunks of content");
    check(SSE, "no healthy upstream", "stream, no usage, 0 chunks of content");
    check(SSE, "data: {\"choices\":[{\"delta\":{\"content\":\n\ndata: }\n\n", "stream, no usage, 0 chunks of content");
    check(JSON, "", "whole, no usage, 0 chunks of content");
    let mut packed = Answer::new(JSON, Some("gzip"));
    assert_eq!(packed.feed(CHAT_WHOLE.as_bytes()), Seen::Nothing);
    assert_eq!(packed.usage(), None);
}

#[test]
fn space_before_an_answer_of_unknown_type_counts_for_nothing() {
    let stream = " \ndata: {\"choices\":[{\"text\":\"x\"}]}\n\n";
    check(None, stream, "stream, no usage, 1 chunks of content");
    check(None, "\u{c}{\"usage\":{\"prompt_tokens\":5}}", "whole, prompt 5 completion ? cached ?, 0 chunks of content");
}

#[test]
fn a_monster_is_left_out_and_the_answer_says_so() {
    let monster = format!("data: {{\"choices\":[{{\"text\":\"{}\"}}]}}\n\n{CHAT_STREAM}", "x".repeat(2 << 20));
    let mut reader = Answer::new(SSE, None);
    for piece in monster.as_bytes().chunks(16 << 10) {
        reader.feed(piece);
    }
    assert!(reader.capped());
    assert_eq!(reader.content_chunks(), 3);
    assert_eq!(reader.usage().and_then(|usage| usage.prompt_tokens), Some(1818));
}

proptest! {
    #[test]
    fn however_the_answer_is_cut_the_result_is_the_same(
        which in 0..4_usize,
        content_type in prop::sample::select(vec![None, SSE, JSON, Some("text/plain")]),
        spoil in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let windows = CHAT_STREAM.replace('\n', "\r\n");
        let spaced = format!("\u{feff} \n{}", CHAT_WHOLE.replace(':', " :\t").replace(',', " ,\n"));
        let mut answer = [CHAT_STREAM, &windows, CHAT_WHOLE, &spaced][which].as_bytes().to_vec();
        if let Some((at, byte)) = spoil {
            let at = at.index(answer.len());
            answer[at] = byte;
        }
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len())).collect();
        ends.sort_unstable();
        let (whole, _) = report(content_type, &answer, &[]);
        let (cut, _) = report(content_type, &answer, &ends);
        prop_assert_eq!(whole, cut);
    }
}
