//! Shared code of the commands that compute privacy costs: parsers, δ, and claims as JSON.

use fedbo_privacy::accounting::{
    AccountantKind, Claim, Delta, InvalidParameter, Mode, Noise, NoiseMultiplier, PrivacyEvent,
    Sampling, SamplingRate,
};
use serde::Serialize;

use fedbo_console::BadInput;

/// Maximum number of rounds.
pub(super) const MAX_ROUNDS: u64 = 1_000_000_000;

pub(super) fn parse_rate(text: &str) -> Result<SamplingRate, InvalidParameter> {
    SamplingRate::new(parse(text, "sampling rate", "above 0 and at most 1")?)
}

pub(super) fn parse_multiplier(text: &str) -> Result<NoiseMultiplier, InvalidParameter> {
    NoiseMultiplier::new(parse(text, "noise multiplier", "a finite number above 0")?)
}

pub(super) fn parse_delta(text: &str) -> Result<Delta, InvalidParameter> {
    Delta::new(parse(text, "delta", "above 0 and below 1")?)
}

pub(super) fn parse_epsilon(text: &str) -> Result<f64, InvalidParameter> {
    let expected = "a finite number above 0";
    let epsilon = parse(text, "epsilon", expected)?;
    if epsilon.is_normal() && epsilon > 0.0 {
        Ok(epsilon)
    } else {
        Err(invalid("epsilon", text, expected))
    }
}

fn parse(text: &str, name: &'static str, expected: &'static str) -> Result<f64, InvalidParameter> {
    text.parse().map_err(|_| invalid(name, text, expected))
}

fn invalid(name: &'static str, text: &str, expected: &'static str) -> InvalidParameter {
    let value = text.to_owned();
    InvalidParameter { name, value, expected }
}

/// Options for δ and the accountant.
#[derive(clap::Args)]
pub(super) struct AccountantArgs {
    /// Probability that the guarantee fails [default: min(1e-5, 1/N²) of --agents N]
    #[arg(long, value_name = "D", value_parser = parse_delta)]
    delta: Option<Delta>,
    /// Number of agents on the roster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) agents: Option<u32>,
    /// Accountant: pld is the tightest; renyi (or rdp) and moments give larger bounds; fixed-size
    /// is for samples of exactly ⌊q N⌋ agents, with neighbouring data sets that replace an agent's
    /// vectors instead of zeroing them
    #[arg(long, value_name = "NAME", default_value = "pld")]
    pub(super) accountant: AccountantKind,
}

impl AccountantArgs {
    /// Returns the given δ, or the default for the roster size.
    pub(super) fn delta(&self) -> Result<Delta, BadInput> {
        match (self.delta, self.agents) {
            (Some(delta), _) => Ok(delta),
            (None, Some(agents)) => {
                let agents = f64::from(agents);
                Delta::new(1e-5_f64.min(1.0 / (agents * agents)))
                    .map_err(|error| BadInput(error.to_string()))
            }
            (None, None) => Err(BadInput(
                "neither --delta nor --agents is given: name --delta D, or --agents N for min(1e-5, 1/N²)".to_owned(),
            )),
        }
    }

    /// Returns the sampling of agents at rate q.
    pub(super) fn sampling(&self, rate: SamplingRate) -> Result<Sampling, BadInput> {
        sampling(self.accountant, rate, self.agents)
    }
}

/// Returns Poisson sampling or, for the accountant `fixed-size`, samples of exactly ⌊q N⌋ of N
/// agents.
fn sampling(
    accountant: AccountantKind,
    rate: SamplingRate,
    agents: Option<u32>,
) -> Result<Sampling, BadInput> {
    if accountant != AccountantKind::FixedSize {
        return Ok(Sampling::Poisson(rate));
    }
    let Some(n_agents) = agents else {
        let message = "--accountant fixed-size needs --agents N: a sample is ⌊q N⌋ of them";
        return Err(BadInput(message.to_owned()));
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count of agents"
    )]
    // Rounding errors may put a product just below an integer: 0.29 · 100 is 28.999….
    let n_sampled = (rate.get() * f64::from(n_agents) * (1.0 + 1e-12)) as u32;
    if n_sampled == 0 {
        let rate = rate.get();
        return Err(BadInput(format!(
            "--sampling-rate {rate} of --agents {n_agents} selects no agent: take a rate of at least 1/{n_agents}"
        )));
    }
    Ok(Sampling::WithoutReplacement { n_sampled: n_sampled.min(n_agents), n_agents })
}

/// Returns the accountant's claim for `rounds` releases.
pub(super) fn claim(
    accountant: AccountantKind,
    sampling: Sampling,
    multiplier: NoiseMultiplier,
    rounds: u64,
    delta: Delta,
    mode: Mode,
) -> Result<Claim, BadInput> {
    let noise = Noise::Gaussian(multiplier);
    let mut accountant = accountant.accountant();
    let refused = |error: &dyn std::error::Error| BadInput(error.to_string());
    accountant
        .compose(&PrivacyEvent { sampling, noise }, rounds)
        .map_err(|error| refused(&error))?;
    Claim::of(&*accountant, delta, mode).map_err(|error| refused(&error))
}

/// A claim as JSON.
#[derive(Serialize)]
pub(super) struct ClaimRecord {
    epsilon: f64,
    delta: f64,
    adjacency: String,
    accountant: &'static str,
    mode: String,
    releases: u64,
}

impl From<&Claim> for ClaimRecord {
    fn from(claim: &Claim) -> Self {
        Self {
            epsilon: claim.epsilon,
            delta: claim.delta,
            adjacency: claim.adjacency.to_string(),
            accountant: claim.accountant.name(),
            mode: claim.mode.to_string(),
            releases: claim.n_releases,
        }
    }
}

impl ClaimRecord {
    /// Formats the terms that several claims have in common as one line.
    pub(super) fn terms(&self) -> String {
        let Self { delta, adjacency, accountant, mode, releases, .. } = self;
        format!(
            "each row: epsilon within the budget ({adjacency}, delta = {delta:e}, {releases} rounds, accountant {accountant}, \
             mode {mode})"
        )
    }
}

/// Rounds to six significant digits, up or down.
pub(super) fn six_digits(value: f64, up: bool) -> f64 {
    let text = format!("{value:.5e}");
    let near: f64 = text.parse().unwrap_or(value);
    let wrong = if up { near < value } else { near > value };
    let exponent = text.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let Some(exponent) = exponent.filter(|_| wrong) else {
        return near;
    };
    // Change the last digit by one.
    let unit = 10_f64.powi(exponent - 5);
    let next = if up { near + unit } else { near - unit };
    format!("{next:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_rounded_to_the_safe_side() {
        for value in [1.234_567_89, 9.999_999_9, 1e-9 / 3.0, 123_456_789.0, 2.0] {
            let (up, down) = (six_digits(value, true), six_digits(value, false));
            assert!(down <= value && value <= up, "{down} {value} {up}");
            assert!(up - down <= 1.01e-5 * value);
        }
    }
}
