//! `fedbo storage`: backup, verification and upgrade of study files and of a coordinator's folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_storage::{Address, Mode, Problem, StorageError};
use fedbo_study::{Study, StudyError};
use serde::Serialize;

use fedbo_console as console;
use fedbo_console::text::counted;
use fedbo_console::{BadInput, Exit};

/// Copy, check or upgrade a study file or a coordinator's folder
#[derive(clap::Subcommand)]
pub(crate) enum Storage {
    Backup(Backup),
    Verify(Verify),
    Upgrade(Upgrade),
}

/// Copy a study file, a ledger or a coordinator's folder, even while in use; the copy of each file
/// is a consistent snapshot
///
/// A copy of a ledger lacks later releases. A coordinator that continued from it would release
/// those rounds again, which agents refuse; docs/operations.md describes the remedy. The
/// coordinator's key is not copied, because anybody with the key can impersonate the coordinator.
/// Keep a separate copy of coordinator.key, or pass --with-key.
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// Source: sqlite:FILE, FILE, or a coordinator's folder
    from: String,
    /// Path of the copy, which must not exist
    to: PathBuf,
    /// Also copy a coordinator's key
    #[arg(long)]
    with_key: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Verify a file: read everything and report inconsistencies
///
/// Changes no stored data, and can be used while studies run. Exits with code 2 if there is a
/// problem.
#[derive(clap::Args)]
pub(crate) struct Verify {
    /// Storage, as sqlite:FILE or FILE, or a coordinator's folder
    storage: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Upgrade a storage that an older version wrote
///
/// A copy of the original file is kept beside it; a PostgreSQL database is changed in a single
/// transaction.
#[derive(clap::Args)]
pub(crate) struct Upgrade {
    /// Storage, as sqlite:FILE, FILE or postgresql://USER@HOST/DATABASE
    storage: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct VerifyDocument {
    is_sound: bool,
    layout_version: i64,
    studies: u64,
    trials: u64,
    problems: Vec<ProblemRecord>,
}

#[derive(Serialize)]
struct ProblemRecord {
    study: Option<String>,
    trial: Option<i64>,
    message: String,
}

#[derive(Serialize)]
struct UpgradeDocument {
    from: i64,
    to: i64,
    backup: Option<PathBuf>,
}

impl Storage {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Backup(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Upgrade(command) => command.run(),
        }
    }
}

impl Backup {
    fn run(&self) -> anyhow::Result<Exit> {
        let from = path(&self.from)?;
        let to = &self.to;
        if from.is_dir() {
            check_is_coordinators(&from)?;
            let copied = fedbo_coordinator::backup(&from, to, self.with_key)?;
            if self.json {
                print_files(&copied.files)?;
            } else {
                let mut text = format!("copied to {}:", to.display());
                for file in &copied.files {
                    text += &format!(" {}", file.file_name().unwrap_or_default().display());
                }
                console::result(&text)?;
            }
            if !self.with_key {
                console::note(
                    "coordinator.key was left out; without it the copy cannot serve its studies",
                );
            }
            return Ok(Exit::Done);
        }
        if self.with_key {
            let message = "--with-key is for a coordinator's folder; leave it out";
            return Err(BadInput(message.to_owned()).into());
        }
        match fedbo_storage::backup(&from, to) {
            // A ledger is a different kind of file.
            Err(StorageError::NotAStorage { .. }) => fedbo_ledger::backup(&from, to)?,
            copied => copied?,
        }
        if self.json {
            print_files(std::slice::from_ref(to))?;
        } else {
            console::result(&format!("copied {} to {}", from.display(), to.display()))?;
        }
        Ok(Exit::Done)
    }
}

/// Checks that a folder belongs to a coordinator. Other folders are neither copied nor verified.
fn check_is_coordinators(folder: &Path) -> Result<(), BadInput> {
    match folder.join("coordinator.db").exists() {
        true => Ok(()),
        false => Err(BadInput(format!(
            "{}: this folder is not a coordinator's; name a file, or copy an agent's or a peer's folder as a whole while it is \
             stopped",
            folder.display()
        ))),
    }
}

/// Prints the files of a copy as JSON.
fn print_files(files: &[PathBuf]) -> anyhow::Result<()> {
    console::result(&serde_json::json!({ "files": files }).to_string())?;
    Ok(())
}

#[derive(Serialize)]
struct FolderDocument {
    is_sound: bool,
    problems: Vec<FolderProblemRecord>,
}

#[derive(Serialize)]
struct FolderProblemRecord {
    file: PathBuf,
    message: String,
}

/// Verifies a coordinator's folder.
fn verify_folder(folder: &Path, json: bool) -> anyhow::Result<Exit> {
    let problems = fedbo_coordinator::verify(folder)?;
    let is_sound = problems.is_empty();
    let records = problems
        .into_iter()
        .map(|problem| FolderProblemRecord { file: problem.file, message: problem.message });
    let problems: Vec<FolderProblemRecord> = records.collect();
    if json {
        let document = FolderDocument { is_sound, problems };
        console::result(&serde_json::to_string_pretty(&document)?)?;
    } else if is_sound {
        console::result(&format!("{} is sound: its store and all ledgers", folder.display()))?;
    } else {
        for problem in &problems {
            console::result(&format!("{}: {}", problem.file.display(), problem.message))?;
        }
        let n_problems = counted(problems.len() as u64, "problem");
        console::note(&format!("error: {} is damaged: {n_problems}", folder.display()));
    }
    Ok(if is_sound { Exit::Done } else { Exit::Input })
}

impl Verify {
    fn run(&self) -> anyhow::Result<Exit> {
        let path = path(&self.storage)?;
        if path.is_dir() {
            check_is_coordinators(&path)?;
            return verify_folder(&path, self.json);
        }
        let mut report = fedbo_storage::verify(&path)?;
        let problems = problems_of_studies(&path, &report.problems)?;
        report.problems.extend(problems);
        let is_sound = report.problems.is_empty();
        let found = format!(
            "{}, {}",
            match report.n_studies {
                1 => "1 study".to_owned(),
                n => format!("{n} studies"),
            },
            counted(report.n_trials, "trial")
        );
        if self.json {
            let problems = report.problems.into_iter().map(|problem| ProblemRecord {
                study: problem.study,
                trial: problem.trial,
                message: problem.message,
            });
            let document = VerifyDocument {
                is_sound,
                layout_version: report.version,
                studies: report.n_studies,
                trials: report.n_trials,
                problems: problems.collect(),
            };
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else if is_sound {
            console::result(&format!("{} is sound: {found}", path.display()))?;
        } else {
            for problem in &report.problems {
                console::result(&problem.to_string())?;
            }
            let n_problems = counted(report.problems.len() as u64, "problem");
            let path = path.display();
            console::note(&format!(
                "error: {path} is damaged: {n_problems} in {found}; continue from a backup, or save the rest with fedbo export \
                 sqlite:{path}"
            ));
        }
        Ok(if is_sound { Exit::Done } else { Exit::Input })
    }
}

/// Finds invalid study definitions, and points outside their spaces.
///
/// Skips a file that is damaged as a whole, because opening it requires write access.
fn problems_of_studies(path: &Path, known: &[Problem]) -> anyhow::Result<Vec<Problem>> {
    if known.iter().any(|problem| problem.study.is_none()) {
        return Ok(Vec::new());
    }
    let opened = fedbo_storage::open(&Address::Sqlite(path.to_owned()), Mode::Existing);
    let listed = opened.and_then(|storage| Ok((storage.studies()?, storage)));
    let (studies, storage) = match listed {
        Ok(both) => both,
        Err(_) if !known.is_empty() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut problems = Vec::new();
    for study in studies {
        let loaded = Study::load(Arc::clone(&storage), Some(&study.name));
        let messages = match loaded.and_then(|study| study.check()) {
            Ok(messages) => messages,
            // This damage has already been reported.
            Err(StudyError::Storage(_)) if !known.is_empty() => continue,
            Err(StudyError::Storage(error)) => return Err(error.into()),
            Err(error) => vec![error.to_string()],
        };
        problems.extend(messages.into_iter().map(|message| Problem {
            study: Some(study.name.clone()),
            trial: None,
            message,
        }));
    }
    Ok(problems)
}

impl Upgrade {
    fn run(&self) -> anyhow::Result<Exit> {
        let (place, report) = match self.storage.parse::<Address>() {
            Ok(address @ Address::Postgres(_)) => {
                let report = fedbo_storage::upgrade_at(&address)?;
                (address.to_string(), report)
            }
            _ => {
                let path = path(&self.storage)?;
                let report = fedbo_storage::upgrade(&path)?;
                (path.display().to_string(), report)
            }
        };
        if self.json {
            let document =
                UpgradeDocument { from: report.from, to: report.to, backup: report.backup };
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        let (from, to) = (report.from, report.to);
        console::result(&match &report.backup {
            None if from == to => format!("{place} is up to date: its layout has version {to}"),
            None => {
                format!("{place} was upgraded from layout version {from} to {to}")
            }
            Some(backup) => format!(
                "{place} was upgraded from layout version {from} to {to}; the original is kept in {}",
                backup.display()
            ),
        })?;
        Ok(Exit::Done)
    }
}

/// Parses `sqlite:FILE` or `FILE`.
fn path(storage: &str) -> anyhow::Result<PathBuf> {
    match storage.parse::<Address>() {
        Ok(Address::Sqlite(path)) => Ok(path),
        Ok(Address::Memory) => {
            let message = "memory: is not a file; name sqlite:FILE";
            Err(BadInput(message.to_owned()).into())
        }
        Ok(address @ Address::Postgres(_)) => {
            let message = format!(
                "{address} is not a file; a PostgreSQL server checks its files itself (pg_amcheck), and fedbo checks the layout \
                 whenever it opens one"
            );
            Err(BadInput(message).into())
        }
        Err(_) => Ok(PathBuf::from(storage)),
    }
}
