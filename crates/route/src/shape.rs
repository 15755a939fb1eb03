//! The shape of an endpoint's cache as the index needs it: from what its engine says of itself, else as assumed.

use std::num::NonZeroU32;

use blocks::Fingerprint;
use fleet::Endpoint;

/// What is assumed of a cache of whose shape its engine says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// Tokens in a block.
    pub block_size: NonZeroU32,
    /// Blocks in a cache.
    pub capacity_blocks: usize,
}

impl Default for Assumed {
    /// Blocks of 16 tokens, as vLLM's; 31,250 of them, as llm-d's index.
    fn default() -> Self {
        Self { block_size: SMALLEST, capacity_blocks: 31_250 }
    }
}

/// Smaller blocks are taken several together: blocks of one token, as some engines have, would make the index as long
/// as the prompts themselves.
const SMALLEST: NonZeroU32 = NonZeroU32::new(16).expect("16 is not zero");

/// The shape of one endpoint's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Tokens in a block of the index.
    pub(crate) block_size: NonZeroU32,
    /// Blocks of that size that the cache holds in all.
    pub(crate) capacity: usize,
    /// Whether prefixes are reused at all, as far as is known.
    pub(crate) reuses: bool,
}

impl Shape {
    pub(crate) fn of(endpoint: &Endpoint, assumed: &Assumed) -> Self {
        let cache = endpoint.reading.load.as_ref().map(|load| load.cache).unwrap_or_default();
        let said = cache.block_size.and_then(NonZeroU32::new);
        let block_size = several_together(said.unwrap_or(assumed.block_size));
        let capacity = cache.capacity_tokens.map(|tokens| tokens / u64::from(block_size.get())).filter(|n| *n > 0);
        Self {
            block_size,
            capacity: capacity.map_or(assumed.capacity_blocks, |blocks| blocks as usize),
            reuses: cache.prefix_caching != Some(false),
        }
    }

    /// Whether something of a prompt in such blocks may be found there again.
    pub(crate) fn reuses_blocks_of(&self, fingerprint: &Fingerprint) -> bool {
        self.reuses && self.block_size == fingerprint.block_size && fingerprint.blocks() > 0
    }
}

/// The least multiple of `size` that is not below the smallest.
fn several_together(size: NonZeroU32) -> NonZeroU32 {
    let times = SMALLEST.get().div_ceil(size.get());
    size.checked_mul(NonZeroU32::MIN.saturating_add(times.saturating_sub(1))).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Instant;

    use fleet::{Cache, EndpointId, Load, Member, Reading};

    use super::*;

    fn check(cache: Option<Cache>, block_size: u32, capacity: usize) {
        let load = cache.map(|cache| Load { cache, ..Load::unsaid(Instant::now()) });
        let endpoint = Endpoint {
            id: EndpointId(0),
            member: Arc::new(Member::new("a", SocketAddr::from(([127, 0, 0, 1], 1)))),
            reading: Reading { load, failing_since: None },
            books: Arc::default(),
        };
        let shape = Shape::of(&endpoint, &Assumed::default());
        assert_eq!((shape.block_size.get(), shape.capacity), (block_size, capacity), "{cache:?}");
    }

    fn said(block_size: u32, capacity_tokens: u64) -> Option<Cache> {
        Some(Cache { block_size: Some(block_size), capacity_tokens: Some(capacity_tokens), prefix_caching: None })
    }

    #[test]
    fn what_the_engine_says_counts() {
        check(said(32, 320 * 32), 32, 320);
        check(said(16, 1000), 16, 62);
    }

    /// kubernetes-sigs/gateway-api-inference-extension#1629: a missing or zero figure made a division by zero, or an
    /// index that is empty for ever.
    #[test]
    fn what_it_does_not_say_is_assumed() {
        check(None, 16, 31_250);
        check(Some(Cache::default()), 16, 31_250);
        check(said(0, 0), 16, 31_250);
        check(said(16, 0), 16, 31_250);
        check(said(0, 32_000), 16, 2000);
    }

    #[test]
    fn tiny_blocks_are_taken_several_together() {
        check(said(1, 16_000), 16, 1000);
        check(said(5, 2000), 20, 100);
        check(said(8, 160), 16, 10);
        check(said(u32::MAX, 0), u32::MAX, 31_250);
    }
}
