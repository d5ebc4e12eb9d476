//! Rivals: published algorithms for comparison in experiments, which no user file can name.
//!
//! - [`Mtbo`] and [`PemBo`] learn from earlier tasks.
//! - [`Boca`] and [`CurvePredictionRule`] save epochs of trainings.

mod boca;
mod curve_prediction;
mod mtbo;
mod pem_bo;

pub use boca::Boca;
pub use curve_prediction::{
    CurvePrediction, CurvePredictionRule, CurvePredictionSettings, CurvePredictor, CurveSampling,
};
pub use mtbo::{Mtbo, MtboSettings};
pub use pem_bo::PemBo;
