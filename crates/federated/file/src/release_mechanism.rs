//! Mechanisms that turn vectors into releases.

use fedbo_privacy::accounting::{InvalidParameter, PrivacyEvent};
use fedbo_privacy::mechanism::{Mechanism, MechanismError, PaperError, PaperMechanism};
use fedbo_secure_sum::{NoProof, Proof, Sharing};

/// A mechanism that turns vectors into releases.
#[derive(Clone, Debug)]
pub enum ReleaseMechanism {
    /// Region sums on the lattice.
    Lattice(Mechanism),
    /// The paper's weighted averages in floats. Without noise, this is FTS-DE.
    Paper(PaperMechanism),
    /// Region sums computed by two servers. Neither server sees a vector.
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

    /// Returns N, the number of slots.
    #[must_use]
    pub fn n_slots(&self) -> u32 {
        self.lattice().map_or_else(|paper| paper.settings().n_slots, |own| own.settings().n_slots)
    }

    /// Returns P, the number of regions.
    #[must_use]
    pub fn n_regions(&self) -> u32 {
        let own = self.lattice().map(|own| own.settings().n_regions);
        own.unwrap_or_else(|paper| paper.settings().n_regions)
    }

    /// Returns q. Sums are divided by a multiple of q.
    pub(crate) fn sampling_rate(&self) -> f64 {
        let own = self.lattice().map(Mechanism::sampling_rate);
        own.unwrap_or_else(|paper| paper.settings().sampling.rate().get())
    }

    /// Returns the cost of a release; `None` without noise.
    #[must_use]
    pub fn event(&self) -> Option<PrivacyEvent> {
        match self.lattice() {
            Ok(mechanism) => Some(mechanism.event()),
            Err(paper) => paper.event(),
        }
    }

    /// Returns S and z.
    pub(crate) fn norm_and_noise(&self) -> (f64, f64) {
        match self.lattice() {
            Ok(mechanism) => {
                let settings = mechanism.settings();
                (settings.max_norm, settings.noise_multiplier.get())
            }
            Err(paper) => (paper.settings().max_norm, paper.settings().noise_multiplier),
        }
    }

    /// Returns an upper bound on the norm of a hostile agent's vector, relative to the largest
    /// honest norm. The bound follows from the mechanism's clipping, or from the proofs if no
    /// server sees the vectors; infinite without a bound.
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

    /// Returns the number of independent noise terms in a release. A secure sum has two, one per
    /// server, but the accounting counts only one.
    pub(crate) fn n_noises(&self) -> u32 {
        match self {
            Self::Lattice(_) | Self::Paper(_) => 1,
            Self::SecureSum(_) => 2,
        }
    }
}

/// The reason that a mechanism cannot be created.
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
    /// Returns the table and the key of the invalid value.
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
