//! `fedbo privacy verify`: the integrity of a ledger.

use fedbo_documents::CheckDocument;
use fedbo_ledger::Head;

use super::Place;
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::counted;

/// Verify a ledger: its file, the hash chain over every charge and every released byte, and that no
/// entries are missing at its end
///
/// Changes nothing, and can be used while the study runs. Exits with code 2 if a check fails.
#[derive(clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: Place,
    /// Head kept elsewhere that the ledger must contain, as SEQ:HASH, for instance the one shown by
    /// `fedbo agent status`. Defaults to the head beside the ledger: in ledger.head, in the
    /// coordinator's store or in the helper's memory
    ///
    /// Without a head, a ledger that was rolled back as a whole cannot be distinguished from a
    /// valid one. With the head beside the ledger, a rollback of the whole folder cannot be
    /// detected.
    #[arg(long, value_name = "SEQ:HASH")]
    head: Option<Head>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
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
            let document = CheckDocument::of(report, known.map(|(head, _)| head));
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
                "error: {source}: {n_problems} in {releases}; nothing may be released from it: continue from an intact copy with \
                 a head that you know, or start a new study with its own budget"
            ));
        }
        Ok(if is_sound { Exit::Done } else { Exit::Input })
    }
}
