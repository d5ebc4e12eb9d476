//! Privacy loss distributions: the accountant of the reported figure.

mod composed_loss;
mod fft;
mod lattice_loss;
mod sketch;
mod window;

use super::accountant::{Accountant, AccountantKind, Unproved, UnsupportedEvent};
use super::composition::{Composition, Representative, gathered};
use super::event::{Delta, PrivacyEvent};
use super::renyi::{rounded_up, smallest_delta, smallest_epsilon};
use super::subsampled::{Direction, Subsampled};
use composed_loss::{ComposedLoss, Summand, compose};
use fft::Fft;
use lattice_loss::{LatticeLoss, Rounding};
use sketch::Sketch;
use window::Window;

/// Different pairs (q, z) that are composed one by one; more are gathered in classes.
const CLASSES: usize = 512;
/// The same while a window is looked for.
const FEW_CLASSES: usize = 32;

/// Privacy loss distribution accountant: zero-out adjacency, Poisson sampling.
///
/// ε is the larger of both directions of the dominating pair (1 − q) N(0, z²) + q N(1, z²) against N(0, z²), each composed on
/// a lattice of losses by a discrete Fourier transform. Losses are rounded to a pair that dominates, tails are counted as
/// infinite losses, and aliasing and rounding are bounded and added: never below the truth (INV-14), and in the tests within
/// 0.1 % of it. The argument is in `ACCOUNTING.md`.
#[derive(Clone, Debug, Default)]
pub struct PldAccountant {
    events: Composition,
}

/// Numbers that the ε of the composed dominating pair surely lies between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Not above it.
    pub lower: f64,
    /// Not below it: what [`Accountant::epsilon`] gives.
    pub upper: f64,
}

impl PldAccountant {
    /// Before the first release.
    pub fn new() -> Self {
        Self::default()
    }

    /// ε from both sides: the same computation with losses rounded down too.
    ///
    /// The lower end says how tight the accountant is; it is no guarantee. Discrete noise stands in it for the continuous noise that
    /// it is reduced to, and different events in classes for the class.
    ///
    /// # Errors
    /// If no finite ε is proved.
    pub fn epsilon_bracket(&self, delta: Delta) -> Result<Bracket, Unproved> {
        Ok(Bracket {
            lower: self.bound(delta, Rounding::Down)?,
            upper: self.bound(delta, Rounding::Up)?,
        })
    }

    fn bound(&self, delta: Delta, rounding: Rounding) -> Result<f64, Unproved> {
        // An agent that is never sampled has no loss at all.
        if self.events.expected_participations() <= delta.get() {
            return Ok(0.0);
        }
        let all = self.events.parts()?;
        let parts = gathered(&all, CLASSES, Representative::Worst);
        let few = gathered(&parts, FEW_CLASSES, Representative::Mean);
        let defect = self.events.defect();
        let log_delta = delta.get().ln() - defect;
        let renyi = |way| smallest_epsilon(&all, way, log_delta);
        let reach = reach(&all, log_delta);
        let mut largest = 0.0_f64;
        for way in Direction::BOTH {
            let limit = largest_loss(&parts, way);
            // What is proved without composing distributions is often enough to see that the first direction costs more.
            if way == Direction::Add && renyi(way).min(limit) <= largest {
                continue;
            }
            let sketch = Sketch::new(&few, way, reach);
            let within = |window: &Window| {
                let law = composed(&parts, window, rounding, reach);
                law.and_then(|law| law.epsilon(log_delta))
            };
            let window = Window::at_delta(&sketch, log_delta);
            let (mut expected, mut epsilon) = (window.epsilon, within(&window));
            for _ in 0..3 {
                // Where the order's bound is far off, so were the tilt and the lattice.
                let Some(found) = epsilon.filter(|found| (1e-12..0.7 * expected).contains(found))
                else {
                    break;
                };
                expected = found;
                let better = within(&Window::at_epsilon(&sketch, expected));
                epsilon = better.map_or(epsilon, |better| match rounding {
                    Rounding::Up => Some(better.min(found)),
                    Rounding::Down => Some(better.max(found)),
                });
            }
            let mut epsilon = epsilon.map_or(limit, |epsilon| epsilon.min(limit));
            if parts.len() < all.len() && rounding == Rounding::Up {
                // Classes are coarse where many rates meet many multipliers; the Rényi bound needs none.
                let renyi = renyi(way);
                if renyi.is_finite() {
                    epsilon = epsilon.min(renyi.max(0.0));
                }
            }
            if !epsilon.is_finite() {
                return Err(Unproved::NoFiniteEpsilon {
                    accountant: AccountantKind::Pld,
                    delta: delta.get(),
                });
            }
            largest = largest.max(epsilon);
        }
        match rounding {
            Rounding::Up => Ok(rounded_up(largest + 2.0 * defect)),
            Rounding::Down => Ok(largest),
        }
    }
}

/// Returns an upper bound on the loss of all releases: infinite for [`Direction::Remove`]; for [`Direction::Add`] the
/// sum of ln(Q/P) ≤ −ln(1 − q) over them.
fn largest_loss(parts: &[Subsampled], direction: Direction) -> f64 {
    match direction {
        Direction::Remove => f64::INFINITY,
        Direction::Add => {
            let losses = parts.iter().map(|part| -part.count * (-part.rate).ln_1p());
            losses.sum::<f64>() * (1.0 + 1e-9)
        }
    }
}

/// Returns the number of standard deviations that are looked at: what lies beyond, exp(−reach²/2) for each release, is
/// e^−16 of δ together.
fn reach(parts: &[Subsampled], log_delta: f64) -> f64 {
    let n_releases: f64 = parts.iter().map(|part| part.count).sum();
    (2.0 * (n_releases.ln() - log_delta + 16.0)).sqrt()
}

/// One direction composed on a lattice that fits its window; none if that is not made of numbers.
fn composed(
    parts: &[Subsampled],
    window: &Window,
    rounding: Rounding,
    reach: f64,
) -> Option<ComposedLoss> {
    if !window.is_finite() {
        return None;
    }
    let len = window.len();
    let step = window.width() / len as f64;
    let (way, theta) = (window.direction, window.theta);
    let law = |part| match rounding {
        Rounding::Up => LatticeLoss::rounded_up(part, way, step, reach),
        Rounding::Down => LatticeLoss::rounded_down(part, way, step, reach, theta),
    };
    let summand = Summand {
        losses: parts.iter().map(law).collect(),
        counts: parts.iter().map(|part| part.count).collect(),
        theta,
        bottom: window.bottom,
        chernoff: window.chernoff,
    };
    Some(compose(&Fft::new(len), &summand, rounding))
}

impl Accountant for PldAccountant {
    fn kind(&self) -> AccountantKind {
        AccountantKind::Pld
    }

    fn compose(&mut self, event: &PrivacyEvent, count: u64) -> Result<(), UnsupportedEvent> {
        self.events.add(self.kind(), event, count)
    }

    fn n_releases(&self) -> u64 {
        self.events.n_releases()
    }

    fn epsilon(&self, delta: Delta) -> Result<f64, Unproved> {
        if self.n_releases() == 0 {
            return Ok(0.0);
        }
        self.bound(delta, Rounding::Up)
    }

    fn delta(&self, epsilon: f64) -> Result<f64, Unproved> {
        Unproved::check(epsilon)?;
        if self.n_releases() == 0 {
            return Ok(0.0);
        }
        let most = self.events.expected_participations().min(1.0);
        let parts = gathered(&self.events.parts()?, CLASSES, Representative::Worst);
        let few = gathered(&parts, FEW_CLASSES, Representative::Mean);
        let defect = self.events.defect();
        let epsilon = (epsilon - 2.0 * defect).max(0.0);
        let mut largest = f64::NEG_INFINITY;
        for way in Direction::BOTH {
            let known = smallest_delta(&parts, way, epsilon);
            if epsilon >= largest_loss(&parts, way) || known <= largest {
                continue;
            }
            let at = |scale: f64| {
                let reach = reach(&parts, scale);
                let window = Window::at_epsilon(&Sketch::new(&few, way, reach), epsilon);
                let law = composed(&parts, &window, Rounding::Up, reach);
                law.and_then(|law| law.log_delta(epsilon))
            };
            let mut scale = known.max(-700.0);
            let mut found = at(scale);
            for _ in 0..3 {
                // Where the Rényi bound is far off, less is to be left to infinity.
                let Some(lower) = found.filter(|&found| found < scale - 3.0) else {
                    break;
                };
                scale = (lower - 3.0).max(-700.0);
                found = at(scale).map(|again| again.min(lower));
            }
            let Some(log_delta) = found else {
                return Ok(most);
            };
            largest = largest.max(log_delta);
        }
        let delta = rounded_up((largest + defect).exp()).max(f64::MIN_POSITIVE);
        Ok(delta.min(most))
    }
}
