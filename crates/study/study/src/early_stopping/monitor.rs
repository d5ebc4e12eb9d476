//! Handles reports on the worker that evaluates the trial.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fedbo_objective::{Failure, Monitor, Outcome, Signal, TrainingEnd, Unusable};
use fedbo_storage::{Report, StorageError, TellAuthority, Told, Worker};
use fedbo_strategies::early_stopping::Verdict;

use super::rule_evaluator::JudgeState;
use super::{EarlyStoppingError, RunWarnings};
use crate::{Observer, Study, StudyError};

/// Stores each report of a trial, evaluates the stopping rule, and records the reason if the trial
/// is stopped.
pub(crate) struct TrialMonitor<'a> {
    study: &'a Study,
    observer: &'a dyn Observer,
    worker: &'a Worker,
    warnings: &'a RunWarnings,
    number: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reports: Vec<Report>,
    /// The trials in the form that the rule needs.
    course: JudgeState,
    stop: Option<Stop>,
    /// A line that resembles a report, with its fault, if there was no report.
    resembling: Option<String>,
    /// True if the line with the trial's value was meant to be a report.
    ends_with_report: bool,
}

/// The reason why further reports are ignored.
enum Stop {
    /// The rule stopped the trial. The stop is already stored.
    Early(Told),
    /// A report was not a finite number.
    NotFinite(Told),
    /// Another worker holds the trial now.
    Lost(StorageError),
    /// The report could not be stored or evaluated.
    Error(StudyError),
}

/// The result of training a trial.
pub(crate) enum TrainingOutcome {
    /// The training ended without a stop.
    Ended(Outcome),
    /// The trial was stopped early. The stop is already stored.
    Stopped(Told),
    /// The trial must be recorded as failed.
    Failed(Told),
    /// Another worker holds the trial.
    Lost(StorageError),
    /// The run cannot continue.
    Error(StudyError),
}

impl<'a> TrialMonitor<'a> {
    pub(crate) fn new(
        study: &'a Study,
        observer: &'a dyn Observer,
        worker: &'a Worker,
        warnings: &'a RunWarnings,
        number: u64,
    ) -> Self {
        Self { study, observer, worker, warnings, number, state: Mutex::default() }
    }

    /// Returns the result of the training and the trial's reports.
    pub(crate) fn conclude(self, trained: TrainingEnd) -> (TrainingOutcome, Vec<Report>) {
        let state = std::mem::take(&mut *self.state());
        let conclusion = match (state.stop, trained) {
            (Some(Stop::Early(told)), _) => TrainingOutcome::Stopped(told),
            (Some(Stop::NotFinite(told)), _) => TrainingOutcome::Failed(told),
            (Some(Stop::Lost(cause)), _) => TrainingOutcome::Lost(cause),
            (Some(Stop::Error(error)), _) => TrainingOutcome::Error(error),
            (None, TrainingEnd::Ended(outcome)) => {
                self.warn_at_the_end(&outcome, &state.reports, state.resembling.as_deref());
                self.ended(outcome, &state.reports, state.ends_with_report)
            }
            (None, TrainingEnd::Stopped) => TrainingOutcome::Failed(Told::Failed {
                kind: "reported".to_owned(),
                message: "the objective stopped its training without a request to stop".to_owned(),
            }),
        };
        (conclusion, state.reports)
    }

    /// Returns the result of a training run that ended without a stop.
    ///
    /// If the line with the trial's value was meant to be a report, the last valid report provides
    /// the value. If the last line is unparsable, a report of the last epoch provides it.
    fn ended(
        &self,
        outcome: Outcome,
        reports: &[Report],
        ends_with_report: bool,
    ) -> TrainingOutcome {
        let epochs = self.study.definition().early_stopping;
        let epochs = epochs.map_or(0, |spec| spec.epochs);
        match (outcome, reports.last()) {
            (Outcome::Value(_), Some(last)) if ends_with_report => {
                TrainingOutcome::Ended(Outcome::Value(last.value))
            }
            (Outcome::Failed(Failure::Unparsable { .. }), Some(last)) if last.epoch >= epochs => {
                TrainingOutcome::Ended(Outcome::Value(last.value))
            }
            (Outcome::Failed(failure @ Failure::Unparsable { .. }), Some(last)) => {
                TrainingOutcome::Failed(Told::Failed {
                    kind: failure.kind().to_owned(),
                    message: format!(
                        "its last report, {} at epoch {}, is not from the last epoch, {epochs}, so it is not the value, and {failure}",
                        last.value, last.epoch
                    ),
                })
            }
            (outcome, _) => TrainingOutcome::Ended(outcome),
        }
    }

    /// Warns if a trial that ended without a stop had no useful reports.
    fn warn_at_the_end(&self, outcome: &Outcome, reports: &[Report], resembling: Option<&str>) {
        let definition = self.study.definition();
        let Some(spec) = &definition.early_stopping else {
            return;
        };
        let is_whole = matches!(
            outcome,
            Outcome::Value(_)
                | Outcome::Failed(Failure::NoValue { .. } | Failure::Unparsable { .. })
        );
        if is_whole && reports.is_empty() {
            self.warnings.warn_no_report(self.observer, self.number, spec, resembling);
        }
        self.warnings.warn_all_outside_bounds(self.observer, self.number, definition, reports);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Warns about a stored report if BO-BOS can never stop a trial with such reports.
    fn warn_of_report(&self, newest: Report, reports: &[Report]) {
        let (warnings, definition) = (self.warnings, self.study.definition());
        let (observer, number) = (self.observer, self.number);
        warnings.of_gaps(observer, number, definition.early_stopping.as_ref(), reports);
        warnings.warn_value_beyond_bounds(observer, number, definition, newest);
    }

    fn not_finite(&self, epoch: u32, value: &str) -> Stop {
        Stop::NotFinite(Told::Failed {
            kind: "not-finite".to_owned(),
            message: format!(
                "the objective reported {value} at epoch {epoch}, which is not a finite number"
            ),
        })
    }

    fn judge(&self, state: &mut State, epoch: u32, value: f64) -> Result<(), Stop> {
        if !value.is_finite() {
            return Err(self.not_finite(epoch, &value.to_string()));
        }
        let teller = TellAuthority::Worker(&self.worker.id);
        let report = Report { epoch, value };
        let course = &mut state.course;
        let judged = self.study.report_on(course, teller, self.number, report);
        match judged {
            Ok(verdict) => {
                let is_new = state.reports.last().is_none_or(|last| last.epoch < epoch);
                if is_new {
                    state.reports.push(report);
                    self.observer.reported(self.number, epoch);
                    self.warn_of_report(report, &state.reports);
                }
                let (Verdict::Stop { because }, Some(last)) = (verdict, state.reports.last())
                else {
                    return Ok(());
                };
                Err(Stop::Early(Told::Stopped { epoch: last.epoch, value: last.value, because }))
            }
            Err(StudyError::EarlyStopping(error @ EarlyStoppingError::Epoch { .. })) => {
                self.warnings.of_epoch(self.observer, &error.to_string());
                Ok(())
            }
            Err(StudyError::Storage(error)) => match error {
                StorageError::ReportOrder { .. } => {
                    self.warnings.of_order(self.observer, &error.to_string());
                    Ok(())
                }
                StorageError::NotHeld { .. } | StorageError::ToldOtherwise { .. } => {
                    Err(Stop::Lost(error))
                }
                error => Err(Stop::Error(error.into())),
            },
            Err(error) => Err(Stop::Error(error)),
        }
    }
}

impl Monitor for TrialMonitor<'_> {
    fn report(&self, epoch: u32, value: f64) -> Signal {
        let mut state = self.state();
        if state.stop.is_none() {
            match self.judge(&mut state, epoch, value) {
                Ok(()) => return Signal::Continue,
                Err(stop) => state.stop = Some(stop),
            }
        }
        Signal::Stop
    }

    fn no_number(&self, epoch: u32, word: &str) -> Signal {
        let mut state = self.state();
        if state.stop.is_none() {
            state.stop = Some(self.not_finite(epoch, word));
        }
        Signal::Stop
    }

    fn unusable(&self, what: Unusable, why: &str) {
        let why = format!("trial {}: {why}", self.number);
        match what {
            Unusable::Epoch => self.warnings.of_epoch(self.observer, &why),
            Unusable::StopBy => self.warnings.of_stop_by(self.observer, &why),
        }
    }

    fn resembles_report(&self, what: &str) {
        self.state().resembling = Some(what.to_owned());
    }

    fn ends_with_report(&self) {
        self.state().ends_with_report = true;
    }

    fn killed(&self, grace: Duration) {
        self.observer.warning(&format!(
            "trial {} did not end within {} s of being stopped and was killed",
            self.number,
            grace.as_secs_f64()
        ));
    }
}
