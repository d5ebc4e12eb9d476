//! The accountant for samples of a fixed size, drawn without replacement.

use std::collections::BTreeMap;

use super::accountant::{Accountant, AccountantKind, Unproved, UnsupportedEvent, n_releases_after};
use super::composition::Reduced;
use super::event::{Delta, InvalidParameter, PrivacyEvent, Sampling, invalid};
use super::renyi::{converted, rounded_up};

/// The largest order evaluated.
const MAX_ORDER: usize = 256;

/// Accountant for samples of a fixed size, with replace-one adjacency and Rényi divergences at
/// integer orders.
///
/// Replacing one agent's vectors moves a sum by at most 2C, so a release with noise z C has the
/// multiplier z/2 here (an event's multiplier is always relative to C).
///
/// Let ε(j) = 2j/z² be the unsampled divergence and γ the sampling ratio. A release satisfies
/// (α − 1) D_α ≤ ln(1 + γ² C(α, 2) min{4(e^{ε(2)} − 1), 2e^{ε(2)}} + Σ_{j=3}^α 2 γ^j C(α, j) e^{(j − 1) ε(j)})
/// (Wang, Balle and Kasiviswanathan 2019), and (α − 1) D_α never exceeds the unsampled
/// (α − 1) ε(α). The bounds are interpolated linearly between integer orders, because (α − 1) D_α
/// is convex in α. The conversion to (ε, δ) is that of the Rényi accountant.
#[derive(Clone, Debug, Default)]
pub struct FixedSizeAccountant {
    /// Number of releases for each (`n_sampled`, `n_agents`, bits of z).
    counts: BTreeMap<(u32, u32, u64), u64>,
    n_releases: u64,
    defect: f64,
}

impl FixedSizeAccountant {
    /// Creates an accountant with no releases yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an upper bound on the Rényi divergence of all releases together. `order` is from 2
    /// to 256.
    ///
    /// # Errors
    /// If the order is out of range.
    pub fn divergence(&self, order: u32) -> Result<f64, InvalidParameter> {
        let index = order as usize;
        if !(2..=MAX_ORDER).contains(&index) {
            return Err(invalid("order", order, "an integer from 2 to 256"));
        }
        Ok(self.log_moments()[index - 1] / f64::from(order - 1))
    }

    /// Returns bounds on (α − 1) D_α for all releases together, for α = 1, 2, ….
    fn log_moments(&self) -> Vec<f64> {
        let mut sums = vec![0.0; MAX_ORDER];
        for (&(n_sampled, n_agents, multiplier), &count) in &self.counts {
            let share = f64::from(n_sampled) / f64::from(n_agents);
            let one = log_moments(share, f64::from_bits(multiplier));
            for (sum, one) in sums.iter_mut().zip(one) {
                *sum += count as f64 * one;
            }
        }
        sums.into_iter().map(rounded_up).collect()
    }
}

/// Returns bounds on (α − 1) D_α for one release, for α = 1, 2, …; a `share` of 1 means no
/// sampling.
fn log_moments(share: f64, multiplier: f64) -> Vec<f64> {
    let unit = 2.0 / multiplier / multiplier;
    // (j − 1) ε(j)
    let unsampled = |j: f64| (j - 1.0) * j * unit;
    let two = 2.0 * unit;
    let second = (4.0 * two.exp_m1()).ln().min(2.0_f64.ln() + two);
    let mut found = vec![0.0];
    for order in 2..=MAX_ORDER {
        let a = order as f64;
        if share >= 1.0 {
            found.push(unsampled(a));
            continue;
        }
        let mut log_binomial = (a * (a - 1.0) / 2.0).ln();
        let mut terms = Vec::with_capacity(order);
        terms.push(log_binomial + 2.0 * share.ln() + second);
        for j in 3..=order {
            let j = j as f64;
            log_binomial += ((a - j + 1.0) / j).ln();
            terms.push(log_binomial + j * share.ln() + 2.0_f64.ln() + unsampled(j));
        }
        let excess = super::subsampled::log_sum_exp(&terms);
        // ln(1 + e^excess)
        let sampled = excess.max(0.0) + (-excess.abs()).exp().ln_1p();
        found.push(sampled.min(unsampled(a)));
    }
    found
}

/// Returns (θ, K) for the orders α = 1 + θ: all integers, with steps of a tenth between the small
/// ones.
fn orders(log_moments: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    log_moments.windows(2).enumerate().flat_map(|(index, ends)| {
        let n_steps = if index < 12 { 10 } else { 1 };
        (1..=n_steps).map(move |step| {
            let share = f64::from(step) / f64::from(n_steps);
            let moment = (1.0 - share) * ends[0] + share * ends[1];
            (index as f64 + share, rounded_up(moment))
        })
    })
}

impl Accountant for FixedSizeAccountant {
    fn kind(&self) -> AccountantKind {
        AccountantKind::FixedSize
    }

    fn compose(&mut self, event: &PrivacyEvent, count: u64) -> Result<(), UnsupportedEvent> {
        let Sampling::WithoutReplacement { n_sampled, n_agents } = event.sampling else {
            return Err(self.kind().refuses(&event.sampling));
        };
        if n_sampled == 0 || n_sampled > n_agents {
            let expected = "at least 1 and at most the number of agents";
            return Err(invalid("sample size", n_sampled, expected).into());
        }
        let reduced = Reduced::of(&event.noise)?;
        let n_releases = n_releases_after(self.n_releases, count)?;
        if count == 0 {
            return Ok(());
        }
        let key = (n_sampled, n_agents, reduced.multiplier.to_bits());
        *self.counts.entry(key).or_default() += count;
        self.n_releases = n_releases;
        self.defect += reduced.defect * count as f64;
        Ok(())
    }

    fn n_releases(&self) -> u64 {
        self.n_releases
    }

    fn epsilon(&self, delta: Delta) -> Result<f64, Unproved> {
        if self.n_releases == 0 {
            return Ok(0.0);
        }
        let defect = rounded_up(self.defect);
        let log_delta = delta.get().ln() - defect;
        let epsilon = orders(&self.log_moments())
            .map(|(theta, moment)| converted(moment, theta, log_delta))
            .fold(f64::INFINITY, f64::min);
        if epsilon.is_finite() {
            Ok(rounded_up(epsilon.max(0.0) + 2.0 * defect))
        } else {
            Err(Unproved::NoFiniteEpsilon { accountant: self.kind(), delta: delta.get() })
        }
    }

    fn delta(&self, epsilon: f64) -> Result<f64, Unproved> {
        Unproved::check(epsilon)?;
        if self.n_releases == 0 {
            return Ok(0.0);
        }
        let defect = rounded_up(self.defect);
        let log_delta = orders(&self.log_moments())
            .map(|(theta, moment)| super::renyi::log_delta(moment, theta, epsilon - 2.0 * defect))
            .fold(0.0, f64::min);
        Ok(rounded_up((log_delta + defect).exp()).min(1.0))
    }
}
