//! `fedbo privacy verify`: the integrity of a ledger.

use fedbo_ledger::{Head, Report};
use serde::Serialize;

use super::{Place, Source};
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::counted;

/// Verify a ledger: the file, the hash chain over every charge and every released byte, and that no
/// entries are missing at its end
///
/// Changes nothing; the study may be running. Exit code 2 if a check fails.
#[derive(clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: Place,
    /// Head kept elsewhere that the ledger must contain, as SEQ:HASH, for instance the one shown by
    /// `fedbo agent status`; by default the one beside the ledger, in ledger.head, the
    /// coordinator's store or the helper's memory
    ///
    /// Without any head, a ledger that was reset to an older state as a whole cannot be told from a
    /// valid one; with the head beside it, a reset of the whole folder cannot be detected.
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
    /// Head used for the comparison.
    compared_with: Option<String>,
    problems: Vec<ProblemRecord>,
}

#[derive(Serialize)]
struct ProblemRecord {
    entry: Option<u64>,
    message: String,
}

impl Document {
    /// Verifies a ledger against the head noted beside it, if there is one.
    ///
    /// # Errors
    /// If there is no ledger, or it cannot be read.
    pub(crate) fn checked(source: &Source) -> anyhow::Result<Self> {
        let known = source.noted_head()?.map(|(head, _)| head);
        // Read before the ledger, so that releases during this call are left out.
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
                None => "it cannot show whether releases are missing at its end: compare its head with an agent's (`fedbo agent status`), \
                         or pass that head with --head".to_owned(),
            });
        } else {
            for problem in &report.problems {
                console::result(&problem.to_string())?;
            }
            let n_problems = counted(report.problems.len() as u64, "problem");
            console::note(&format!(
                "error: {source}: {n_problems} in {releases}; nothing may be released from it: continue from a sound copy with \
                 a head that you know, or start a new study with its own budget"
            ));
        }
        Ok(if is_sound { Exit::Done } else { Exit::Input })
    }
}
