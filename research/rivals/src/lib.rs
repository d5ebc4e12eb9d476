//! Rivals: published algorithms that serve as comparisons in experiments. User files cannot select
//! them.
//!
//! - [`Mtbo`] and [`PemBo`] learn from earlier tasks.
//! - [`Boca`] and [`CurvePredictionRule`] save training epochs.

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
