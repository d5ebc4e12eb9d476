//! A trial under evaluation, as passed to a training closure.

use std::sync::atomic::{AtomicBool, Ordering};

use fedbo_objective::{Failure, Monitor, Objective, Outcome, Signal, TrainingEnd, TrialId};
use fedbo_space::Point;

use crate::{NullObserver, RunOptions, RunReport, Study, StudyError};

/// A trial under evaluation. The objective reports to it during training.
pub struct RunningTrial<'a> {
    point: &'a Point,
    number: u64,
    monitor: &'a dyn Monitor,
    is_stopped: AtomicBool,
}

impl RunningTrial<'_> {
    /// Returns the point of the trial.
    pub fn point(&self) -> &Point {
        self.point
    }

    /// Returns the trial's index in ask order, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reports the value after an epoch, counted from 1, in the study's own sign. Returns whether
    /// to continue.
    ///
    /// NaN and infinities also stop the trial, as a failure. After the first [`Signal::Stop`], all
    /// further calls return [`Signal::Stop`].
    pub fn report(&self, epoch: u32, value: f64) -> Signal {
        let signal = self.monitor.report(epoch, value);
        if signal.stops() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        signal
    }
}

/// Adapts a training closure to an objective.
struct TrainingClosure<F>(F);

impl<F> TrainingClosure<F>
where
    F: Fn(&RunningTrial<'_>) -> Result<f64, String> + Send + Sync,
{
    fn call(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        let running = RunningTrial {
            point,
            number: trial.trial,
            monitor,
            is_stopped: AtomicBool::new(false),
        };
        let result = (self.0)(&running);
        if running.is_stopped.into_inner() {
            return TrainingEnd::Stopped;
        }
        TrainingEnd::Ended(match result {
            Ok(value) => Outcome::Value(value),
            Err(message) => Outcome::Failed(Failure::Reported { message }),
        })
    }
}

impl<F> Objective for TrainingClosure<F>
where
    F: Fn(&RunningTrial<'_>) -> Result<f64, String> + Send + Sync,
{
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        match self.call(point, trial, &NeverStops) {
            TrainingEnd::Ended(outcome) => outcome,
            TrainingEnd::Stopped => unreachable!("this monitor never stops a trial"),
        }
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        self.call(point, trial, monitor)
    }
}

/// A monitor that never stops a trial.
struct NeverStops;

impl Monitor for NeverStops {
    fn report(&self, _: u32, _: f64) -> Signal {
        Signal::Continue
    }
}

impl Study {
    /// Trains a function, one trial at a time, until the study has `n_trials` trials.
    ///
    /// The function reports after each epoch and must return when it is stopped; its return value
    /// is then ignored. An `Err` fails the trial. A study without a rule
    /// ([`crate::Definition::early_stopping`]) stops no trials and stores no reports.
    ///
    /// ```
    /// use fedbo_space::ParameterSpec;
    /// use fedbo_study::{Definition, EarlyStoppingSpec, StrategySpec, Study};
    ///
    /// let definition = Definition::new("network")
    ///     .parameter("rate", ParameterSpec::log_float(1e-4, 1.0))
    ///     .minimize()
    ///     .strategy(StrategySpec::random())
    ///     .early_stopping(EarlyStoppingSpec::median(20));
    /// let study = Study::in_memory(&definition)?;
    /// let report = study.optimize_training(15, |trial| {
    ///     let rate = trial.point().number("rate");
    ///     let mut loss = 1.0;
    ///     for epoch in 1..=20 {
    ///         loss -= 0.04 * (1.0 - (rate.log10() + 2.0).abs() / 2.0);
    ///         if trial.report(epoch, loss).stops() {
    ///             break;
    ///         }
    ///     }
    ///     Ok(loss)
    /// })?;
    /// assert!(report.n_stopped > 0 && report.n_stopped < 15);
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if no query can be proposed, or if the storage fails.
    pub fn optimize_training(
        &self,
        n_trials: u64,
        function: impl Fn(&RunningTrial<'_>) -> Result<f64, String> + Send + Sync,
    ) -> Result<RunReport, StudyError> {
        let options = RunOptions::sequential(n_trials);
        let stop = AtomicBool::new(false);
        self.run(&TrainingClosure(function), &options, &NullObserver, &stop)
    }
}
