//! One request inside the engine: its tokens, the names of its full blocks, and what it will say. In: the ask; out:
//! token after token. What is said depends on the ask alone.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::{BlockNumber, Name};
use super::engine::RequestId;

/// What an engine will answer.
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
    /// The prompt, then what was generated.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    longest: usize,
    answer: Answer,
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

impl Sequence {
    pub(super) fn new(id: RequestId, prompt: Vec<u32>, max_tokens: u32, border: u64, answer: Answer) -> Sequence {
        Sequence {
            id,
            prompt: prompt.len(),
            longest: prompt.len() + max_tokens as usize,
            tokens: prompt,
            answer,
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

    /// The names of the blocks that the first `tokens` tokens fill, of `size` tokens each.
    pub(super) fn names(&mut self, tokens: usize, size: usize) -> &[Name] {
        let full = tokens.min(self.tokens.len()) / size;
        while self.names.len() < full {
            let at = self.names.len();
            let before = self.names.last().copied().unwrap_or(self.border);
            self.names.push(name(before, &self.tokens[at * size..(at + 1) * size]));
        }
        &self.names[..full]
    }

    /// Generates the next token; says whether the answer ends with it.
    pub(super) fn say(&mut self) -> (u32, Option<Finish>) {
        let position = (self.tokens.len() - self.prompt) as u32;
        let (token, finish) = self.answer.token(position);
        self.tokens.push(token);
        (token, finish.or((self.tokens.len() >= self.longest).then_some(Finish::Length)))
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
