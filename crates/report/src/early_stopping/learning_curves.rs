//! `learning-curves`: the value of every training, epoch by epoch, and where early stopping ended it (thesis Fig. A.3).

mod drawing;

use std::path::{Path, PathBuf};

use fedbo_space::Direction;

use self::drawing::Drawing;
use super::{counted, number, write_both};
use crate::error::ReportError;
use crate::plot::Scale;

/// Names of the picture's files.
pub const LEARNING_CURVES_FILES: [&str; 2] = ["learning-curves.svg", "learning-curves.png"];

/// The learning curves of a study's trials.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurvesPicture {
    /// Title above everything; empty for none.
    pub title: String,
    /// Name of the vertical axis; which values are better is added to it.
    pub y_label: String,
    /// N: how many epochs a whole training has.
    pub n_epochs: u32,
    /// The direction in which values are better.
    pub direction: Direction,
    /// The vertical axis. None: logarithmic where all values are above 0, span more than two decades, and that spreads the better
    /// ones; otherwise linear.
    pub scale: Option<Scale>,
    /// The trainings, one line each.
    pub lines: Vec<LearningCurveLine>,
}

/// One training.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurveLine {
    /// The trial's number.
    pub trial: u64,
    /// Epochs, increasing, each with the value after it.
    pub values: Vec<(u32, f64)>,
    /// The state in which it ended.
    pub ended: CurveEnd,
    /// The values that it would have had after its last epoch, if they are known: in an experiment. Epochs go on
    /// increasing.
    pub rest: Vec<(u32, f64)>,
}

/// The state in which a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CurveEnd {
    /// It was trained to the end.
    Complete,
    /// It was stopped early.
    Stopped,
    /// It failed.
    Failed,
    /// It has not ended.
    Running,
}

impl LearningCurvesPicture {
    /// Writes [`LEARNING_CURVES_FILES`] into the folder and returns their paths.
    ///
    /// Each training is a line to its last epoch with a mark there that says how it ended; the one trained to the end whose last
    /// value is best is drawn thickest, above all others. What lies far on the worse side of all others, as the values of a training
    /// that diverged, is in a strip, and the footnote counts it.
    ///
    /// # Errors
    /// [`ReportError::Draw`] when a value is not finite, epochs do not increase, or `scale` wants a logarithmic axis of values that
    /// are not all above 0; [`ReportError::Write`] when a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        write_both(folder, LEARNING_CURVES_FILES, || {
            self.check()?;
            Drawing::of(self)
        })
    }

    fn check(&self) -> Result<(), String> {
        for line in &self.lines {
            let trial = line.trial;
            let mut before = None;
            for (epoch, value) in line.points() {
                if !value.is_finite() {
                    return Err(format!(
                        "trial {trial} has the value {value} at epoch {epoch}, which is not a finite number"
                    ));
                }
                if before.is_some_and(|before| epoch <= before) {
                    return Err(format!(
                        "the epochs of trial {trial} do not increase at {epoch}"
                    ));
                }
                before = Some(epoch);
            }
        }
        Ok(())
    }

    /// Index of the training to the end with the best last value, the first of several.
    fn best(&self) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (index, line) in self.lines.iter().enumerate() {
            let Some((_, value)) = line.last().filter(|_| line.ended == CurveEnd::Complete) else {
                continue;
            };
            if best.is_none_or(|(_, so_far)| self.direction.is_better(value, so_far)) {
                best = Some((index, value));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Returns the value that most trainings which were trained to the end or stopped do not go beyond: the median of
    /// their worst values, the better one of the middle two. If no training ended so, it is that of all trainings;
    /// `None` for fewer than three.
    fn typical_worst(&self) -> Option<f64> {
        let is_sound = |line: &&LearningCurveLine| {
            matches!(line.ended, CurveEnd::Complete | CurveEnd::Stopped)
        };
        let any_sound = self.lines.iter().any(|line| is_sound(&line));
        let lines = self
            .lines
            .iter()
            .filter(|line| !any_sound || is_sound(line));
        let key = |value: f64| self.direction.to_maximize(value);
        let worst_of = |line: &LearningCurveLine| {
            let values = line.points().map(|(_, value)| value);
            values.min_by(|a, b| key(*a).total_cmp(&key(*b)))
        };
        let mut worst: Vec<f64> = lines.filter_map(worst_of).collect();
        worst.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
        let middle = worst.len().saturating_sub(1) / 2;
        worst.get(middle).copied().filter(|_| worst.len() >= 3)
    }

    fn count(&self, ended: CurveEnd) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.ended == ended).count()
    }

    /// Returns the footnote: the number of trials, the epochs that early stopping left of them, the best trial, and the
    /// values off the axis.
    fn footnote(&self, is_beyond: impl Fn(f64) -> bool) -> String {
        let mut text = counted(self.lines.len(), "trial", "trials");
        let ended = || {
            let lines = self.lines.iter();
            lines.filter(|line| line.ended != CurveEnd::Running)
        };
        let n_stopped = self.count(CurveEnd::Stopped);
        if n_stopped > 0 {
            let last_epochs = ended().filter_map(|line| Some(u64::from(line.last()?.0)));
            let trained: u64 = last_epochs.sum();
            let all = ended().map(|_| u64::from(self.n_epochs)).sum::<u64>();
            text += &format!(", {n_stopped} stopped: {trained} of {all} epochs trained");
        }
        let best = self.best().map(|index| &self.lines[index]);
        if let Some((line, (_, value))) = best.and_then(|line| Some((line, line.last()?))) {
            text += &format!("; best: trial {} with {}", line.trial, number(value));
        }
        let n_beyond = |line: &LearningCurveLine| {
            let values = line.values.iter();
            values.filter(|(_, value)| is_beyond(*value)).count()
        };
        let beyond: Vec<(u64, usize)> = self
            .lines
            .iter()
            .map(|line| (line.trial, n_beyond(line)))
            .filter(|(_, n_values)| *n_values > 0)
            .collect();
        let n_values = beyond.iter().map(|(_, n_values)| n_values).sum();
        let values = counted(n_values, "value", "values");
        match beyond[..] {
            [] => {}
            [(trial, _)] => text += &format!("; {values} of trial {trial} off the axis"),
            _ => text += &format!("; {values} of {} trials off the axis", beyond.len()),
        }
        text
    }
}

impl LearningCurveLine {
    fn points(&self) -> impl Iterator<Item = (u32, f64)> {
        self.values.iter().chain(&self.rest).copied()
    }

    fn last(&self) -> Option<(u32, f64)> {
        self.values.last().copied()
    }
}
