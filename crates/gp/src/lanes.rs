//! Elementwise mathematics over slices, written so that the compiler vectorises it, and dispatch to
//! the machine's widest vector unit (AVX-512, AVX2, NEON or scalar).
//!
//! Fused multiply-add is never used and the summation order is fixed, so results are the same on
//! every machine and for every vector width.

/// Number of partial sums computed in parallel. Buffers are padded to a multiple of this number.
pub(crate) const LANES: usize = 8;

/// Rounds `n` up to a multiple of [`LANES`].
pub(crate) fn padded(n: usize) -> usize {
    n.div_ceil(LANES) * LANES
}

/// Declares a function with a body that is compiled for every vector unit and runs on the widest
/// one.
///
/// Functions called by the body should be `#[inline(always)]`, like the functions in this module,
/// because code that is not inlined is compiled for the narrowest vector unit. (This is a macro
/// because a closure would not be inlined.)
macro_rules! vectorized {
    ($(#[$meta:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block) => {
        $(#[$meta])*
        $visibility fn $name($($argument: $type),*) $(-> $output)? {
            struct Body;
            impl $crate::lanes::Job<($($type,)*)> for Body {
                type Output = $crate::lanes::vectorized!(@output $($output)?);

                #[inline(always)]
                fn run(($($argument,)*): ($($type,)*)) $(-> $output)? $body
            }
            $crate::lanes::dispatch::<Body, _>(($($argument,)*))
        }
    };
    (@output) => { () };
    (@output $output:ty) => { $output };
}
pub(crate) use vectorized;

/// The body of a [`vectorized`] function.
pub(crate) trait Job<A> {
    type Output;
    fn run(arguments: A) -> Self::Output;
}

/// Runs a job on the widest vector unit.
#[inline]
pub(crate) fn dispatch<J: Job<A>, A>(arguments: A) -> J::Output {
    pulp::Arch::new().dispatch(Dispatch::<J, A>(arguments, std::marker::PhantomData))
}

struct Dispatch<J, A>(A, std::marker::PhantomData<J>);

impl<J: Job<A>, A> pulp::WithSimd for Dispatch<J, A> {
    type Output = J::Output;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> J::Output {
        J::run(self.0)
    }
}

vectorized! {
    /// Like [`dot`], for callers that are not vectorised.
    pub(crate) fn wide_dot(a: &[f64], b: &[f64]) -> f64 {
        dot(a, b)
    }
}

/// Returns Σ_i a_i b_i, summed in [`LANES`] interleaved partial sums.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut sums = [0.0; LANES];
    let (blocks_a, blocks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f64 = blocks_a.remainder().iter().zip(blocks_b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in blocks_a.zip(blocks_b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    fold(sums) + tail
}

/// Returns (Σ_i a_i b_i, Σ_i a_i²), in the summation order of [`dot`]. The length must be a
/// multiple of [`LANES`].
#[inline(always)]
pub(crate) fn dot_and_square(a: &[f64], b: &[f64]) -> (f64, f64) {
    debug_assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
    let (mut products, mut squares) = ([0.0; LANES], [0.0; LANES]);
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            products[lane] += a[lane] * b[lane];
            squares[lane] += a[lane] * a[lane];
        }
    }
    (fold(products), fold(squares))
}

/// Returns Σ_i w_i (x − z_i), in the summation order of [`dot`]. Lengths must be multiples of
/// [`LANES`].
#[inline(always)]
pub(crate) fn dot_difference(w: &[f64], x: f64, z: &[f64]) -> f64 {
    debug_assert!(w.len() == z.len() && w.len().is_multiple_of(LANES));
    let mut sums = [0.0; LANES];
    for (w, z) in w.chunks_exact(LANES).zip(z.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += w[lane] * (x - z[lane]);
        }
    }
    fold(sums)
}

/// Returns Σ_i w_i (x − z_i)², in the summation order of [`dot`].
#[inline(always)]
pub(crate) fn dot_squared_difference(w: &[f64], x: f64, z: &[f64]) -> f64 {
    assert_eq!(w.len(), z.len());
    let mut sums = [0.0; LANES];
    let (blocks_w, blocks_z) = (w.chunks_exact(LANES), z.chunks_exact(LANES));
    let mut tail = 0.0;
    for (w, z) in blocks_w.remainder().iter().zip(blocks_z.remainder()) {
        tail += w * (x - z) * (x - z);
    }
    for (w, z) in blocks_w.zip(blocks_z) {
        for lane in 0..LANES {
            sums[lane] += w[lane] * (x - z[lane]) * (x - z[lane]);
        }
    }
    fold(sums) + tail
}

/// Computes y ← y + a x.
#[inline(always)]
pub(crate) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// Adds up the partial sums, always in the same order.
#[inline(always)]
pub(crate) fn fold(sums: [f64; LANES]) -> f64 {
    // Hide the sums from the optimiser, which would otherwise narrow the preceding loops to the
    // pairs of lanes added here.
    let s = std::hint::black_box(sums);
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// 1.5·2^52. Adding it rounds a double of magnitude below 2^51 to the nearest integer, which is
/// then in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Angles up to this magnitude are reduced exactly by the three-part π/2 below.
pub(crate) const LARGEST_FAST_ANGLE: f64 = 1.0e6;

/// Replaces every element of `angles` by its cosine. `bound` must be at least the largest
/// magnitude. For bounds up to 1e6, the absolute error is below 4e-16. For larger bounds or NaN,
/// the standard library's cosine is used.
#[inline(always)]
pub(crate) fn cos(angles: &mut [f64], bound: f64) {
    if bound <= LARGEST_FAST_ANGLE {
        // Two independent chains of operations, because a single chain would stall on its own
        // results.
        let (left, right) = angles.split_at_mut(angles.len() / (2 * LANES) * LANES);
        let (right, rest) = right.split_at_mut(left.len());
        for (a, b) in left.iter_mut().zip(right) {
            (*a, *b) = (cos_reduced(*a), cos_reduced(*b));
        }
        for a in rest {
            *a = cos_reduced(*a);
        }
    } else {
        for a in angles {
            *a = a.cos();
        }
    }
}

/// Replaces every angle by its cosine and writes the sines into `sines`, with the accuracy of
/// [`cos`].
#[inline(always)]
pub(crate) fn sin_cos(angles: &mut [f64], sines: &mut [f64], bound: f64) {
    if bound <= LARGEST_FAST_ANGLE {
        for (a, s) in angles.iter_mut().zip(sines) {
            (*s, *a) = sin_cos_reduced(*a);
        }
    } else {
        for (a, s) in angles.iter_mut().zip(sines) {
            (*s, *a) = a.sin_cos();
        }
    }
}

/// π/2 in three parts. The first two have 33 bits, so that their products with an integer below
/// 2^20 are exact.
const PIO2: [f64; 3] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_7e-21];

/// Returns cos x for |x| ≤ 1e6, by a single polynomial: x = r + (2q+1)·π/2 with |r| ≤ π/2, so that
/// cos x = (−1)^(q+1) sin r. The polynomial is SLEEF's sine polynomial on that range (Shibata &
/// Petrogalli 2020).
#[inline(always)]
fn cos_reduced(x: f64) -> f64 {
    let shifted = (x * std::f64::consts::FRAC_1_PI - 0.5) + ROUNDER;
    let n = 2.0 * (shifted - ROUNDER) + 1.0;
    let r = ((x - n * PIO2[0]) - n * PIO2[1]) - n * PIO2[2];
    let z = r * r;
    let p = -7.972_559_550_090_379e-18;
    let p = p * z + 2.810_099_727_108_632e-15;
    let p = p * z - 7.647_122_191_181_588e-13;
    let p = p * z + 1.605_904_306_056_645e-10;
    let p = p * z - 2.505_210_837_635_020_5e-8;
    let p = p * z + 2.755_731_922_391_987_5e-6;
    let p = p * z - 1.984_126_984_126_961_6e-4;
    let p = p * z + 8.333_333_333_333_33e-3;
    let p = p * z - 1.666_666_666_666_666_6e-1;
    let sine = r + z * (p * r);
    let sign = (!shifted.to_bits() & 1) << 63;
    f64::from_bits(sine.to_bits() ^ sign)
}

/// Returns (sin x, cos x) for |x| ≤ 1e6, by reduction with q·π/2 in three parts and the minimax
/// polynomials of fdlibm on [−π/4, π/4].
#[inline(always)]
fn sin_cos_reduced(x: f64) -> (f64, f64) {
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUNDER;
    let quadrant = shifted.to_bits();
    let q = shifted - ROUNDER;
    let r = ((x - q * PIO2[0]) - q * PIO2[1]) - q * PIO2[2];
    let z = r * r;
    let sine = {
        let p = 1.589_690_995_211_55e-10;
        let p = p * z - 2.505_076_025_340_686_3e-8;
        let p = p * z + 2.755_731_370_707_006_8e-6;
        let p = p * z - 1.984_126_982_985_795e-4;
        let p = p * z + 8.333_333_333_322_49e-3;
        let p = p * z - 1.666_666_666_666_663_2e-1;
        r + r * z * p
    };
    let cosine = {
        let p = -1.135_964_755_778_819_5e-11;
        let p = p * z + 2.087_572_321_298_175e-9;
        let p = p * z - 2.755_731_435_139_066_3e-7;
        let p = p * z + 2.480_158_728_947_673e-5;
        let p = p * z - 1.388_888_888_887_411e-3;
        let p = p * z + 4.166_666_666_666_66e-2;
        1.0 - (0.5 * z - z * z * p)
    };
    let swap = quadrant & 1 == 1;
    let (s, c) = if swap { (cosine, sine) } else { (sine, cosine) };
    let sign_s = (quadrant & 2) << 62;
    let sign_c = (quadrant.wrapping_add(1) & 2) << 62;
    (f64::from_bits(s.to_bits() ^ sign_s), f64::from_bits(c.to_bits() ^ sign_c))
}

/// Returns e^x for x ≤ 0, with a relative error below 4e-16 down to x = −708. Returns 0 for smaller
/// x, and NaN for NaN.
#[inline(always)]
pub(crate) fn exp_negative(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1; // 32 bits of ln 2
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let bounded = if x < -708.0 { -708.0 } else { x };
    let shifted = bounded * std::f64::consts::LOG2_E + ROUNDER;
    let k = shifted - ROUNDER;
    let r = (bounded - k * LN2_HIGH) - k * LN2_LOW;
    // Taylor series up to r^13/13!. For |r| ≤ ln(2)/2 the remainder is below 5e-18.
    let mut p = 1.0 / 6_227_020_800.0;
    p = p * r + 1.0 / 479_001_600.0;
    p = p * r + 1.0 / 39_916_800.0;
    p = p * r + 1.0 / 3_628_800.0;
    p = p * r + 1.0 / 362_880.0;
    p = p * r + 1.0 / 40_320.0;
    p = p * r + 1.0 / 5_040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x < -708.0 { 0.0 } else { p * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    vectorized! {
        fn wide_sin_cos(angles: &mut [f64], sines: &mut [f64]) {
            sin_cos(angles, sines, 1e6);
        }
    }

    vectorized! {
        fn wide_cos(angles: &mut [f64], bound: f64) {
            cos(angles, bound);
        }
    }

    /// Compares with the standard library, within the documented tolerances.
    #[test]
    fn sine_and_cosine_agree_with_the_standard_library() {
        for span in [1.0, 100.0, 1e4, 9.9e5] {
            let angles: Vec<f64> =
                (0..4001).map(|i| (f64::from(i) / 2000.0 - 1.0) * span + 1e-3).collect();
            let (mut cosines, mut sines) = (angles.clone(), vec![0.0; angles.len()]);
            wide_sin_cos(&mut cosines, &mut sines);
            let mut only = angles.clone();
            wide_cos(&mut only, span);
            for i in 0..angles.len() {
                assert!((cosines[i] - angles[i].cos()).abs() < 4e-16, "cos {}", angles[i]);
                assert!((sines[i] - angles[i].sin()).abs() < 4e-16, "sin {}", angles[i]);
                assert!((only[i] - angles[i].cos()).abs() < 4e-16, "cos alone {}", angles[i]);
            }
        }
    }

    #[test]
    fn huge_angles_take_the_exact_path() {
        let mut angles = vec![1e18, -3e12, 0.5, f64::NAN];
        wide_cos(&mut angles, 1e18);
        assert_eq!(angles[0].to_bits(), 1e18_f64.cos().to_bits());
        assert_eq!(angles[2].to_bits(), 0.5_f64.cos().to_bits());
        assert!(angles[3].is_nan());
    }

    #[test]
    fn exponential_agrees_with_the_standard_library() {
        for i in 0..200_000 {
            let x = -f64::from(i) * 0.00354;
            assert!((exp_negative(x) / x.exp() - 1.0).abs() < 4e-16, "{x}");
        }
        assert!(exp_negative(-709.0).abs() < f64::MIN_POSITIVE && exp_negative(f64::NAN).is_nan());
        assert_eq!(exp_negative(0.0).to_bits(), 1.0_f64.to_bits());
    }
}
