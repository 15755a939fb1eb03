//! From token ids to chained block hashes. What differs in the seed, in any token before, or in what else stands among
//! them (an image), never has a hash in common.

use std::num::NonZeroU32;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The hash of a block and of all that stands before it: xxh3, 64 bits, seeded by the hash of the block before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// The border within which prefixes may be shared: two prompts that differ in any of these share nothing.
/// Empty where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed<'a> {
    /// The model as the engine serves it.
    pub model: &'a str,
    /// Its revision.
    pub revision: &'a str,
    /// The adapter (LoRA).
    pub adapter: &'a str,
    /// The tenant, as the operator's trusted header names it.
    pub tenant: &'a str,
    /// The request's `cache_salt`.
    pub cache_salt: &'a str,
}

impl Seed<'_> {
    /// Each field goes in behind its length, so that `("ab", "c")` and `("a", "bc")` differ.
    fn hash(&self) -> u64 {
        let fields = [self.model, self.revision, self.adapter, self.tenant, self.cache_salt];
        let mut bytes = Vec::with_capacity(fields.iter().map(|field| field.len() + 8).sum());
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field.as_bytes());
        }
        xxh3_64(&bytes)
    }
}

/// What a prompt holds besides its tokens, such as an image: it enters the hash of the block in which it begins, as
/// vLLM's extra keys do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The token with which it begins.
    pub at: usize,
    /// A hash of its content.
    pub key: u64,
}

/// Hashes prompts of one seed in blocks of one size.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    seed: u64,
    block_size: NonZeroU32,
}

impl Chain {
    /// For prompts within `seed`, in blocks of `block_size` tokens.
    pub fn new(seed: &Seed<'_>, block_size: NonZeroU32) -> Self {
        Self { seed: seed.hash(), block_size }
    }

    /// The hashes of one prompt. A prompt shorter than a block has none. `extras` stand in the order of their places; one
    /// behind the prompt's last token counts as with that token.
    pub fn print(&self, tokens: &[u32], extras: &[Extra]) -> Print {
        let size = self.block_size.get() as usize;
        let whole = tokens.chunks_exact(size);
        let rest = whole.remainder();
        let mut hashes = Vec::with_capacity(tokens.len() / size);
        let mut bytes = Vec::with_capacity(size.min(tokens.len()) * 4 + 4);
        let mut last = self.seed;
        let mut extras = extras.iter().peekable();
        let mut end = 0;
        for block in whole {
            end += size;
            // The last token's block takes whatever is left.
            let takes = if end == tokens.len() { usize::MAX } else { end };
            while let Some(extra) = extras.next_if(|extra| extra.at < takes) {
                last = with_extra(last, *extra);
            }
            last = hash(block, last, &mut bytes);
            hashes.push(BlockHash(last));
        }
        let tail = (!hashes.is_empty() && !rest.is_empty()).then(|| {
            let before = extras.fold(last, |last, extra| with_extra(last, *extra));
            tail_hash(rest, before, &mut bytes)
        });
        Print { hashes, tail, tokens: tokens.len() }
    }

    /// The hashes of all prompts of a request, which hold tokens alone.
    pub fn fingerprint<'a>(&self, prompts: impl IntoIterator<Item = &'a [u32]>) -> Fingerprint {
        let prints = prompts.into_iter().map(|tokens| self.print(tokens, &[])).collect();
        Fingerprint { block_size: self.block_size, prints }
    }
}

/// What comes next is told apart by it.
fn with_extra(before: u64, extra: Extra) -> u64 {
    xxh3_64_with_seed(&extra.key.to_le_bytes(), before)
}

fn hash(block: &[u32], before: u64, bytes: &mut Vec<u8>) -> u64 {
    bytes.clear();
    bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
    xxh3_64_with_seed(bytes, before)
}

/// With its length, so that it is never taken for a whole block of a smaller size.
fn tail_hash(rest: &[u32], before: u64, bytes: &mut Vec<u8>) -> BlockHash {
    bytes.clear();
    bytes.extend(rest.iter().flat_map(|token| token.to_le_bytes()));
    bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
    BlockHash(xxh3_64_with_seed(bytes, before))
}

/// One prompt's hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// One for each whole block, from the first on.
    pub hashes: Vec<BlockHash>,
    /// The trailing partial block; only where at least one whole block stands before it. It tells prompts apart, but no
    /// engine reuses a partial block.
    pub tail: Option<BlockHash>,
    /// The prompt's length in tokens.
    pub tokens: usize,
}

impl Print {
    /// Blocks, the partial one included.
    pub fn blocks(&self) -> usize {
        self.hashes.len() + usize::from(self.tail.is_some())
    }

    /// All hashes in the order of the prompt, the partial block's last.
    pub fn all(&self) -> impl Iterator<Item = BlockHash> {
        self.hashes.iter().copied().chain(self.tail)
    }
}

/// A request's hashes at one block size: one print for each of its prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Tokens in a block.
    pub block_size: NonZeroU32,
    /// The prompts'.
    pub prints: Vec<Print>,
}

impl Fingerprint {
    /// Of a prompt of which nothing is known.
    pub fn unknown(block_size: NonZeroU32) -> Self {
        Self { block_size, prints: Vec::new() }
    }

    /// Blocks of all prompts, partial ones included.
    pub fn blocks(&self) -> u32 {
        self.prints.iter().map(|print| print.blocks() as u32).sum()
    }

    /// Tokens of all prompts.
    pub fn tokens(&self) -> u64 {
        self.prints.iter().map(|print| print.tokens as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(tokens: u32) -> NonZeroU32 {
        NonZeroU32::new(tokens).expect("not zero")
    }

    fn print(seed: &Seed<'_>, tokens: &[u32]) -> Print {
        Chain::new(seed, size(16)).print(tokens, &[])
    }

    /// How many leading blocks two prompts share.
    fn shared(a: &Print, b: &Print) -> usize {
        a.all().zip(b.all()).take_while(|(a, b)| a == b).count()
    }

    /// kubernetes-sigs/gateway-api-inference-extension#1341: other models shared hits.
    #[test]
    fn nothing_is_shared_across_the_border() {
        let tokens: Vec<u32> = (0..64).collect();
        let seeds = [
            Seed { model: "base", ..Seed::default() },
            Seed { model: "a", ..Seed::default() },
            Seed { model: "base", adapter: "a", ..Seed::default() },
            Seed { model: "base", adapter: "b", ..Seed::default() },
            Seed { model: "base", revision: "a", ..Seed::default() },
            Seed { model: "base", tenant: "a", ..Seed::default() },
            Seed { model: "base", cache_salt: "a", ..Seed::default() },
            Seed { model: "ba", revision: "se", ..Seed::default() },
            Seed { model: "bas", revision: "e", ..Seed::default() },
            Seed::default(),
        ];
        for (at, a) in seeds.iter().enumerate() {
            assert_eq!(shared(&print(a, &tokens), &print(a, &tokens)), 4);
            for b in &seeds[at + 1..] {
                assert!(print(a, &tokens).all().all(|hash| print(b, &tokens).all().all(|other| other != hash)));
            }
        }
    }

    /// The same report: prompts shorter than a block all had the hash of nothing.
    #[test]
    fn a_prompt_shorter_than_a_block_has_no_hash() {
        for tokens in [&[][..], &[1, 2, 3, 4, 5], &[7; 15]] {
            let print = print(&Seed::default(), tokens);
            assert_eq!((print.blocks(), print.tail, print.tokens), (0, None, tokens.len()));
        }
    }

    #[test]
    fn blocks_are_whole_but_for_the_last() {
        let blocks = |tokens: usize| {
            let print = print(&Seed::default(), &vec![3; tokens]);
            (print.hashes.len(), print.tail.is_some(), print.blocks())
        };
        assert_eq!(blocks(16), (1, false, 1));
        assert_eq!(blocks(17), (1, true, 2));
        assert_eq!(blocks(32), (2, false, 2));
        assert_eq!(blocks(70), (4, true, 5));
    }

    #[test]
    fn prompts_share_hashes_up_to_the_block_where_they_part() {
        let base: Vec<u32> = (0..80).collect();
        for differ_at in 0..80 {
            let mut other = base.clone();
            other[differ_at] += 1000;
            let (a, b) = (print(&Seed::default(), &base), print(&Seed::default(), &other));
            assert_eq!(shared(&a, &b), differ_at / 16);
            let after = a.all().zip(b.all()).skip(differ_at / 16);
            assert!(after.into_iter().all(|(a, b)| a != b), "what comes after the difference differs too");
        }
    }

    fn alike(a: &[(usize, u64)], b: &[(usize, u64)], tokens: usize) -> usize {
        let tokens: Vec<u32> = (0..tokens as u32).collect();
        let print = |extras: &[(usize, u64)]| {
            let extras: Vec<Extra> = extras.iter().map(|(at, key)| Extra { at: *at, key: *key }).collect();
            Chain::new(&Seed::default(), size(16)).print(&tokens, &extras)
        };
        let (a, b) = (print(a), print(b));
        let after = a.all().zip(b.all()).skip(shared(&a, &b));
        assert!(after.into_iter().all(|(a, b)| a != b), "what comes after the difference differs too");
        shared(&a, &b)
    }

    #[test]
    fn what_else_stands_in_a_prompt_parts_it_from_its_block_on() {
        for at in 0..80 {
            assert_eq!(alike(&[(at, 1)], &[], 80), at / 16);
            assert_eq!(alike(&[(at, 1)], &[(at, 2)], 80), at / 16);
            assert_eq!(alike(&[(at, 1)], &[(at, 1)], 80), 5);
        }
        assert_eq!(alike(&[(20, 1), (70, 2)], &[(20, 1)], 80), 4);
        assert_eq!(alike(&[(20, 1), (21, 2)], &[(20, 2), (21, 1)], 80), 1);
        assert_eq!(alike(&[(20, 1), (50, 2)], &[(20, 2), (50, 1)], 80), 1);
        assert_eq!(alike(&[(70, 1)], &[], 70), 4, "in the partial block, or behind all");
        assert_eq!(alike(&[(80, 1)], &[], 80), 4);
        assert_eq!(alike(&[(0, 1)], &[], 80), 0);
    }

    #[test]
    fn a_partial_block_is_not_taken_for_another_of_other_length() {
        let prints: Vec<Print> = (17..32).map(|len| print(&Seed::default(), &vec![0; len])).collect();
        let mut tails: Vec<BlockHash> = prints.iter().filter_map(|print| print.tail).collect();
        tails.sort_unstable();
        tails.dedup();
        assert_eq!(tails.len(), 15);
    }

    #[test]
    fn hashes_stay_what_they_are_from_release_to_release() {
        let seed = Seed { model: "m", revision: "r", adapter: "a", tenant: "t", cache_salt: "s" };
        let print = print(&seed, &(0..40).collect::<Vec<u32>>());
        let all: Vec<String> = print.all().map(|hash| format!("{:016x}", hash.0)).collect();
        assert_eq!(all, ["b62db429af89bc66", "209e5b5d84bc5b1d", "337ffd3262f45bc4"]);
    }
}
