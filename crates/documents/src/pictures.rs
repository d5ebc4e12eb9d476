//! Pictures of a study, written by `fedbo plot` and shown in Python.

use std::collections::BTreeSet;

use fedbo_report::study::{
    PARETO_PICTURE, PlottedImportance, PlottedObjective, PlottedOldStudy, PlottedParameter,
    PlottedTransfer, PlottedTrial, STUDY_PICTURES, StudyPlot, TRANSFER_PICTURE,
};
use fedbo_report::{CurveEnd, LearningCurveLine, LearningCurvesPicture, Picture, ReportError};
use fedbo_space::Direction;
use fedbo_storage::{Told, Trial};
use fedbo_study::{Definition, Insight, Study, StudyError, TransferStep};

use crate::game_results::plotted as plotted_value;

/// A picture of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyPicture {
    /// The value of each trial, and the best value so far.
    History,
    /// The values against each parameter.
    Slices,
    /// The importance of each parameter.
    Importance,
    /// Pairs of objectives, for a study with multiple objectives.
    Pareto,
    /// The values reported during training, epoch by epoch.
    LearningCurves,
    /// The weights of the study's old studies, query by query.
    Transfer,
}

/// Error returned if a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// No trial is finished.
    #[error("study {study:?} has no finished trial to draw yet")]
    NoTrial {
        /// Name of the study.
        study: String,
    },
    /// No trial has reported a value, or the study stores no reports.
    #[error("study {study:?} has no learning curves: {why}")]
    NoCurves {
        /// Name of the study.
        study: String,
        /// The reason.
        why: &'static str,
    },
    /// The picture does not support the study's number of objectives, one or several.
    #[error("study {study:?} has {n_objectives}: its pictures are {pictures}")]
    OtherObjectives {
        /// Name of the study.
        study: String,
        /// The number of objectives, in words.
        n_objectives: &'static str,
        /// The pictures available for the study.
        pictures: String,
    },
    /// The study does not learn from old studies.
    #[error("study {study:?} learns from no old studies, so nothing is transferred to it")]
    NoTransfer {
        /// Name of the study.
        study: String,
    },
    /// The study cannot be read, or its model cannot be fitted.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The picture cannot be drawn.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Draws a picture of a study, identical to the output of `fedbo plot`.
///
/// # Errors
/// Fails if there is nothing to draw yet, or if the study cannot be read.
pub fn draw(study: &Study, picture: StudyPicture) -> Result<Picture, PictureError> {
    let trials = study.trials()?;
    let name = || study.definition().name.clone();
    if picture == StudyPicture::LearningCurves {
        let why = match study.definition().early_stopping {
            Some(_) => "no trial has reported a value yet",
            None => "it stops no trials early, so it keeps no reports",
        };
        let curves = learning_curves(study, &trials);
        let curves = curves.ok_or_else(|| PictureError::NoCurves { study: name(), why })?;
        return Ok(curves.picture()?);
    }
    if !trials.iter().any(|trial| is_drawn(study.definition(), trial)) {
        return Err(PictureError::NoTrial { study: name() });
    }
    let is_of_several = picture == StudyPicture::Pareto;
    let has_several = study.definition().outcomes().n_objectives > 1;
    if is_of_several != has_several {
        return Err(PictureError::OtherObjectives {
            study: name(),
            n_objectives: if has_several { "several objectives" } else { "one objective" },
            pictures: match has_several {
                true => PARETO_PICTURE.to_owned(),
                false => STUDY_PICTURES.join(", "),
            },
        });
    }
    let insight = match picture {
        StudyPicture::Importance => study.insight()?,
        _ => None,
    };
    let transfer = match picture {
        StudyPicture::Transfer => study.transfer_history()?,
        _ => None,
    };
    let plot = study_plot(study, &trials, insight, transfer.as_deref());
    let word = match picture {
        StudyPicture::History => "history",
        StudyPicture::Slices => "slices",
        StudyPicture::Importance => "importance",
        StudyPicture::Pareto => PARETO_PICTURE,
        StudyPicture::Transfer | StudyPicture::LearningCurves => TRANSFER_PICTURE,
    };
    plot.picture(word).ok_or_else(|| PictureError::NoTransfer { study: name() })
}

/// Returns the learning curves of the trials; `None` if the study does not stop trials early or no
/// trial has reported a value.
pub fn learning_curves(study: &Study, trials: &[Trial]) -> Option<LearningCurvesPicture> {
    let spec = study.definition().early_stopping?;
    let reported = trials.iter().filter(|trial| !trial.reports.is_empty() && !trial.is_discarded());
    let lines: Vec<LearningCurveLine> = reported
        .map(|trial| LearningCurveLine {
            trial: trial.number,
            values: trial.reports.iter().map(|report| (report.epoch, report.value)).collect(),
            ended: match trial.told() {
                Some(Told::Value(_) | Told::Numbers(_)) => CurveEnd::Complete,
                Some(Told::Stopped { .. }) => CurveEnd::Stopped,
                Some(Told::Failed { .. } | Told::Discarded) => CurveEnd::Failed,
                None => CurveEnd::Running,
            },
            rest: Vec::new(),
        })
        .collect();
    (!lines.is_empty()).then(|| LearningCurvesPicture {
        title: study.definition().name.clone(),
        y_label: "value".to_owned(),
        n_epochs: spec.epochs,
        direction: study.direction(),
        scale: None,
        lines,
    })
}

/// Returns true if a trial ran to its end and does not lack an objective. The values of trials that
/// were stopped early are not final.
pub fn is_drawn(definition: &Definition, trial: &Trial) -> bool {
    match trial.told() {
        Some(Told::Value(_) | Told::Numbers(_)) => definition.has_objectives(trial),
        other => matches!(other, Some(Told::Failed { .. })),
    }
}

/// Converts a study to plain data for its pictures: trials, parameter importance and old studies.
pub fn study_plot(
    study: &Study,
    trials: &[Trial],
    insight: Option<Insight>,
    transfer: Option<&[TransferStep]>,
) -> StudyPlot {
    let space = study.space();
    let mut told: Vec<&Trial> =
        trials.iter().filter(|trial| is_drawn(study.definition(), trial)).collect();
    told.sort_by_key(|trial| trial.told_seq);
    let is_stopped = |trial: &&Trial| matches!(trial.told(), Some(Told::Stopped { .. }));
    let n_stopped = trials.iter().filter(is_stopped).count();
    let definition = study.definition();
    let objectives = definition
        .objectives
        .iter()
        .map(|each| PlottedObjective { name: each.name.clone(), direction: each.direction });
    let front: BTreeSet<u64> = match definition.objectives.is_empty() {
        true => BTreeSet::new(),
        false => definition.best_trials(trials).into_iter().map(|trial| trial.number).collect(),
    };
    StudyPlot {
        title: study.definition().name.clone(),
        minimize: study.direction() == Direction::Minimize,
        objectives: objectives.collect(),
        trials: told.into_iter().map(|trial| plotted(study, &front, trial)).collect(),
        n_stopped,
        parameters: space
            .parameters()
            .iter()
            .map(|parameter| PlottedParameter {
                name: parameter.name().to_owned(),
                range: parameter.kind().clone(),
            })
            .collect(),
        importance: insight
            .map(|insight| insight.importance)
            .unwrap_or_default()
            .into_iter()
            .map(|each| PlottedImportance {
                parameter: each.name,
                variance_share: each.variance_share,
                relevance: each.relevance,
            })
            .collect(),
        transfer: transfer.map(plotted_transfer),
    }
}

/// Returns the weight of each old study at every query of a study.
fn plotted_transfer(steps: &[TransferStep]) -> PlottedTransfer {
    let last = steps.last().map_or(&[][..], |step| &step.studies);
    let studies = last.iter().enumerate().map(|(index, trust)| PlottedOldStudy {
        name: trust.name.clone(),
        weights: steps.iter().map(|step| step.studies[index].weight).collect(),
        dropped: trust.dropped,
    });
    PlottedTransfer {
        shares: steps.iter().map(|step| step.share).collect(),
        studies: studies.collect(),
    }
}

fn plotted(study: &Study, front: &BTreeSet<u64>, trial: &Trial) -> PlottedTrial {
    let definition = study.definition();
    let coordinates = study
        .space()
        .parameters()
        .iter()
        .map(|parameter| plotted_value(trial.point.get(parameter.name()), parameter.kind()));
    PlottedTrial {
        number: trial.number,
        value: trial.value(),
        coordinates: coordinates.collect(),
        initial: trial.origin() == "initial",
        numbers: trial.numbers().iter().take(definition.objectives.len()).copied().collect(),
        feasible: definition.is_feasible(trial),
        on_front: front.contains(&trial.number),
    }
}
