//! The lattice on which vectors are clipped and summed.

use std::hint::black_box;

use zeroize::Zeroizing;

use super::wide::Wide;
use crate::accounting::NoiseMultiplier;

/// The largest number of features in a vector, 2^14, so that sums of squares fit in 64 bits.
pub const MAX_FEATURES: u32 = 1 << 14;

/// Fractional bits of the clipping factor.
const FACTOR_BITS: u32 = 31;

/// The multiples of a spacing g = 2^−e, where K = ⌊C / g⌋ is the largest norm of a vector in units
/// of g. K is in `2^23 .. 2^24`, or in `2^(b−2) .. 2^(b−1)` if each number of a vector is sent with
/// b bits.
///
/// C = S / √P is a float. Privacy depends only on K and on noise in units of g, so the rounding of
/// C does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lattice {
    /// e.
    exponent: i32,
    /// K.
    bound: u32,
}

impl Lattice {
    /// Minimum and maximum of S / √P.
    pub const NORMS: (f64, f64) = (1e-100, 1e100);

    /// Minimum and maximum of z: 2^−10 and 2^16.
    pub const MULTIPLIERS: (f64, f64) = (1.0 / 1024.0, 65_536.0);

    /// Minimum and maximum number of bits per number in a secure sum, including the sign.
    pub const BITS: (u32, u32) = (8, 20);

    /// Bits per number on the finest lattice, which is used for sums in the clear.
    pub(crate) const FINEST_BITS: u32 = 25;

    /// Returns the lattice for clipping at `norm` with `bits` bits per number, at most
    /// [`Self::FINEST_BITS`]; `None` if the norm is not within [`Self::NORMS`].
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the scaled norm is below 2^24"
    )]
    pub(crate) fn for_norm(norm: f64, bits: u32) -> Option<Self> {
        let (smallest, largest) = Self::NORMS;
        if !(norm >= smallest && norm <= largest) {
            return None;
        }
        let exponent = bits.cast_signed() - 2 - exponent_of(norm.to_bits());
        let bound = (norm * power_of_two(exponent)) as u32;
        assert!((1 << (bits - 2)..1 << (bits - 1)).contains(&bound), "K = {bound}"); // INV-7
        Some(Self { exponent, bound })
    }

    /// Returns g = 2^−e, the distance between adjacent values.
    pub fn spacing(&self) -> f64 {
        Self::spacing_of(self.exponent)
    }

    pub(crate) fn spacing_of(exponent: i32) -> f64 {
        power_of_two(-exponent)
    }

    /// Returns true if a lattice can have this exponent e.
    pub(crate) fn has_exponent(exponent: i32) -> bool {
        let of_norm = |norm: f64, bits: u32| bits.cast_signed() - 2 - exponent_of(norm.to_bits());
        let coarsest = of_norm(Self::NORMS.1, Self::BITS.0);
        (coarsest..=of_norm(Self::NORMS.0, Self::FINEST_BITS)).contains(&exponent)
    }

    /// Returns e, with g = 2^−e.
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// Returns K, the largest norm of a vector in units of g.
    pub fn bound(&self) -> u64 {
        u64::from(self.bound)
    }

    /// Returns σ² = ⌈(z K)²⌉ in units of g², exactly: the noise is never below z K (INV-8). `None`
    /// if z is not within [`Self::MULTIPLIERS`].
    pub fn variance(&self, multiplier: NoiseMultiplier) -> Option<u128> {
        let z = multiplier.get();
        let (smallest, largest) = Self::MULTIPLIERS;
        if !(z >= smallest && z <= largest) {
            return None;
        }
        // z = m 2^−s with integers m < 2^53 and 36 ≤ s ≤ 62.
        let m = (z.to_bits() & ((1 << 52) - 1)) | (1 << 52);
        let s = (52 - exponent_of(z.to_bits())).cast_unsigned();
        let product = u128::from(m) * u128::from(self.bound);
        Wide::product(product, product).shifted_up(2 * s) // at most 2^32 K² < 2^80
    }

    /// Returns the clipped vector in units of g, exactly as [`Lattice::add`] would add it. The
    /// vector has at most [`MAX_FEATURES`] numbers; the caller must clear the result.
    ///
    /// # Panics
    /// Same as for [`Lattice::add`].
    pub(crate) fn clipped(&self, vector: &[f64]) -> Vec<i64> {
        let mut sums = vec![0; vector.len()];
        let mut scaled = Zeroizing::new(vec![0; vector.len()]);
        self.add(vector, -1, &mut scaled, &mut sums);
        sums
    }

    /// Adds a vector to `sums`, in units of g, truncated toward zero and then scaled down so that
    /// Σ k² ≤ K². `mask` is −1 to add the vector and 0 to omit it. `scaled` is scratch space.
    /// `vector`, `scaled` and `sums` have the same length, at most [`MAX_FEATURES`].
    ///
    /// v_i = trunc(x_i 2^j), where 2^j = 1/g, or less if some |v_i| would reach 2^25;
    /// k_i = trunc(v_i r), r = min(1, K / ⌈‖v‖⌉) rounded down to a multiple of 2^−31
    /// (paper: Algorithm 1 line 9).
    ///
    /// If r = 1, then K ≥ ⌈‖v‖⌉; otherwise, Σ k² ≤ r² Σ v² ≤ K². If j was lowered, then
    /// ‖v‖ ≥ 2^24 > K. A vector with a non-finite coordinate is treated as zero. Every vector takes
    /// the same steps: no branch depends on its contents or on the mask (INV-5).
    ///
    /// # Panics
    /// If r² Σ v² or Σ k² still exceeds K²: the process stops before anything is sent (INV-7).
    pub(crate) fn add(&self, vector: &[f64], mask: i64, scaled: &mut [i32], sums: &mut [i64]) {
        let squares = pulp::Arch::new().dispatch(Add {
            exponent: self.exponent,
            bound: self.bound(),
            vector,
            mask,
            scaled,
            sums,
        });
        assert!(squares <= self.bound() * self.bound(), "a clipped vector is too long"); // INV-7
    }
}

/// The body of [`Lattice::add`], compiled for each vector instruction set, with the same integer
/// results on all of them. Returns Σ k².
struct Add<'a> {
    exponent: i32,
    bound: u64,
    vector: &'a [f64],
    mask: i64,
    scaled: &'a mut [i32],
    sums: &'a mut [i64],
}

impl pulp::WithSimd for Add<'_> {
    type Output = u64;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> u64 {
        let largest =
            self.vector.iter().fold(0, |m: i64, x| m.max((x.to_bits() & ABSOLUTE).cast_signed()));
        let finite = -i32::from(largest < INFINITY);
        let exponent = self.exponent.min(24 - exponent_of(largest.cast_unsigned()));
        let mut squares = 0;
        for (v, x) in self.scaled.iter_mut().zip(self.vector) {
            *v = truncated(*x, exponent) & finite;
            squares += square(*v);
        }
        let root = square_root(squares);
        let length = root + u64::from(root * root < squares);
        let factor = ratio(self.bound, length); // at most 2^31
        // INV-7, checked before anything is added: r² Σ v² ≤ K².
        let clipped = u128::from(factor * factor) * u128::from(squares);
        let limit = u128::from(self.bound * self.bound) << (2 * FACTOR_BITS);
        assert!(clipped <= limit, "a clipped vector is too long");
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^31")]
        let factor = factor as u32;
        let mut squares = 0;
        for (sum, v) in self.sums.iter_mut().zip(self.scaled.iter_mut()) {
            let k = shortened(*v, factor);
            squares += square(k);
            *sum = sum.wrapping_add(i64::from(k) & self.mask); // cannot wrap: below 2^61 + N K < 2^63
        }
        squares
    }
}

/// Returns all bits set if a ≥ b, and 0 otherwise. `black_box` hides from the compiler that there
/// are only two cases, because it might otherwise branch.
#[inline(always)]
fn not_below(a: u64, b: u64) -> u64 {
    black_box(u64::from(a >= b)).wrapping_neg()
}

/// Returns ⌊√n⌋, computed digit by digit. The steps are the same for every n, which the standard
/// library does not guarantee (INV-5).
#[inline(always)]
fn square_root(n: u64) -> u64 {
    let (mut rest, mut root) = (n, 0);
    for place in (0..32).rev() {
        let digit = 1 << (2 * place);
        let tried = root + digit;
        let fits = not_below(rest, tried);
        rest -= tried & fits;
        root = (root >> 1) + (digit & fits);
    }
    root
}

/// Returns ⌊2^31 · bound / length⌋, at most 2^31, for a bound below 2^32. The steps are the same
/// for all arguments, which a processor's division does not guarantee (INV-5).
#[inline(always)]
fn ratio(bound: u64, length: u64) -> u64 {
    let (mut rest, mut quotient) = (bound, 0);
    for _ in 0..FACTOR_BITS {
        rest <<= 1;
        let fits = not_below(rest, length);
        rest -= length & fits;
        quotient = (quotient << 1) | (fits & 1);
    }
    // If length ≤ bound, the vector is not scaled down, and the digits computed above are ignored.
    let whole = not_below(bound, length);
    (quotient & !whole) | ((1 << FACTOR_BITS) & whole)
}

/// Returns v², for |v| < 2^25.
#[inline(always)]
fn square(v: i32) -> u64 {
    let v = i64::from(v);
    (v * v).cast_unsigned()
}

/// Returns trunc(v · factor / 2^31), for factor ≤ 2^31.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "it is at most |v| < 2^25")]
fn shortened(v: i32, factor: u32) -> i32 {
    let size = (u64::from(v.unsigned_abs()) * u64::from(factor)) >> FACTOR_BITS;
    let sign = v >> 31;
    (size as i32 ^ sign) - sign
}

/// Mask for the bits of |x|.
const ABSOLUTE: u64 = u64::MAX >> 1;

/// The bits of infinity. The bits of a NaN, without the sign, are larger.
const INFINITY: i64 = 0x7ff << 52;

/// Returns ⌊log2 |x|⌋ for a normal number x, given its bits; −1023 for smaller numbers and 1024 for
/// non-finite ones.
#[inline(always)]
fn exponent_of(bits: u64) -> i32 {
    let biased = ((bits >> 52) & 0x7ff) as i32;
    biased - 1023
}

/// Returns 2^n, for n in −1022..=1023.
#[inline(always)]
fn power_of_two(n: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&n));
    f64::from_bits(u64::from((n + 1023).cast_unsigned()) << 52)
}

/// Returns trunc(x 2^exponent), computed with integer operations, for results below 2^25 in
/// magnitude.
///
/// If |x| = m 2^(b − 1075) with m < 2^53 and the biased exponent b, then the result is m shifted
/// right by 1075 − b − exponent ≥ 28.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below 2^25")]
fn truncated(x: f64, exponent: i32) -> i32 {
    let bits = x.to_bits();
    let significand = (bits & ((1 << 52) - 1)) | (1 << 52); // a subnormal number becomes zero either way
    let shift = u64::from((1075 - exponent).cast_unsigned()) - ((bits >> 52) & 0x7ff);
    let size = (significand >> shift.min(63)) as i32;
    let sign = (bits.cast_signed() >> 63) as i32;
    (size ^ sign) - sign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_and_ratios_are_those_of_the_standard_library() {
        let mut numbers: Vec<u64> = (0..200).chain([u64::MAX, u64::MAX - 1]).collect();
        for place in 2..64 {
            let power = 1_u64 << place;
            numbers.extend([power - 1, power, power + 1, power | (power >> 1)]);
        }
        for side in [3_037_000_499_u32, u32::MAX, 1 << 24, (1 << 24) + 1] {
            let square = u64::from(side) * u64::from(side);
            numbers.extend([square - 1, square, square.saturating_add(1)]);
        }
        for n in &numbers {
            assert_eq!(square_root(*n), n.isqrt(), "{n}");
        }
        for bound in [1 << 23, (1 << 24) - 1, 12_345_678] {
            for length in numbers.iter().filter(|length| **length < 1 << 33) {
                let expected = ((bound << FACTOR_BITS) / length.max(&1)).min(1 << FACTOR_BITS);
                assert_eq!(ratio(bound, *length), expected, "{bound} {length}");
            }
        }
    }
}
