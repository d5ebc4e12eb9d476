//! Export of trials: tables and TensorBoard event files.
//!
//! This module defines the formats in which `fedbo export` and Python's `Study.export` write a
//! study for other programs.

mod tensorboard;

use std::path::{Path, PathBuf};

use fedbo_report::write_whole;
use fedbo_storage::{Address, Trial};
use fedbo_study::{Definition, Study};

use crate::study_ref::OwnFiles;
use crate::trial_record::{TrialsDocument, csv};

/// File format of exported trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values
    Csv,
    /// JSON as printed by `fedbo trials --json`
    Json,
    /// Folder of event files: one run for the study, and one for each trial that reported during
    /// training
    #[value(name = "tensorboard")]
    TensorBoard,
}

impl ExportFormat {
    /// Returns the trials as one string; `None` if the format is a folder.
    pub fn text(
        self,
        study: &Study,
        storage: &str,
        trials: &[Trial],
    ) -> anyhow::Result<Option<String>> {
        Ok(match self {
            Self::Csv => Some(String::from_utf8(csv(study.definition(), study.space(), trials)?)?),
            Self::Json => {
                let corrections = study.corrections()?;
                let document = TrialsDocument::new(study, storage, trials, &corrections);
                Some(serde_json::to_string_pretty(&document)? + "\n")
            }
            Self::TensorBoard => None,
        })
    }
}

/// Writes the trials of a study stored at `address` to a file, or to a folder for TensorBoard.
/// Returns the paths of the files.
///
/// # Errors
/// Fails if the study cannot be read, the output cannot be written, or the output would overwrite a
/// file of the study itself.
pub fn export(
    study: &Study,
    address: &Address,
    format: ExportFormat,
    out: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    export_beside(study, &address.to_string(), &OwnFiles::of(address), format, out)
}

/// Same as [`export`], but with an explicit set of files that must not be overwritten.
pub fn export_beside(
    study: &Study,
    storage: &str,
    own: &OwnFiles,
    format: ExportFormat,
    out: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    own.check_is_separate(out)?;
    let trials = study.trials()?;
    match format.text(study, storage, &trials)? {
        Some(text) => {
            write_whole(out, text.as_bytes())?;
            Ok(vec![out.to_owned()])
        }
        None => Ok(tensorboard::write(study, &trials, out, own)?),
    }
}

/// Returns the finished trials in completion order, each with its position, counted from 0. In a
/// study with a single worker, the position equals the trial's number.
fn in_order_of_telling(trials: &[Trial]) -> Vec<(u64, &Trial)> {
    let place = |trial: &Trial| trial.told_seq.map(|seq| seq.saturating_sub(1));
    let mut told: Vec<_> = trials
        .iter()
        .filter(|trial| trial.told().is_some())
        .filter_map(|trial| place(trial).map(|place| (place, trial)))
        .collect();
    told.sort_by_key(|(place, _)| *place);
    told
}

/// Returns the trials with numbers, in completion order.
fn with_best<'a>(study: &'a Study, trials: &[Trial]) -> Vec<Valued<'a>> {
    let (definition, direction) = (study.definition(), study.direction());
    let has_best = definition.outcomes().n_objectives == 1;
    let mut best: Option<f64> = None;
    let valued = in_order_of_telling(trials).into_iter().filter_map(|(place, trial)| {
        if trial.numbers().is_empty() {
            return None;
        }
        let value = trial.value();
        if let Some(value) = value
            && has_best
            && definition.is_feasible(trial)
            && best.is_none_or(|best| direction.is_better(value, best))
        {
            best = Some(value);
        }
        let further = named_numbers(definition, trial).collect();
        Some(Valued { place, told_at_ms: time_of(trial), value, best, further })
    });
    valued.collect()
}

/// Returns a trial's measured numbers by name, without `value`.
fn named_numbers<'a>(
    definition: &'a Definition,
    trial: &Trial,
) -> impl Iterator<Item = (&'a str, f64)> {
    let numbers = trial.numbers().to_vec();
    let named = definition.number_names().into_iter().zip(numbers);
    named.filter(|(name, number)| *name != "value" && !number.is_nan())
}

impl<'a> Valued<'a> {
    /// Returns the trial's scalars: `value`, `best` and its other numbers.
    fn scalars(&self) -> Vec<(&'a str, f64)> {
        let best = self.best.map(|best| ("best", best));
        let value = self.value.map(|value| ("value", value));
        value.into_iter().chain(best).chain(self.further.iter().copied()).collect()
    }
}

/// A trial with numbers.
struct Valued<'a> {
    /// Position in completion order, counted from 0.
    place: u64,
    told_at_ms: i64,
    /// `None` if it was not measured.
    value: Option<f64>,
    /// Best value of a feasible trial so far. `None` with multiple objectives, or while no trial is
    /// feasible.
    best: Option<f64>,
    /// Numbers other than the value, by name; all numbers if there are multiple objectives.
    further: Vec<(&'a str, f64)>,
}

/// Returns the time at which a trial finished, or else started, or else was asked for, in
/// milliseconds since 1970.
fn time_of(trial: &Trial) -> i64 {
    trial.told_at_ms.or(trial.started_at_ms).unwrap_or(trial.asked_at_ms)
}
