//! What releases cost: privacy events, accountants that compose them, and calibration.

mod event;

pub use event::{
    Adjacency, Delta, InvalidParameter, Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate,
};
