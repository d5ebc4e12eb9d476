//! The rival algorithms, used as experiments use them.

mod curve_prediction;
mod mtbo;

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
