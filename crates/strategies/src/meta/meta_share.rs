//! ν_t: the share of the meta-tasks in the acquisition function (thesis section 7.5.2, last
//! paragraph).

use crate::StrategyError;

/// The recursion ν_1 = 1, ν_t = ν_{t−1} min(r, (Σ_i ω_i d̄_{i,t})^{−ε})
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetaShare {
    /// r in (0, 1): ν decreases by at least this factor. 0.7 in the thesis.
    pub decay: f64,
    /// ε ≥ 0: strength of the additional decay for gaps that are large in the units of comparison.
    /// 0.7 in the thesis.
    pub gap_exponent: f64,
}

impl Default for MetaShare {
    /// The values from the experiments of the thesis.
    fn default() -> Self {
        Self { decay: 0.7, gap_exponent: 0.7 }
    }
}

impl MetaShare {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let expected = "a number between 0 and 1, ends excluded";
        StrategyError::ensure(self.decay > 0.0 && self.decay < 1.0, "decay", self.decay, expected)?;
        let expected = "a finite number of at least 0";
        StrategyError::ensure(
            self.gap_exponent.is_finite() && self.gap_exponent >= 0.0,
            "gap_exponent",
            self.gap_exponent,
            expected,
        )?;
        Ok(self)
    }

    /// Returns the ν that follows `share` for the weighted gap Σ_i ω_i d̄_i. The result is at most
    /// `share` times `decay`.
    pub fn next(self, share: f64, weighted_gap: f64) -> f64 {
        share * self.decay.min(weighted_gap.powf(-self.gap_exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The adaptive factor takes effect if the weighted gap is above r^{−1/ε} = 1.66.
    #[test]
    fn the_share_falls_always_and_faster_with_large_gaps() {
        let rule = MetaShare::default().validate().unwrap();
        for gap in [0.0, 1e-300, 0.3, 1.0, 1.66] {
            assert!((rule.next(0.8, gap) - 0.8 * 0.7).abs() < 1e-12, "{gap}");
        }
        assert!((rule.next(1.0, 8.0) - 8.0_f64.powf(-0.7)).abs() < 1e-12);
        let mut share = 1.0;
        for gap in [0.0, 3.0, 0.1, 1e300, f64::INFINITY, 2.0] {
            let next = rule.next(share, gap);
            assert!(next <= 0.7 * share && next >= 0.0, "{gap}: {next}");
            share = next;
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for (decay, gap_exponent) in [(1.0, 0.7), (0.0, 0.7), (f64::NAN, 0.7), (0.5, -1.0)] {
            let rule = MetaShare { decay, gap_exponent };
            assert!(rule.validate().is_err(), "{rule:?}");
        }
    }
}
