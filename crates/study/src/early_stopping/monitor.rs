//! What a worker does with the reports of the trial that it evaluates.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fedbo_algorithms::early_stopping::Verdict;
use fedbo_objective::{Monitor, Outcome, Signal, Trained};
use fedbo_storage::{Report, StorageError, Teller, Told, Worker};

use super::EarlyStoppingError;
use super::bo_bos::{reports_first_epochs, settings};
use crate::{Observer, Study, StudyError};

/// Stores each report of a trial, has it judged, and remembers why the trial was stopped.
pub(crate) struct TrialMonitor<'a> {
    study: &'a Study,
    observer: &'a dyn Observer,
    worker: &'a Worker,
    number: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reports: Vec<Report>,
    stop: Option<Stop>,
    warned_of_epoch: bool,
    warned_of_order: bool,
}

/// Why no further report counts.
enum Stop {
    /// The rule says so; it is stored.
    Early(Told),
    /// A report was no finite number.
    NotFinite(Told),
    /// The trial is somebody else's by now.
    Lost(StorageError),
    /// The report could not be stored or judged.
    Error(StudyError),
}

/// What became of a trial that was trained.
pub(crate) enum Conclusion {
    /// It ended by itself.
    Ended(Outcome),
    /// It is stopped, and told so.
    Stopped(Told),
    /// It is to be told as failed.
    Failed(Told),
    /// It is somebody else's.
    Lost(StorageError),
    /// The run cannot go on.
    Error(StudyError),
}

impl<'a> TrialMonitor<'a> {
    pub(crate) fn new(
        study: &'a Study,
        observer: &'a dyn Observer,
        worker: &'a Worker,
        number: u64,
    ) -> Self {
        Self {
            study,
            observer,
            worker,
            number,
            state: Mutex::default(),
        }
    }

    /// What became of the trial, and what it has reported.
    pub(crate) fn conclude(self, trained: Trained) -> (Conclusion, Vec<Report>) {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let conclusion = match (state.stop, trained) {
            (Some(Stop::Early(told)), _) => Conclusion::Stopped(told),
            (Some(Stop::NotFinite(told)), _) => Conclusion::Failed(told),
            (Some(Stop::Lost(cause)), _) => Conclusion::Lost(cause),
            (Some(Stop::Error(error)), _) => Conclusion::Error(error),
            (None, Trained::Ended(outcome)) => Conclusion::Ended(outcome),
            (None, Trained::Stopped) => Conclusion::Failed(Told::Failed {
                kind: "reported".to_owned(),
                message: "the objective ended its training, but nobody had asked it to".to_owned(),
            }),
        };
        (conclusion, state.reports)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Warns of a report that is left out, once a trial.
    fn warn(&self, has_warned: &mut bool, why: &str) {
        if !std::mem::replace(has_warned, true) {
            self.observer.warning(&format!(
                "{why}; such reports are left out (this is said once a trial)"
            ));
        }
    }

    /// Says of the first trial, whose script is that of all, if BO-BOS can stop nobody who reports like it.
    fn warn_of_gaps(&self, reports: &[Report]) {
        let spec = self.study.definition().early_stopping;
        let (Some(settings), 0) = (spec.as_ref().and_then(settings), self.number) else {
            return;
        };
        let first_epochs = settings.first_epochs;
        let last = reports.last().map_or(0, |last| last.epoch as usize);
        let before = reports.iter().rev().nth(1);
        let is_passed = before.is_some_and(|before| before.epoch as usize >= first_epochs);
        if last < first_epochs || is_passed || reports_first_epochs(reports, first_epochs) {
            return;
        }
        let within = |report: &&Report| report.epoch as usize <= first_epochs;
        let n_within = reports.iter().filter(within).count();
        self.observer.warning(&format!(
            "trial 0 has reported {n_within} of its first {first_epochs} epochs; rule \"bo-bos\" stops no trial that leaves out one of them: \
             report each, count reports as epochs, or choose another rule"
        ));
    }

    fn judge(&self, state: &mut State, epoch: u32, value: f64) -> Result<(), Stop> {
        if !value.is_finite() {
            return Err(Stop::NotFinite(Told::Failed {
                kind: "not-finite".to_owned(),
                message: format!(
                    "the objective reported {value} at epoch {epoch}, which is not a finite number"
                ),
            }));
        }
        let teller = Teller::Worker(&self.worker.id);
        let judged = self.study.report_as(teller, self.number, epoch, value);
        match judged {
            Ok(verdict) => {
                let is_new = state.reports.last().is_none_or(|last| last.epoch < epoch);
                if is_new {
                    state.reports.push(Report { epoch, value });
                    self.observer.reported(self.number, epoch);
                    self.warn_of_gaps(&state.reports);
                }
                let (Verdict::Stop { because }, Some(last)) = (verdict, state.reports.last())
                else {
                    return Ok(());
                };
                Err(Stop::Early(Told::Stopped {
                    epoch: last.epoch,
                    value: last.value,
                    because,
                }))
            }
            Err(StudyError::EarlyStopping(error @ EarlyStoppingError::Epoch { .. })) => {
                self.warn(&mut state.warned_of_epoch, &error.to_string());
                Ok(())
            }
            Err(StudyError::Storage(error)) => match error {
                StorageError::ReportOrder { .. } => {
                    self.warn(&mut state.warned_of_order, &error.to_string());
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

    fn unusable(&self, why: &str) {
        let why = format!("trial {}: {why}", self.number);
        let mut state = self.state();
        self.warn(&mut state.warned_of_epoch, &why);
    }

    fn killed(&self, grace: Duration) {
        self.observer.warning(&format!(
            "trial {} did not end within {} s of being stopped and was killed",
            self.number,
            grace.as_secs_f64()
        ));
    }
}
