//! One query per accountant: ε for the paper's settings and for up to ten million rounds, and the
//! time of calibration.

use anyhow::Result;
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate,
    smallest_multiplier,
};
use serde_json::{Value, json};

use crate::measure::{Limits, columns, measure, rounded};

/// Returns q, z, T, δ and the number of agents of every setting.
///
/// The settings of the peers' script come first, followed by ten million rounds and by δ = 1e−300.
fn settings() -> Vec<(f64, f64, u64, f64, u32)> {
    let (d200, d29) = (200_f64.powf(-1.1), 29_f64.powf(-1.1));
    let mut all = Vec::new();
    for (q, z) in [(0.25, 1.0), (0.15, 1.0), (0.5, 1.0), (0.25, 1.2), (0.25, 1.5)] {
        all.push((q, z, 40, d200, 200));
    }
    for z in [1.0, 1.6, 2.0, 3.0, 4.0] {
        all.push((0.35, z, 60, d29, 29));
    }
    for q in [0.1, 0.15, 0.2, 0.25] {
        all.push((q, 1.0, 60, d29, 29));
    }
    all.push((0.001, 0.7, 1_000_000, 1e-8, 1_000_000));
    all.push((0.25, 1.0, 10_000_000, 1e-5, 200));
    all.push((0.25, 1.0, 40, 1e-300, 200));
    all
}

/// Returns one row per setting and accountant.
///
/// `noise_s` is the time to find the smallest noise multiplier for the same ε.
pub(crate) fn rows(limits: &Limits) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for (q, z, rounds, delta, n_agents) in settings() {
        for kind in AccountantKind::ALL {
            let sampling = match kind {
                AccountantKind::FixedSize => {
                    Sampling::WithoutReplacement { n_sampled: sample_size(q, n_agents), n_agents }
                }
                _ => Sampling::Poisson(SamplingRate::new(q)?),
            };
            let noise = Noise::Gaussian(NoiseMultiplier::new(z)?);
            let event = PrivacyEvent { sampling, noise };
            let delta = Delta::new(delta)?;
            let (timing, found) = measure(limits, Ok, |_| {
                let mut accountant = kind.accountant();
                accountant.compose(&event, rounds)?;
                Ok(accountant.epsilon(delta)?)
            })?;
            let epsilon = found.first().copied().unwrap_or(f64::NAN);
            let budget = Budget::new(epsilon, delta)?;
            let (calibration, _) =
                measure(limits, Ok, |_| Ok(smallest_multiplier(kind, sampling, rounds, budget)?))?;
            let mut row = columns(json!({
                "peer": "fedbo", "accountant": kind.name(), "q": q, "z": z, "T": rounds, "delta": delta.get(),
                "epsilon": epsilon
            }));
            row.extend(timing.columns());
            row.insert("noise_s".into(), rounded(calibration.median(), 9));
            rows.push(Value::Object(row));
        }
    }
    Ok(rows)
}

/// Returns max(1, ⌊q N⌋).
fn sample_size(q: f64, n_agents: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count of agents"
    )]
    let size = (q * f64::from(n_agents) + 1e-9) as u32;
    size.max(1)
}
