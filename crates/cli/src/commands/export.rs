//! `fedbo export`: exports trials for other programs.

use std::path::PathBuf;

use fedbo_console as console;
use fedbo_console::text::counted;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::export::{ExportFormat, export_beside};
use fedbo_documents::study_ref::{OpenStudy, StudyRef};

/// Export all trials of a study as CSV, JSON or for TensorBoard
///
/// Can be used while the study runs. CSV has one row per trial with number, state, source, value
/// (the last one if the trial was stopped early), failure, attempts, times in UTC, seconds and
/// trained epochs, then one column per parameter. All numbers round-trip exactly. For TensorBoard,
/// event files have the value and the best value by trial, and the reports of each trial by epoch.
#[derive(clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    study: StudyRef,
    /// Output format
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// File to write atomically [default: standard output]; for TensorBoard a folder
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        let format = match self.json {
            true => ExportFormat::Json,
            false => self.format,
        };
        let (study, storage) = (&opened.study, &opened.storage);
        let Some(out) = &self.out else {
            let text = format.text(study, storage, &study.trials()?)?;
            let Some(text) = text else {
                let message =
                    "--format tensorboard writes a folder of event files; name it with --out DIR";
                return Err(BadInput(message.to_owned()).into());
            };
            console::data(&text)?;
            return Ok(Exit::Done);
        };
        let files = export_beside(study, storage, &opened.own, format, out)?;
        if format == ExportFormat::TensorBoard {
            console::result(&named(&opened, &files, out))?;
        }
        Ok(Exit::Done)
    }
}

/// Formats the line that lists the written event files.
fn named(opened: &OpenStudy, files: &[PathBuf], out: &std::path::Path) -> String {
    let folder = out.join(opened.name());
    format!("{}: {}", folder.display(), counted(files.len() as u64, "event file"))
}
