//! `fedbo privacy noise`: settings that a budget allows.

use fedbo_privacy::accounting::{
    Budget, CalibrationError, Claim, Delta, Mode, Noise as Added, NoiseMultiplier, PrivacyEvent,
    SamplingRate, largest_rate, largest_rounds, smallest_multiplier,
};
use serde::Serialize;

use super::setting::{
    AccountantArgs, ClaimRecord, MAX_ROUNDS, claim, parse_epsilon, parse_multiplier, parse_rate,
    six_digits,
};
use fedbo_console as console;
use fedbo_console::{BadInput, Exit};

/// Find the smallest noise multiplier that keeps a number of rounds within a budget; with --solve,
/// the most rounds or the largest rate
///
/// The printed result was checked against the budget, and the next line shows its cost. Exits with
/// code 2 if no value keeps the cost within the budget.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)] // the value parser of the option rejects negative numbers
pub(crate) struct Noise {
    /// Epsilon of the budget
    #[arg(long, value_name = "E", value_parser = parse_epsilon)]
    epsilon: f64,
    #[command(flatten)]
    question: AccountantArgs,
    /// Number of rounds with a release; required unless --solve rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    rounds: Option<u64>,
    /// Probability that an agent takes part in a round; required unless --solve rate
    #[arg(long, value_name = "Q", value_parser = parse_rate)]
    sampling_rate: Option<SamplingRate>,
    /// Standard deviation of the noise divided by the largest norm of an agent's vector; required
    /// unless --solve noise
    #[arg(long, value_name = "Z", value_parser = parse_multiplier)]
    noise_multiplier: Option<NoiseMultiplier>,
    /// Quantity to solve for
    #[arg(long, value_enum, default_value_t = Unknown::Noise)]
    solve: Unknown,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Quantity to solve for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Unknown {
    /// The smallest noise multiplier
    Noise,
    /// The largest number of rounds
    Rounds,
    /// The largest sampling rate
    Rate,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    claim: ClaimRecord,
    sampling_rate: f64,
    noise_multiplier: f64,
    budget_epsilon: f64,
    /// True if the search stopped at its limit, so the budget may allow more.
    is_limit: bool,
}

/// All parameters of the releases, including the solution.
struct NoiseSolution {
    rate: SamplingRate,
    multiplier: NoiseMultiplier,
    claim: Claim,
    is_limit: bool,
}

impl Noise {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let found = self.solution()?;
        if self.json {
            console::result(&self.json(&found)?)?;
            return Ok(Exit::Done);
        }
        let (rate, multiplier) = (found.rate.get(), found.multiplier.get());
        console::result(&match self.solve {
            Unknown::Noise => format!("noise multiplier = {multiplier}"),
            Unknown::Rounds => format!("rounds = {}", found.claim.n_releases),
            Unknown::Rate => format!("sampling rate = {rate}"),
        })?;
        console::result(&found.claim.to_string())?;
        if found.is_limit {
            console::note(&format!(
                "note: the search ends at {}; the budget of epsilon = {} may allow {}",
                match self.solve {
                    Unknown::Noise if rate < 1.0 => format!(
                        "a noise multiplier of {multiplier}, as no bound is proved for less with sampling"
                    ),
                    Unknown::Noise => format!("a noise multiplier of {multiplier}"),
                    Unknown::Rounds => format!("{} rounds", found.claim.n_releases),
                    Unknown::Rate => format!("a rate of {rate}"),
                },
                self.epsilon,
                match self.solve {
                    Unknown::Noise => "less noise: this is not the smallest multiplier",
                    Unknown::Rounds | Unknown::Rate => "more",
                },
            ));
        }
        Ok(Exit::Done)
    }

    pub(super) fn answer(&self) -> anyhow::Result<String> {
        self.json(&self.solution()?)
    }

    fn solution(&self) -> anyhow::Result<NoiseSolution> {
        let delta = self.question.delta()?;
        let budget = Budget::new(self.epsilon, delta).map_err(|error| bad(&error))?;
        self.refuse_what_is_looked_for()?;
        Ok(match self.solve {
            Unknown::Noise => self.noise(budget),
            Unknown::Rounds => self.most_rounds(budget),
            Unknown::Rate => self.rate(budget),
        }?)
    }

    fn json(&self, found: &NoiseSolution) -> anyhow::Result<String> {
        let document = Document {
            claim: ClaimRecord::from(&found.claim),
            sampling_rate: found.rate.get(),
            noise_multiplier: found.multiplier.get(),
            budget_epsilon: self.epsilon,
            is_limit: found.is_limit,
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }

    fn noise(&self, budget: Budget) -> Result<NoiseSolution, BadInput> {
        let (rate, rounds) = (self.given_rate()?, self.given_rounds()?);
        let sampling = self.question.sampling(rate)?;
        let kind = self.question.accountant;
        let found =
            smallest_multiplier(kind, sampling, rounds, budget).map_err(|e| impossible(&e))?;
        let multiplier = NoiseMultiplier::new(six_digits(found.value.get(), true));
        let multiplier = multiplier.map_err(|error| bad(&error))?;
        self.checked(rate, multiplier, rounds, budget, found.is_limit)
    }

    fn most_rounds(&self, budget: Budget) -> Result<NoiseSolution, BadInput> {
        let (rate, multiplier) = (self.given_rate()?, self.given_multiplier()?);
        let sampling = self.question.sampling(rate)?;
        let event = PrivacyEvent { sampling, noise: Added::Gaussian(multiplier) };
        let kind = self.question.accountant;
        let found = largest_rounds(kind, &event, budget).map_err(|error| impossible(&error))?;
        self.checked(rate, multiplier, found.value, budget, found.is_limit)
    }

    fn rate(&self, budget: Budget) -> Result<NoiseSolution, BadInput> {
        let (multiplier, rounds) = (self.given_multiplier()?, self.given_rounds()?);
        let kind = self.question.accountant;
        let found = largest_rate(kind, multiplier, rounds, budget).map_err(|e| impossible(&e))?;
        let rate = SamplingRate::new(six_digits(found.value.get(), false));
        let rate = rate.map_err(|error| bad(&error))?;
        self.checked(rate, multiplier, rounds, budget, found.is_limit)
    }

    /// Returns the rounded parameters as printed, with their exact privacy cost.
    fn checked(
        &self,
        rate: SamplingRate,
        multiplier: NoiseMultiplier,
        rounds: u64,
        budget: Budget,
        is_limit: bool,
    ) -> Result<NoiseSolution, BadInput> {
        let sampling = self.question.sampling(rate)?;
        let (kind, delta): (_, Delta) = (self.question.accountant, budget.delta());
        let claim = claim(kind, sampling, multiplier, rounds, delta, Mode::Default)?;
        Ok(NoiseSolution { rate, multiplier, claim, is_limit })
    }

    fn given_rate(&self) -> Result<SamplingRate, BadInput> {
        self.sampling_rate.ok_or_else(|| self.needed("--sampling-rate Q"))
    }

    fn given_rounds(&self) -> Result<u64, BadInput> {
        self.rounds.ok_or_else(|| self.needed("--rounds T"))
    }

    fn given_multiplier(&self) -> Result<NoiseMultiplier, BadInput> {
        self.noise_multiplier.ok_or_else(|| self.needed("--noise-multiplier Z"))
    }

    fn needed(&self, flag: &str) -> BadInput {
        let solve = self.solve.name();
        BadInput(format!("--solve {solve} needs {flag}"))
    }

    fn refuse_what_is_looked_for(&self) -> Result<(), BadInput> {
        let (flag, is_given) = match self.solve {
            Unknown::Noise => ("--noise-multiplier", self.noise_multiplier.is_some()),
            Unknown::Rounds => ("--rounds", self.rounds.is_some()),
            Unknown::Rate => ("--sampling-rate", self.sampling_rate.is_some()),
        };
        if is_given {
            let solve = self.solve.name();
            return Err(BadInput(format!(
                "--solve {solve} computes the value of {flag}: leave {flag} out, or choose another --solve"
            )));
        }
        Ok(())
    }
}

impl Unknown {
    fn name(self) -> &'static str {
        match self {
            Self::Noise => "noise",
            Self::Rounds => "rounds",
            Self::Rate => "rate",
        }
    }
}

fn bad(error: &dyn std::error::Error) -> BadInput {
    BadInput(error.to_string())
}

/// Returns the input error for a budget that no setting meets.
fn impossible(error: &CalibrationError) -> BadInput {
    BadInput(error.to_string())
}
