//! Privacy accounting: upper bounds on the joint privacy cost of releases.
//!
//! Start at [`Accountant`]; [`AccountantKind::Pld`] computes the reported figure. The crate's
//! `ACCOUNTING.md` contains the claims, assumptions and proofs, and names the tests.

mod accountant;
mod calibration;
mod claim;
mod composition;
mod event;
mod fixed_size;
mod moment;
mod moments;
mod pld;
mod renyi;
mod subsampled;

pub use accountant::{Accountant, AccountantKind, Unproved, UnsupportedEvent};
pub use calibration::{
    Budget, Calibrated, CalibrationError, largest_rate, largest_rounds, smallest_multiplier,
};
pub use claim::{Claim, Mode};
pub use event::{
    Adjacency, Delta, InvalidParameter, Noise, NoiseMultiplier, PrivacyEvent, Sampling,
    SamplingRate,
};
pub use fixed_size::FixedSizeAccountant;
pub use moments::MomentsAccountant;
pub use pld::{Bracket, PldAccountant};
pub use renyi::RenyiAccountant;
