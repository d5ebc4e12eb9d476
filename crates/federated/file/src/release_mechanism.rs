//! The mechanism that turns vectors into a release, or the reason why there is none.

use fedbo_privacy::accounting::{InvalidParameter, PrivacyEvent};
use fedbo_privacy::mechanism::{Mechanism, MechanismError, PaperError, PaperMechanism};
use fedbo_secure_sum::{NoProof, Proof, Sharing};

/// The mechanism that turns vectors into a release.
#[derive(Clone, Debug)]
pub enum ReleaseMechanism {
    /// Region sums on the lattice.
    Lattice(Mechanism),
    /// The paper's weighted averages, in floats; without noise also FTS-DE's.
    Paper(PaperMechanism),
    /// Region sums by two servers, of which neither sees a vector.
    SecureSum(Sharing),
}

impl ReleaseMechanism {
    fn lattice(&self) -> Result<&Mechanism, &PaperMechanism> {
        match self {
            Self::Lattice(mechanism) => Ok(mechanism),
            Self::SecureSum(sharing) => Ok(sharing.mechanism()),
            Self::Paper(mechanism) => Err(mechanism),
        }
    }

    /// N.
    #[must_use]
    pub fn n_slots(&self) -> u32 {
        self.lattice().map_or_else(|paper| paper.settings().n_slots, |own| own.settings().n_slots)
    }

    /// P.
    #[must_use]
    pub fn n_regions(&self) -> u32 {
        let own = self.lattice().map(|own| own.settings().n_regions);
        own.unwrap_or_else(|paper| paper.settings().n_regions)
    }

    /// q, by which sums are divided.
    pub(crate) fn sampling_rate(&self) -> f64 {
        let own = self.lattice().map(Mechanism::sampling_rate);
        own.unwrap_or_else(|paper| paper.settings().sampling.rate().get())
    }

    /// The cost of a release; `None` without noise.
    #[must_use]
    pub fn event(&self) -> Option<PrivacyEvent> {
        match self.lattice() {
            Ok(mechanism) => Some(mechanism.event()),
            Err(paper) => paper.event(),
        }
    }

    /// S and z.
    pub(crate) fn norm_and_noise(&self) -> (f64, f64) {
        match self.lattice() {
            Ok(mechanism) => {
                let settings = mechanism.settings();
                (settings.max_norm, settings.noise_multiplier.get())
            }
            Err(paper) => (paper.settings().max_norm, paper.settings().noise_multiplier),
        }
    }

    /// The length of a hostile agent's vector over that of the longest honest one, at most: what clips vectors decides it. Where nobody sees
    /// them, it is what their proofs say; infinite where nothing bounds it.
    pub(crate) fn hostile_weight(&self) -> f64 {
        match self {
            Self::Lattice(_) | Self::Paper(_) => 1.0,
            Self::SecureSum(sharing) => match sharing.proof() {
                Proof::L2 => 1.0,
                Proof::LInf => {
                    f64::from(u32::try_from(sharing.n_features()).unwrap_or(u32::MAX)).sqrt()
                }
                Proof::None => f64::INFINITY,
            },
        }
    }

    /// The whole noises in a release: two in a secure sum, each of a server, of which one is counted with.
    pub(crate) fn n_noises(&self) -> u32 {
        match self {
            Self::Lattice(_) | Self::Paper(_) => 1,
            Self::SecureSum(_) => 2,
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
    #[error("{0}; use fewer features or bits")]
    SecureSum(#[from] NoProof),
}

impl MechanismRefused {
    /// The table and the key that are at fault.
    pub(crate) fn path(&self) -> [&'static str; 2] {
        let key = match self {
            Self::Noise(_) => "noise_multiplier",
            Self::SecureSum(_) => return ["secure_sum", "bits"],
            Self::Lattice(error) | Self::Paper(PaperError::Dimensions(error)) => match error {
                MechanismError::MaxNorm { .. } => "max_norm",
                MechanismError::SamplingRate { .. } => "sampling_rate",
                MechanismError::NoiseMultiplier { .. } => "noise_multiplier",
                MechanismError::Bits { .. } => return ["secure_sum", "bits"],
                MechanismError::Count { .. } | MechanismError::TooManyCoordinates { .. } => {
                    return ["features", "count"];
                }
            },
            Self::Paper(PaperError::Number { name, .. }) => name,
            Self::Paper(_) => "mode",
        };
        ["privacy", key]
    }
}
