//! `fedbo privacy verify`: whether a ledger is a clean history.

use fedbo_ledger::{Head, Report};
use serde::Serialize;

use super::{Place, Source};
use crate::console;
use crate::exit::Exit;
use crate::text::counted;

/// Check that a ledger is sound: the file, the chain of hashes over every charge and every released byte, and that nothing is missing
/// at its end
///
/// Changes nothing, also while the study runs. Exit code 2 if something is wrong.
#[derive(clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: Place,
    /// A head that was kept elsewhere, as SEQ:HASH, for instance the one that `fedbo agent status` shows: the ledger must contain it
    /// still; default the one in ledger.head or the coordinator's store beside it
    ///
    /// Without any, a ledger that was set back to an older state as a whole cannot be told from a sound one; with the one beside
    /// it, a whole folder that was set back cannot.
    #[arg(long, value_name = "SEQ:HASH")]
    head: Option<Head>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The document that `--json` prints.
#[derive(Serialize)]
pub(crate) struct Document {
    is_sound: bool,
    study: Option<String>,
    entries: u64,
    head: Option<String>,
    /// The head that it was compared with.
    compared_with: Option<String>,
    problems: Vec<ProblemRecord>,
}

#[derive(Serialize)]
struct ProblemRecord {
    entry: Option<u64>,
    message: String,
}

impl Document {
    /// The check of a ledger against a head that was noted beside it, if one was.
    ///
    /// # Errors
    /// If there is no ledger, or the system refuses to read it.
    pub(crate) fn checked(source: &Source) -> anyhow::Result<Self> {
        let known = source.noted_head()?.map(|(head, _)| head);
        // Asked before the ledger is read: what leaves meanwhile is left out.
        let round = source.released_before()?;
        let report = source.verify(known.as_ref())?;
        let mut document = Self::of(report, known);
        if let (Some(round), true) = (round, document.is_sound) {
            let history = source.history()?.before(round)?;
            let head = history.statement.head.to_string();
            document.entries = history.statement.n_releases();
            document.compared_with = document.compared_with.is_some().then(|| head.clone());
            document.head = Some(head);
        }
        Ok(document)
    }

    fn of(report: Report, known: Option<Head>) -> Self {
        let problems = report.problems.into_iter();
        Self {
            is_sound: problems.len() == 0,
            study: report.name,
            entries: report.n_entries,
            head: report.head.map(|head| head.to_string()),
            compared_with: known.map(|head| head.to_string()),
            problems: problems
                .map(|problem| ProblemRecord { entry: problem.seq, message: problem.message })
                .collect(),
        }
    }
}

impl Verify {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let source = self.place.find()?;
        let known = match self.head {
            Some(head) => Some((head, "--head".to_owned())),
            None => source.noted_head()?,
        };
        let report = source.verify(known.as_ref().map(|(head, _)| head))?;
        let is_sound = report.problems.is_empty();
        let releases = counted(report.n_entries, "release");
        if self.json {
            let document = Document::of(report, known.map(|(head, _)| head));
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else if let (true, Some(head)) = (is_sound, report.head) {
            let extent = if known.is_some() { "" } else { " as far as it goes" };
            console::result(&format!("{source} is sound{extent}: {releases}"))?;
            console::result(&format!("head {head}"))?;
            console::note(&match known {
                Some((known, place)) => format!("it has the head {known} of {place}"),
                None => "whether releases are missing at its end it cannot say: compare its head with an agent's (`fedbo agent status`), \
                         or name that one with --head".to_owned(),
            });
        } else {
            for problem in &report.problems {
                console::result(&problem.to_string())?;
            }
            let n_problems = counted(report.problems.len() as u64, "problem");
            console::note(&format!(
                "error: {source}: {n_problems} in {releases}; nothing may be released from it: go on from a sound copy whose head you \
                 know, or begin a new study with a budget of its own"
            ));
        }
        Ok(if is_sound { Exit::Done } else { Exit::Input })
    }
}
