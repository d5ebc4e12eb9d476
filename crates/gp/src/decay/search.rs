//! Search for the hyperparameters of a decay process with the largest evidence.

use super::{DecayNoise, DecayProcess};
use crate::GpError;

pub(super) const SHAPE: (f64, f64) = (0.05, 20.0);
pub(super) const RATE: (f64, f64) = (0.05, 500.0);
const NOISE_STD: (f64, f64) = (1e-4, 0.1);
/// Median of the prior for σ, and standard deviation of ln σ.
const NOISE_PRIOR: (f64, f64) = (0.005, 1.0);

/// ln α, ln β, ln σ.
pub(super) type Place = [f64; 3];

/// The candidate processes for one level variance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates<'a> {
    pub(super) errors: &'a [f64],
    pub(super) level_variance: f64,
    pub(super) noise: DecayNoise,
}

impl Candidates<'_> {
    pub(super) fn process(&self, at: &Place) -> Result<DecayProcess, GpError> {
        let variance = match self.noise {
            DecayNoise::Fixed(variance) => variance,
            DecayNoise::Fitted => (2.0 * at[2]).exp(),
        };
        DecayProcess::new(at[0].exp(), at[1].exp(), self.level_variance, variance)
    }

    /// Returns the log evidence, plus the log prior of σ if σ is fitted.
    pub(super) fn score(&self, at: &Place) -> Result<f64, GpError> {
        let evidence = self.process(at)?.log_evidence(self.errors)?;
        Ok(match self.noise {
            DecayNoise::Fixed(_) => evidence,
            DecayNoise::Fitted => {
                evidence - 0.5 * ((at[2] - NOISE_PRIOR.0.ln()) / NOISE_PRIOR.1).powi(2)
            }
        })
    }

    /// Returns the number of axes to search.
    fn n_axes(&self) -> usize {
        match self.noise {
            DecayNoise::Fixed(_) => 2,
            DecayNoise::Fitted => 3,
        }
    }

    /// Returns the grid points along α.
    pub(super) fn shapes() -> impl Iterator<Item = u32> {
        0..=STEPS[0]
    }

    /// Returns the grid points for one α with their scores.
    ///
    /// # Errors
    /// If all points fail, with the error of the last one.
    pub(super) fn row(&self, shape: u32) -> Result<Vec<(f64, Place)>, GpError> {
        let n_noises = if self.n_axes() == 3 { STEPS[2] } else { 0 };
        let (mut found, mut failed) = (Vec::new(), None);
        for rate in 0..=STEPS[1] {
            for noise in 0..=n_noises {
                let at = [on(0, shape), on(1, rate), on(2, noise)];
                match self.score(&at) {
                    Ok(score) if score.is_finite() => found.push((score, at)),
                    Ok(_) => {}
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }
}

/// Number of grid steps along each axis.
const STEPS: [u32; 3] = [12, 12, 6];

/// Returns the ends of each axis.
fn bounds() -> [(f64, f64); 3] {
    [SHAPE, RATE, NOISE_STD].map(|(low, high)| (low.ln(), high.ln()))
}

fn on(axis: usize, step: u32) -> f64 {
    let (low, high) = bounds()[axis];
    low + (high - low) * f64::from(step) / f64::from(STEPS[axis])
}

/// Returns the α, β and, optionally, σ² with the largest evidence.
pub(super) fn most_evident(
    errors: &[f64],
    level_variance: f64,
    noise: DecayNoise,
) -> Result<DecayProcess, GpError> {
    let candidates = Candidates { errors, level_variance, noise };
    // The evidence has a ridge along α/β with several maxima. The search therefore starts from the
    // best point of each range of α and also takes steps along the ridge.
    const SHAPES_A_START: u32 = 3;
    let mut starts: Vec<Option<(f64, Place)>> = Vec::new();
    let mut failed = GpError::NotFinite { index: 0 };
    for shape in Candidates::shapes() {
        if shape.is_multiple_of(SHAPES_A_START) {
            starts.push(None);
        }
        let row = candidates.row(shape).unwrap_or_else(|error| {
            failed = error;
            Vec::new()
        });
        if let Some(best) = starts.last_mut() {
            *best = row.into_iter().chain(*best).reduce(better);
        }
    }
    let climbed = starts.into_iter().flatten();
    let climbed = climbed.map(|start| climb(start, &candidates));
    match climbed.reduce(better) {
        Some((_, at)) => candidates.process(&at),
        None => Err(failed),
    }
}

fn better(a: (f64, Place), b: (f64, Place)) -> (f64, Place) {
    if b.0 > a.0 { b } else { a }
}

/// Pattern search from a point. Tries a step in each direction along each axis and along the
/// diagonal of the first two. Halves the step if no direction is an improvement.
fn climb((mut value, mut at): (f64, Place), candidates: &Candidates<'_>) -> (f64, Place) {
    const DIRECTIONS: [[f64; 3]; 4] =
        [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let bounds = bounds();
    let mut share = 1.0 / 24.0;
    while share > 1e-5 {
        let mut improved = false;
        for direction in &DIRECTIONS[..=candidates.n_axes()] {
            for sign in [-1.0, 1.0] {
                let mut near = at;
                for ((x, along), (low, high)) in near.iter_mut().zip(direction).zip(&bounds) {
                    // The diagonal scales both parameters by the same factor.
                    let width = if direction[0] * direction[1] > 0.0 {
                        bounds[0].1 - bounds[0].0
                    } else {
                        high - low
                    };
                    *x = (*x + sign * along * share * width).clamp(*low, *high);
                }
                if let Ok(found) = candidates.score(&near)
                    && found > value
                {
                    (value, at, improved) = (found, near, true);
                }
            }
        }
        if !improved {
            share *= 0.5;
        }
    }
    (value, at)
}
