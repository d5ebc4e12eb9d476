//! A study with learning curves that rise towards x, stopped by the median rule.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use fedbo_objective::{Monitor, Objective, Outcome, TrainingEnd, TrialId};
use fedbo_space::{ParameterSpec, Point};
use fedbo_storage::Trial;
use fedbo_strategies::early_stopping::MedianOptions;
use fedbo_study::{
    Definition, EarlyStoppingSpec, Observer, RunOptions, RunReport, StoppingRuleSpec, StrategySpec,
    Study,
};

pub(crate) const N_EPOCHS: u32 = 10;

pub(crate) fn spec() -> EarlyStoppingSpec {
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 2, trials_min: 3 });
    EarlyStoppingSpec::new(rule, N_EPOCHS)
}

pub(crate) fn definition() -> Definition {
    Definition::new("training")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .strategy(StrategySpec::sobol())
        .early_stopping(spec())
}

/// Returns the value after an epoch, which rises towards x.
pub(crate) fn curve(x: f64, epoch: u32) -> f64 {
    x * (1.0 - 0.5_f64.powi(i32::try_from(epoch).unwrap()))
}

/// Reports each epoch, calls `at` in between, and ends when it is stopped.
pub(crate) struct Network<F>(pub(crate) F);

impl<F: Fn(&Point, TrialId, &dyn Monitor, u32) + Send + Sync> Objective for Network<F> {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        panic!("a study with a rule trains");
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        let x = point.number("x");
        for epoch in 1..=N_EPOCHS {
            (self.0)(point, trial, monitor, epoch);
            if monitor.report(epoch, curve(x, epoch)).stops() {
                return TrainingEnd::Stopped;
            }
        }
        TrainingEnd::Ended(Outcome::Value(curve(x, N_EPOCHS)))
    }
}

#[derive(Default)]
pub(crate) struct Warnings(pub(crate) Mutex<Vec<String>>);

impl Observer for Warnings {
    fn warning(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

pub(crate) fn run(
    study: &Study,
    objective: &dyn Objective,
    observer: &dyn Observer,
    n_trials: u64,
) -> RunReport {
    let options = RunOptions::sequential(n_trials);
    let stop = AtomicBool::new(false);
    study.run(objective, &options, observer, &stop).unwrap()
}

/// Returns all trials, without fields that depend on clocks or on the number of attempts.
pub(crate) fn course(study: &Study) -> Vec<Trial> {
    let without = |trial| Trial {
        attempts: 1,
        asked_at_ms: 0,
        started_at_ms: None,
        told_at_ms: None,
        ask_seconds: 0.0,
        ..trial
    };
    study.trials().unwrap().into_iter().map(without).collect()
}
