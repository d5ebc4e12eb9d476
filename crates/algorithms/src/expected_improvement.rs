//! Expected improvement and its logarithm, for acquisition functions.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// E[max(f − f*, 0)] for f ~ N(mean, std²) and the incumbent f*.
///
/// EI = std · h(z),   z = (mean − f*)/std,   h(z) = φ(z) + z Φ(z)
///
/// φ and Φ are the standard normal density and distribution function (Jones et al. 1998, eq. (15)); for std = 0 it is
/// max(mean − f*, 0). Underflows to 0 far below the incumbent, where [`log_expected_improvement`] does not.
pub fn expected_improvement(mean: f64, std: f64, incumbent: f64) -> f64 {
    let gain = mean - incumbent;
    if std > 0.0 {
        std * ln_h(gain / std).value.exp()
    } else {
        gain.max(0.0)
    }
}

/// ln EI with its derivatives in the mean and the standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogImprovement {
    /// ln EI.
    pub value: f64,
    /// ∂ ln EI/∂mean = Φ(z)/(h(z) std), above 0.
    pub d_mean: f64,
    /// ∂ ln EI/∂std = φ(z)/(h(z) std), above 0.
    pub d_std: f64,
}

/// ln E[max(f − f*, 0)] for f ~ N(mean, std²), std > 0 and the incumbent f* (Ament et al. 2023, "Unexpected
/// improvements to expected improvement for Bayesian optimization", eq. (9)).
///
/// ln EI = ln std + ln h(z),   z = (mean − f*)/std
///
/// Accurate to about 1e-14 relative to max(|ln h|, 1) for |z| up to 1e6 and beyond, where EI itself is 0 in double
/// precision. −∞ with derivatives 0 for std ≤ 0.
pub fn log_expected_improvement(mean: f64, std: f64, incumbent: f64) -> LogImprovement {
    if std <= 0.0 {
        return LogImprovement {
            value: f64::NEG_INFINITY,
            d_mean: 0.0,
            d_std: 0.0,
        };
    }
    let h = ln_h((mean - incumbent) / std);
    LogImprovement {
        value: std.ln() + h.value,
        d_mean: h.distribution / std,
        d_std: h.density / std,
    }
}

/// ln h(z), Φ(z)/h(z) and φ(z)/h(z).
struct LnH {
    value: f64,
    distribution: f64,
    density: f64,
}

/// Below this the continued fraction is taken: above it the two terms of h(z) cancel one digit at most.
const TAIL: f64 = -2.5;

/// h(z) = φ(z) + z Φ(z) by its terms for z ≥ −2.5, and below by the repeated integrals Hh of the normal density
/// (Abramowitz & Stegun 1964, 26.2.41 and 19.14), in which nothing cancels:
///
/// h(−x) = φ(x) q r,   Φ(−x) = φ(x) q,   q = 1/(x + r),   r = 1/(x + 2/(x + 3/(x + …)))
fn ln_h(z: f64) -> LnH {
    let half_ln_tau = 0.5 * (2.0 * PI).ln();
    if z < TAIL {
        let x = -z;
        // The truncated fraction is within 1e-14 at x = 2.5 with 60 terms and within 1e-15 at x = 5 with 24.
        let n_terms = if x < 5.0 { 60_i32 } else { 24 };
        let mut tail = 0.0;
        for k in (2..=n_terms).rev() {
            tail = f64::from(k) / (x + tail);
        }
        // In terms of 1/r and 1/q, which do not underflow.
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
    LnH {
        value: h.ln(),
        distribution: distribution / h,
        density: density / h,
    }
}
