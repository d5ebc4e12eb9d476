//! Mechanisms that turn a round's vectors into a release: the interface for aggregators, the
//! lattice mechanism, and the paper's mechanism.

use fedbo_privacy::accounting::PrivacyEvent;
use fedbo_privacy::mechanism::{
    Closed, Collecting, Kind, Mechanism, NoiseError, NoiseSource, PaperCollecting, PaperError,
    PaperMechanism, PaperRelease, PartialSum, ReleaseRefused, ReleaseShape, VectorRefused,
};

use zeroize::Zeroizing;

use crate::{Aggregate, AggregateContent, ReleaseSchedule};

/// Creates the releases of rounds.
///
/// Randomness comes from a source that the driver provides.
pub trait RoundMechanism {
    /// The state of an open round.
    type Round;

    /// Returns N, the number of slots, which are numbered from 0.
    fn n_slots(&self) -> u32;

    /// Returns M, the length of a vector.
    fn n_features(&self) -> usize;

    /// Begins a round.
    ///
    /// # Errors
    /// If the mechanism cannot open the round.
    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed>;

    /// Stores a slot's vector without reading it.
    ///
    /// # Errors
    /// Only for public reasons. After an error, the round is as if the vector had not arrived.
    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused>;

    /// Closes a round: draws its randomness, then reads its vectors. Always creates a release, even
    /// without any vectors (INV-3).
    ///
    /// # Errors
    /// If the round's randomness cannot be drawn. In this case, no vector has been read.
    fn close(&mut self, collecting: Self::Round) -> Result<PendingRelease, MechanismFailed>;

    /// Parses the bytes of a round's release. Equal bytes give equal numbers.
    ///
    /// # Errors
    /// If the bytes are not a release of this mechanism for this round.
    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed>;
}

/// A release that is not durable yet, with its privacy cost (INV-1).
pub struct PendingRelease {
    /// Bytes in a fixed layout. Their length depends only on public parameters.
    pub bytes: Vec<u8>,
    /// The privacy cost; `None` if the release has no privacy guarantee, because the noise comes
    /// from a seed or there is no noise.
    pub event: Option<PrivacyEvent>,
}

/// The reason that a mechanism cannot continue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MechanismFailed {
    /// No randomness is available.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The bytes are not a release of this mechanism.
    #[error("the stored release cannot be used: {0}")]
    Release(#[from] ReleaseRefused),
    /// The paper's mechanism refused the round's weights.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// A secure sum failed.
    #[error("the secure sum failed: {0}")]
    SecureSum(String),
    /// The stored release has the wrong shape.
    #[error(
        "the stored release holds {found:?}, this round releases {expected:?}; use the settings that it was created with"
    )]
    OtherShape {
        /// The shape that the schedule requires.
        expected: ReleaseShape,
        /// The shape of the stored release.
        found: ReleaseShape,
    },
}

/// Rounds of the lattice mechanism, with noise from `S`.
///
/// Releases are private with [`SecureNoise`](fedbo_privacy::mechanism::SecureNoise). A simulation
/// draws its noise from a seed, and its releases have no event (INV-10).
#[derive(Debug)]
pub struct LatticeRounds<S> {
    mechanism: Mechanism,
    schedule: ReleaseSchedule,
    source: S,
    /// Number of trailing coordinates that are not features.
    n_witnesses: usize,
}

impl<S: NoiseSource> LatticeRounds<S> {
    /// Creates rounds with the release shapes in `schedule`, which must be the aggregator's
    /// schedule.
    pub fn new(mechanism: Mechanism, schedule: ReleaseSchedule, source: S) -> Self {
        Self { mechanism, schedule, source, n_witnesses: 0 }
    }

    /// Uses the mechanism's last `n_witnesses` coordinates (at most all of them) as witnesses
    /// instead of features.
    ///
    /// Every vector is zero in these coordinates, so a release contains only noise there. Witnesses
    /// have no privacy cost, because neither the norm of a vector nor the noise in the other
    /// coordinates depends on them.
    #[must_use]
    pub fn with_witnesses(mut self, n_witnesses: u32) -> Self {
        let n_coordinates = self.mechanism.settings().n_features;
        self.n_witnesses = n_witnesses.min(n_coordinates) as usize;
        self
    }

    /// Returns the public parameters.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Closes a round with partial sums from several collectors ([`Mechanism::begin_part`]): draws
    /// its noise, then adds the sums. Always creates a release, even without any partial sums
    /// (INV-3).
    ///
    /// # Errors
    /// If the round's randomness cannot be drawn.
    pub fn close_parts(
        &mut self,
        round: u64,
        parts: impl IntoIterator<Item = PartialSum>,
    ) -> Result<PendingRelease, MechanismFailed> {
        let at = (round, self.schedule.shape(round));
        let closed = self.mechanism.close_parts(at, parts, &mut self.source)?;
        Ok(pending(&closed))
    }
}

/// Converts a closed lattice round to a release to store.
fn pending<K: Kind>(closed: &Closed<K>) -> PendingRelease {
    PendingRelease {
        bytes: closed.release.to_bytes(),
        event: K::PRIVATE.then_some(closed.event), // INV-10
    }
}

impl<S: NoiseSource> RoundMechanism for LatticeRounds<S> {
    type Round = Collecting;

    fn n_slots(&self) -> u32 {
        self.mechanism.settings().n_slots
    }

    fn n_features(&self) -> usize {
        self.mechanism.settings().n_features as usize - self.n_witnesses
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        let shape = self.schedule.shape(round);
        Ok(self.mechanism.begin(round, shape))
    }

    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        let (found, expected) = (vector.len(), self.n_features());
        if found != expected {
            return Err(VectorRefused::WrongLength {
                slot,
                expected: u32::try_from(expected).unwrap_or(u32::MAX), // at most the mechanism's
                found,
            });
        }
        let mut padded = Zeroizing::new(Vec::with_capacity(found + self.n_witnesses));
        padded.extend_from_slice(vector);
        padded.resize(found + self.n_witnesses, 0.0);
        collecting.receive(slot, &padded)
    }

    fn close(&mut self, collecting: Self::Round) -> Result<PendingRelease, MechanismFailed> {
        let closed = collecting.close(&mut self.source)?;
        Ok(pending(&closed))
    }

    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        let release = self.mechanism.read::<S::Kind>(round, bytes)?;
        let (expected, found) = (self.schedule.shape(round), release.shape());
        if expected != found {
            return Err(MechanismFailed::OtherShape { expected, found });
        }
        let mut witnesses = Vec::new();
        let mut features = |sum| {
            let mut values = release.values(sum);
            witnesses.extend(values.split_off(self.n_features()));
            values
        };
        let content = match found {
            ReleaseShape::Regions => {
                AggregateContent::RegionSums((0..release.n_sums()).map(features).collect())
            }
            ReleaseShape::Total => AggregateContent::Total(features(0)),
        };
        Ok(Aggregate { round, content, noise_std: self.mechanism.noise_std(), witnesses })
    }
}

/// Rounds of the paper's mechanism in floats, with noise from `S` and weights from `W`.
#[derive(Debug)]
pub struct PaperRounds<S, W> {
    mechanism: PaperMechanism,
    weights: W,
    source: S,
}

impl<S: NoiseSource, W: Fn(u64) -> Vec<Vec<f64>>> PaperRounds<S, W> {
    /// Creates rounds with the weights φ that `weights` returns for a round (P rows of N, each with
    /// sum 1). `weights` must be a public function that depends only on the round number (INV-11).
    pub fn new(mechanism: PaperMechanism, weights: W, source: S) -> Self {
        Self { mechanism, weights, source }
    }

    /// Returns the public parameters.
    pub fn mechanism(&self) -> &PaperMechanism {
        &self.mechanism
    }
}

impl<S: NoiseSource, W: Fn(u64) -> Vec<Vec<f64>>> RoundMechanism for PaperRounds<S, W> {
    type Round = PaperCollecting;

    fn n_slots(&self) -> u32 {
        self.mechanism.settings().n_slots
    }

    fn n_features(&self) -> usize {
        self.mechanism.settings().n_features as usize
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        let weights = (self.weights)(round);
        Ok(self.mechanism.begin(round, weights)?)
    }

    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        collecting.receive(slot, vector)
    }

    fn close(&mut self, collecting: Self::Round) -> Result<PendingRelease, MechanismFailed> {
        let closed = collecting.close(&mut self.source)?;
        Ok(PendingRelease {
            bytes: closed.release.to_bytes(),
            event: closed.event.filter(|_| S::Kind::PRIVATE), // INV-10
        })
    }

    /// Parses a stored release. If the noise differs between regions, `noise_std` is the square
    /// root of the mean variance.
    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        let release = PaperRelease::<S::Kind>::from_bytes(bytes)?;
        let settings = self.mechanism.settings();
        if release.round() != round {
            return Err(
                ReleaseRefused::OtherRound { expected: round, found: release.round() }.into()
            );
        }
        if release.n_regions() != settings.n_regions as usize
            || release.n_features() != settings.n_features as usize
        {
            return Err(ReleaseRefused::OtherMechanism.into());
        }
        let stds = release.noise_stds();
        let variance: f64 = stds.iter().map(|std| std * std).sum();
        let rows = release.region_weights().map(<[f64]>::to_vec);
        Ok(Aggregate {
            round,
            content: AggregateContent::Weighted(rows.collect()),
            noise_std: (variance / f64::from(settings.n_regions)).sqrt(),
            witnesses: Vec::new(),
        })
    }
}
