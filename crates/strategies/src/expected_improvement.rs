//! Expected improvement and its logarithm, for use in acquisition functions.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::Score;

/// Returns E[max(f − f*, 0)] for f ~ N(mean, std²) and the incumbent f*.
///
/// EI = std · h(z),   z = (mean − f*)/std,   h(z) = φ(z) + z Φ(z)
///
/// φ and Φ are the standard normal density and distribution function (Jones et al. 1998). For std =
/// 0 the result is max(mean − f*, 0). Far below the incumbent the result underflows to 0;
/// [`log_expected_improvement`] does not underflow.
pub fn expected_improvement(mean: f64, std: f64, incumbent: f64) -> f64 {
    let gain = mean - incumbent;
    if std > 0.0 { std * ln_h(gain / std).value.exp() } else { gain.max(0.0) }
}

/// Returns ln E[max(f − f*, 0)] for f ~ N(mean, std²), std > 0 and the incumbent f* (Ament et al.
/// 2023, "Unexpected improvements to expected improvement for Bayesian optimization").
///
/// ln EI = ln std + ln h(z),   z = (mean − f*)/std
///
/// ∂ ln EI/∂mean = Φ(z)/(h(z) std), ∂ ln EI/∂std = φ(z)/(h(z) std), both positive
///
/// Accurate to about 1e-14 relative to max(|ln h|, 1) for |z| up to 1e6 and beyond, where EI itself
/// is 0 in double precision. Returns −∞ with derivatives 0 for std ≤ 0.
pub fn log_expected_improvement(mean: f64, std: f64, incumbent: f64) -> Score {
    if std <= 0.0 {
        return Score { value: f64::NEG_INFINITY, d_mean: 0.0, d_std: 0.0 };
    }
    let h = ln_h((mean - incumbent) / std);
    Score { value: std.ln() + h.value, d_mean: h.distribution / std, d_std: h.density / std }
}

/// Returns ln Φ(z) of the standard normal distribution and its derivative φ(z)/Φ(z), even where Φ
/// itself is 0 in double precision:
///
/// ln Φ = ln h + ln (Φ/h)
pub(crate) fn ln_normal_distribution(z: f64) -> (f64, f64) {
    let h = ln_h(z);
    (h.value + h.distribution.ln(), h.density / h.distribution)
}

/// The values ln h(z), Φ(z)/h(z) and φ(z)/h(z).
struct LnH {
    value: f64,
    distribution: f64,
    density: f64,
}

/// The continued fraction is used for z below this value. Above it, cancellation between the two
/// terms of h(z) loses at most one digit.
const TAIL: f64 = -2.5;

/// Computes h(z) = φ(z) + z Φ(z), term by term for z ≥ −2.5. For smaller z, the repeated integrals
/// Hh of the normal density (Abramowitz & Stegun 1964) avoid cancellation:
///
/// h(−x) = φ(x) q r,   Φ(−x) = φ(x) q,   q = 1/(x + r),   r = 1/(x + 2/(x + 3/(x + …)))
fn ln_h(z: f64) -> LnH {
    let half_ln_tau = 0.5 * (2.0 * PI).ln();
    if z < TAIL {
        let x = -z;
        // At x = 2.5 the fraction truncated after 80 terms is accurate to 1e-16; at x = 5, after 24
        // terms, to 1e-15.
        let n_terms = if x < 5.0 { 80_i32 } else { 24 };
        let mut tail = 0.0;
        for k in (2..=n_terms).rev() {
            tail = f64::from(k) / (x + tail);
        }
        // Uses 1/r and 1/q, which do not underflow.
        let (inverse_r, r) = (x + tail, 1.0 / (x + tail));
        let inverse_q = x + r;
        return LnH {
            value: -0.5 * z * z - half_ln_tau - (inverse_q.ln() + inverse_r.ln()),
            distribution: inverse_r,
            density: inverse_q * inverse_r,
        };
    }
    let density = (-0.5 * z * z - half_ln_tau).exp();
    let distribution = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
    let h = density + z * distribution;
    LnH { value: h.ln(), distribution: distribution / h, density: density / h }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (z, ln h(z), Φ(z)/h(z)) to 18 digits, computed with mpmath at 60 digits. For |z| < 50:
    ///
    /// ```python
    /// phi = exp(-z * z / 2) / sqrt(2 * pi); Phi = erfc(-z / sqrt(2)) / 2; h = phi + z * Phi
    /// ```
    ///
    /// For larger |z|, computed from the continued fraction r = 1/(x + 2/(x + 3/(x + …))), x = −z,
    /// with 4000 terms: h = phi r/(x + r), Φ/h = 1/r.
    #[expect(clippy::excessive_precision, reason = "as the script prints them")]
    const VECTORS: [(f64, f64, f64); 18] = [
        (-1e6, -500000000028.54996, 1000000.000002),
        (-12345.678, -76207902.4009031955, 12345.6781620000101),
        (-300.0, -45012.3265368145542, 300.006666444461727),
        (-38.5, -749.347274207822922, 38.55184340493951),
        (-10.0, -55.5531220361223559, 10.1943830334125533),
        (-5.0001, -16.744837348985083, 5.36191024059974547),
        (-4.9999, -16.7437649857368193, 5.361722242159968),
        (-2.5001, -6.21285149204404528, 3.09850871395610545),
        (-2.4999, -6.21223180738466728, 3.09833788021929135),
        (-1.0, -2.48512102571264134, 1.90427123332969182),
        (-0.25, -1.25055895533522244, 1.40143567108668132),
        (0.0, -0.918938533204672742, 1.25331413731550025),
        (0.3, -0.567817153677936884, 1.0902499611311893),
        (0.9, 0.000431044173782032756, 0.815588244313663773),
        (1.5, 0.424814556762259296, 0.610206403670761506),
        (4.0, 1.38629614743290326, 0.249991635625831098),
        (37.0, 3.61091791264422444, 0.027027027027027027),
        (1e6, 13.8155105579642741, 1.0e-6),
    ];

    #[test]
    fn the_logarithm_agrees_with_60_digits() {
        for (z, ln_h, ratio) in VECTORS {
            let found = log_expected_improvement(z, 1.0, 0.0);
            let error = (found.value - ln_h).abs() / ln_h.abs().max(1.0);
            assert!(error < 1e-14, "ln h({z}) = {}: {error:e}", found.value);
            let error = (found.d_mean / ratio - 1.0).abs();
            assert!(error < 1e-14, "Φ/h at {z}: {error:e}");
            // φ/h + z Φ/h must be 1, checked where the terms do not cancel.
            if z > -2.0 {
                assert!((found.d_std + z * found.d_mean - 1.0).abs() < 1e-14, "φ/h at {z}");
            }
        }
    }

    /// ln Φ computed with mpmath at 60 digits: log(erfc(-z / sqrt(2)) / 2).
    #[test]
    #[expect(clippy::excessive_precision, reason = "as the script prints them")]
    fn the_logarithm_of_the_distribution_agrees_with_60_digits() {
        for (z, expected) in [
            (-40.0, -804.608442013754094),
            (-3.0, -6.60772622151035155),
            (0.5, -0.368946415288656357),
            (2.0, -0.0230129093289635),
        ] {
            let (value, slope) = ln_normal_distribution(z);
            assert!((value - expected).abs() < 1e-13 * expected.abs().max(1.0), "{z}: {value}");
            let step = 1e-6;
            let difference = (ln_normal_distribution(z + step).0
                - ln_normal_distribution(z - step).0)
                / (2.0 * step);
            assert!((slope - difference).abs() < 1e-6 * slope.abs().max(1.0), "{z}: {slope}");
        }
    }

    /// The value and the derivatives are continuous, within tolerance, where the formula changes.
    #[test]
    fn the_pieces_meet() {
        for z in [-5.0, TAIL] {
            let at = |z: f64| log_expected_improvement(z, 1.0, 0.0);
            let (below, above) = (at(z - 1e-12), at(z + 1e-12));
            assert!((below.value / above.value - 1.0).abs() < 1e-11);
            assert!((below.d_mean / above.d_mean - 1.0).abs() < 1e-11);
            assert!((below.d_std / above.d_std - 1.0).abs() < 1e-11);
        }
    }

    /// Compares with the trapezoidal rule over f from the incumbent to 12 standard deviations above
    /// the mean. With 20 000 steps, the rule's relative error is below 1e-7.
    #[test]
    fn the_closed_form_is_the_integral() {
        for (mean, std, incumbent) in [(0.3, 1.2, 0.0), (-1.0, 0.4, 0.2), (2.0, 0.5, -3.0)] {
            let (low, high): (f64, f64) = (incumbent, mean + 12.0 * std);
            let n = 20_000;
            let step = (high - low) / f64::from(n);
            let integral: f64 = (0..=n)
                .map(|i| {
                    let f = low + step * f64::from(i);
                    let z = (f - mean) / std;
                    let weight = if i == 0 || i == n { 0.5 } else { 1.0 };
                    weight * step * (f - incumbent) * (-0.5 * z * z).exp()
                        / (std * (2.0 * PI).sqrt())
                })
                .sum();
            let found = expected_improvement(mean, std, incumbent);
            assert!((found / integral - 1.0).abs() < 1e-6, "{found} and {integral}");
            let log = log_expected_improvement(mean, std, incumbent).value;
            assert!((log - found.ln()).abs() < 1e-13);
        }
        assert!((expected_improvement(1.5, 0.0, 1.0) - 0.5).abs() < 1e-15);
        assert!(expected_improvement(0.5, 0.0, 1.0).abs() < 1e-15);
    }

    /// Central differences have a relative error of about 1e-9 here.
    #[test]
    fn derivatives_agree_with_differences() {
        for (mean, std, incumbent) in
            [(0.3, 1.2, 0.0), (-40.0, 0.7, 0.2), (-2.4, 1.0, 0.0), (5.0, 0.3, 1.0)]
        {
            let ln = |mean, std| log_expected_improvement(mean, std, incumbent).value;
            let found = log_expected_improvement(mean, std, incumbent);
            let step = 1e-6;
            let d_mean = (ln(mean + step, std) - ln(mean - step, std)) / (2.0 * step);
            let d_std = (ln(mean, std + step) - ln(mean, std - step)) / (2.0 * step);
            assert!((found.d_mean - d_mean).abs() < 1e-6 * d_mean.abs().max(1.0));
            assert!((found.d_std - d_std).abs() < 1e-6 * d_std.abs().max(1.0));
        }
    }
}
