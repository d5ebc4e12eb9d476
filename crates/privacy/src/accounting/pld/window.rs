//! Where to look at the sum of losses, and how finely.

use super::super::moment::{Moment, total};
use super::super::renyi::log_delta;
use super::super::subsampled::{Direction, Subsampled};

/// How much of ε rounding to the lattice may cost, about.
const TOLERANCE: f64 = 1e-4;
/// Transforms longer than this are made half as long, at four times that cost.
const LONG: f64 = 262_144.0;
/// ln of 1 over the tilted mass outside of the window.
const DIGITS: f64 = 28.0;
/// Length of the transform: at least and at most.
const LENGTHS: (f64, f64) = (1024.0, 1_048_576.0);

/// Larger tilts gain nothing: exponents θ ε would lose the digits that they are to keep.
fn largest_tilt(epsilon: f64) -> f64 {
    1e6 / epsilon.max(1e-9)
}

/// A tilt and a part of the line, in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) direction: Direction,
    /// θ.
    pub(super) theta: f64,
    /// Its lower end.
    pub(super) bottom: f64,
    top: f64,
    /// The step of the lattice that is fine enough.
    fine: f64,
    /// Tilts that bound the mass above and below.
    pub(super) chernoff: (f64, f64),
    /// ln of an estimate of δ in the middle.
    pub(super) log_delta: f64,
}

impl Window {
    /// Tilted by `theta`, for results about `epsilon`.
    pub(super) fn new(
        parts: &[Subsampled],
        direction: Direction,
        theta: f64,
        epsilon: f64,
    ) -> Self {
        let theta = theta.min(largest_tilt(epsilon));
        let here = total(parts, direction, theta);
        let moved = |by: f64| total(parts, direction, theta + by).log - here.log;
        // Chernoff bounds Pr[L ≥ l] ≤ exp(K(θ + s) − K(θ) − s l), and the same below, at the best of a few s.
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
        let n_releases: f64 = parts.iter().map(|part| part.count).sum();
        // Rounding adds (θ + θ²) h²/12 to each ln E exp(θ L) while h(1 + θ) is small, and h to a loss at most.
        let wanted = TOLERANCE * epsilon.max(1e-3 * (top - bottom)) / n_releases;
        let fine = (12.0 * wanted / (1.0 + theta))
            .sqrt()
            .min(1.0 / (1.0 + theta))
            .max(wanted);
        Self {
            direction,
            theta,
            bottom,
            top,
            fine,
            chernoff,
            log_delta: log_delta(here.log, theta, epsilon).max(-700.0),
        }
    }

    /// Where the tilted mean is `epsilon`, or untilted if the mean is above it.
    pub(super) fn around(parts: &[Subsampled], direction: Direction, epsilon: f64) -> Self {
        let mean = |theta: f64| -> Moment { total(parts, direction, theta) };
        if mean(0.0).mean >= epsilon {
            return Self {
                log_delta: -1.0,
                ..Self::new(parts, direction, 0.0, epsilon)
            };
        }
        let mut high = 1.0;
        while mean(high).mean < epsilon && high < largest_tilt(epsilon) {
            high *= 4.0;
        }
        let mut low = 0.0;
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if mean(middle).mean < epsilon {
                low = middle;
            } else {
                high = middle;
            }
        }
        Self::new(parts, direction, low, epsilon)
    }

    /// Whether all of it are numbers.
    pub(super) fn is_finite(&self) -> bool {
        (self.bottom + self.top + self.fine + self.theta).is_finite() && self.top > self.bottom
    }

    /// From end to end.
    pub(super) fn width(&self) -> f64 {
        self.top - self.bottom
    }

    /// The length of the transform that it needs, a power of two.
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
