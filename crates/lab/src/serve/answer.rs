//! Answers in vLLM's form. In: tokens as they come; out: one JSON object, or the events of a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use request::Api;
use serde_json::{Value, json};
use tokio_stream::Stream;

use super::runner::Tokens;
use crate::model::{Emitted, Finish};
use crate::words::Words;

/// What all parts of one answer have in common.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) api: Api,
    /// With its prefix: `chatcmpl-` or `cmpl-`.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) include_usage: bool,
    pub(super) cached_tokens_in_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) words: Arc<Words>,
}

/// One choice on its way.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) tokens: Tokens,
    /// For `return_token_ids`, and for counting.
    pub(super) prompt: Vec<u32>,
    answer: Vec<u32>,
    cached_tokens: u32,
    finish: Option<Finish>,
}

impl Choice {
    pub(super) fn new(tokens: Tokens, prompt: Vec<u32>) -> Choice {
        Choice { tokens, prompt, answer: Vec::new(), cached_tokens: 0, finish: None }
    }

    /// The next token; `None` at the end. An engine that has ended leaves `finish` empty.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Emitted>> {
        let polled = self.tokens.poll_next(context);
        if let Poll::Ready(Some(emitted)) = &polled {
            self.answer.push(emitted.token);
            self.cached_tokens = emitted.cached_tokens;
            self.finish = emitted.finish;
        }
        polled
    }

    /// Waits for all tokens; false where the engine ended before the last one.
    async fn complete(&mut self) -> bool {
        while std::future::poll_fn(|context| self.poll_next(context)).await.is_some() {}
        self.finish.is_some()
    }
}

/// The events of a stream.
pub(super) struct Events {
    frame: Frame,
    choices: Vec<Choice>,
    /// Events that are made and not yet taken.
    ready: VecDeque<Bytes>,
    ended: bool,
}

impl Events {
    pub(super) fn new(frame: Frame, choices: Vec<Choice>) -> Events {
        Events { frame, choices, ready: VecDeque::new(), ended: false }
    }

    /// Whether every choice has said whether it has a token, or the end.
    fn poll_choices(&mut self, context: &mut Context<'_>) {
        let mut open = false;
        for index in 0..self.choices.len() {
            match self.choices[index].poll_next(context) {
                Poll::Pending => open = true,
                Poll::Ready(None) => (),
                Poll::Ready(Some(emitted)) => {
                    open = true;
                    self.make(index, &emitted);
                }
            }
        }
        if !open {
            self.end();
        }
    }

    fn make(&mut self, index: usize, emitted: &Emitted) {
        let frame = &self.frame;
        if emitted.position == 0 && frame.api == Api::ChatCompletions {
            let opening = json!({"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null});
            let mut event = frame.event(vec![opening]);
            event["prompt_token_ids"] = frame.ids(&self.choices[index].prompt);
            self.ready.push_back(sse(&event));
        }
        let prompt = &self.choices[index].prompt;
        let event = frame.event(vec![frame.part(index, emitted, prompt)]);
        self.ready.push_back(sse(&event));
    }

    fn end(&mut self) {
        self.ended = true;
        if self.choices.iter().any(|choice| choice.finish.is_none()) {
            let error =
                json!({"message": "the engine has ended", "type": "InternalServerError", "param": null, "code": 500});
            self.ready.push_back(sse(&json!({ "error": error })));
        } else if self.frame.include_usage {
            let mut event = self.frame.event(Vec::new());
            event["usage"] = self.frame.usage(&self.choices, false);
            self.ready.push_back(sse(&event));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            self.poll_choices(context);
            if self.ready.is_empty() && !self.ended {
                return Poll::Pending;
            }
        }
    }
}

fn sse(event: &Value) -> Bytes {
    Bytes::from(format!("data: {event}\n\n"))
}

fn finish_reason(finish: Option<Finish>) -> Option<&'static str> {
    finish.map(|finish| match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    })
}

impl Frame {
    /// The whole answer, once all tokens are there; `None` where the engine ended before.
    pub(super) async fn whole(self, mut choices: Vec<Choice>) -> Option<Value> {
        for choice in &mut choices {
            if !choice.complete().await {
                return None;
            }
        }
        let parts: Vec<Value> = choices.iter().enumerate().map(|(index, choice)| self.choice(index, choice)).collect();
        let usage = self.usage(&choices, true);
        let mut answer = json!({
            "id": self.id,
            "object": match self.api { Api::ChatCompletions => "chat.completion", _ => "text_completion" },
            "created": self.created,
            "model": self.model,
            "choices": parts,
            "service_tier": null,
            "system_fingerprint": null,
            "usage": usage,
        });
        if self.api == Api::ChatCompletions {
            answer["prompt_logprobs"] = Value::Null;
            answer["prompt_token_ids"] = self.ids(&choices[0].prompt);
        }
        answer["kv_transfer_params"] = Value::Null;
        Some(answer)
    }

    fn choice(&self, index: usize, choice: &Choice) -> Value {
        let text: String = choice.answer.iter().map(|token| self.words.piece(*token)).collect();
        let finish_reason = finish_reason(choice.finish);
        match self.api {
            Api::ChatCompletions => json!({
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": null, "annotations": null, "audio": null,
                    "function_call": null, "tool_calls": [], "reasoning": null},
                "logprobs": null,
                "finish_reason": finish_reason,
                "stop_reason": null,
                "token_ids": self.ids(&choice.answer),
            }),
            _ => json!({
                "index": index,
                "text": text,
                "logprobs": null,
                "finish_reason": finish_reason,
                "stop_reason": null,
                "token_ids": self.ids(&choice.answer),
                "prompt_logprobs": null,
                "prompt_token_ids": self.ids(&choice.prompt),
            }),
        }
    }

    /// An event of a stream.
    fn event(&self, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": match self.api { Api::ChatCompletions => "chat.completion.chunk", _ => "text_completion" },
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    /// One token of one choice in a stream.
    fn part(&self, index: usize, emitted: &Emitted, prompt: &[u32]) -> Value {
        let text = self.words.piece(emitted.token);
        let finish_reason = finish_reason(emitted.finish);
        let mut part = match self.api {
            Api::ChatCompletions => {
                json!({"index": index, "delta": {"content": text}, "logprobs": null, "finish_reason": finish_reason})
            }
            _ => {
                json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish_reason, "stop_reason": null})
            }
        };
        if self.api == Api::ChatCompletions && emitted.finish.is_some() {
            part["stop_reason"] = Value::Null;
        }
        if self.api == Api::Completions {
            part["prompt_token_ids"] = if emitted.position == 0 { self.ids(prompt) } else { Value::Null };
        }
        part["token_ids"] = self.ids(&[emitted.token]);
        part
    }

    fn ids(&self, tokens: &[u32]) -> Value {
        if self.return_token_ids { json!(tokens) } else { Value::Null }
    }

    fn usage(&self, choices: &[Choice], whole: bool) -> Value {
        let prompt: usize = choices.iter().map(|choice| choice.prompt.len()).sum();
        let completion: usize = choices.iter().map(|choice| choice.answer.len()).sum();
        let cached: u64 = choices.iter().map(|choice| u64::from(choice.cached_tokens)).sum();
        let mut usage =
            json!({"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion});
        if self.cached_tokens_in_usage {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        } else if whole {
            usage["prompt_tokens_details"] = Value::Null;
        }
        usage
    }
}
