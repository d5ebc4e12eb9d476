//! Rényi divergences of the subsampled Gaussian at real orders, and the conversion to (ε, δ).

use super::accountant::{Accountant, AccountantKind, Unproved, UnsupportedEvent};
use super::composition::{Composition, Representative, gathered};
use super::event::{Delta, PrivacyEvent};
use super::moment::total;
use super::subsampled::{Direction, Subsampled};

/// Maximum number of distinct releases used to search for the order. The order found is then
/// applied to all releases.
const CLASSES: usize = 32;
/// The smallest and largest θ; the order is α = 1 + θ.
const ORDERS: (f64, f64) = (1e-9, 1e15);

/// Rényi accountant, with zero-out adjacency and Poisson sampling. The order is optimized over the
/// reals.
///
/// The divergence of order α is integrated numerically with an error bound, in both directions. The
/// divergences of several releases add up (Mironov 2017). Conversion:
/// ε = D_α + ln((α − 1)/α) − (ln δ + ln α)/(α − 1) (Canonne, Kamath and Steinke 2020; Balle et al.
/// 2020).
#[derive(Clone, Debug, Default)]
pub struct RenyiAccountant {
    events: Composition,
}

impl RenyiAccountant {
    /// Creates an accountant with no releases yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an upper bound on the Rényi divergence of `order` > 1 for all releases together: the
    /// larger value of the two directions.
    ///
    /// # Errors
    /// If the noise is too small to be evaluated.
    pub fn divergence(&self, order: f64) -> Result<f64, Unproved> {
        let parts = self.events.parts()?;
        let theta = order - 1.0;
        let both = Direction::BOTH.map(|direction| total(&parts, direction, theta).log / theta);
        Ok(both[0].max(both[1]))
    }
}

impl Accountant for RenyiAccountant {
    fn kind(&self) -> AccountantKind {
        AccountantKind::Renyi
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
        let parts = self.events.parts()?;
        let defect = self.events.defect();
        let log_delta = delta.get().ln() - defect;
        let both = Direction::BOTH.map(|way| smallest_epsilon(&parts, way, log_delta));
        if both.iter().all(|epsilon| epsilon.is_finite()) {
            Ok(rounded_up(both[0].max(both[1]).max(0.0) + 2.0 * defect))
        } else {
            Err(Unproved::NoFiniteEpsilon { accountant: self.kind(), delta: delta.get() })
        }
    }

    fn delta(&self, epsilon: f64) -> Result<f64, Unproved> {
        Unproved::check(epsilon)?;
        if self.n_releases() == 0 {
            return Ok(0.0);
        }
        let parts = self.events.parts()?;
        let defect = self.events.defect();
        let epsilon = epsilon - 2.0 * defect;
        let both = Direction::BOTH.map(|way| smallest_delta(&parts, way, epsilon));
        if both.iter().any(|log_delta| log_delta.is_nan()) {
            return Ok(1.0);
        }
        Ok(rounded_up((both[0].max(both[1]) + defect).exp()).min(1.0))
    }
}

/// Rounds up the result of a few operations, so that it is at least the exact result.
pub(super) fn rounded_up(value: f64) -> f64 {
    if value > 0.0 { value * (1.0 + 1e-12) } else { value }
}

/// Returns the smallest ε over all orders, in one direction. If it is negative, (0, δ) holds.
pub(super) fn smallest_epsilon(parts: &[Subsampled], direction: Direction, log_delta: f64) -> f64 {
    let of = |parts: &[Subsampled], theta: f64| {
        converted(total(parts, direction, theta).log, theta, log_delta)
    };
    let classes = gathered(parts, CLASSES, Representative::Mean);
    // The optimal order for a Gaussian loss with the same variance.
    let variance = total(&classes, direction, 0.0).variance.max(1e-290);
    let guess = (2.0 * (-log_delta).max(0.1) / variance).sqrt();
    let theta = smallest(|log_theta| of(&classes, log_theta.exp()), guess);
    of(parts, theta)
}

/// Returns the smallest ln δ at `epsilon` over all orders, in one direction; at most 0.
pub(super) fn smallest_delta(parts: &[Subsampled], direction: Direction, epsilon: f64) -> f64 {
    let of = |parts: &[Subsampled], theta: f64| {
        log_delta(total(parts, direction, theta).log, theta, epsilon)
    };
    let classes = gathered(parts, CLASSES, Representative::Mean);
    let variance = total(&classes, direction, 0.0).variance.max(1e-290);
    let guess = epsilon.max(1e-9) / variance;
    let theta = smallest(|log_theta| of(&classes, log_theta.exp()), guess);
    let least = of(parts, theta);
    if least > 0.0 { 0.0 } else { least }
}

/// ε = K/θ + ln(θ/(1 + θ)) − (ln δ + ln(1 + θ))/θ.
pub(super) fn converted(moment: f64, theta: f64, log_delta: f64) -> f64 {
    (moment - log_delta - theta.ln_1p()) / theta - theta.recip().ln_1p()
}

/// ln δ = K − θ ε − θ ln((1 + θ)/θ) − ln(1 + θ): [`converted`], solved for δ.
pub(super) fn log_delta(moment: f64, theta: f64, epsilon: f64) -> f64 {
    moment - theta * (epsilon + theta.recip().ln_1p()) - theta.ln_1p()
}

/// Returns the θ that minimizes `at`(ln θ): descends from `guess` in steps of a factor of 2, then
/// uses golden-section search. Every value is a valid bound, so missing the minimum costs only
/// tightness.
pub(super) fn smallest(at: impl Fn(f64) -> f64, guess: f64) -> f64 {
    let (lowest, highest) = (ORDERS.0.ln(), ORDERS.1.ln());
    let mut step = std::f64::consts::LN_2;
    let start = guess.ln().clamp(lowest, highest);
    let mut best = (start, at(start));
    for way in [-1.0, 1.0] {
        let mut here = start;
        while (lowest..=highest).contains(&(here + way * step)) {
            here += way * step;
            let value = at(here);
            // If the moment overflows, the order is too large.
            let overflows = way < 0.0 && !best.1.is_finite();
            if value < best.1 || overflows {
                best = (here, value);
            } else {
                break;
            }
        }
        if best.0 < start {
            break;
        }
    }
    // The minimum is within one step of the best point.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut from, mut to) = ((best.0 - step).max(lowest), (best.0 + step).min(highest));
    let mut inner = [to - GOLDEN * (to - from), from + GOLDEN * (to - from)];
    let mut values = inner.map(&at);
    while step > 1e-3 {
        for k in 0..2 {
            if values[k] < best.1 {
                best = (inner[k], values[k]);
            }
        }
        if values[0] < values[1] {
            to = inner[1];
            inner = [to - GOLDEN * (to - from), inner[0]];
            values = [at(inner[0]), values[0]];
        } else {
            from = inner[0];
            inner = [inner[1], from + GOLDEN * (to - from)];
            values = [values[1], at(inner[1])];
        }
        step = to - from;
    }
    best.0.exp()
}
