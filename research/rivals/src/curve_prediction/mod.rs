//! Learning-curve prediction: extrapolates the end of a curve from its start (Domhan, Springenberg
//! & Hutter 2015).

mod curves;
mod ensemble_sampler;
mod least_squares;
mod posterior;
mod predictor;
mod rule;
mod truncated_normal;

#[cfg(test)]
mod tests;

pub use predictor::{CurvePrediction, CurvePredictor, CurveSampling};
pub use rule::{CurvePredictionRule, CurvePredictionSettings};
