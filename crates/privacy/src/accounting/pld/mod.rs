//! Privacy loss distributions: the accountant for the reported figure.

mod composed_loss;
mod fft;
mod gaussian;
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
use gaussian::Gaussian;
use lattice_loss::{LatticeLoss, Rounding};
use sketch::Sketch;
use window::Window;

/// Maximum number of distinct pairs (q, z) that are composed individually. If there are more, they
/// are grouped into classes.
const CLASSES: usize = 512;
/// The same limit for the search for a window.
const FEW_CLASSES: usize = 32;
/// Below this multiplier, no lattice of losses is built, because it would have more than 100,000
/// points.
const LATTICE_MULTIPLIER: f64 = 1e-3;

/// Privacy loss distribution accountant, with zero-out adjacency and Poisson sampling.
///
/// ε is the larger value over the two directions of the dominating pair
/// (1 − q) N(0, z²) + q N(1, z²) against N(0, z²). Each direction is composed on a lattice of
/// losses by a discrete Fourier transform.
///
/// Losses are rounded to a dominating pair, tails count as infinite losses, and the errors of
/// aliasing and rounding are bounded and added. The result is never below the true ε (INV-14), and
/// in the tests it is within 0.1 % of the true ε. See `ACCOUNTING.md` for the proof.
#[derive(Clone, Debug, Default)]
pub struct PldAccountant {
    events: Composition,
}

/// Proved bounds on the ε of the composition of the dominating pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound, the result of [`Accountant::epsilon`].
    pub upper: f64,
}

impl PldAccountant {
    /// Creates an accountant with no releases yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns bounds on ε from both sides: the same computation, with losses also rounded down.
    ///
    /// The lower bound shows how tight the accountant is; it is not a guarantee. It represents
    /// discrete noise by its continuous reduction, and all events of a class by one event.
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
        // An agent that is never sampled has no loss.
        if self.events.expected_participations() <= delta.get() {
            return Ok(0.0);
        }
        let all = self.events.parts()?;
        if let Some(epsilon) = self.bound_of_little_noise(&all, delta, rounding) {
            return epsilon;
        }
        let parts = gathered(&all, CLASSES, Representative::Worst);
        let few = gathered(&parts, FEW_CLASSES, Representative::Mean);
        let defect = self.events.defect();
        let log_delta = delta.get().ln() - defect;
        let renyi = |way| smallest_epsilon(&all, way, log_delta);
        let reach = reach(&all, log_delta);
        let mut largest = 0.0_f64;
        for way in Direction::BOTH {
            let limit = largest_loss(&parts, way);
            // The Rényi bound needs no composition, and often shows that the first direction costs
            // more.
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
                // If the bound at the chosen order is far off, so are the tilt and the lattice.
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
            let is_coarse = epsilon.is_none() || parts.len() < all.len();
            let mut epsilon = epsilon.map_or(limit, |epsilon| epsilon.min(limit));
            if is_coarse && rounding == Rounding::Up {
                // If there are many rates and many multipliers, the classes are coarse, and the
                // window may miss ε. The Rényi bound needs neither classes nor a window.
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

impl PldAccountant {
    /// Returns ε without a lattice if the noise is so small that a lattice would need too many
    /// points: in closed form for a single Gaussian, or from the Rényi bound if there are also
    /// sampled releases. `None` if a lattice is feasible.
    fn bound_of_little_noise(
        &self,
        all: &[Subsampled],
        delta: Delta,
        rounding: Rounding,
    ) -> Option<Result<f64, Unproved>> {
        let defect = self.events.defect();
        let log_delta = delta.get().ln() - defect;
        let exact = Gaussian::of(all).and_then(|alone| alone.epsilon(log_delta, rounding));
        let epsilon = match (exact, rounding) {
            (Some(epsilon), _) => epsilon,
            (None, _) if all.iter().all(|part| part.multiplier >= LATTICE_MULTIPLIER) => {
                return None;
            }
            (None, Rounding::Up) => {
                let both = Direction::BOTH.map(|way| smallest_epsilon(all, way, log_delta));
                both[0].max(both[1]).max(0.0)
            }
            // The releases with little noise have q = 1 and form one Gaussian; the other releases
            // only add to the cost.
            (None, Rounding::Down) => {
                let little = all.iter().filter(|part| part.multiplier < LATTICE_MULTIPLIER);
                let little: Vec<Subsampled> = little.copied().collect();
                let bound = Gaussian::of(&little);
                bound.and_then(|alone| alone.epsilon(log_delta, rounding)).unwrap_or(0.0)
            }
        };
        if !epsilon.is_finite() {
            return Some(Err(Unproved::NoFiniteEpsilon {
                accountant: AccountantKind::Pld,
                delta: delta.get(),
            }));
        }
        Some(Ok(match rounding {
            Rounding::Up => rounded_up(epsilon + 2.0 * defect),
            Rounding::Down => epsilon,
        }))
    }

    /// Like [`Self::bound_of_little_noise`], for ln δ at `epsilon`, rounded up.
    fn log_delta_of_little_noise(all: &[Subsampled], epsilon: f64) -> Option<f64> {
        let exact = Gaussian::of(all).and_then(|alone| alone.log_delta(epsilon));
        if exact.is_some() || all.iter().all(|part| part.multiplier >= LATTICE_MULTIPLIER) {
            return exact;
        }
        let both = Direction::BOTH.map(|way| smallest_delta(all, way, epsilon));
        let worst = both[0].max(both[1]);
        Some(if both.iter().any(|log_delta| log_delta.is_nan()) { 0.0 } else { worst })
    }
}

/// Returns an upper bound on the loss of all releases: infinite for [`Direction::Remove`]; for
/// [`Direction::Add`] the
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

/// Returns the number of standard deviations to include. The mass beyond the reach, exp(−reach²/2)
/// for each release, adds up to e^−16 of δ.
fn reach(parts: &[Subsampled], log_delta: f64) -> f64 {
    let n_releases: f64 = parts.iter().map(|part| part.count).sum();
    (2.0 * (n_releases.ln() - log_delta + 16.0)).sqrt()
}

/// Composes one direction on a lattice that fits its window; `None` if the window is not finite.
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
        let all = self.events.parts()?;
        let defect = self.events.defect();
        let epsilon = (epsilon - 2.0 * defect).max(0.0);
        let delta_of = |log_delta: f64| {
            let delta = rounded_up((log_delta + defect).exp()).max(f64::MIN_POSITIVE);
            delta.min(most)
        };
        if let Some(log_delta) = Self::log_delta_of_little_noise(&all, epsilon) {
            return Ok(delta_of(log_delta));
        }
        let parts = gathered(&all, CLASSES, Representative::Worst);
        let few = gathered(&parts, FEW_CLASSES, Representative::Mean);
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
                // If the Rényi bound is far off, treat less mass as infinite losses.
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
        Ok(delta_of(largest))
    }
}
