//! The window in which the sum of losses is evaluated, and its resolution.

use super::super::renyi::{converted, smallest};
use super::super::subsampled::Direction;
use super::sketch::Sketch;

/// Approximate relative error of ε that results from rounding to the lattice.
const TOLERANCE: f64 = 1e-4;
/// Longer transforms are halved, which quadruples that error.
const LONG: f64 = 262_144.0;
/// −ln of the tilted mass outside the window.
const DIGITS: f64 = 28.0;
/// Minimum and maximum length of the transform.
const LENGTHS: (f64, f64) = (1024.0, 1_048_576.0);

/// A tilt and an interval of losses, in one direction. A poor choice makes the result loose, but
/// never wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) direction: Direction,
    /// θ.
    pub(super) theta: f64,
    /// The estimated ε, within the window.
    pub(super) epsilon: f64,
    /// The lower end of the window.
    pub(super) bottom: f64,
    top: f64,
    /// A lattice step that is fine enough.
    fine: f64,
    /// Tilts that bound the mass above and below the window.
    pub(super) chernoff: (f64, f64),
}

/// Returns the largest useful tilt. Larger tilts would lose precision in the exponents θ ε.
fn largest_tilt(epsilon: f64) -> f64 {
    1e6 / epsilon.max(1e-9)
}

impl Window {
    /// Chooses the window for ε at the given δ. The tilt corresponds to the order with the smallest
    /// bound on ε.
    pub(super) fn at_delta(sketch: &Sketch, log_delta: f64) -> Self {
        let at = |log_theta: f64| {
            let theta = log_theta.exp();
            converted(sketch.moment(theta).log, theta, log_delta)
        };
        // The optimal tilt for a Gaussian loss with the same variance.
        let variance = sketch.moment(0.0).variance.max(1e-290);
        let theta = smallest(at, (2.0 * (-log_delta).max(0.1) / variance).sqrt());
        let epsilon = converted(sketch.moment(theta).log, theta, log_delta);
        Self::new(sketch, theta, epsilon)
    }

    /// Chooses the window for δ at the given ε. The tilt makes the mean equal to `epsilon`, or is 0
    /// if the untilted mean is already larger.
    pub(super) fn at_epsilon(sketch: &Sketch, epsilon: f64) -> Self {
        let mean = |theta: f64| sketch.moment(theta).mean;
        if mean(0.0) >= epsilon {
            return Self::new(sketch, 0.0, epsilon);
        }
        let (mut low, mut high) = (0.0, 1.0);
        while mean(high) < epsilon && high < largest_tilt(epsilon) {
            high *= 4.0;
        }
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if mean(middle) < epsilon {
                low = middle;
            } else {
                high = middle;
            }
        }
        Self::new(sketch, low, epsilon)
    }

    fn new(sketch: &Sketch, theta: f64, epsilon: f64) -> Self {
        let theta = theta.min(largest_tilt(epsilon));
        let here = sketch.moment(theta);
        let moved = |by: f64| sketch.moment(theta + by).log - here.log;
        // Chernoff bounds Pr[L ≥ l] ≤ exp(K(θ + s) − K(θ) − s l), and likewise for the lower end,
        // at the best of a few values of s.
        let guess = (2.0 * DIGITS / here.variance.max(1e-290)).sqrt();
        let (mut top, mut bottom) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut chernoff = (guess, guess);
        for k in -5..=2 {
            let s = guess * 2.0_f64.powi(k);
            let above = (moved(s) + DIGITS) / s;
            if above < top {
                (top, chernoff.0) = (above, s);
            }
            let below = -(moved(-s) + DIGITS) / s;
            if below > bottom {
                (bottom, chernoff.1) = (below, s);
            }
        }
        // Rounding adds (θ + θ²) h²/12 to each ln E exp(θ L) while h(1 + θ) is small, and at most h
        // to a loss.
        let wanted = TOLERANCE * epsilon.max(1e-3 * (top - bottom)) / sketch.n_releases();
        let fine = (12.0 * wanted / (1.0 + theta)).sqrt().min(1.0 / (1.0 + theta)).max(wanted);
        Self { direction: sketch.direction, theta, epsilon, bottom, top, fine, chernoff }
    }

    /// Returns true if the window is finite and not empty.
    pub(super) fn is_finite(&self) -> bool {
        (self.bottom + self.top + self.fine + self.theta).is_finite() && self.top > self.bottom
    }

    /// Returns the distance between the two ends.
    pub(super) fn width(&self) -> f64 {
        self.top - self.bottom
    }

    /// Returns the required transform length, a power of two.
    pub(super) fn len(&self) -> usize {
        let mut wanted = self.width() / self.fine;
        if wanted > LONG {
            wanted = (0.5 * wanted).max(LONG);
        }
        let wanted = wanted.clamp(LENGTHS.0, LENGTHS.1);
        #[expect(clippy::cast_possible_truncation, reason = "clamped to lengths")]
        let len = wanted.ceil() as usize;
        len.next_power_of_two()
    }
}
