//! `fedbo best`: the best trials of a study and the importance of its parameters.

use std::io::IsTerminal;
use std::time::Duration;

use fedbo_gp::OutputTransform;
use fedbo_storage::{Told, Trial};
use fedbo_study::{Insight, ParameterImportance, StudyError, TransferStep};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::found::Found;
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::{counted, number};
use fedbo_documents::old_studies::{self, OldStudiesRecord};
use fedbo_documents::study_ref::{OpenStudy, StudyRef};
use fedbo_documents::trial_record::{SCHEMA_VERSION, TrialRecord};

/// Show the best trial of a study and the importance of each parameter
///
/// Fits a model to all trials, regardless of the study's strategy. share is the fraction of the
/// variance of the model's mean over the space that remains if all other parameters are fixed;
/// shares of interacting parameters add up to more than 1. relevance is computed only from the
/// model's length scales. With constraints, shows the best trial that meets them, or the one with
/// the smallest violation. With several objectives, shows all nondominated trials. For a study that
/// learns from old studies, also shows the current trust in each of them, and why some are dropped.
#[derive(clap::Args)]
pub(crate) struct Best {
    #[command(flatten)]
    study: StudyRef,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BestDocument<'a> {
    schema_version: u32,
    study: &'a str,
    storage: &'a str,
    best: Option<TrialRecord<'a>>,
    /// Nondominated feasible trials, if there are several objectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<TrialRecord<'a>>>,
    /// Number of trials that meet all constraints, if there are constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    feasible: Option<usize>,
    /// Trial with the smallest total constraint violation, if none is feasible.
    #[serde(skip_serializing_if = "Option::is_none")]
    least_violation: Option<LeastViolation<'a>>,
    model: Option<ModelRecord<'a>>,
    /// Weights of old studies in the next query, if the study learns from old studies.
    old_studies: Option<OldStudiesRecord<'a>>,
}

/// The trial with the smallest constraint violation.
#[derive(Serialize)]
struct LeastViolation<'a> {
    trial: TrialRecord<'a>,
    violation: f64,
}

/// Results of a model fitted to all trials.
#[derive(Serialize)]
struct ModelRecord<'a> {
    best_by_mean: TrialRecord<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability_feasible: Option<f64>,
    mean: f64,
    std: f64,
    noise_std: f64,
    output_transform: Option<OutputTransform>,
    n_values: usize,
    importance: &'a [ParameterImportance],
}

impl Best {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        let (definition, trials) = (opened.study.definition(), opened.study.trials()?);
        let found = Found::of(definition, &trials);
        // The model supports only a single objective.
        let insight = match definition.objectives.is_empty() && !found.is_nothing() {
            true => insight(&opened),
            false => None,
        };
        let transfer = transfer(&opened);
        let meta = definition.meta.as_ref();
        let transfer = meta.zip(transfer.as_ref());
        if self.json {
            let document = BestDocument {
                schema_version: SCHEMA_VERSION,
                study: opened.name(),
                storage: &opened.storage,
                best: found.best.map(|best| TrialRecord::new(definition, best)),
                front: found.front_records(definition),
                feasible: found.n_feasible,
                least_violation: found
                    .nearest_record(definition)
                    .map(|(trial, violation)| LeastViolation { trial, violation }),
                model: insight.as_ref().map(|insight| ModelRecord {
                    best_by_mean: TrialRecord::new(definition, &insight.best_by_mean),
                    probability_feasible: insight.probability_feasible,
                    mean: insight.mean,
                    std: insight.std,
                    noise_std: insight.noise_std,
                    output_transform: insight.output_transform,
                    n_values: insight.n_values,
                    importance: &insight.importance,
                }),
                old_studies: transfer.map(|(meta, step)| {
                    OldStudiesRecord::new(meta, step, opened.study.direction())
                }),
            };
            console::result(&serde_json::to_string_pretty(&document)?)?;
        }
        if found.is_nothing() {
            return without_value(&opened);
        }
        if self.json {
            return Ok(Exit::Done);
        }
        found.print(definition, insight.as_ref())?;
        if let Some((meta, step)) = transfer {
            console::result(&format!("\n{}", old_studies::trust(meta, step)))?;
        }
        let Some(insight) = insight else { return Ok(Exit::Done) };
        if let Some(transform) = insight.output_transform.filter(|each| each.power().is_none()) {
            console::result(&format!("\nmodel of the {transform}"))?;
        }
        if definition.noisy {
            console::result(&format!("\n{}", in_words(&insight, found.best)))?;
        }
        Ok(Exit::Done)
    }
}

/// Compares the trial with the best model mean to the trial with the best noisy value.
fn in_words(insight: &Insight, best: Option<&Trial>) -> String {
    let (mean, std) = (number(insight.mean), number(insight.std));
    let chosen = insight.best_by_mean.number;
    let noise = number(insight.noise_std);
    if let Some(p) = insight.probability_feasible.filter(|p| *p < 0.5) {
        return format!(
            "the values are noisy (about ± {noise}): the model expects no trial to meet all constraints; trial {chosen} is the \
             most likely to, with probability {p:.2}, and is expected at {mean} ± {std}"
        );
    }
    let expected = match best.is_some_and(|best| best.number == chosen) {
        true => format!("the model agrees: it expects {mean} ± {std} there"),
        false => format!(
            "the values are noisy (about ± {noise}): the model expects trial {chosen} to be the best, at {mean} ± {std}"
        ),
    };
    match insight.probability_feasible {
        None => expected,
        Some(p) => format!("{expected}; it meets all constraints with a probability of {p:.2}"),
    }
}

/// Reports that there is no best trial.
fn without_value(opened: &OpenStudy) -> anyhow::Result<Exit> {
    let trials = opened.study.trials()?;
    let n_told = trials.iter().filter(|t| t.told().is_some()).count() as u64;
    let stopped = |t: &&Trial| matches!(t.told(), Some(Told::Stopped { .. }));
    let n_stopped = trials.iter().filter(stopped).count() as u64;
    let n_failed = n_told - n_stopped;
    if n_stopped > 0 {
        console::note(&format!(
            "error: no trial has a value: {n_stopped} stopped early, {n_failed} failed; fedbo trials {} shows why",
            opened.word
        ));
        return Ok(Exit::NoTrial);
    }
    if n_failed == 0 {
        let open = counted(trials.len() as u64, "trial");
        console::note(&format!("no trial has a value yet; open: {open}"));
        return Ok(Exit::Done);
    }
    console::note(&format!(
        "error: no trial has a value: {} failed; fedbo trials {} shows why",
        counted(n_failed, "trial"),
        opened.word
    ));
    Ok(Exit::NoTrial)
}

/// Returns the weights of old studies in the next query, or `None` if the study has no old studies.
///
/// If the models cannot be fitted, prints a warning and returns `None`, so that the rest is still
/// shown.
pub(super) fn transfer(opened: &OpenStudy) -> Option<TransferStep> {
    opened.study.transfer().unwrap_or_else(|error| {
        let what = "warning: cannot compute the weights of old studies";
        console::note(&format!("{what}: {error}"));
        None
    })
}

/// Returns the results of a model fitted to all trials. If it cannot be fitted, prints a warning
/// and returns `None`, so that the best trial is still shown.
pub(super) fn insight(opened: &OpenStudy) -> Option<Insight> {
    let spinner = std::io::stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} fitting a model to all trials") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(Duration::from_millis(250));
        spinner
    });
    let found = opened.study.insight();
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    found.unwrap_or_else(|error: StudyError| {
        console::note(&format!("warning: cannot fit a model: {error}"));
        None
    })
}
