//! `fedbo export`: all trials for other programs.

use std::path::PathBuf;

use serde::Serialize;

use crate::console;
use crate::exit::{BadInput, Exit};
use crate::export::mlflow::{self, Exported, Mlflow};
use crate::export::{ExportFormat, export_beside};
use crate::study_ref::{OpenStudy, StudyRef};
use crate::text::counted;
use crate::trial_record::SCHEMA_VERSION;

/// Write all trials of a study as CSV, JSON or for TensorBoard, or send them to MLflow
///
/// Also while it runs. CSV has one row a trial: number, state, source, value (of a trial that was stopped early its last one), failure,
/// attempts, times in UTC, seconds, the epochs that it has trained, then one column a parameter. All numbers read back exactly.
/// TensorBoard gets event files: value and best by trial, and the reports of each trial by epoch. MLflow gets one run for the study with
/// one below it for each trial that has ended; a later export adds what is new. Its credentials are read from MLFLOW_TRACKING_TOKEN,
/// or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
#[derive(clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    study: StudyRef,
    /// Form
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
    /// The same as --format json; with --to, print the result as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to this file, whole or not at all [default: standard output]; of TensorBoard a folder
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Send the trials to a server instead: mlflow:URL, for instance mlflow:http://127.0.0.1:5000
    #[arg(long, value_name = "mlflow:URL", conflicts_with_all = ["format", "out"])]
    to: Option<String>,
    /// With --to: the experiment of MLflow, created if there is none [default: fedbo]
    #[arg(long, value_name = "NAME", requires = "to")]
    experiment: Option<String>,
    /// With --to: a file of certificates (PEM) to trust besides those of the system
    #[arg(long, value_name = "FILE", requires = "to")]
    ca: Option<PathBuf>,
    /// With --to: speak plain HTTP also beyond this machine: everybody on the way can read what is sent
    #[arg(long, requires = "to")]
    plain_http: bool,
}

/// The experiment where none is named.
const EXPERIMENT: &str = "fedbo";

/// The result of an export to MLflow.
#[derive(Serialize)]
struct ExportedDocument<'a> {
    schema_version: u32,
    study: &'a str,
    #[serde(flatten)]
    exported: &'a Exported,
}

impl Export {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if let Some(to) = &self.to {
            return self.send(to);
        }
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

    fn send(&self, to: &str) -> anyhow::Result<Exit> {
        // A mistake in the address is one whatever the study.
        let url = mlflow::address(to, self.plain_http)?;
        let authorization = mlflow::authorization(|name| std::env::var_os(name))?;
        let opened = self.study.stored()?;
        let trials = opened.study.trials()?;
        let experiment = self.experiment.as_deref().unwrap_or(EXPERIMENT);
        let server = Mlflow::new(&url, self.ca.as_deref(), authorization)?;
        let exported = server.export(&opened.study, &trials, experiment)?;
        if self.json {
            let study = opened.name();
            let document =
                ExportedDocument { schema_version: SCHEMA_VERSION, study, exported: &exported };
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        let mut text = format!(
            "{} exported to {}/#/experiments/{}/runs/{}",
            counted(exported.exported as u64, "trial"),
            exported.url,
            exported.experiment_id,
            exported.run_id
        );
        if exported.known > 0 {
            text += &format!("; {} there already", exported.known);
        }
        if exported.open > 0 {
            text += &format!("; {} not finished", exported.open);
        }
        console::result(&text)?;
        Ok(Exit::Done)
    }
}

/// The line on the event files that were written.
fn named(opened: &OpenStudy, files: &[PathBuf], out: &std::path::Path) -> String {
    let folder = out.join(opened.name());
    format!("{}: {}", folder.display(), counted(files.len() as u64, "event file"))
}
