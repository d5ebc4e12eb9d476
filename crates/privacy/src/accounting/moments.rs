//! The paper's moments accountant.

use super::accountant::{Accountant, AccountantKind, Unproved, UnsupportedEvent};
use super::composition::Composition;
use super::event::{Delta, PrivacyEvent};
use super::renyi::rounded_up;
use super::subsampled::{Subsampled, log_sum_exp};

/// The largest λ that the paper's accountant evaluates (Abadi et al. 2016).
const MAX_LAMBDA: u32 = 32;

/// The moments accountant that DP-FTS-DE uses (after Abadi et al. 2016), with zero-out adjacency
/// and Poisson sampling.
///
/// ε = min over λ = 1..32 of (Σ_t ln A_{λ+1} + ln(1/δ))/λ,
/// A_a = Σ_k C(a, k) (1 − q)^{a−k} q^k exp((k² − k)/(2z²)).
/// This accountant is looser than the Rényi accountant: it evaluates the same divergences only at
/// integer orders, and its conversion is cruder.
#[derive(Clone, Debug, Default)]
pub struct MomentsAccountant {
    events: Composition,
}

impl MomentsAccountant {
    /// Creates an accountant with no releases yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns (λ, Σ_t ln A_{λ+1}) for each λ.
    fn log_moments(&self) -> Result<impl Iterator<Item = (f64, f64)>, Unproved> {
        let parts = self.events.parts()?;
        Ok((1..=MAX_LAMBDA).map(move |lambda| {
            let sum = parts.iter().map(|part| part.count * log_moment(part, lambda + 1));
            (f64::from(lambda), rounded_up(sum.sum()))
        }))
    }
}

impl Accountant for MomentsAccountant {
    fn kind(&self) -> AccountantKind {
        AccountantKind::Moments
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
        let defect = self.events.defect();
        let log_delta = delta.get().ln() - defect;
        let epsilon = self
            .log_moments()?
            .map(|(lambda, moment)| (moment - log_delta) / lambda)
            .fold(f64::INFINITY, f64::min);
        if epsilon.is_finite() {
            Ok(rounded_up(epsilon + 2.0 * defect))
        } else {
            Err(Unproved::NoFiniteEpsilon { accountant: self.kind(), delta: delta.get() })
        }
    }

    fn delta(&self, epsilon: f64) -> Result<f64, Unproved> {
        Unproved::check(epsilon)?;
        if self.n_releases() == 0 {
            return Ok(0.0);
        }
        let defect = self.events.defect();
        let log_delta = self
            .log_moments()?
            .map(|(lambda, moment)| moment - lambda * (epsilon - 2.0 * defect))
            .fold(0.0, f64::min);
        Ok(rounded_up((log_delta + defect).exp()).min(1.0))
    }
}

/// Returns ln A_order, at least 0.
fn log_moment(part: &Subsampled, order: u32) -> f64 {
    let (q, z) = (part.rate, part.multiplier);
    let exponent = |k: f64| 0.5 * k * (k - 1.0) / z / z;
    let a = f64::from(order);
    if q >= 1.0 {
        return exponent(a);
    }
    let mut log_binomial = 0.0;
    let mut terms = Vec::with_capacity(order as usize + 1);
    for k in 0..=order {
        let k = f64::from(k);
        terms.push(log_binomial + (a - k) * (-q).ln_1p() + k * q.ln() + exponent(k));
        log_binomial += ((a - k) / (k + 1.0)).ln();
    }
    // The binomial weights sum to 1, so A − 1 is the sum of the excesses of the terms k ≥ 2, which
    // are non-negative.
    let excess: f64 = (2..=order as usize)
        .map(|k| (terms[k] - exponent(k as f64)).exp() * exponent(k as f64).exp_m1())
        .sum();
    if excess < 1.0 { excess.ln_1p() } else { log_sum_exp(&terms) }
}
