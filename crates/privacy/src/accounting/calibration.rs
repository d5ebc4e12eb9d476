//! Calibration to a budget: the least noise, the most rounds or the largest rate that it allows.

use super::accountant::{AccountantKind, MAX_RELEASES, Unproved, UnsupportedEvent};
use super::composition::MIN_MULTIPLIER;
use super::event::{
    Delta, InvalidParameter, Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate, invalid,
};

/// Relative precision of the results.
const PRECISION: f64 = 1e-4;
/// The noise multipliers searched; with Poisson sampling, the range starts at [`MIN_MULTIPLIER`].
const MULTIPLIERS: (f64, f64) = (1e-9, 1e9);
/// The smallest rate searched.
const LEAST_RATE: f64 = 1e-12;

/// The largest ε allowed at a given δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    epsilon: f64,
    delta: Delta,
}

impl Budget {
    /// Creates a budget after checking `epsilon`.
    ///
    /// # Errors
    /// If `epsilon` is not finite and above 0.
    pub fn new(epsilon: f64, delta: Delta) -> Result<Self, InvalidParameter> {
        if epsilon.is_normal() && epsilon > 0.0 {
            Ok(Self { epsilon, delta })
        } else {
            Err(invalid("epsilon", epsilon, "a finite number above 0"))
        }
    }

    /// Returns the largest ε.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Returns δ.
    pub fn delta(&self) -> Delta {
        self.delta
    }
}

/// A value that stays within a budget, with its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated<T> {
    /// The value.
    pub value: T,
    /// ε evaluated at this value; at most the budget's.
    pub epsilon: f64,
    /// True if the search stopped at its limit, so that the budget might allow more.
    pub is_limit: bool,
}

/// The error if no value can be calibrated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Even the cheapest value exceeds the budget.
    #[error(
        "no {what} keeps epsilon at most {epsilon} at delta = {delta:e} with the accountant \
         {accountant}: even {mildest} costs more; allow a larger epsilon or delta, or change the \
         other settings"
    )]
    Impossible {
        /// The quantity to calibrate.
        what: &'static str,
        /// The cheapest value tried.
        mildest: String,
        /// The budget's ε.
        epsilon: f64,
        /// The budget's δ.
        delta: f64,
        /// The accountant.
        accountant: AccountantKind,
    },
    /// The accountant does not support these events.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedEvent),
    /// No bound is proved for any value tried.
    #[error(transparent)]
    Unproved(#[from] Unproved),
}

/// Returns the smallest noise multiplier with which `rounds` rounds stay within `budget`, to a
/// relative precision of 1e−4. The search stops at 0.05 with Poisson sampling, because no bound is
/// proved below that, and at 1e−9 without it.
///
/// # Errors
/// If no multiplier up to 1e9 suffices, or the accountant does not support the sampling.
pub fn smallest_multiplier(
    kind: AccountantKind,
    sampling: Sampling,
    rounds: u64,
    budget: Budget,
) -> Result<Calibrated<NoiseMultiplier>, CalibrationError> {
    let multiplier = |log: f64| NoiseMultiplier::new(log.exp());
    let cost = |log: f64| -> Result<f64, CalibrationError> {
        let noise = Noise::Gaussian(multiplier(log).map_err(UnsupportedEvent::from)?);
        epsilon(kind, &PrivacyEvent { sampling, noise }, rounds, budget)
    };
    let least = match sampling {
        Sampling::Poisson(rate) if rate.get() < 1.0 => MIN_MULTIPLIER,
        Sampling::Poisson(_) | Sampling::WithoutReplacement { .. } => MULTIPLIERS.0,
    };
    let (least, most) = (least.ln(), MULTIPLIERS.1.ln());
    // More noise costs less, so the search starts at the largest multiplier and decreases it.
    let found = search(&cost, most, least, 0.0, budget.epsilon)?;
    let Some((log, epsilon)) = found else {
        return Err(impossible(kind, "noise multiplier", "1e9".to_owned(), budget));
    };
    let value = multiplier(log).map_err(UnsupportedEvent::from)?;
    Ok(Calibrated { value, epsilon, is_limit: log <= least })
}

/// Returns the largest Poisson sampling rate with which `rounds` rounds stay within `budget`, to a
/// relative precision of 1e−4.
///
/// # Errors
/// If no rate above 1e−12 suffices, or the accountant does not support Poisson sampling.
pub fn largest_rate(
    kind: AccountantKind,
    multiplier: NoiseMultiplier,
    rounds: u64,
    budget: Budget,
) -> Result<Calibrated<SamplingRate>, CalibrationError> {
    let rate = |log: f64| SamplingRate::new(log.exp().min(1.0));
    let cost = |log: f64| -> Result<f64, CalibrationError> {
        let sampling = Sampling::Poisson(rate(log).map_err(UnsupportedEvent::from)?);
        let noise = Noise::Gaussian(multiplier);
        epsilon(kind, &PrivacyEvent { sampling, noise }, rounds, budget)
    };
    // Without sampling, the cost can be computed even if the noise is too small for any rate below
    // 1.
    let whole = cost(0.0)?;
    if whole <= budget.epsilon {
        return Ok(Calibrated { value: SamplingRate::ALL, epsilon: whole, is_limit: false });
    }
    let found = search(&cost, LEAST_RATE.ln(), 0.0, -1.0, budget.epsilon)?;
    let Some((log, epsilon)) = found else {
        if multiplier.get() < MIN_MULTIPLIER {
            let (multiplier, limit) = (multiplier.get(), MIN_MULTIPLIER);
            return Err(Unproved::TooLittleNoise { multiplier, rate: LEAST_RATE, limit }.into());
        }
        return Err(impossible(kind, "sampling rate", format!("{LEAST_RATE:e}"), budget));
    };
    let value = rate(log).map_err(UnsupportedEvent::from)?;
    // A rate of 1 already includes every agent, so the budget cannot allow more.
    Ok(Calibrated { value, epsilon, is_limit: false })
}

/// Returns the largest number of rounds with these releases that stay within `budget`, to one round
/// or a relative precision of 1e−4. The search stops at 1e9.
///
/// # Errors
/// If one round exceeds the budget, or the accountant does not support these events.
pub fn largest_rounds(
    kind: AccountantKind,
    event: &PrivacyEvent,
    budget: Budget,
) -> Result<Calibrated<u64>, CalibrationError> {
    let cost = |rounds: u64| epsilon(kind, event, rounds, budget);
    let mut good = (1, cost(1)?);
    if good.1 > budget.epsilon {
        return Err(impossible(kind, "number of rounds", "1".to_owned(), budget));
    }
    let mut bad = loop {
        if good.0 == MAX_RELEASES {
            return Ok(Calibrated { value: good.0, epsilon: good.1, is_limit: true });
        }
        let next = (good.0 * 4).min(MAX_RELEASES);
        let epsilon = cost(next)?;
        if epsilon > budget.epsilon {
            break (next, epsilon);
        }
        good = (next, epsilon);
    };
    let mut halve = false;
    #[expect(clippy::cast_possible_truncation, reason = "between two counts of rounds")]
    while bad.0 - good.0 > 1.max((good.0 as f64 * PRECISION) as u64) {
        let ends = [(good.0 as f64).ln(), (bad.0 as f64).ln()];
        let at = between(ends, [good.1, bad.1], budget.epsilon, halve).exp() as u64;
        let rounds = at.clamp(good.0 + 1, bad.0 - 1);
        let epsilon = cost(rounds)?;
        let width = bad.0 - good.0;
        if epsilon <= budget.epsilon {
            good = (rounds, epsilon);
        } else {
            bad = (rounds, epsilon);
        }
        halve = bad.0 - good.0 > width / 2;
    }
    Ok(Calibrated { value: good.0, epsilon: good.1, is_limit: false })
}

/// Returns the ε of `rounds` releases with this noise and sampling; infinite if no finite bound is
/// proved.
fn epsilon(
    kind: AccountantKind,
    event: &PrivacyEvent,
    rounds: u64,
    budget: Budget,
) -> Result<f64, CalibrationError> {
    let mut accountant = kind.accountant();
    accountant.compose(event, rounds)?;
    Ok(accountant.epsilon(budget.delta).unwrap_or(f64::INFINITY))
}

fn impossible(
    accountant: AccountantKind,
    what: &'static str,
    mildest: String,
    budget: Budget,
) -> CalibrationError {
    CalibrationError::Impossible {
        what,
        mildest,
        epsilon: budget.epsilon,
        delta: budget.delta.get(),
        accountant,
    }
}

/// Returns the point farthest from `mild` towards `harsh` whose cost is within `limit`, with its
/// cost; `None` if no point qualifies. All points are logarithms; `start` is an initial guess.
fn search(
    cost: &impl Fn(f64) -> Result<f64, CalibrationError>,
    mild: f64,
    harsh: f64,
    start: f64,
    limit: f64,
) -> Result<Option<(f64, f64)>, CalibrationError> {
    let way = (harsh - mild).signum();
    let ahead = |a: f64, b: f64| (a - b) * way > 0.0;
    let (mut good, mut bad) = (None, None);
    // Step away from the guess, doubling each step, until both a good and a bad point are known.
    let (mut at, mut step) = (start, 0.7);
    while good.is_none() || bad.is_none() {
        let epsilon = cost(at)?;
        let next = if epsilon <= limit {
            good = Some((at, epsilon));
            if !ahead(harsh, at) {
                return Ok(good);
            }
            at + way * step
        } else {
            bad = Some((at, epsilon));
            if !ahead(at, mild) {
                return Ok(None);
            }
            at - way * step
        };
        at = next.clamp(mild.min(harsh), mild.max(harsh));
        step *= 2.0;
    }
    let (Some(mut good), Some(mut bad)) = (good, bad) else {
        return Ok(None);
    };
    let mut halve = false;
    while (bad.0 - good.0).abs() > PRECISION {
        let width = (bad.0 - good.0).abs();
        let at = between([good.0, bad.0], [good.1, bad.1], limit, halve);
        let epsilon = cost(at)?;
        if epsilon <= limit {
            good = (at, epsilon);
        } else {
            bad = (at, epsilon);
        }
        halve = (bad.0 - good.0).abs() > 0.5 * width;
    }
    Ok(Some(good))
}

/// Returns the point at which the linearly interpolated logarithm of the cost equals ln `limit`.
/// The point is shifted slightly towards the middle so that both ends converge.
fn between(ends: [f64; 2], costs: [f64; 2], limit: f64, halve: bool) -> f64 {
    let middle = 0.5 * (ends[0] + ends[1]);
    let logs = costs.map(|cost| (cost / limit).ln());
    let share = logs[0] / (logs[0] - logs[1]);
    if halve || !share.is_finite() {
        return middle;
    }
    let at = ends[0] + share.clamp(0.0, 1.0) * (ends[1] - ends[0]);
    let width = (ends[1] - ends[0]).abs();
    // Shift the estimate towards the middle by about half the precision.
    let push = (0.4 * PRECISION).max(0.02 * width).min((middle - at).abs());
    at + push.copysign(middle - at)
}
