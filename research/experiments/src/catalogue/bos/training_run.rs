//! One party that tunes a training problem with a budget of epochs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use fedbo_report::Row;
use fedbo_research_problems::TrainingProblem;
use fedbo_space::Point;
use fedbo_strategies::Source;
use fedbo_strategies::early_stopping::{
    Brackets, Hyperband, LearningCurve, TrainedObservation, TrainedTrial, Training,
};
use fedbo_streams::{Purpose, Seed};

use super::Shown;
use super::tuner::{Running, TrainingTrial, Tuner};
use fedbo_runner::Ended;
use fedbo_runner::{RowBuilder, RowLabels};

/// A run of one arm.
pub(super) struct TrainingRun<'a> {
    /// Configuration, arm and repetition.
    pub(super) unit: &'a RowLabels,
    /// The problem to tune.
    pub(super) problem: &'a dyn TrainingProblem,
    /// Initial points, the same in every arm that has initial points. Their trials are trained to
    /// the end.
    pub(super) initial: &'a [Vec<f64>],
    /// Number of epochs after which no further trial starts.
    pub(super) budget: usize,
    /// Best value of a complete training run, if known.
    pub(super) optimum: Option<f64>,
    /// The number shown for a complete training run instead of its value. If set, incomplete runs
    /// show nothing.
    pub(super) shown: Option<&'a Shown>,
}

/// A trial of a run, with its hypothetical continuation.
#[derive(Clone, Debug)]
pub(super) struct TrialTrace {
    pub(super) number: u64,
    pub(super) unit: Vec<f64>,
    /// The complete curve, to be maximized.
    pub(super) values: Vec<f64>,
    /// Number of trained epochs.
    pub(super) n_trained: usize,
    pub(super) is_initial: bool,
    /// True if a rule stopped the trial.
    pub(super) is_stopped: bool,
    /// The best final value of the preceding trials.
    pub(super) incumbent: Option<f64>,
}

impl TrialTrace {
    /// Returns true if the trial was stopped although it would have become the incumbent.
    pub(super) fn is_wrong_stop(&self) -> bool {
        let last = self.values.last();
        let would = last.is_some_and(|last| self.incumbent.is_some_and(|best| *last > best));
        self.is_stopped && would
    }
}

/// The record of a run.
#[derive(Default)]
pub(super) struct RunTrace {
    pub(super) rows: Vec<Row>,
    pub(super) trials: Vec<TrialTrace>,
}

/// Rows of a run. The iteration of a row is the number of epochs spent by the end of its trial.
struct RunRows {
    tally: RowBuilder,
    spent: usize,
    best: Option<f64>,
}

impl RunRows {
    fn new(run: &TrainingRun<'_>) -> Self {
        Self {
            tally: RowBuilder::new(run.unit.clone(), run.problem.direction(), 0, run.optimum),
            spent: 0,
            best: None,
        }
    }

    /// Adds the row of a trial that ended after `n_epochs` more epochs: its shown value in the
    /// user's sign, or the reason for its failure.
    fn row(
        &mut self,
        point: &Point,
        source: &Source,
        n_epochs: usize,
        ended: Result<Option<f64>, String>,
        ask_seconds: f64,
    ) -> anyhow::Result<Row> {
        self.spent += n_epochs;
        self.tally.at(i64::try_from(self.spent)?);
        let truth = ended.as_ref().ok().copied().flatten();
        Ok(self.tally.next(point, source.to_string(), ended, truth, ask_seconds))
    }
}

impl TrainingRun<'_> {
    /// Returns the repetition, which seeds the randomness of training.
    fn run(&self) -> u64 {
        u64::from(self.unit.run)
    }

    /// Returns the complete curve at a point, to be maximized.
    fn values(&self, point: &Point) -> Result<Vec<f64>, String> {
        let direction = self.problem.direction();
        let curve = self.problem.curve(point, self.run());
        let curve = curve.map_err(|failure| failure.to_string())?;
        Ok(curve.iter().map(|v| direction.to_maximize(*v)).collect())
    }

    /// Returns the number shown for a training run with final value `end`, to be maximized.
    fn shown(&self, point: &Point, end: f64, is_whole: bool) -> Option<f64> {
        match self.shown {
            Some(shown) if is_whole => shown(point, self.run()),
            Some(_) => None,
            None => Some(self.problem.direction().to_maximize(end)),
        }
    }

    /// Runs trials until the budget is spent or `stop` is set.
    ///
    /// # Errors
    /// If the tuner cannot continue.
    pub(super) fn trials(
        &self,
        tuner: &mut dyn Tuner,
        stop: &AtomicBool,
    ) -> anyhow::Result<(RunTrace, Ended)> {
        let mut book = RunRows::new(self);
        let mut course = RunTrace::default();
        let mut others: Vec<TrainedTrial> = Vec::new();
        let n_initial = self.initial.len() as u64;
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return Ok((RunTrace::default(), Ended::Interrupted));
            }
            if book.spent >= self.budget {
                break;
            }
            let began = Instant::now();
            let index = usize::try_from(number)?;
            let asked = match self.initial.get(index) {
                Some(unit) => TrainingTrial {
                    unit: unit.clone(),
                    source: Source::Initial,
                    n_epochs: self.problem.n_epochs(),
                },
                None => tuner.ask(number)?,
            };
            let mut seconds = began.elapsed().as_secs_f64();
            let point = self.problem.space().decode(&asked.unit);
            let mut observation = TrainedObservation {
                unit: asked.unit.clone(),
                curve: None,
                complete: None,
                expected_end: None,
                source: asked.source.clone(),
            };
            let values = match self.values(&point) {
                Ok(values) => values,
                Err(message) => {
                    let n = self.problem.n_epochs();
                    let row = book.row(&point, &asked.source, n, Err(message), seconds)?;
                    course.rows.push(row);
                    tuner.tell(number, &observation, &others)?;
                    continue;
                }
            };
            let is_initial = number < n_initial;
            let mut running = Running {
                number,
                t: number.saturating_sub(n_initial) + 1,
                unit: asked.unit.clone(),
                curve: LearningCurve::new(values[..1].to_vec()),
            };
            let (mut n_trained, mut is_stopped) = (asked.n_epochs, false);
            if !is_initial {
                let judging = Instant::now();
                for n in 1..asked.n_epochs {
                    running.curve = LearningCurve::new(values[..n].to_vec());
                    if tuner.stops(&running, &others)? {
                        (n_trained, is_stopped) = (n, true);
                        break;
                    }
                }
                seconds += judging.elapsed().as_secs_f64();
            }
            let curve = LearningCurve::new(values[..n_trained].to_vec());
            let end = curve.last();
            observation.complete = (n_trained == values.len()).then_some(end);
            observation.curve = Some(curve.clone());
            let shown = self.shown(&point, end, observation.complete.is_some());
            let row = book.row(&point, &asked.source, n_trained, Ok(shown), seconds)?;
            course.rows.push(row);
            course.trials.push(TrialTrace {
                number,
                unit: asked.unit,
                values,
                n_trained,
                is_initial,
                is_stopped,
                incumbent: book.best,
            });
            book.best = Some(book.best.map_or(end, |best| best.max(end)));
            tuner.tell(number, &observation, &others)?;
            others.push(TrainedTrial {
                number,
                curve,
                training: match observation.complete {
                    Some(_) => Training::Complete,
                    None => Training::Stopped,
                },
            });
        }
        Ok((course, Ended::Complete))
    }

    /// Runs Hyperband as published, with random points, pauses and promotions. Each training step
    /// is a row.
    ///
    /// # Errors
    /// If the schedule does not exist.
    pub(super) fn hyperband(
        &self,
        reduction: usize,
        seed: Seed,
        stop: &AtomicBool,
    ) -> anyhow::Result<(RunTrace, Ended)> {
        let mut book = RunRows::new(self);
        let mut course = RunTrace::default();
        let mut hyperband = Hyperband::new(Brackets::new(self.problem.n_epochs(), reduction)?);
        let dim = self.problem.space().dim();
        while book.spent < self.budget {
            if stop.load(Ordering::Relaxed) {
                return Ok((RunTrace::default(), Ended::Interrupted));
            }
            let step = hyperband.next_step();
            if step.configuration == course.trials.len() {
                let number = step.configuration as u64;
                let mut stream = seed.stream(Purpose::PROPOSAL, number, 0);
                let unit: Vec<f64> = (0..dim).map(|_| stream.uniform()).collect();
                let values = self.values(&self.problem.space().decode(&unit));
                course.trials.push(TrialTrace {
                    number,
                    unit,
                    values: values.unwrap_or_default(),
                    n_trained: 0,
                    is_initial: false,
                    is_stopped: false,
                    incumbent: None,
                });
            }
            let trial = course
                .trials
                .get_mut(step.configuration)
                .context("Hyperband continues a configuration that it did not start")?;
            let point = self.problem.space().decode(&trial.unit);
            let value = step.to_epoch.checked_sub(1);
            let value = value.and_then(|at| trial.values.get(at)).copied();
            trial.n_trained = step.to_epoch;
            let n_epochs = step.to_epoch - step.from_epoch;
            let is_whole = step.to_epoch == trial.values.len();
            let ended = match value {
                Some(value) => Ok(self.shown(&point, value, is_whole)),
                None => Err("the training failed".to_owned()),
            };
            let row = book.row(&point, &Source::Random, n_epochs, ended, 0.0)?;
            course.rows.push(row);
            if let Some(value) = value {
                book.best = Some(book.best.map_or(value, |best| best.max(value)));
            }
            for dropped in hyperband.tell(value) {
                if let Some(trial) = course.trials.get_mut(dropped) {
                    trial.is_stopped = trial.n_trained < trial.values.len();
                    trial.incumbent = book.best;
                }
            }
        }
        // The unfinished trials were ended by the budget, not by the rule.
        course.trials.retain(|trial| !trial.values.is_empty());
        Ok((course, Ended::Complete))
    }
}
