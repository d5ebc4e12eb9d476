//! Decay processes weighted by how well they explain the first errors.

use super::search::Candidates;
use super::{Continuation, DecayNoise, DecayProcess};
use crate::GpError;

/// The belief about a curve if α, β, σ² and the variance a² of the level are unknown: a grid of
/// processes i with weights
///
/// w_i ∝ p(e_1, …, e_{N₀} | process i) p(σ_i)
///
/// A few errors do not determine these parameters, and processes that fit the errors equally well
/// predict very different ends. The single process with the largest evidence is therefore
/// overconfident.
#[derive(Clone, Debug, PartialEq)]
pub struct DecayAverage {
    parts: Vec<(f64, DecayProcess)>,
}

impl DecayAverage {
    /// Values of a² on the grid, for curves that decay to error 0 and for curves that level off at
    /// increasing heights.
    pub const LEVEL_VARIANCES: [f64; 5] = [0.0, 1e-3, 1e-2, 1e-1, 1.0];
    /// Number of processes to keep, namely those with the largest weights.
    const N_PARTS: usize = 100;

    /// Fits the average to a curve with the given errors at epochs 1 to N₀. Cost: O(N₀³) for each
    /// of about a thousand evidence evaluations.
    ///
    /// # Errors
    /// If an error is not finite, or the evidence cannot be computed at any point.
    pub fn fit(errors: &[f64], noise: DecayNoise) -> Result<Self, GpError> {
        if let Some(index) = errors.iter().position(|error| !error.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        let (mut scored, mut failed) = (Vec::new(), GpError::NotFinite { index: 0 });
        for level_variance in Self::LEVEL_VARIANCES {
            let candidates = Candidates { errors, level_variance, noise };
            for shape in Candidates::shapes() {
                match candidates.row(shape) {
                    Ok(row) => {
                        let row = row.into_iter();
                        scored.extend(row.map(|(score, at)| (score, at, level_variance)));
                    }
                    Err(error) => failed = error,
                }
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.truncate(Self::N_PARTS);
        let Some((largest, _, _)) = scored.first().copied() else {
            return Err(failed);
        };
        let total: f64 = scored.iter().map(|(score, ..)| (score - largest).exp()).sum();
        let parts = scored.iter().map(|(score, at, level_variance)| {
            let candidates = Candidates { errors, level_variance: *level_variance, noise };
            Ok(((score - largest).exp() / total, candidates.process(at)?))
        });
        Ok(Self { parts: parts.collect::<Result<_, GpError>>()? })
    }

    /// Creates an average that consists of a single process with weight 1.
    pub fn certain(process: DecayProcess) -> Self {
        Self { parts: vec![(1.0, process)] }
    }

    /// Returns the processes in descending order of their weights, which sum to 1.
    pub fn parts(&self) -> &[(f64, DecayProcess)] {
        &self.parts
    }

    /// Returns the distribution of the continuation under each process, with the weight of the
    /// process. See [`DecayProcess::continuation`].
    ///
    /// # Errors
    /// If the covariance of a process has no Cholesky factor.
    ///
    /// # Panics
    /// If N is not above N₀.
    pub fn continuations(
        &self,
        errors: &[f64],
        n_epochs: usize,
    ) -> Result<Vec<(f64, Continuation)>, GpError> {
        let each = self.parts.iter();
        each.map(|(weight, process)| Ok((*weight, process.continuation(errors, n_epochs)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    #[test]
    fn weights_are_shares_of_evidence() {
        let errors = [0.5, 0.42, 0.37, 0.33, 0.31, 0.295, 0.28, 0.275];
        let average = DecayAverage::fit(&errors, DecayNoise::Fixed(1e-5)).unwrap();
        let parts = average.parts();
        assert_eq!(parts.len(), 100);
        let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
        assert!((total - 1.0).abs() < 1e-12);
        let (first, last) = (parts[0], parts[60]);
        let evidence = |process: &DecayProcess| process.log_evidence(&errors).unwrap();
        let ratio = (evidence(&last.1) - evidence(&first.1)).exp();
        assert!((last.0 / first.0 - ratio).abs() < 1e-9 * ratio.max(1e-3));
        assert!(parts.windows(2).all(|pair| pair[0].0 >= pair[1].0));
    }

    /// For 300 noisy exponential curves with random levels and rates, the 90 % interval for the end
    /// contains the true end of 85 to 100 % of the curves. The interval of the single process with
    /// the largest evidence and no level contains fewer than 60 %.
    #[test]
    fn the_average_is_calibrated_where_one_process_is_not() {
        let mut stream = Seed::new(9).stream(Purpose::TEST, 0, 0);
        let (mut by_average, mut by_one) = (0, 0);
        let n_curves = 300;
        for _ in 0..n_curves {
            let (end, start) = (0.02 + 0.3 * stream.uniform(), 0.1 + 0.5 * stream.uniform());
            let rate = 0.05 + 0.3 * stream.uniform();
            let errors: Vec<f64> = (1..=8)
                .map(|n| end + start * (-rate * f64::from(n)).exp() + 0.003 * stream.normal())
                .collect();
            let last = end + start * (-rate * 50.0).exp();
            let average = DecayAverage::fit(&errors, DecayNoise::Fitted).unwrap();
            let below: f64 = average
                .continuations(&errors, 50)
                .unwrap()
                .iter()
                .map(|(weight, law)| weight * normal_cdf((last - law.mean()[41]) / law.std()[41]))
                .sum();
            by_average += u32::from((0.05..=0.95).contains(&below));
            let fit = super::super::DecayFit::Evidence { noise: DecayNoise::Fitted };
            let one = DecayProcess::fit(&errors, 0.0, fit).unwrap();
            let law = one.continuation(&errors, 50).unwrap();
            let below = normal_cdf((last - law.mean()[41]) / law.std()[41]);
            by_one += u32::from((0.05..=0.95).contains(&below));
        }
        assert!((255..=300).contains(&by_average), "{by_average}");
        assert!(by_one < 180, "{by_one}");
    }

    /// Returns Φ(z), using the logistic approximation of Bowling et al. (2009), which is accurate
    /// to 2e-4.
    fn normal_cdf(z: f64) -> f64 {
        1.0 / (1.0 + (-(0.07056 * z.powi(3) + 1.5976 * z)).exp())
    }
}
