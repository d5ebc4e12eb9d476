//! The coins that decide which slots take part in a round, one per slot.

use zeroize::Zeroize;

use super::bits::Bits;
use crate::accounting::SamplingRate;

/// q = k / 2^32 with 1 ≤ k ≤ 2^32: a rate that coins of 32 uniform bits can represent (INV-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoinRate(u64);

impl CoinRate {
    /// Returns the representable rate nearest to `rate`; `None` if the nearest is 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is in (0, 1], so k is in 0..=2^32"
    )]
    pub(crate) fn nearest(rate: SamplingRate) -> Option<Self> {
        let k = (rate.get() * 4_294_967_296.0).round() as u64;
        (k > 0).then_some(Self(k))
    }

    /// Returns true if every slot takes part.
    pub(crate) fn is_one(self) -> bool {
        self.0 == 1 << 32
    }

    /// Returns k.
    pub(crate) fn numerator(self) -> u64 {
        self.0
    }

    /// Returns k / 2^32, exactly.
    #[expect(
        clippy::cast_precision_loss,
        reason = "k ≤ 2^32 is exact in 53 bits, and so is its quotient by a power of two"
    )]
    pub(crate) fn get(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }
}

/// A round's coins, one bit per slot. The coins are secret (INV-4): the type has no `Debug` and no
/// count, and is cleared on drop.
pub(crate) struct Coins(Vec<u64>);

impl Coins {
    /// Tosses a coin for each slot, from 32 bits of its own; no branch depends on the result.
    pub(crate) fn toss(rate: CoinRate, n_slots: u32, bits: &mut Bits) -> Self {
        let mut coins = Vec::with_capacity(n_slots.div_ceil(64) as usize);
        let mut rest = n_slots;
        while rest > 0 {
            let mut word = 0;
            for place in 0..rest.min(64) {
                word |= u64::from(bits.take(32) < rate.0) << place;
            }
            coins.push(word);
            rest = rest.saturating_sub(64);
        }
        Self(coins)
    }

    /// Returns −1 (all bits set) if the slot takes part, else 0. The slot must be below the number
    /// of coins.
    pub(crate) fn mask(&self, slot: u32) -> i64 {
        -i64::from((self.0[slot as usize / 64] >> (slot % 64)) & 1 == 1)
    }
}

impl Drop for Coins {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
