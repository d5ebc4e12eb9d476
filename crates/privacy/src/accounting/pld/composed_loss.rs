//! The distribution of a sum of many losses, by discrete Fourier transforms.
//!
//! Losses are first tilted by exp(θ L), so that the sum is likely to be near the requested ε. Even
//! a δ of 1e−300 is then a sum of terms that are not small. A bound on the transform's error is
//! added (or subtracted).

use super::fft::{Complex, Fft};
use super::lattice_loss::{LatticeLoss, MASS_DEFECT, Rounding};

/// Spectral values whose power is below exp(−`NEGLIGIBLE`) are dropped, and that bound is added to
/// the error.
const NEGLIGIBLE: f64 = 80.0;

/// The loss distributions to compose, in one direction.
pub(super) struct Summand {
    /// One distribution for each kind of release, all on lattices with the same step.
    pub(super) losses: Vec<LatticeLoss>,
    /// Number of releases of each kind.
    pub(super) counts: Vec<f64>,
    /// θ ≥ 0.
    pub(super) theta: f64,
    /// The approximate lower end of the window.
    pub(super) bottom: f64,
    /// Tilts that bound the mass above and below the window (Chernoff).
    pub(super) chernoff: (f64, f64),
}

impl Summand {
    fn step(&self) -> f64 {
        self.losses.first().map_or(1.0, |loss| loss.step)
    }

    /// Returns the sum, over all releases, of the loss at point 0 of the release's lattice.
    fn shift(&self) -> f64 {
        let each = self.losses.iter().zip(&self.counts);
        each.map(|(loss, count)| count * loss.offset).sum()
    }

    /// Returns the window's first point, relative to [`Summand::shift`].
    fn first(&self) -> i64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates; a window is at most a few million steps away"
        )]
        let first = ((self.bottom - self.shift()) / self.step()).floor() as i64;
        first
    }
}

/// The tilted distribution of a sum of losses, restricted to a window.
pub(super) struct ComposedLoss {
    rounding: Rounding,
    step: f64,
    theta: f64,
    /// The window's first point.
    bottom: f64,
    /// Bounds on the tilted probabilities, in the direction of `rounding`.
    masses: Vec<f64>,
    /// Σ ln E exp(θ L): a tilted mass m at l is a probability m exp(`log_moment` − θ l).
    log_moment: f64,
    /// Bounds on the tilted mass above the window and on the mass outside it.
    above: f64,
    outside: f64,
    /// Upper bound on the probability of an infinite loss.
    escaped: f64,
    /// Bound on the error of the logarithm of each mass.
    log_defect: f64,
    /// Bound on the error of the sum of losses.
    loss_defect: f64,
}

/// Composes all releases in one direction. Two kinds of release share one transform, one as the
/// real part and one as the imaginary part.
pub(super) fn compose(fft: &Fft, summand: &Summand, rounding: Rounding) -> ComposedLoss {
    let Summand { losses, counts, theta, .. } = summand;
    let (n, half) = (fft.len(), fft.len() / 2);
    // Bounds |computed − true| for a spectral value, because a tilted distribution sums to 1.
    let gamma = 2.0 * fft.defect();
    let moments: Vec<f64> = losses.iter().map(|loss| loss.log_moment(*theta)).collect();
    let mut product = Product {
        spectrum: vec![Complex::ONE; half + 1],
        sizes: vec![1.0; half + 1],
        rates: vec![0.0; half + 1],
        gamma,
    };
    let mut sequence = vec![Complex::default(); n];
    let mut scratch = sequence.clone();
    let kinds: Vec<usize> = (0..losses.len()).collect();
    for pair in kinds.chunks(2) {
        sequence.fill(Complex::default());
        for (part, &kind) in pair.iter().enumerate() {
            let loss = &losses[kind];
            for (&knot, &log_mass) in loss.knots.iter().zip(&loss.log_masses) {
                let tilted = log_mass + theta * loss.loss(knot) - moments[kind];
                let place = &mut sequence[place(knot, n)];
                let value = if part == 0 { &mut place.re } else { &mut place.im };
                *value += tilted.exp();
            }
        }
        fft.forward(&mut sequence, &mut scratch);
        for k in 0..=half {
            let (here, mirrored) = (sequence[k], sequence[(n - k) % n].conj());
            if let [real, imaginary] = *pair {
                product.take(k, (here + mirrored).scaled(0.5), counts[real]);
                product.take(k, (mirrored - here).turned().scaled(0.5), counts[imaginary]);
            } else {
                product.take(k, here, counts[pair[0]]);
            }
        }
    }
    let missed = product.missed();
    for (k, &value) in product.spectrum.iter().enumerate() {
        sequence[(n - k) % n] = value.conj();
        sequence[k] = value;
    }
    fft.inverse(&mut sequence, &mut scratch);
    let first = summand.first();
    let masses = (0..n as i64).map(|offset| {
        let mass = sequence[place(first.wrapping_add(offset), n)].re;
        match rounding {
            Rounding::Up => mass.max(0.0) + missed,
            Rounding::Down => (mass - missed).max(0.0),
        }
    });
    ComposedLoss::new(summand, &moments, masses.collect(), rounding)
}

/// Returns the index of a lattice point in a cyclic sequence.
fn place(knot: i64, n: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "a remainder modulo the length")]
    let place = knot.rem_euclid(n as i64) as usize;
    place
}

/// Π X^count over the kinds of release, with bounds on the product's error.
struct Product {
    spectrum: Vec<Complex>,
    /// Π (|X| + γ)^count.
    sizes: Vec<f64>,
    /// Σ count/(|X| + γ). The product of γ, this sum and `sizes` bounds |computed − true|.
    rates: Vec<f64>,
    gamma: f64,
}

impl Product {
    /// Multiplies spectral value `k` by `factor`^`count`.
    fn take(&mut self, k: usize, factor: Complex, count: f64) {
        let size = factor.norm() + self.gamma;
        self.rates[k] += count / size;
        if size.ln() * count < -NEGLIGIBLE {
            self.spectrum[k] = Complex::default();
            self.sizes[k] *= (-NEGLIGIBLE).exp();
        } else {
            let (power, size) = powers(factor, size, count);
            self.spectrum[k] = self.spectrum[k] * power;
            self.sizes[k] *= size;
        }
    }

    /// Returns a bound on the error of each term of the inverse transform: the mean error over the
    /// spectrum.
    fn missed(&self) -> f64 {
        let last = self.sizes.len() - 1;
        let mut sum = 0.0;
        for (k, (size, rate)) in self.sizes.iter().zip(&self.rates).enumerate() {
            // The inverse transform itself adds 4 γ, because a spectral value is at most 1.
            let bound = (self.gamma * (rate + 4.0) * size).min(2.0);
            sum += if k == 0 || k == last { bound } else { 2.0 * bound };
        }
        sum / (2.0 * last as f64) * (1.0 + 1e-6) + (-NEGLIGIBLE).exp()
    }
}

/// Returns (value^count, size^count) by repeated squaring.
fn powers(value: Complex, size: f64, count: f64) -> (Complex, f64) {
    #[expect(clippy::cast_possible_truncation, reason = "a count of releases, below 2^32")]
    let mut left = count as u64;
    let (mut square, mut size_square) = (value, size);
    let (mut power, mut size_power) = (Complex::ONE, 1.0);
    while left > 0 {
        if left & 1 == 1 {
            power = power * square;
            size_power *= size_square;
        }
        left >>= 1;
        if left > 0 {
            square = square * square;
            size_square *= size_square;
        }
    }
    (power, size_power)
}

impl ComposedLoss {
    fn new(summand: &Summand, moments: &[f64], masses: Vec<f64>, rounding: Rounding) -> Self {
        let Summand { losses, counts, theta, chernoff, .. } = summand;
        let (mut escaped, mut loss_defect, mut n_releases) = (0.0, 0.0, 0.0);
        let (mut log_moment, mut size) = (0.0, 0.0_f64);
        let (mut log_above, mut log_below) = (0.0, 0.0);
        let step = summand.step();
        for ((loss, &count), &moment) in losses.iter().zip(counts).zip(moments) {
            escaped += count * loss.log_escaped.exp();
            loss_defect += count * loss.loss_defect;
            n_releases += count;
            log_moment += count * moment;
            log_above += count * (loss.log_moment(theta + chernoff.0) - moment);
            log_below += count * (loss.log_moment(theta - chernoff.1) - moment);
            for (&knot, &log_mass) in loss.knots.iter().zip(&loss.log_masses) {
                let tilted = theta * loss.loss(knot);
                if log_mass + tilted - moment > -NEGLIGIBLE {
                    size = size.max(log_mass.abs() + tilted.abs() + moment.abs());
                }
            }
        }
        let bottom = summand.shift() + summand.first() as f64 * step;
        let top = bottom + masses.len() as f64 * step;
        log_above -= chernoff.0 * top;
        log_below += chernoff.1 * bottom;
        // Quadrature errors of the masses, rounding errors of the exponents, and the error of the
        // final sum's exponent.
        let log_defect = n_releases * (MASS_DEFECT + 4.0 * f64::EPSILON * size)
            + 16.0 * f64::EPSILON * (log_moment.abs() + theta * top.abs());
        let slack = 1e-9 + log_defect;
        Self {
            rounding,
            step,
            theta: *theta,
            bottom,
            masses,
            log_moment,
            above: (log_above + slack).exp(),
            outside: (log_above + slack).exp() + (log_below + slack).exp(),
            escaped: escaped * (1.0 + 1e-9),
            log_defect,
            loss_defect,
        }
    }

    /// Returns true if no value overflowed.
    fn is_finite(&self) -> bool {
        let masses: f64 = self.masses.iter().sum();
        let bounds = self.outside + self.above + self.escaped + self.log_defect + self.loss_defect;
        (masses + bounds + self.log_moment).is_finite()
    }

    /// Returns ε with δ(ε) = exp(`log_delta`): an upper bound if rounding up, a lower bound if
    /// rounding down; at least 0. `None` if an infinite loss has probability δ or more, if that ε
    /// lies above the window, or if the window is not finite.
    pub(super) fn epsilon(&self, log_delta: f64) -> Option<f64> {
        if !self.is_finite() {
            return None;
        }
        let delta = log_delta.exp();
        // Logarithm of the largest sum allowed below, relative to exp(log_moment).
        let (target, missing) = match self.rounding {
            Rounding::Up if self.escaped >= delta => return None,
            Rounding::Up => (
                log_delta + (-self.escaped / delta).ln_1p() - self.log_defect - self.log_moment,
                0.0,
            ),
            Rounding::Down => (log_delta + self.log_defect - self.log_moment, self.outside),
        };
        let mut tail = Tail::new(self);
        // INV-14: if the mass above the window alone exceeds δ, ε lies above the window, and the
        // window's end is no bound.
        if self.rounding == Rounding::Up && self.above > (target + self.theta * tail.loss()).exp() {
            return None;
        }
        while let Some(next) = tail.next() {
            // δ(l) exp(θ l) at the point above, and the value allowed there.
            let allowed = (target + self.theta * tail.loss()).exp() + missing;
            if next.at_loss > allowed {
                // Between this point and the one above: D + (1 − e^{−t}) V = allowed at distance t
                // below the latter.
                let allowed = (target + self.theta * (tail.loss() + self.step)).exp() + missing;
                let share = ((allowed - next.above) / next.mean).clamp(0.0, 1.0);
                let t = (-(-share).ln_1p()).min(self.step);
                let epsilon = tail.loss() + self.step - t;
                return Some(match self.rounding {
                    Rounding::Up => (epsilon + self.loss_defect).max(0.0),
                    Rounding::Down => (epsilon - self.loss_defect).max(0.0),
                });
            }
            if tail.loss() <= 0.0 {
                return Some(0.0);
            }
        }
        match self.rounding {
            Rounding::Up => Some((tail.loss() + self.loss_defect).max(0.0)),
            Rounding::Down => Some(0.0),
        }
    }

    /// Returns the logarithm of an upper bound on δ(`epsilon`), if rounding up. `None` if the
    /// window does not contain `epsilon` or is not finite.
    pub(super) fn log_delta(&self, epsilon: f64) -> Option<f64> {
        if !self.is_finite() {
            return None;
        }
        let epsilon = epsilon - self.loss_defect;
        let mut tail = Tail::new(self);
        if tail.loss() < epsilon {
            return None;
        }
        let mut last = Step { at_loss: self.above, above: self.above, mean: 0.0 };
        while let Some(next) = tail.next() {
            last = next;
            if tail.loss() <= epsilon {
                break;
            }
        }
        // Below the window there is no bound: δ would have to be larger than the value at its end.
        if tail.loss() > epsilon {
            return None;
        }
        let top = tail.loss() + self.step;
        let value = last.above - (epsilon - top).exp_m1() * last.mean;
        let log = value.ln() + self.log_moment - self.theta * epsilon.max(tail.loss());
        let at_top = log - self.theta * (top - epsilon.max(tail.loss())) + self.log_defect;
        Some((at_top.exp() + self.escaped).ln())
    }
}

/// Sums over the window from above. At a point l, with masses w:
/// D = Σ_{k > l} w_k e^{−θ(k − l)} (1 − e^{l − k}),  V = Σ_{k ≥ l} w_k e^{−(θ + 1)(k − l)},
/// δ(l) = D exp(K − θ l).
struct Tail<'a> {
    law: &'a ComposedLoss,
    /// The next point is at `index` − 1.
    index: usize,
    delta: f64,
    mean: f64,
    decay: f64,
    fast: f64,
}

/// The result of moving [`Tail`] down by one point.
#[derive(Clone, Copy)]
struct Step {
    /// D at the new point.
    at_loss: f64,
    /// D at the point above the new one.
    above: f64,
    /// V at the point above the new one.
    mean: f64,
}

impl<'a> Tail<'a> {
    fn new(law: &'a ComposedLoss) -> Self {
        Self {
            law,
            index: law.masses.len(),
            delta: match law.rounding {
                Rounding::Up => law.above,
                Rounding::Down => 0.0,
            },
            mean: 0.0,
            decay: (-law.theta * law.step).exp(),
            fast: (-law.step).exp(),
        }
    }

    /// Returns the loss at the current point.
    fn loss(&self) -> f64 {
        self.law.bottom + self.index as f64 * self.law.step
    }

    fn next(&mut self) -> Option<Step> {
        self.index = self.index.checked_sub(1)?;
        let (above, mean) = (self.delta, self.mean);
        self.delta = self.decay * (above + (1.0 - self.fast) * mean);
        self.mean = self.law.masses[self.index] + self.decay * self.fast * mean;
        Some(Step { at_loss: self.delta, above, mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::subsampled::{Direction, Subsampled};

    /// A sum with mean 25 and standard deviation 7 has ε = 54.37 at δ = 1e-5. A window that ends
    /// below it proves nothing, and its end would be far too small a bound.
    #[test]
    fn a_window_below_epsilon_is_no_bound() {
        let part = Subsampled { rate: 1.0, multiplier: 1.0, count: 50.0 };
        let within = |bottom: f64| {
            let summand = Summand {
                losses: vec![LatticeLoss::rounded_up(&part, Direction::Remove, 0.02, 9.0)],
                counts: vec![part.count],
                theta: 0.6,
                bottom,
                chernoff: (0.5, 0.5),
            };
            compose(&Fft::new(8192), &summand, Rounding::Up).epsilon(1e-5_f64.ln())
        };
        let epsilon = within(-40.0).expect("an ε within the window");
        assert!((54.3..54.5).contains(&epsilon), "{epsilon}");
        for bottom in [-400.0, -200.0, -163.0] {
            assert_eq!(within(bottom), None, "{bottom}");
        }
    }
}
