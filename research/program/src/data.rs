//! `fedbo-research data`: the published data sets used by experiments.

use std::path::{Path, PathBuf};

use fedbo_console::table::{self, Column};
use fedbo_console::{self as console, BadInput, Exit};
use fedbo_experiments::catalogue::{self, catalogue};
use fedbo_report::{ReportError, write_whole};
use fedbo_research_problems::data_sets::{self, FileState, SetReport, SetState, conversions};
use serde_json::{Value, json};

/// Check a folder with published data sets, or make one from the authors' originals
///
/// docs/data.md describes the data sets, their sources and the layout of the folder.
#[derive(clap::Subcommand)]
pub(crate) enum Data {
    Check(Check),
    Convert(Convert),
}

/// Check which data sets a folder has, and which experiments can run with it
///
/// Every file is read as experiments read it. The exit code is 2 if a file is malformed or no data
/// set is complete, otherwise 0.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// The data folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Convert a data set from the authors' original to the layout of the data folder
///
/// Nothing is written unless the whole original can be read.
#[derive(clap::Args)]
pub(crate) struct Convert {
    /// The data set
    #[arg(value_name = "SET", value_parser = names())]
    data_set: String,
    /// The original: a file or a folder, see docs/data.md
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The data folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Print the files written as JSON
    #[arg(long)]
    json: bool,
}

fn names() -> clap::builder::PossibleValuesParser {
    conversions().iter().map(|conversion| conversion.data_set).collect::<Vec<_>>().into()
}

impl Data {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Check(command) => command.run(),
            Self::Convert(command) => command.run(),
        }
    }
}

/// Usability of a data folder for an experiment.
struct Prospect {
    name: &'static str,
    /// Required data sets that are incomplete. The experiment can run if there are none.
    lacks: Vec<&'static str>,
    /// Missing files with the authors' figures, which cannot be shown.
    without: Vec<&'static str>,
}

impl Prospect {
    fn of(experiment: &catalogue::Experiment, reports: &[SetReport]) -> Self {
        let is_complete = |name: &str| {
            let report = reports.iter().find(|report| report.set.name == name);
            report.is_some_and(|report| report.state() == SetState::Complete)
        };
        let is_there = |path: &str| {
            reports.iter().any(|report| {
                let mut files = report.set.files.iter().zip(&report.files);
                files.any(|(file, state)| {
                    file.path == path && matches!(state, FileState::Complete { .. })
                })
            })
        };
        let lacks = experiment.data_sets.iter().copied().filter(|name| !is_complete(name));
        let without = experiment.figures.iter().copied().filter(|path| !is_there(path));
        Self { name: experiment.name, lacks: lacks.collect(), without: without.collect() }
    }
}

impl Check {
    fn run(&self) -> anyhow::Result<Exit> {
        let reports = data_sets::check(&self.folder)?;
        let reads = |each: &&catalogue::Experiment| each.needs_data() || !each.figures.is_empty();
        let prospects: Vec<Prospect> =
            catalogue().iter().filter(reads).map(|each| Prospect::of(each, &reports)).collect();
        if self.json {
            let value = json!({
                "schema_version": 1,
                "folder": self.folder,
                "data_sets": reports.iter().map(set_json).collect::<Vec<_>>(),
                "experiments": prospects.iter().map(prospect_json).collect::<Vec<_>>(),
            });
            console::result(&serde_json::to_string_pretty(&value)?)?;
        } else {
            print(&reports, &prospects)?;
        }
        let is = |state| reports.iter().any(|report| report.state() == state);
        if is(SetState::Malformed) {
            return Ok(Exit::Input);
        }
        if !is(SetState::Complete) {
            console::note(
                "no data set is complete: docs/data.md describes the source of each, and `fedbo-research data convert` converts the originals to this layout",
            );
            return Ok(Exit::Input);
        }
        Ok(Exit::Done)
    }
}

fn word(state: SetState) -> &'static str {
    match state {
        SetState::Complete => "complete",
        SetState::Incomplete => "incomplete",
        SetState::Missing => "missing",
        SetState::Malformed => "malformed",
    }
}

fn set_json(report: &SetReport) -> Value {
    let file = |(file, state): (&data_sets::DataFile, &FileState)| match state {
        FileState::Complete { rows } => {
            json!({ "path": file.path, "state": "complete", "rows": rows })
        }
        FileState::Missing => json!({ "path": file.path, "state": "missing" }),
        FileState::Malformed { line, message } => {
            json!({ "path": file.path, "state": "malformed", "line": line, "message": message })
        }
    };
    json!({
        "name": report.set.name,
        "about": report.set.about,
        "state": word(report.state()),
        "files": report.set.files.iter().zip(&report.files).map(file).collect::<Vec<_>>(),
    })
}

fn prospect_json(prospect: &Prospect) -> Value {
    json!({
        "name": prospect.name,
        "runs": prospect.lacks.is_empty(),
        "lacks": prospect.lacks,
        "without_figures": prospect.without,
    })
}

fn print(reports: &[SetReport], prospects: &[Prospect]) -> anyhow::Result<()> {
    let column = |head, cell: &dyn Fn(&SetReport) -> String, spare| {
        Column::words(head, reports.iter().map(cell).collect(), spare)
    };
    let columns = vec![
        column("data set", &|report| report.set.name.to_owned(), 0),
        column("state", &|report| word(report.state()).to_owned(), 0),
        column("files", &files_found, 0),
        column("contents", &|report| report.set.about.to_owned(), 1),
    ];
    let (text, _) = table::fit(columns, console::width());
    console::table(&text, None)?;
    for report in reports {
        for fault in faults(report) {
            console::result(&fault)?;
        }
    }
    let fate = |prospect: &Prospect| match (&prospect.lacks[..], &prospect.without[..]) {
        ([], []) => "runs".to_owned(),
        ([], without) => format!("runs, without the authors' figures ({})", without.join(", ")),
        (lacks, _) => format!("does not run: needs {}", lacks.join(", ")),
    };
    let columns = vec![
        Column::words("experiment", prospects.iter().map(|each| each.name.to_owned()).collect(), 0),
        Column::words("with this folder", prospects.iter().map(fate).collect(), 0),
    ];
    console::result("")?;
    console::table(&table::draw(&columns), None)?;
    console::result("\nAll other experiments need no data folder.")?;
    Ok(())
}

fn files_found(report: &SetReport) -> String {
    let good = report.files.iter().filter(|state| matches!(state, FileState::Complete { .. }));
    format!("{} of {}", good.count(), report.files.len())
}

/// Returns the malformed files, and the files missing from incomplete data sets.
fn faults(report: &SetReport) -> Vec<String> {
    let is_absent = report.state() == SetState::Missing;
    let fault = |(file, state): (&data_sets::DataFile, &FileState)| match state {
        FileState::Complete { .. } => None,
        FileState::Missing if is_absent => None,
        FileState::Missing => Some(format!("{}: missing", file.path)),
        FileState::Malformed { line: Some(line), message } => {
            Some(format!("{}, line {line}: {message}", file.path))
        }
        FileState::Malformed { line: None, message } => Some(format!("{}: {message}", file.path)),
    };
    report.set.files.iter().zip(&report.files).filter_map(fault).collect()
}

impl Convert {
    fn run(&self) -> anyhow::Result<Exit> {
        let found = conversions().iter().find(|each| each.data_set == self.data_set);
        let Some(conversion) = found else {
            return Err(BadInput(format!("there is no conversion of {:?}", self.data_set)).into());
        };
        let files = conversion.run(&self.source)?;
        let paths: Vec<PathBuf> = files.iter().map(|file| self.out.join(&file.path)).collect();
        if !self.overwrite
            && let Some(there) = paths.iter().find(|path| path.symlink_metadata().is_ok())
        {
            let there = there.display();
            let message = format!(
                "{there} already exists; replace it with --overwrite, or choose another folder with --out DIR"
            );
            return Err(BadInput(message).into());
        }
        for (file, path) in files.iter().zip(&paths) {
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)
                .map_err(|cause| ReportError::CreateFolder { path: folder.to_owned(), cause })?;
            write_whole(path, file.text.as_bytes())?;
        }
        if self.json {
            let value = json!({ "files": paths });
            console::result(&serde_json::to_string_pretty(&value)?)?;
        } else {
            for (file, path) in files.iter().zip(&paths) {
                console::result(&format!("wrote {} ({} rows)", path.display(), file.rows))?;
            }
        }
        Ok(Exit::Done)
    }
}
