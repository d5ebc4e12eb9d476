//! The result of a ledger's verification as JSON.

use fedbo_ledger::{Head, Report};
use serde::Serialize;

use crate::ledger_source::LedgerSource;

/// The document printed by `fedbo privacy verify --json`.
#[derive(Serialize)]
pub struct CheckDocument {
    is_sound: bool,
    study: Option<String>,
    entries: u64,
    head: Option<String>,
    /// The head that the ledger was compared with.
    compared_with: Option<String>,
    problems: Vec<ProblemRecord>,
}

#[derive(Serialize)]
struct ProblemRecord {
    entry: Option<u64>,
    message: String,
}

impl CheckDocument {
    /// Verifies a ledger against the head noted beside it, if there is one.
    ///
    /// # Errors
    /// Fails if there is no ledger, or if it cannot be read.
    pub fn checked(source: &LedgerSource) -> anyhow::Result<Self> {
        let known = source.noted_head()?.map(|(head, _)| head);
        // Read before the ledger, so that releases during this call are excluded.
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

    /// Creates the document from a report and the head that the ledger was compared with.
    #[must_use]
    pub fn of(report: Report, known: Option<Head>) -> Self {
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
