//! Figures of learning curves with their stops, and the hypothetical continuation of stopped ones
//! (thesis Fig. A.3, A.4).

use std::path::Path;

use fedbo_report::{
    CurveEnd, FinalPoint, FinalsPicture, LearningCurveLine, LearningCurvesPicture, Scale,
};

use super::arms::bo_bos;
use super::{Configuration, TrialBook};

/// Draws figures of the first run of BO-BOS on the first configuration.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(
    configuration: &Configuration,
    book: &TrialBook,
    y_label: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    let Some(place) = bo_bos(&configuration.arms) else {
        return Ok(());
    };
    let Some(trials) = book.get(&(0, place, 0)) else {
        return Ok(());
    };
    let direction = configuration.problem.direction();
    let shown = |value: &f64| direction.to_maximize(*value);
    let name = &configuration.name;
    let lines = trials.iter().map(|trial| {
        let mut points = (1_u32..).zip(trial.values.iter().map(shown));
        let values = points.by_ref().take(trial.n_trained).collect();
        LearningCurveLine {
            trial: trial.number,
            values,
            ended: match trial.is_stopped {
                true => CurveEnd::Stopped,
                false => CurveEnd::Complete,
            },
            rest: points.collect(),
        }
    });
    LearningCurvesPicture {
        title: format!("{name}: trials of one run of BO-BOS"),
        y_label: y_label.to_owned(),
        n_epochs: u32::try_from(configuration.problem.n_epochs())?,
        direction,
        scale: Some(Scale::Linear),
        lines: lines.collect(),
    }
    .write(folder)?;
    let points = trials.iter().filter_map(|trial| {
        Some(FinalPoint {
            trial: trial.number,
            value: shown(trial.values.last()?),
            stopped: trial.is_stopped,
            incumbent: trial.incumbent.as_ref().map(shown),
        })
    });
    FinalsPicture {
        title: format!("{name}: values of the trials after all epochs"),
        y_label: y_label.to_owned(),
        direction,
        scale: Some(Scale::Linear),
        points: points.collect(),
    }
    .write(folder)?;
    Ok(())
}
