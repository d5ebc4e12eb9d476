//! Learning from earlier tasks (thesis chapter 7): synthetic functions and real problems.

mod arms;
pub(super) mod cart_pole;
pub(super) mod cnn;
mod cnn_replay;
pub(super) mod growing_data;
mod measure;
mod run_setting;
pub(super) mod similarity;
pub(super) mod svm_landmine;
pub(super) mod synthetic;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fedbo_objective::{Objective, Outcome, TrialId, evaluate_guarded};
use fedbo_report::{Row, TaskWeightRow, write_task_weights};
use fedbo_space::{Direction, Point};
use fedbo_strategies::{Observation, Points, Source, Strategy};
use fedbo_streams::{Purpose, Seed};

use fedbo_runner::{Decoder, Ended};
use fedbo_runner::{RowBuilder, RowLabels};

/// One party that tunes one objective with one strategy.
pub(super) struct OneParty<'a> {
    /// Configuration, arm and repetition.
    pub(super) unit: &'a RowLabels,
    /// The objective. Its noise must depend only on the trial number, so that it is the same in
    /// every arm.
    pub(super) objective: &'a dyn Objective,
    /// Decodes coordinates to points.
    pub(super) decoder: &'a Decoder,
    /// The direction of improvement.
    pub(super) direction: Direction,
    /// Initial points, the same in every arm.
    pub(super) initial: &'a [Vec<f64>],
    /// Number of queries after the initial points.
    pub(super) n_queries: u64,
    /// Best true value, if known.
    pub(super) optimum: Option<f64>,
    /// The noise-free objective, if known.
    pub(super) truth: &'a dyn Fn(&Point) -> Option<f64>,
    /// Dimension of the coordinates.
    pub(super) dim: usize,
    /// Root of the strategy's randomness.
    pub(super) seed: Seed,
}

/// The record of a run: its trials, and the weight of each meta-task at every query.
#[derive(Default)]
pub(super) struct RunTrace {
    pub(super) rows: Vec<Row>,
    pub(super) weights: Vec<TaskWeightRow>,
}

impl OneParty<'_> {
    /// Runs the strategy to its last query, or until `stop` is set. Failed trials are told as
    /// failures.
    ///
    /// # Errors
    /// If the strategy cannot continue.
    pub(super) fn run(
        &self,
        strategy: &mut dyn Strategy,
        stop: &AtomicBool,
    ) -> anyhow::Result<(RunTrace, Ended)> {
        let n_initial = self.initial.len();
        let mut tally = RowBuilder::new(self.unit.clone(), self.direction, n_initial, self.optimum);
        let mut course = RunTrace::default();
        let n_trials = n_initial as u64 + self.n_queries;
        for number in 0..n_trials {
            if stop.load(Ordering::Relaxed) {
                return Ok((RunTrace::default(), Ended::Interrupted));
            }
            let began = Instant::now();
            let initial = usize::try_from(number).ok().and_then(|n| self.initial.get(n));
            let (unit, source) = match initial {
                Some(unit) => (unit.clone(), Source::Initial),
                None => {
                    let query = i64::try_from(number - n_initial as u64)? + 1;
                    self.note_weights(strategy, query, &mut course);
                    let mut stream = self.seed.stream(Purpose::PROPOSAL, number, 0);
                    let proposal = strategy.ask(&Points::new(self.dim), &mut stream)?;
                    (proposal.unit, proposal.source)
                }
            };
            let ask_seconds = began.elapsed().as_secs_f64();
            let point = (self.decoder)(&unit);
            let id = TrialId { agent: 0, trial: number };
            let (value, ended) = match evaluate_guarded(self.objective, &point, id) {
                Outcome::Value(value) => (Some(value), Ok(Some(value))),
                Outcome::Failed(failure) => (None, Err(failure.to_string())),
                Outcome::Numbers(_) | Outcome::Measured(_) => {
                    unreachable!("an evaluation has one number")
                }
                Outcome::Interrupted => return Ok((RunTrace::default(), Ended::Interrupted)),
            };
            let truth = (self.truth)(&point);
            let text = source.to_string();
            course.rows.push(tally.next(&point, text, ended, truth, ask_seconds));
            strategy.tell(&[Observation::new(
                unit,
                value.map(|value| self.direction.to_maximize(value)),
                source,
            )])?;
        }
        Ok((course, Ended::Complete))
    }

    fn note_weights(&self, strategy: &dyn Strategy, iteration: i64, course: &mut RunTrace) {
        let Some(transfer) = strategy.transfer() else {
            return;
        };
        for task in transfer.tasks {
            course.weights.push(TaskWeightRow {
                experiment: self.unit.experiment.clone(),
                arm: self.unit.arm.clone(),
                run: self.unit.run,
                iteration,
                task: task.name,
                weight: task.weight,
                gap_bound: task.gap_bound,
                meta_share: transfer.meta_share,
            });
        }
    }
}

/// The task weights of all jobs of an experiment, in the order of the jobs regardless of thread
/// timing.
#[derive(Default)]
pub(super) struct TaskWeightBook(Mutex<BTreeMap<usize, Vec<TaskWeightRow>>>);

impl TaskWeightBook {
    /// Stores the weights of job number `job`.
    pub(super) fn put(&self, job: usize, weights: Vec<TaskWeightRow>) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.insert(job, weights);
    }

    /// Writes all weights and their figure, and returns the weights.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(self, folder: &Path, title: &str) -> anyhow::Result<Vec<TaskWeightRow>> {
        let book = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows: Vec<TaskWeightRow> = book.into_values().flatten().collect();
        if !rows.is_empty() {
            write_task_weights(folder, title, &rows)?;
        }
        Ok(rows)
    }
}
