//! Numbers as good as random from a seed, the same on every machine and with every version of every library. In: a
//! seed; out: draws. Not for secrets.

use crate::model::mix;

/// A stream of draws (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The stream of a seed. `what` keeps streams of one seed for different things apart.
    pub(crate) fn new(seed: u64, what: u64) -> Draw {
        Draw(mix(mix(seed) ^ what.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.any() % (bound.max(1) as u64)) as usize
    }

    /// A number from 0 up to, without, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the exponential distribution with this mean: the gaps between arrivals of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

impl rand::TryRng for Draw {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.any() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.any())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.any().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws_for_ever_and_another_seed_others() {
        let mut draw = Draw::new(1, 0);
        assert_eq!([draw.any(), draw.any()], FIRST_TWO_OF_SEED_1);
        assert_ne!(Draw::new(2, 0).any(), FIRST_TWO_OF_SEED_1[0]);
        assert_ne!(Draw::new(1, 1).any(), FIRST_TWO_OF_SEED_1[0]);
    }

    const FIRST_TWO_OF_SEED_1: [u64; 2] = [4_720_248_854_425_330_031, 1_629_287_585_893_752_162];

    #[test]
    fn exponential_draws_have_their_mean() {
        let mut draw = Draw::new(7, 0);
        let mean = (0..100_000).map(|_| draw.exponential(3.0)).sum::<f64>() / 100_000.0;
        assert!((2.9..3.1).contains(&mean), "{mean}");
    }
}
