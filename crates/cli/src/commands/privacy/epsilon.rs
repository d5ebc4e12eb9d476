//! `fedbo privacy epsilon`: the privacy cost of a plan.

use fedbo_privacy::accounting::{
    AccountantKind, Claim, Delta, Mode, NoiseMultiplier, SamplingRate,
};
use serde::Serialize;

use super::setting::{
    AccountantArgs, ClaimRecord, MAX_ROUNDS, claim, parse_multiplier, parse_rate,
};
use fedbo_console as console;
use fedbo_console::{BadInput, Exit};

/// Compute an upper bound on the privacy cost (epsilon) of a number of rounds
///
/// In each round, every agent takes part with probability q, and noise with a standard deviation of
/// z times the largest norm of an agent's vector is added. Neighbouring data sets have the same
/// roster, with one agent's vectors all zero.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)] // the value parser of the option rejects negative numbers
pub(crate) struct Epsilon {
    /// Probability that an agent takes part in a round
    #[arg(long, value_name = "Q", value_parser = parse_rate)]
    sampling_rate: SamplingRate,
    /// Standard deviation of the noise divided by the largest norm of an agent's vector
    #[arg(long, value_name = "Z", value_parser = parse_multiplier)]
    noise_multiplier: NoiseMultiplier,
    /// Number of rounds with a release
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(0..=MAX_ROUNDS))]
    rounds: u64,
    #[command(flatten)]
    question: AccountantArgs,
    /// Compute the cost as the paper does: accountant moments, delta = N^-1.1 with --agents N
    #[arg(long, requires = "agents", conflicts_with_all = ["delta", "accountant"])]
    paper: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    claim: ClaimRecord,
    sampling_rate: f64,
    noise_multiplier: f64,
}

impl Epsilon {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let claim = self.claim()?;
        if self.json {
            console::result(&self.json(&claim)?)?;
        } else {
            console::result(&claim.to_string())?;
        }
        Ok(Exit::Done)
    }

    pub(super) fn answer(&self) -> anyhow::Result<String> {
        self.json(&self.claim()?)
    }

    fn claim(&self) -> anyhow::Result<Claim> {
        let (kind, delta, mode) = match (self.paper, self.question.agents) {
            (true, Some(agents)) => (AccountantKind::Moments, papers_delta(agents)?, Mode::Paper),
            _ => (self.question.accountant, self.question.delta()?, Mode::Default),
        };
        let sampling = self.question.sampling(self.sampling_rate)?;
        Ok(claim(kind, sampling, self.noise_multiplier, self.rounds, delta, mode)?)
    }

    fn json(&self, claim: &Claim) -> anyhow::Result<String> {
        let document = Document {
            claim: ClaimRecord::from(claim),
            sampling_rate: self.sampling_rate.get(),
            noise_multiplier: self.noise_multiplier.get(),
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }
}

/// Returns δ = N^−1.1 (DP-FTS-DE, section 5).
fn papers_delta(agents: u32) -> Result<Delta, BadInput> {
    Delta::new(f64::from(agents).powf(-1.1)).map_err(|_| {
        BadInput(format!(
            "--agents {agents}: the paper's delta = N^-1.1 is not below 1; take at least 2"
        ))
    })
}
