//! The cost of releases, and the number of them that a budget pays for.

use fedbo_privacy::accounting::{
    AccountantKind, Budget, CalibrationError, Claim, Delta, Mode, PrivacyEvent, Sampling,
    SamplingRate, Unproved, UnsupportedEvent, largest_rounds, smallest_multiplier,
};

/// The accountant and the δ by which releases are priced, and their budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing {
    pub(crate) kind: AccountantKind,
    pub(crate) mode: Mode,
    pub(crate) delta: Delta,
    /// The budget, if what may be spent is limited.
    pub(crate) budget: Option<Budget>,
}

/// The reason why releases have no price.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PricingError {
    /// The accountant takes no such events.
    #[error(transparent)]
    Event(#[from] UnsupportedEvent),
    /// It proves nothing of them.
    #[error(transparent)]
    Epsilon(#[from] Unproved),
    /// No noise, or no number of releases, fits.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

impl Pricing {
    /// Returns the cost of `count` such releases.
    pub(crate) fn claim(&self, event: &PrivacyEvent, count: u64) -> Result<Claim, PricingError> {
        let mut accountant = self.kind.accountant();
        accountant.compose(event, count)?;
        Ok(Claim::of(accountant.as_ref(), self.delta, self.mode)?)
    }

    /// Returns the largest number of such releases that the budget pays for, at most `wanted`; `wanted` without a
    /// budget.
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

    /// The least noise multiplier, rounded up to four digits, with which `count` releases of the Gaussian mechanism fit a
    /// budget; 0.001 at least. That of the mechanism on the lattice is larger by less than a millionth of it.
    pub(crate) fn least_noise(
        &self,
        rate: SamplingRate,
        count: u64,
        budget: Budget,
    ) -> Result<f64, PricingError> {
        let sampling = Sampling::Poisson(rate);
        let least = smallest_multiplier(self.kind, sampling, count, budget)?;
        Ok(rounded_up(least.value.get()).max(1e-3))
    }
}

/// The least number of four digits that is not below a number above 0: machines that differ in the last bits of a calibration
/// still agree on it, and people can read it.
pub(crate) fn rounded_up(number: f64) -> f64 {
    let shown: f64 = format!("{number:.3e}").parse().unwrap_or(number);
    if shown >= number {
        return shown;
    }
    // Half a unit of the last digit more than was cut off.
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
