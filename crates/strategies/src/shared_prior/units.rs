//! The level and scale of a party's outputs, predicted from those of other parties.

use fedbo_gp::Units;

/// The distribution of the level and scale s of one more party: ln s ~ N(λ, σ²), level ~ N(μ, τ²
/// s²) given s.
///
/// μ and λ are the medians of the parties' levels and log scales. Each variance is 1 + 1/N times
/// the mean squared distance from the median, with two additional parties at squared distance 1.
/// Distances are capped at [`UnitsPrior::FARTHEST`] times the larger of 1 and their median, so that
/// a minority of parties cannot move the distribution at will.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UnitsPrior {
    /// μ.
    pub(super) level: f64,
    /// τ².
    pub(super) level_variance: f64,
    /// λ.
    pub(super) log_size: f64,
    /// σ².
    pub(super) log_size_variance: f64,
}

impl UnitsPrior {
    const PARTIES_BEFORE: f64 = 2.0;
    const FARTHEST: f64 = 3.0;
    /// Variances of the level and the log scale above which the other parties' units are less
    /// informative than a party's own outputs.
    const LARGEST_VARIANCES: [f64; 2] = [10.0, 2.0];

    /// Fits the distribution to the other parties' units. Returns `None` if there are no units, or
    /// if they differ so much that they are uninformative.
    pub(super) fn fit(parties: &[Units]) -> Option<Self> {
        let log_sizes: Vec<f64> = parties.iter().map(|units| units.size.ln()).collect();
        let (log_size, log_size_variance) = median_and_variance(&log_sizes)?;
        let size = log_size.exp();
        let levels: Vec<f64> = parties.iter().map(|units| units.level / size).collect();
        let (level, level_variance) = median_and_variance(&levels)?;
        let found = Self { level: level * size, level_variance, log_size, log_size_variance };
        let [of_level, of_size] = Self::LARGEST_VARIANCES;
        (level_variance <= of_level && log_size_variance <= of_size).then_some(found)
    }

    /// Returns the distribution for outputs −y.
    pub(super) fn negated(self) -> Self {
        Self { level: -self.level, ..self }
    }

    /// Returns the distribution for outputs (y − `level`)/`size`. Returns `None` if these units are
    /// so far from the distribution that numbers overflow.
    pub(super) fn in_units(self, level: f64, size: f64) -> Option<Self> {
        const FARTHEST: f64 = 1e100;
        let (level, log_size) = ((self.level - level) / size, self.log_size - size.ln());
        let is_near = level.abs() <= FARTHEST && log_size.abs() <= FARTHEST.ln();
        is_near.then_some(Self { level, log_size, ..self })
    }

    /// Returns true if an output is below the level, but by no more than the usual difference
    /// between parties' levels.
    pub(super) fn is_above(&self, output: f64) -> bool {
        let spread = self.log_size.exp() * self.level_variance.sqrt();
        output < self.level && output > self.level - 3.0 * spread
    }

    /// Returns scales with the logarithms of their weights. The log scales are half a standard
    /// deviation apart, and the weights follow the normal distribution.
    pub(super) fn sizes(&self) -> Vec<(f64, f64)> {
        let std = self.log_size_variance.sqrt();
        let steps = || (-5..=5).map(|step| 0.5 * f64::from(step));
        let total = steps().map(|z| (-0.5 * z * z).exp()).sum::<f64>();
        steps().map(|z| ((self.log_size + std * z).exp(), -0.5 * z * z - total.ln())).collect()
    }
}

/// Returns the median of N numbers and the predicted variance of one more number, or `None` for
/// N = 0.
fn median_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let center = median(values.to_vec())?;
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    let farthest = UnitsPrior::FARTHEST * median(distances.clone())?.max(1.0);
    let squares = distances.iter().map(|distance| distance.min(farthest).powi(2)).sum::<f64>();
    #[expect(clippy::cast_precision_loss, reason = "numbers of parties are far below 2^53")]
    let n = values.len() as f64;
    let before = UnitsPrior::PARTIES_BEFORE;
    Some((center, (squares + before) / (n + before) * (1.0 + 1.0 / n)))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(0.5 * (values[last / 2] + values[values.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(level: f64, size: f64) -> Units {
        Units { level, size }
    }

    /// Computed by hand for three parties: the levels have distances of 1, 0 and 2 scales, and the
    /// log scales have distances of 0, 0 and ln 2.
    #[test]
    fn moments_are_those_of_the_others() {
        let found =
            UnitsPrior::fit(&[units(9.0, 1.0), units(10.0, 1.0), units(12.0, 2.0)]).unwrap();
        assert!((found.level - 10.0).abs() < 1e-12 && found.log_size.abs() < 1e-12);
        assert!((found.level_variance - (1.0 + 4.0 + 2.0) / 5.0 * (4.0 / 3.0)).abs() < 1e-12);
        let of_size = (2.0_f64.ln().powi(2) + 2.0) / 5.0 * (4.0 / 3.0);
        assert!((found.log_size_variance - of_size).abs() < 1e-12);
        let weights: f64 = found.sizes().iter().map(|(_, weight)| weight.exp()).sum();
        assert!((weights - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_minority_does_not_move_the_law_far() {
        let mut parties = vec![units(1.0, 1.0); 8];
        let honest = UnitsPrior::fit(&parties).unwrap();
        parties[0] = units(1e50, 1e-50);
        let found = UnitsPrior::fit(&parties).unwrap();
        assert!((found.level - honest.level).abs() < 1e-9 && found.log_size.abs() < 1e-9);
        assert!(found.level_variance < 5.0 && found.log_size_variance < 5.0);
    }

    #[test]
    fn parties_that_differ_in_their_units_give_none() {
        assert_eq!(UnitsPrior::fit(&[]), None);
        let far: Vec<Units> = (0..6).map(|i| units(10.0 * f64::from(i), 1.0)).collect();
        assert_eq!(UnitsPrior::fit(&far), None);
    }

    #[test]
    fn units_change_with_those_of_the_outputs() {
        let law = UnitsPrior::fit(&[units(3.0, 2.0)]).unwrap();
        let found = law.in_units(1.0, 4.0).unwrap();
        assert!((found.level - 0.5).abs() < 1e-12 && (found.log_size.exp() - 0.5).abs() < 1e-12);
        assert_eq!(law.in_units(1.0, 1e-200), None);
        assert!(law.is_above(2.9) && !law.is_above(3.1) && !law.is_above(-100.0));
    }
}
