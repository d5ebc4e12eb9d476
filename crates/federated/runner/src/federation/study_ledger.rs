//! The ledger of a run in the results folder, with the cost and bytes of its releases.

use std::path::{Path, PathBuf};

use fedbo_ledger::{Charter, Head, Ledger, LedgerError, Statement};
use fedbo_privacy::accounting::PrivacyEvent;
use fedbo_protocol::ReleaseSchedule;
use fedbo_report::{ReportError, SUMMARY_FILE, Summary, write_whole};

use super::run_error::RunError;
use crate::release_store::ReleaseStore;
use fedbo_federation::PrivacyPlan;

/// Name of the ledger in the results folder.
pub const LEDGER_FILE: &str = "ledger.db";
/// Name of the file that records the ledger's head as of the last release. A ledger that no longer
/// contains this head was rolled back.
pub const HEAD_FILE: &str = "ledger.head";

/// The open ledger of a run.
#[derive(Debug)]
pub(super) struct StudyLedger {
    ledger: Ledger,
    event: PrivacyEvent,
    head_file: PathBuf,
}

impl StudyLedger {
    /// Opens or creates the ledger in a results folder. `n_rounds` is the number of rounds in the
    /// results that depend on earlier releases.
    ///
    /// # Errors
    /// If the ledger belongs to a different study, is damaged, or ends before the state that the
    /// results and the head file show, in which case the charges are unknown and nothing more is
    /// released. Also if the budget does not allow the remaining releases (INV-13).
    pub(super) fn open(
        folder: &Path,
        plan: &PrivacyPlan,
        schedule: &ReleaseSchedule,
        n_rounds: u64,
    ) -> Result<Self, RunError> {
        let path = folder.join(LEDGER_FILE);
        let head_file = folder.join(HEAD_FILE);
        let known = recorded_heads(folder)?;
        let n_remembered = known.iter().map(|head| head.seq).max().unwrap_or(0);
        let n_released = (0..schedule.n_releases())
            .take_while(|index| index * schedule.every() < n_rounds)
            .count() as u64;
        let charter: &Charter = &plan.charter;
        let ledger = match Ledger::open(&path, charter) {
            Err(LedgerError::Absent { .. }) if known.is_empty() && n_released == 0 => {
                Ledger::create(&path, charter)?
            }
            Err(LedgerError::Absent { .. }) => {
                let aside = archived_ledgers(folder).pop();
                return Err(RunError::LedgerMissing { path, aside });
            }
            opened => opened?,
        };
        let mut contains = true;
        for head in &known {
            contains &= ledger.contains(head)?;
        }
        if !contains || ledger.releases() < n_released {
            return Err(RunError::LedgerSetBack {
                path,
                found: ledger.releases(),
                expected: n_released.max(n_remembered),
            });
        }
        // The head file is written when the ledger is created. If there are releases but no head
        // file, the file was lost, and a rollback can no longer be detected.
        if ledger.releases() > 0 && !exists(&head_file) {
            return Err(RunError::HeadMissing { path: head_file, found: ledger.releases() });
        }
        let n_left = schedule.n_releases().saturating_sub(ledger.releases());
        if n_left > 0 {
            ledger.admits(&plan.event, n_left)?;
        }
        let ledger = Self { ledger, event: plan.event, head_file };
        ledger.note_head()?;
        Ok(ledger)
    }

    /// Returns the statement of releases and spent budget.
    pub(super) fn statement(&self) -> Result<Statement, RunError> {
        Ok(self.ledger.statement()?)
    }

    fn note_head(&self) -> Result<(), RunError> {
        let text = format!("{}\n", self.ledger.head());
        Ok(write_whole(&self.head_file, text.as_bytes())?)
    }
}

impl ReleaseStore for StudyLedger {
    /// Returns the stored release. If there is none, checks that the budget allows one more, before
    /// anything is collected (INV-13).
    fn stored(&mut self, round: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let stored = self.ledger.stored(round).map_err(RunError::from)?;
        if stored.is_none() {
            self.ledger.admits(&self.event, 1).map_err(RunError::from)?;
        }
        Ok(stored)
    }

    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> anyhow::Result<()> {
        let event =
            event.ok_or_else(|| anyhow::anyhow!("round {round}: a release without a price"))?;
        self.ledger.commit(round, event, release).map_err(RunError::from)?;
        // The head is written after the charge and before the release leaves the process. A party
        // that has received the release can therefore tell whether the ledger still contains it.
        Ok(self.note_head()?)
    }
}

fn read_head(path: &Path) -> Result<Option<Head>, RunError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => {
            let path = path.to_owned();
            return Err(ReportError::Read { path, cause }.into());
        }
    };
    text.parse().map(Some).map_err(|_| RunError::AnotherRun {
        path: path.to_owned(),
        message: "it does not contain the end of a ledger; put it back as it was, or start again in another folder with --out"
            .to_owned(),
    })
}

/// Returns the heads of a folder's ledger that are recorded next to it, in the head file and in the
/// summary of finished runs.
fn recorded_heads(folder: &Path) -> Result<Vec<Head>, RunError> {
    let mut heads: Vec<Head> = read_head(&folder.join(HEAD_FILE))?.into_iter().collect();
    // An unreadable summary contains no heads. It is rewritten at the end of the run.
    if let Ok(summary) = Summary::read(folder) {
        let of_arms = summary.arms.iter().filter_map(|arm| arm.privacy.as_ref());
        heads.extend(of_arms.filter_map(|spent| spent.ledger_head.parse::<Head>().ok()));
    }
    Ok(heads)
}

/// Returns true if a folder contains a ledger, or traces of one.
pub(super) fn is_present(folder: &Path) -> bool {
    let log = format!("{LEDGER_FILE}-wal");
    [LEDGER_FILE, log.as_str(), HEAD_FILE].iter().any(|name| exists(&folder.join(name)))
        || !recorded_heads(folder).is_ok_and(|heads| heads.is_empty())
}

/// Lists the archived ledgers, oldest first.
fn archived_ledgers(folder: &Path) -> Vec<PathBuf> {
    let named = |number: u64| folder.join(format!("ledger-{number}.db"));
    (1..).map(named).take_while(|path| exists(path)).collect()
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Returns true if the ledger in a folder has charges, according to its contents or the head file
/// next to it. An unreadable ledger counts as charged. If the ledger is missing, the head file
/// decides, because no release leaves before the head is written.
pub(super) fn has_charges(folder: &Path) -> bool {
    let seems_empty = match fedbo_ledger::read(&folder.join(LEDGER_FILE)) {
        Ok(statement) => statement.n_releases() == 0,
        Err(LedgerError::Absent { .. }) => exists(&folder.join(HEAD_FILE)),
        Err(_) => false,
    };
    let is_empty = |heads: Vec<Head>| heads.iter().all(|head| head.seq == 0);
    !(seems_empty && recorded_heads(folder).is_ok_and(is_empty))
}

/// Archives a folder's ledger under the next free name (`ledger-1.db`, `ledger-2.db`, …), so that
/// the spending stays on record. Returns the new path, or `None` if there is no ledger to archive.
pub(super) fn archive_ledger(folder: &Path) -> Result<Option<PathBuf>, RunError> {
    let ledger = folder.join(LEDGER_FILE);
    let beside = |path: &Path, ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let log = beside(&ledger, "-wal");
    let mut kept = None;
    if exists(&ledger) {
        let named = |number: u64| folder.join(format!("ledger-{number}.db"));
        let place = (1..).map(named).find(|path| !exists(path));
        let place = place.unwrap_or_else(|| unreachable!("there are more numbers than files"));
        // The ledger itself is moved first. Without its log, the ledger can be in an older state,
        // and the remaining log prevents a new ledger from being created.
        for ending in ["", "-wal", "-shm"] {
            let (from, to) = (beside(&ledger, ending), beside(&place, ending));
            changed(&from, std::fs::rename(&from, &to))?;
        }
        kept = Some(place);
    } else if exists(&log) {
        return Err(RunError::AnotherRun {
            path: log,
            message: "it is the log of a missing ledger; if the ledger was moved, give the log its name with -wal at the end"
                .to_owned(),
        });
    }
    // The head file is removed last. If the ledger is missing, the head file shows whether anything
    // was charged.
    for name in [SUMMARY_FILE, HEAD_FILE] {
        let path = folder.join(name);
        changed(&path, std::fs::remove_file(&path))?;
    }
    Ok(kept)
}

/// Ignores a missing file, because it does not need to be moved.
fn changed(path: &Path, answer: std::io::Result<()>) -> Result<(), RunError> {
    match answer {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            let path = path.to_owned();
            Err(ReportError::Write { path, cause }.into())
        }
        _ => Ok(()),
    }
}
