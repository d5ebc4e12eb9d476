//! Tests that compare the baseline rules for early stopping with published tables and with results
//! computed by hand.
#![expect(clippy::unwrap_used, reason = "tests")]

mod halving;
mod hyperband;
mod median;

use fedbo_strategies::early_stopping::{LearningCurve, TrainedTrial, Training};

fn trial(number: u64, values: &[f64], training: Training) -> TrainedTrial {
    TrainedTrial { number, curve: LearningCurve::new(values.to_vec()), training }
}

fn running(number: u64, values: &[f64]) -> TrainedTrial {
    trial(number, values, Training::Running)
}

fn complete(number: u64, values: &[f64]) -> TrainedTrial {
    trial(number, values, Training::Complete)
}
