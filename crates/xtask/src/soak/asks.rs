//! What clients ask. In: draws; out: requests of every size and kind, each with what an engine answers to it, and with
//! the moment at which its client is going to leave, if it is one of those who do.

use std::time::Duration;

use serde_json::{Value, json};

use super::Listener;
use crate::draw::Draw;

/// The largest body that the picker takes in this soak.
pub(crate) const LARGEST_BODY: usize = 1_536 << 10;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Its `x-request-id`.
    pub(crate) id: String,
    /// Through which of Envoy's listeners it goes.
    pub(crate) listener: Listener,
    /// What it is.
    pub(crate) kind: Kind,
    /// Where it goes.
    pub(crate) path: &'static str,
    /// Its body; none for a GET.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether its answer is a stream.
    pub(crate) stream: bool,
    /// Bytes sent at a time.
    pub(crate) piece: usize,
    /// The pause between them.
    pub(crate) pause: Duration,
    /// When its client leaves.
    pub(crate) hang_up: Option<HangUp>,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `GET /v1/models`.
    Get,
    /// A chat of a few words.
    Tiny,
    /// A chat of 2 KB behind one of a few shared beginnings.
    Small,
    /// A text completion of 1 KB.
    Completion,
    /// A chat of 100 KB.
    Long,
    /// A megabyte of which the engine reads little: most of it stands in a field of no meaning to it.
    Padded,
    /// A megabyte of prompt, more than the engine takes: it answers 400.
    TooLong,
    /// No JSON: the engine answers 400.
    Broken,
    /// More than the picker takes: it answers 413.
    TooLarge,
}

impl Kind {
    /// All, in the order of tables.
    pub(crate) const ALL: [Kind; 9] = [
        Kind::Get,
        Kind::Tiny,
        Kind::Small,
        Kind::Completion,
        Kind::Long,
        Kind::Padded,
        Kind::TooLong,
        Kind::Broken,
        Kind::TooLarge,
    ];

    /// How it is written in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Get => "GET",
            Kind::Tiny => "chat of 200 B",
            Kind::Small => "chat of 2 KB",
            Kind::Completion => "completion of 1 KB",
            Kind::Long => "chat of 100 KB",
            Kind::Padded => "chat of 1 MB",
            Kind::TooLong => "completion of 1 MB",
            Kind::Broken => "no JSON",
            Kind::TooLarge => "above the limit",
        }
    }

    /// The status that an engine gives it.
    pub(crate) fn engines_status(self) -> u16 {
        match self {
            Kind::TooLong | Kind::Broken => 400,
            _ => 200,
        }
    }
}

/// When a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangUp {
    /// Before any of its body.
    AfterHead,
    /// After so many of its body's bytes.
    InBody(usize),
    /// After its body, and so long a wait.
    Waiting(Duration),
    /// After so many chunks of the answer.
    InAnswer(usize),
}

/// Makes one client's requests.
pub(crate) struct Asker {
    draw: Draw,
    client: usize,
    model: String,
    next: u64,
}

impl Asker {
    /// The client of that number.
    pub(crate) fn new(seed: u64, client: usize, model: &str) -> Self {
        Self { draw: Draw::new(seed, client as u64 + 1), client, model: model.to_owned(), next: 0 }
    }

    /// A pause between two requests.
    pub(crate) fn think(&mut self) -> Duration {
        Duration::from_millis(self.draw.between(20, 120))
    }

    /// The next request.
    pub(crate) fn ask(&mut self) -> Ask {
        const KINDS: [(u64, Kind); 9] = [
            (12, Kind::Get),
            (24, Kind::Tiny),
            (28, Kind::Small),
            (10, Kind::Completion),
            (10, Kind::Long),
            (6, Kind::Padded),
            (3, Kind::TooLong),
            (3, Kind::Broken),
            (4, Kind::TooLarge),
        ];
        self.next += 1;
        let kind = self.draw.weighted(&KINDS).unwrap_or(Kind::Tiny);
        let listener = if self.draw.percent(50) { Listener::Open } else { Listener::Closed };
        let stream = self.draw.percent(50);
        let body = self.body(kind, stream);
        let (piece, pause) = self.pace(body.as_deref());
        let hang_up = if self.draw.percent(12) { self.hang_up(body.as_deref()) } else { None };
        let path = match kind {
            Kind::Get => "/v1/models",
            Kind::Completion | Kind::TooLong => "/v1/completions",
            _ => "/v1/chat/completions",
        };
        let stream = stream && kind.engines_status() == 200 && kind != Kind::Get;
        Ask {
            id: format!("soak-{}-{}", self.client, self.next),
            listener,
            kind,
            path,
            body,
            stream,
            piece,
            pause,
            hang_up,
        }
    }

    fn body(&mut self, kind: Kind, stream: bool) -> Option<Vec<u8>> {
        let tokens = self.draw.between(2, 24);
        let asks = |mut more: Value| {
            more["model"] = json!(self.model);
            more["max_tokens"] = json!(tokens);
            more["ignore_eos"] = json!(true);
            more["stream"] = json!(stream);
            if stream {
                more["stream_options"] = json!({"include_usage": true});
            }
            more.to_string().into_bytes()
        };
        let chat = |text: String| asks(json!({"messages": [{"role": "user", "content": text}]}));
        let draw = &mut self.draw;
        Some(match kind {
            Kind::Get => return None,
            Kind::Tiny => chat(draw.words(40)),
            Kind::Small => {
                let shared = draw.below(12);
                let system = Draw::new(shared, 0).words(1_500);
                let messages =
                    json!([{"role": "system", "content": system}, {"role": "user", "content": draw.words(300)}]);
                asks(json!({ "messages": messages }))
            }
            Kind::Completion => asks(json!({"prompt": draw.words(900)})),
            Kind::Long => {
                let document = Draw::new(draw.below(4), 1).words(90_000);
                chat(document + &draw.words(10_000))
            }
            Kind::Padded => asks(json!({
                "metadata": {"padding": draw.words(1_000_000)},
                "messages": [{"role": "user", "content": draw.words(300)}],
            })),
            Kind::TooLong => asks(json!({"prompt": draw.words(1_000_000)})),
            Kind::Broken => {
                let mut cut = chat(draw.words(2_000));
                cut.truncate(1_000);
                cut
            }
            Kind::TooLarge => chat({
                let more = (draw.below(600) << 10) as usize;
                draw.words(LARGEST_BODY + more)
            }),
        })
    }

    /// Most clients send as fast as they can; some in small pieces with pauses, so that whatever happens meets a body
    /// that is half there.
    fn pace(&mut self, body: Option<&[u8]>) -> (usize, Duration) {
        let length = body.map_or(0, <[u8]>::len);
        if self.draw.percent(75) {
            return (64 << 10, Duration::ZERO);
        }
        let pieces = self.draw.between(2, 20) as usize;
        (length.div_ceil(pieces).max(1), Duration::from_millis(self.draw.between(5, 60)))
    }

    fn hang_up(&mut self, body: Option<&[u8]>) -> Option<HangUp> {
        let length = body.map_or(0, <[u8]>::len);
        Some(match self.draw.below(4) {
            0 if length > 0 => HangUp::AfterHead,
            1 if length > 1 => HangUp::InBody(self.draw.between(1, length as u64) as usize),
            0..=2 => HangUp::Waiting(Duration::from_millis(self.draw.below(100))),
            _ => HangUp::InAnswer(self.draw.between(1, 12) as usize),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Asker, Kind, LARGEST_BODY};

    #[test]
    fn every_kind_comes_and_only_the_largest_is_above_the_limit() {
        let mut asker = Asker::new(1, 0, "m");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..400 {
            let ask = asker.ask();
            let length = ask.body.as_ref().map_or(0, Vec::len);
            assert_eq!(length > LARGEST_BODY, ask.kind == Kind::TooLarge, "{:?}: {length}", ask.kind);
            seen.insert(ask.kind);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), Kind::ALL);
    }
}
