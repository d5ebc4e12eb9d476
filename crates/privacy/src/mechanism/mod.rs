//! The subsampled discrete Gaussian mechanism on a lattice, and the paper's floating-point
//! mechanism.
//!
//! [`Mechanism`] holds the public parameters. [`Mechanism::begin`] begins a round, and
//! [`Collecting`] keeps arriving vectors unread. [`Collecting::close`] draws coins and noise, then
//! reads and adds the vectors. The result is a [`Release`] and the
//! [`PrivacyEvent`](crate::accounting::PrivacyEvent) to account for. The mechanism reads no clock,
//! stores no files and has no notion of agents: a slot is a number. The crate's `MECHANISM.md`
//! states the claim and proves it.
//!
//! [`PaperMechanism`] reproduces the paper. It has the paper's guarantee, which assumes exact real
//! numbers.

mod bits;
mod coins;
mod collecting;
mod discrete_gaussian;
mod lattice;
mod paper;
mod paper_release;
mod partial;
mod release;
mod sealed;
mod settings;
mod source;
mod wide;

pub use collecting::{Closed, Collecting, VectorRefused};
pub use discrete_gaussian::DiscreteGaussian;
pub use lattice::{Lattice, MAX_FEATURES};
pub use paper::{
    PaperClosed, PaperCollecting, PaperError, PaperMechanism, PaperSampling, PaperSettings,
    WeightMax,
};
pub use paper_release::PaperRelease;
pub use partial::{PartCollecting, PartRefused, PartialSum};
pub use release::{Release, ReleaseRefused, ReleaseShape};
pub use settings::{Mechanism, MechanismError, MechanismSettings, Server};
#[cfg(feature = "simulation")]
pub use source::SimNoise;
pub use source::{Kind, NoiseError, NoiseSource, Secure, SecureNoise, Simulated};
