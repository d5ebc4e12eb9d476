//! Unsigned 256-bit integers, with the operations needed for exact comparisons.

/// `high` · 2^128 + `low`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    /// Returns a · b.
    pub(crate) fn product(a: u128, b: u128) -> Self {
        let (low, high) = a.carrying_mul(b, 0);
        Self { high, low }
    }

    /// Returns 2 · self, for numbers below 2^255.
    pub(crate) fn doubled(self) -> Self {
        Self { high: (self.high << 1) | (self.low >> 127), low: self.low << 1 }
    }

    /// Returns self − other, for `other` ≤ `self`.
    pub(crate) fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self { high: self.high - other.high - u128::from(borrow), low }
    }

    /// Returns ⌈self / 2^shift⌉, for `shift` < 128; `None` if the result has more than 128 bits.
    pub(crate) fn shifted_up(self, shift: u32) -> Option<u128> {
        if shift == 0 {
            return (self.high == 0).then_some(self.low);
        }
        if self.high >> shift != 0 {
            return None;
        }
        let whole = (self.high << (128 - shift)) | (self.low >> shift);
        let rest = self.low & ((1 << shift) - 1);
        whole.checked_add(u128::from(rest != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products are checked against the schoolbook formula:
    /// (a·2^64 + b)² = a²·2^128 + 2ab·2^64 + b².
    #[test]
    fn products_carry_into_the_upper_half() {
        let all = Wide::product(u128::MAX, u128::MAX); // (2^128 − 1)² = (2^128 − 2)·2^128 + 1
        assert_eq!((all.high, all.low), (u128::MAX - 1, 1));
        let middle = Wide::product(1 << 100, (1 << 100) + 3);
        assert_eq!((middle.high, middle.low), (1 << 72, 3 << 100));
        assert_eq!(middle.doubled(), Wide::product(1 << 101, (1 << 100) + 3));
        assert_eq!(
            middle.minus(Wide::product(1 << 100, 4)),
            Wide::product(1 << 100, (1 << 100) - 1)
        );
    }

    #[test]
    fn shifts_round_up_and_refuse_what_does_not_fit() {
        let x = Wide::product(1 << 100, (1 << 60) + 1); // 2^160 + 2^100
        assert_eq!(x.shifted_up(100), Some((1 << 60) + 1));
        assert_eq!(x.shifted_up(101), Some((1 << 59) + 1));
        assert_eq!(x.shifted_up(32), None);
        assert_eq!(Wide::product(5, 1).shifted_up(0), Some(5));
        assert_eq!(Wide::product(5, 1).shifted_up(2), Some(2));
        assert_eq!(Wide::product(1 << 127, 2).shifted_up(0), None);
    }
}
