//! The cost of releases, and the number of releases that a budget covers.

use fedbo_privacy::accounting::{
    AccountantKind, Budget, CalibrationError, Claim, Delta, Mode, PrivacyEvent, Sampling,
    SamplingRate, Unproved, UnsupportedEvent, largest_rounds, smallest_multiplier,
};

/// The accountant, δ and budget for pricing releases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing {
    pub(crate) kind: AccountantKind,
    pub(crate) mode: Mode,
    pub(crate) delta: Delta,
    /// The budget; `None` if spending is not limited.
    pub(crate) budget: Option<Budget>,
}

/// Minimum noise multiplier, for any ε, in a study that sets only a budget. With sampling, no bound
/// is proved below this value. A study with more noise than its budget requires costs less than the
/// budget, and its claim states the actual cost.
const LEAST_NOISE: f64 = 0.05;

/// The reason that releases cannot be priced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PricingError {
    /// The accountant does not support the event.
    #[error(transparent)]
    Event(#[from] UnsupportedEvent),
    /// The accountant proves no bound for the event.
    #[error(transparent)]
    Epsilon(#[from] Unproved),
    /// No noise multiplier, or no number of releases, fits the budget.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

impl Pricing {
    /// Returns the cost of `count` releases with this event.
    pub(crate) fn claim(&self, event: &PrivacyEvent, count: u64) -> Result<Claim, PricingError> {
        let mut accountant = self.kind.accountant();
        accountant.compose(event, count)?;
        Ok(Claim::of(accountant.as_ref(), self.delta, self.mode)?)
    }

    /// Returns the number of releases with this event that the budget covers, up to `wanted`.
    /// Returns `wanted` if there is no budget.
    pub(crate) fn most_releases(
        &self,
        event: &PrivacyEvent,
        wanted: u64,
    ) -> Result<u64, PricingError> {
        let Some(budget) = self.budget else {
            return Ok(wanted);
        };
        match self.claim(event, wanted) {
            Ok(claim) if claim.epsilon <= budget.epsilon() => return Ok(wanted),
            Ok(_) | Err(PricingError::Epsilon(_)) => {}
            Err(error) => return Err(error),
        }
        match largest_rounds(self.kind, event, budget) {
            Ok(most) => Ok(most.value.min(wanted)),
            Err(CalibrationError::Impossible { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the smallest noise multiplier, rounded up to four digits, for which `count` releases
    /// of the Gaussian mechanism fit a budget. The result is at least [`LEAST_NOISE`]. The
    /// multiplier for the lattice mechanism is larger by less than one part in a million.
    pub(crate) fn least_noise(
        &self,
        rate: SamplingRate,
        count: u64,
        budget: Budget,
    ) -> Result<f64, PricingError> {
        let sampling = Sampling::Poisson(rate);
        let least = smallest_multiplier(self.kind, sampling, count, budget)?;
        Ok(rounded_up(least.value.get()).max(LEAST_NOISE))
    }
}

/// Rounds a positive number up to four significant digits. The result is readable, and machines
/// still agree on it if their calibrations differ in the last bits.
pub(crate) fn rounded_up(number: f64) -> f64 {
    let shown: f64 = format!("{number:.3e}").parse().unwrap_or(number);
    if shown >= number {
        return shown;
    }
    // Adds one unit of the last digit, because the rounding above went down.
    let unit = 10_f64.powf(number.log10().floor() - 3.0);
    format!("{:.3e}", shown + unit).parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::rounded_up;

    #[test]
    fn four_digits_are_kept_and_none_is_lost() {
        for (number, expected) in [
            (3.872_983, 3.873),
            (3.873, 3.873),
            (3.873_000_1, 3.874),
            (9.999_9, 10.0),
            (0.012_341, 0.012_35),
            (1.0_f64.next_up(), 1.001),
            (123_456.0, 123_500.0),
        ] {
            let found = rounded_up(number);
            assert!((found - expected).abs() < 1e-12 * expected, "{number}: {found}");
            assert!(found >= number);
        }
    }
}
