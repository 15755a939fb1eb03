//! A streamed answer as a client reads it. In: bytes, however cut; out: text, usage, whether it came to its end.

use serde_json::Value;

/// More than this without the end of an event is no answer of ours.
const LONGEST_EVENT: usize = 1 << 20;

/// What has been read of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    pending: Vec<u8>,
    /// The text so far.
    pub(super) text: String,
    /// Prompt tokens, from `usage`.
    pub(super) prompt_tokens: Option<u64>,
    /// Cached prompt tokens, from `usage`.
    pub(super) cached_tokens: Option<u64>,
    /// Tokens of the answer, from `usage`.
    pub(super) completion_tokens: Option<u64>,
    /// Why the answer ended.
    pub(super) finish_reason: Option<String>,
    /// Whether `[DONE]` came.
    pub(super) done: bool,
    /// What was wrong, if anything.
    pub(super) fault: Option<String>,
}

impl Events {
    /// Reads on.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let mut read = 0;
        while let Some(length) = self.pending[read..].iter().position(|byte| *byte == b'\n') {
            let line = self.pending[read..read + length].to_vec();
            read += length + 1;
            self.line(line.strip_suffix(b"\r").unwrap_or(&line));
        }
        self.pending.drain(..read);
        if self.pending.len() > LONGEST_EVENT {
            self.pending.clear();
            self.fault.get_or_insert_with(|| "an event longer than 1 MiB".to_owned());
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        match serde_json::from_slice(data) {
            Ok(event) => self.event(&event),
            Err(error) => {
                self.fault.get_or_insert_with(|| format!("an event that isn't JSON: {error}"));
            }
        }
    }

    fn event(&mut self, event: &Value) {
        if let Some(error) = event.get("error") {
            self.fault.get_or_insert_with(|| error.to_string());
        }
        if let Some(text) = event.pointer("/choices/0/delta/content").and_then(Value::as_str) {
            self.text.push_str(text);
        }
        if let Some(reason) = event.pointer("/choices/0/finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            let count = |path| usage.pointer(path).and_then(Value::as_u64);
            self.prompt_tokens = count("/prompt_tokens");
            self.completion_tokens = count("/completion_tokens");
            self.cached_tokens = count("/prompt_tokens_details/cached_tokens");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"two\"},\"finish_reason\":null}]}\r\n\r\n\
        : a comment\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\" wörds\"},\"finish_reason\":\"length\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n\
        data: [DONE]\n\n";

    fn check(pieces: impl Iterator<Item = Vec<u8>>, expected: &str) {
        let mut events = Events::default();
        for piece in pieces {
            events.feed(&piece);
        }
        let Events { text, prompt_tokens, cached_tokens, completion_tokens, finish_reason, done, fault, .. } = events;
        let told = format!(
            "{text:?} {prompt_tokens:?} {cached_tokens:?} {completion_tokens:?} {finish_reason:?} {done} {fault:?}"
        );
        assert_eq!(told, expected);
    }

    #[test]
    fn however_an_answer_is_cut_the_same_is_read() {
        let expected = r#""two wörds" Some(9) Some(8) Some(2) Some("length") true None"#;
        for size in [1, 2, 3, 7, 50, ANSWER.len()] {
            check(ANSWER.as_bytes().chunks(size).map(<[u8]>::to_vec), expected);
        }
    }

    #[test]
    fn an_answer_without_its_end_is_not_done() {
        check([ANSWER.as_bytes()[..120].to_vec()].into_iter(), r#""" None None None None false None"#);
    }

    #[test]
    fn an_error_within_the_stream_is_a_fault() {
        check(
            [b"data: {\"error\":{\"code\":500}}\n\n".to_vec()].into_iter(),
            r#""" None None None None false Some("{\"code\":500}")"#,
        );
    }
}
