//! `fedbo privacy statement`: the privacy spending of a study.

use fedbo_documents::{LedgerSource, StatementDocument, in_plain_words, noise_multiplier};
use fedbo_ledger::History;
use fedbo_privacy::accounting::{Noise, PrivacyEvent, Sampling};
use fedbo_wire::Digest;

use super::Place;
use fedbo_console as console;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{counted, number};
use fedbo_console::{BadInput, Exit};

/// Show the releases of a study, their privacy cost, and its remaining budget
///
/// First verifies the whole ledger, and that it contains the head that fedbo run wrote beside it.
/// Compare the printed head with a copy kept elsewhere: only this detects a folder that was rolled
/// back as a whole (see fedbo privacy verify). Exits with code 3 if more than the budget was spent.
#[derive(clap::Args)]
pub(crate) struct Statement {
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Statement {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let source = self.place.find()?;
        let history = verified(&source)?;
        let statement = &history.statement;
        if self.json {
            let document = StatementDocument::of(&history);
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else {
            print(&history)?;
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
        let history = verified(&self.place.find()?)?;
        Ok(serde_json::to_string_pretty(&StatementDocument::of(&history))?)
    }
}

/// Returns the history of a ledger. Fails if the ledger lacks the head recorded beside it.
fn verified(source: &LedgerSource) -> anyhow::Result<History> {
    let history = source.history()?;
    if let Some((head, _)) = source.noted_head()?
        && let Some(problem) = source.verify(Some(&head))?.problems.first()
    {
        return Err(BadInput(format!("{source}: {problem}")).into());
    }
    Ok(history)
}

/// Rounds down to six significant digits, so that the remaining budget is never overstated.
fn rounded_down(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10.0_f64.powf(5.0 - value.log10().floor());
    (value * scale).floor() / scale
}

fn print(history: &History) -> anyhow::Result<()> {
    let statement = &history.statement;
    console::result(&format!("study {}", statement.name))?;
    console::result(&statement.claim.to_string())?;
    console::result(&in_plain_words(history))?;
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
        "budget: epsilon = {}, {} remaining{further}\n\n",
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
