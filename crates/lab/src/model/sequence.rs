//! One request inside the engine: its tokens, the names of its full blocks, and what it will say. In: the ask; out:
//! token after token. What is said depends on the ask alone. Tokens are ids, or spans that only say which of them are
//! the same; the scheduler can't tell.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::{BlockNumber, Name};
use super::engine::RequestId;
use super::span::{Naming, Span};

/// What is asked and what will be answered.
#[derive(Clone, Debug)]
pub enum Text {
    /// Token by token.
    Tokens {
        /// The prompt.
        prompt: Vec<u32>,
        /// What will be answered.
        answer: Answer,
    },
    /// Only which tokens are the same as which: a few words for a prompt of thousands of tokens. The answer has as many
    /// tokens as may be; what is emitted are zeros.
    Spans {
        /// The prompt.
        prompt: Arc<[Span]>,
        /// The id of the answer's span.
        answer: u64,
    },
}

impl Text {
    /// The prompt token by token; nothing where it is told in spans.
    pub fn prompt_ids(&self) -> &[u32] {
        match self {
            Text::Tokens { prompt, .. } => prompt,
            Text::Spans { .. } => &[],
        }
    }

    /// The prompt's length.
    pub fn prompt_tokens(&self) -> usize {
        match self {
            Text::Tokens { prompt, .. } => prompt.len(),
            Text::Spans { prompt, .. } => super::span::tokens(prompt) as usize,
        }
    }
}

/// What an engine will answer, token by token.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These tokens, one after the other; the answer ends with the last of them at the latest. For replays.
    Told(Vec<u32>),
    /// Tokens drawn from a vocabulary.
    Drawn(Saying),
}

/// Tokens drawn from a vocabulary; the same for the same seed.
#[derive(Clone, Debug)]
pub struct Saying {
    /// What the first token is drawn from. Not empty.
    pub openers: Arc<[u32]>,
    /// What the others are drawn from. Not empty.
    pub words: Arc<[u32]>,
    /// Seed of the draw.
    pub seed: u64,
    /// After how many tokens the answer ends by itself with which token; `None`: it goes on until it is cut.
    pub ends: Option<(u32, u32)>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Finish {
    /// By itself.
    Stop,
    /// At its longest.
    Length,
}

impl Answer {
    /// The token at a position of the answer, and whether the answer ends with it by itself.
    fn token(&self, position: u32) -> (u32, Option<Finish>) {
        match self {
            Answer::Told(tokens) => {
                let position = position as usize;
                let last = position + 1 >= tokens.len();
                (tokens.get(position).copied().unwrap_or(0), last.then_some(Finish::Length))
            }
            Answer::Drawn(saying) => saying.token(position),
        }
    }
}

impl Saying {
    fn token(&self, position: u32) -> (u32, Option<Finish>) {
        match self.ends {
            Some((after, stop)) if position >= after => (stop, Some(Finish::Stop)),
            _ => {
                let from = if position == 0 { &self.openers } else { &self.words };
                let drawn = mix(self.seed.wrapping_add(u64::from(position).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                (from[(drawn % from.len().max(1) as u64) as usize], None)
            }
        }
    }
}

/// A number that is as good as random for each seed (splitmix64's finish).
pub(crate) fn mix(seed: u64) -> u64 {
    let x = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The border around what may be shared: blocks are only found again under the same adapter and salt.
pub fn border(adapter: &str, cache_salt: &str) -> u64 {
    let mut text = (adapter.len() as u64).to_le_bytes().to_vec();
    text.extend_from_slice(adapter.as_bytes());
    text.extend_from_slice(cache_salt.as_bytes());
    xxh3_64_with_seed(&text, 0)
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    longest: usize,
    text: Growing,
    border: u64,
    names: Vec<Name>,
    /// Its blocks in the order of its tokens; those before `named` can be found by others.
    pub(super) blocks: Vec<BlockNumber>,
    pub(super) named: usize,
    /// Tokens whose KV stands in `blocks`.
    pub(super) computed: usize,
    /// Tokens that came from the cache when it was first admitted.
    pub(super) cached: Option<u32>,
    pub(super) admitted: Option<Duration>,
    pub(super) preempted: u32,
}

/// The prompt, then what was generated.
#[derive(Clone, Debug)]
enum Growing {
    Tokens { tokens: Vec<u32>, answer: Answer },
    Spans { spans: Arc<[Span]>, answer: u64, tokens: usize, naming: Naming },
}

impl Sequence {
    pub(super) fn new(id: RequestId, text: Text, max_tokens: u32, border: u64) -> Sequence {
        let prompt = text.prompt_tokens();
        let text = match text {
            Text::Tokens { prompt, answer } => Growing::Tokens { tokens: prompt, answer },
            Text::Spans { prompt: spans, answer } => {
                Growing::Spans { spans, answer, tokens: prompt, naming: Naming::default() }
            }
        };
        Sequence {
            id,
            prompt,
            longest: prompt + max_tokens as usize,
            text,
            border,
            names: Vec::new(),
            blocks: Vec::new(),
            named: 0,
            computed: 0,
            cached: None,
            admitted: None,
            preempted: 0,
        }
    }

    /// Tokens of the prompt and generated until now.
    pub(super) fn tokens(&self) -> usize {
        match &self.text {
            Growing::Tokens { tokens, .. } => tokens.len(),
            Growing::Spans { tokens, .. } => *tokens,
        }
    }

    /// The names of the blocks that the first `tokens` tokens fill, of `size` tokens each.
    pub(super) fn names(&mut self, tokens: usize, size: usize) -> &[Name] {
        let full = tokens.min(self.tokens()) / size;
        while self.names.len() < full {
            let at = self.names.len();
            let before = self.names.last().copied().unwrap_or(self.border);
            let name = match &mut self.text {
                Growing::Tokens { tokens, .. } => name(before, &tokens[at * size..(at + 1) * size]),
                Growing::Spans { spans, answer, naming, .. } => naming.next(before, spans, Some(*answer), size as u32),
            };
            self.names.push(name);
        }
        &self.names[..full]
    }

    /// Generates the next token; says whether the answer ends with it.
    pub(super) fn say(&mut self) -> (u32, Option<Finish>) {
        let position = (self.tokens() - self.prompt) as u32;
        let (token, finish) = match &mut self.text {
            Growing::Tokens { tokens, answer } => {
                let (token, finish) = answer.token(position);
                tokens.push(token);
                (token, finish)
            }
            Growing::Spans { tokens, .. } => {
                *tokens += 1;
                (0, None)
            }
        };
        (token, finish.or((self.tokens() >= self.longest).then_some(Finish::Length)))
    }

    /// Forgets what was computed: it will be computed again, what was generated included.
    pub(super) fn restart(&mut self) {
        self.blocks.clear();
        self.named = 0;
        self.computed = 0;
        self.preempted += 1;
    }
}

fn name(before: Name, tokens: &[u32]) -> Name {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    xxh3_64_with_seed(&bytes, before)
}
