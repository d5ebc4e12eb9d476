//! The mechanism that turns vectors into a release, or the reason why there is none.

use fedbo_privacy::accounting::{InvalidParameter, PrivacyEvent};
use fedbo_privacy::mechanism::{Mechanism, MechanismError, PaperError, PaperMechanism};

/// The mechanism that turns vectors into a release.
#[derive(Clone, Debug)]
pub enum ReleaseMechanism {
    /// Region sums on the lattice.
    Lattice(Mechanism),
    /// The paper's weighted averages, in floats; without noise also FTS-DE's.
    Paper(PaperMechanism),
}

impl ReleaseMechanism {
    /// q, by which sums are divided.
    pub(crate) fn sampling_rate(&self) -> f64 {
        match self {
            Self::Lattice(mechanism) => mechanism.sampling_rate(),
            Self::Paper(mechanism) => mechanism.settings().sampling.rate().get(),
        }
    }

    /// The cost of a release; `None` without noise.
    #[must_use]
    pub fn event(&self) -> Option<PrivacyEvent> {
        match self {
            Self::Lattice(mechanism) => Some(mechanism.event()),
            Self::Paper(mechanism) => mechanism.event(),
        }
    }

    /// S and z.
    pub(crate) fn norm_and_noise(&self) -> (f64, f64) {
        match self {
            Self::Lattice(mechanism) => {
                let settings = mechanism.settings();
                (settings.max_norm, settings.noise_multiplier.get())
            }
            Self::Paper(mechanism) => {
                let settings = mechanism.settings();
                (settings.max_norm, settings.noise_multiplier)
            }
        }
    }
}

/// The reason why there is no such mechanism.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MechanismRefused {
    #[error(transparent)]
    Noise(#[from] InvalidParameter),
    #[error(transparent)]
    Lattice(#[from] MechanismError),
    #[error(transparent)]
    Paper(#[from] PaperError),
}

impl MechanismRefused {
    /// The key that is at fault.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Noise(_) => "noise_multiplier",
            Self::Lattice(error) | Self::Paper(PaperError::Dimensions(error)) => match error {
                MechanismError::MaxNorm { .. } => "max_norm",
                MechanismError::SamplingRate { .. } => "sampling_rate",
                MechanismError::NoiseMultiplier { .. } => "noise_multiplier",
                MechanismError::Count { .. } | MechanismError::TooManyCoordinates { .. } => "count",
            },
            Self::Paper(PaperError::Number { name, .. }) => name,
            Self::Paper(_) => "mode",
        }
    }
}
