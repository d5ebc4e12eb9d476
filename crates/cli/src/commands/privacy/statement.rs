//! `fedbo privacy statement`: what a study has spent.

use fedbo_privacy::accounting::{Noise, PrivacyEvent, Sampling};
use fedbo_wire::Digest;
use serde::Serialize;

use super::{Place, Source};
use crate::console;
use crate::exit::{BadInput, Exit};
use crate::table::{self, Column};
use crate::text::{counted, number};

/// Say what a study has released, what that cost, and what remains of its budget
///
/// Verifies the whole ledger first, also that it contains the head that fedbo run wrote beside it. Compare the head it prints with
/// one that was kept elsewhere: a folder that was set back as a whole shows it in no other way (see fedbo privacy verify). Exit code 3 if more was spent than
/// the budget has.
#[derive(clap::Args)]
pub(crate) struct Statement {
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The document that `--json` prints.
#[derive(Serialize)]
pub(crate) struct Document {
    study: String,
    epsilon: f64,
    delta: f64,
    adjacency: String,
    accountant: &'static str,
    mode: String,
    releases: u64,
    /// The releases that each agent may be in, where they are fewer than all.
    #[serde(skip_serializing_if = "Option::is_none")]
    participations: Option<u64>,
    budget_epsilon: f64,
    remaining_epsilon: f64,
    further_releases: Option<u64>,
    is_overdrawn: bool,
    charges: Vec<ChargeRecord>,
    config_sha256: String,
    head: String,
}

#[derive(Serialize)]
struct ChargeRecord {
    releases: u64,
    #[serde(flatten)]
    sampling: SamplingRecord,
    #[serde(flatten)]
    noise: NoiseRecord,
}

#[derive(Serialize)]
#[serde(tag = "sampling", rename_all = "kebab-case")]
enum SamplingRecord {
    Poisson { sampling_rate: f64 },
    FixedSize { n_sampled: u32, n_agents: u32 },
}

#[derive(Serialize)]
#[serde(tag = "noise", rename_all = "kebab-case")]
enum NoiseRecord {
    Gaussian {
        noise_multiplier: f64,
    },
    DiscreteGaussian {
        noise_multiplier: f64,
        /// As a text: it may be too large for a number of JSON.
        variance: String,
        bound: u64,
        n_coordinates: u64,
    },
}

impl Statement {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let source = self.place.find()?;
        let statement = verified(&source)?;
        if self.json {
            let document = Document::of(&statement);
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else {
            print(&statement)?;
        }
        if statement.is_overdrawn() {
            console::note(&format!(
                "error: {source}: more was spent than the budget's epsilon = {}; nothing more is released",
                statement.budget.epsilon()
            ));
            return Ok(Exit::BudgetSpent);
        }
        Ok(Exit::Done)
    }

    pub(super) fn answer(&self) -> anyhow::Result<String> {
        let statement = verified(&self.place.find()?)?;
        Ok(serde_json::to_string_pretty(&Document::of(&statement))?)
    }
}

/// A ledger's statement; what was set back says too little.
fn verified(source: &Source) -> anyhow::Result<fedbo_ledger::Statement> {
    let statement = source.read()?;
    if let Some((head, _)) = source.noted_head()?
        && let Some(problem) = source.verify(Some(&head))?.problems.first()
    {
        return Err(BadInput(format!("{source}: {problem}")).into());
    }
    Ok(statement)
}

impl Document {
    pub(crate) fn of(statement: &fedbo_ledger::Statement) -> Self {
        let claim = &statement.claim;
        let charges = statement.charges.iter().map(|charge| ChargeRecord {
            releases: charge.count,
            sampling: match charge.event.sampling {
                Sampling::Poisson(rate) => SamplingRecord::Poisson { sampling_rate: rate.get() },
                Sampling::WithoutReplacement { n_sampled, n_agents } => {
                    SamplingRecord::FixedSize { n_sampled, n_agents }
                }
            },
            noise: match charge.event.noise {
                Noise::Gaussian(multiplier) => {
                    NoiseRecord::Gaussian { noise_multiplier: multiplier.get() }
                }
                Noise::DiscreteGaussian { variance, bound, n_coordinates } => {
                    NoiseRecord::DiscreteGaussian {
                        noise_multiplier: noise_multiplier(&charge.event),
                        variance: variance.to_string(),
                        bound,
                        n_coordinates,
                    }
                }
            },
        });
        Self {
            study: statement.name.clone(),
            epsilon: claim.epsilon,
            delta: claim.delta,
            adjacency: claim.adjacency.to_string(),
            accountant: claim.accountant.name(),
            mode: claim.mode.to_string(),
            releases: statement.n_releases(),
            participations: statement.participations,
            budget_epsilon: statement.budget.epsilon(),
            remaining_epsilon: statement.remaining(),
            further_releases: statement.further(),
            is_overdrawn: statement.is_overdrawn(),
            charges: charges.collect(),
            config_sha256: Digest(statement.config_hash).to_string(),
            head: statement.head.to_string(),
        }
    }
}

/// The largest number of six digits that is not above `value`: what remains is never overstated.
fn rounded_down(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10.0_f64.powf(5.0 - value.log10().floor());
    (value * scale).floor() / scale
}

fn print(statement: &fedbo_ledger::Statement) -> anyhow::Result<()> {
    console::result(&format!("study {}", statement.name))?;
    console::result(&statement.claim.to_string())?;
    let further = match statement.further() {
        Some(n) => format!(", enough for {}", counted(n, "more such release")),
        None => String::new(),
    };
    if let Some(most) = statement.participations {
        console::result(&format!(
            "for each agent: it is in at most {most} of the {}",
            counted(statement.n_releases(), "release")
        ))?;
    }
    console::result(&format!(
        "budget: epsilon = {}, of which {} remains{further}\n\n",
        statement.budget.epsilon(),
        number(rounded_down(statement.remaining()))
    ))?;
    if !statement.charges.is_empty() {
        let charges = || statement.charges.iter();
        let columns = vec![
            Column::numbers("releases", charges().map(|c| c.count.to_string()).collect(), 0),
            Column::words("sampling", charges().map(|c| sampling(&c.event)).collect(), 0),
            Column::words("noise", charges().map(|c| noise(&c.event)).collect(), 1),
            Column::numbers(
                "noise multiplier",
                charges().map(|c| number(noise_multiplier(&c.event))).collect(),
                0,
            ),
        ];
        let (table, _) = table::fit(columns, console::width());
        console::table(&table, None)?;
        console::result("")?;
    }
    console::result(&format!("config SHA-256 {}", Digest(statement.config_hash)))?;
    console::result(&format!("head {}", statement.head))?;
    Ok(())
}

fn sampling(event: &PrivacyEvent) -> String {
    match event.sampling {
        Sampling::Poisson(rate) => format!("each with probability {}", number(rate.get())),
        Sampling::WithoutReplacement { n_sampled, n_agents } => {
            format!("{n_sampled} of {n_agents}")
        }
    }
}

fn noise(event: &PrivacyEvent) -> String {
    match event.noise {
        Noise::Gaussian(_) => "Gaussian".to_owned(),
        Noise::DiscreteGaussian { n_coordinates, .. } => {
            format!("discrete Gaussian, {}", counted(n_coordinates, "coordinate"))
        }
    }
}

/// z: the noise's standard deviation over the sensitivity.
fn noise_multiplier(event: &PrivacyEvent) -> f64 {
    match event.noise {
        Noise::Gaussian(multiplier) => multiplier.get(),
        Noise::DiscreteGaussian { variance, bound, .. } => (variance as f64).sqrt() / bound as f64,
    }
}
