//! The public parameters of a mechanism, validated and immutable.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::bits::{Bits, Purpose};
use super::coins::CoinRate;
use super::discrete_gaussian::DiscreteGaussian;
use super::lattice::{Lattice, MAX_FEATURES};
use super::source::{NoiseError, NoiseSource};
use crate::accounting::{Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate};

/// All public parameters of the mechanism. Together with the vectors and the randomness, they
/// determine a release. They are fixed before the first round (INV-11).
#[derive(Clone, Debug, PartialEq)]
pub struct MechanismSettings {
    /// N: the number of slots on the roster, at least 1. Slots are numbered from 0; an unused slot
    /// is equivalent to a zero vector.
    pub n_slots: u32,
    /// P: the number of regions, at least 1; can exceed N.
    pub n_regions: u32,
    /// M: the number of features in a vector, from 1 to [`MAX_FEATURES`].
    pub n_features: u32,
    /// S: the clipping threshold of the joint vector; each vector is clipped at S / √P.
    pub max_norm: f64,
    /// q: the probability with which a slot takes part in a round; rounded to the nearest k / 2^32.
    pub sampling_rate: SamplingRate,
    /// z: the standard deviation of the noise divided by S / √P, within [`Lattice::MULTIPLIERS`].
    pub noise_multiplier: NoiseMultiplier,
}

/// One of the two servers of a secure sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// The coordinator, to which agents upload.
    Leader,
    /// The second server, run by a different party.
    Helper,
}

/// The error for invalid settings.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MechanismError {
    /// A count is out of range.
    #[error("{name} = {value}: it must be at least 1 and at most {largest}")]
    Count {
        /// The setting.
        name: &'static str,
        /// The given value.
        value: u32,
        /// The largest accepted value.
        largest: u32,
    },
    /// A release would be too long.
    #[error(
        "n_regions = {n_regions} times n_features = {n_features} makes more than {largest} numbers per release; use fewer \
         regions or features"
    )]
    TooManyCoordinates {
        /// P.
        n_regions: u32,
        /// M.
        n_features: u32,
        /// The largest accepted product.
        largest: u64,
    },
    /// S / √P is out of range.
    #[error(
        "max_norm = {max_norm}: max_norm / sqrt(n_regions) must be between {smallest:e} and \
         {largest:e}; 1.1 * sqrt(n_regions * n_features) is a value that needs no data",
        smallest = Lattice::NORMS.0,
        largest = Lattice::NORMS.1
    )]
    MaxNorm {
        /// S.
        max_norm: f64,
    },
    /// q is too small for coins of 32 bits.
    #[error("sampling_rate = {rate:e}: it must be at least 2^-32")]
    SamplingRate {
        /// q.
        rate: f64,
    },
    /// The number of bits in a secure sum is out of range.
    #[error(
        "bits = {bits}: it must be from {fewest} to {most}",
        fewest = Lattice::BITS.0,
        most = Lattice::BITS.1
    )]
    Bits {
        /// b.
        bits: u32,
    },
    /// z is out of range.
    #[error(
        "noise_multiplier = {multiplier}: it must be between {smallest} and {largest}",
        smallest = Lattice::MULTIPLIERS.0,
        largest = Lattice::MULTIPLIERS.1
    )]
    NoiseMultiplier {
        /// z.
        multiplier: f64,
    },
}

/// The subsampled discrete Gaussian mechanism with validated settings.
///
/// A slot takes part in a round independently with probability q. The vectors of participating
/// slots are mapped to a [`Lattice`], clipped at norm K, and summed as integers, per region or in
/// one total. Each coordinate of a sum includes a draw from the discrete Gaussian with
/// σ² = ⌈(z K)²⌉. The sensitivity under zero-out adjacency is K for both shapes, because a slot
/// adds to exactly one sum. The mechanism does not divide: readers of the release apply weights and
/// 1/q as post-processing.
///
/// Reference: DP-FTS-DE, Algorithm 1 lines 5 to 11, with these deviations: one sum per vector
/// instead of P weighted ones, noise on a lattice, no division by q.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    settings: MechanismSettings,
    lattice: Lattice,
    rate: CoinRate,
    noise: DiscreteGaussian,
    hash: [u8; 32],
}

impl Mechanism {
    /// The largest number of coordinates in a release, P·M: 2^24.
    pub const MAX_COORDINATES: u64 = 1 << 24;

    /// Validates the settings and derives the lattice, the coin rate and the noise from them.
    ///
    /// # Errors
    /// If a setting is out of range; the error names it.
    pub fn new(settings: MechanismSettings) -> Result<Self, MechanismError> {
        Self::with_bits(settings, Lattice::FINEST_BITS)
    }

    /// Like [`Self::new`], but for a secure sum with `bits` bits per number, including the sign,
    /// within [`Lattice::BITS`]. Each server's noise has the mechanism's full σ, as [`Self::event`]
    /// assumes.
    ///
    /// # Errors
    /// If a setting is out of range; the error names it.
    pub fn for_secure_sum(settings: MechanismSettings, bits: u32) -> Result<Self, MechanismError> {
        let (fewest, most) = Lattice::BITS;
        if !(fewest..=most).contains(&bits) {
            return Err(MechanismError::Bits { bits });
        }
        Self::with_bits(settings, bits)
    }

    fn with_bits(settings: MechanismSettings, bits: u32) -> Result<Self, MechanismError> {
        check_dimensions(settings.n_slots, settings.n_regions, settings.n_features)?;
        let norm = settings.max_norm / f64::from(settings.n_regions).sqrt();
        let lattice = Lattice::for_norm(norm, bits)
            .ok_or(MechanismError::MaxNorm { max_norm: settings.max_norm })?;
        // INV-7: sums of N vectors plus noise below 2^61 fit in 64 bits.
        assert!(u128::from(settings.n_slots) * u128::from(lattice.bound()) < 1 << 62);
        let rate = CoinRate::nearest(settings.sampling_rate)
            .ok_or(MechanismError::SamplingRate { rate: settings.sampling_rate.get() })?;
        let noise = lattice
            .variance(settings.noise_multiplier)
            .and_then(|variance| DiscreteGaussian::new(variance).ok())
            .ok_or(MechanismError::NoiseMultiplier {
                multiplier: settings.noise_multiplier.get(),
            })?;
        let mut mechanism = Self { settings, lattice, rate, noise, hash: [0; 32] };
        mechanism.hash = Sha256::digest(mechanism.to_bytes()).into();
        Ok(mechanism)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &MechanismSettings {
        &self.settings
    }

    /// Returns the lattice on which vectors are clipped and summed.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// Returns the distribution of the noise on each coordinate, in units of the lattice's spacing.
    pub fn noise(&self) -> &DiscreteGaussian {
        &self.noise
    }

    /// Returns σ g, the standard deviation of the noise on each released value. It is at least
    /// z S / √P, with S / √P rounded down to the lattice.
    #[expect(
        clippy::cast_precision_loss,
        reason = "only for weighting a release; the noise is drawn in integers"
    )]
    pub fn noise_std(&self) -> f64 {
        (self.noise.variance() as f64).sqrt() * self.lattice.spacing()
    }

    /// Returns an agent's vector in units of the lattice's spacing, clipped at norm K, for a secure
    /// sum. A vector with a non-finite coordinate is treated as zero. The steps are the same for
    /// every vector (INV-5).
    ///
    /// # Panics
    /// If a clipped vector is still too long: the process stops before anything is sent (INV-7).
    pub fn clipped(&self, vector: &[f64]) -> Zeroizing<Vec<i64>> {
        Zeroizing::new(self.lattice.clipped(vector))
    }

    /// Returns all the noise that one server of a secure sum adds to the `n` numbers of a round,
    /// drawn from the server's own stream.
    ///
    /// # Errors
    /// If the source provides no randomness.
    pub fn server_noise<S: NoiseSource>(
        &self,
        server: Server,
        (n, round): (usize, u64),
        source: &mut S,
    ) -> Result<Zeroizing<Vec<i64>>, NoiseError> {
        let key = source.key(round)?;
        let mut bits = Bits::new(
            &key,
            match server {
                Server::Leader => Purpose::Leader,
                Server::Helper => Purpose::Helper,
            },
        );
        let noise = (0..n).map(|_| self.noise.sample(&mut bits)).collect();
        source.count(bits.n_words());
        Ok(Zeroizing::new(noise))
    }

    /// Returns q as rounded to k / 2^32.
    pub fn sampling_rate(&self) -> f64 {
        self.rate.get()
    }

    pub(crate) fn coin_rate(&self) -> CoinRate {
        self.rate
    }

    /// Encodes all public parameters in a fixed little-endian layout.
    pub fn to_bytes(&self) -> Vec<u8> {
        let settings = &self.settings;
        let mut bytes = b"fedbo mechanism 1\0".to_vec();
        for count in [settings.n_slots, settings.n_regions, settings.n_features] {
            bytes.extend(count.to_le_bytes());
        }
        bytes.extend(settings.max_norm.to_bits().to_le_bytes());
        bytes.extend(self.rate.numerator().to_le_bytes());
        bytes.extend(settings.noise_multiplier.get().to_bits().to_le_bytes());
        bytes.extend(self.lattice.exponent().to_le_bytes());
        bytes.extend(self.lattice.bound().to_le_bytes());
        bytes.extend(self.noise.variance().to_le_bytes());
        bytes
    }

    /// Returns the SHA-256 hash of [`Self::to_bytes`], which identifies the mechanism in a release.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Returns the region of a slot: the slot's number modulo P, independently of the other slots
    /// (INV-11).
    pub fn region_of(&self, slot: u32) -> u32 {
        slot % self.settings.n_regions
    }

    /// Returns the privacy event of each release. The event does not depend on the shape, because
    /// it counts the coordinates of the longer one.
    pub fn event(&self) -> PrivacyEvent {
        let rate = SamplingRate::new(self.rate.get()).unwrap_or(self.settings.sampling_rate);
        PrivacyEvent {
            sampling: Sampling::Poisson(rate),
            noise: Noise::DiscreteGaussian {
                variance: self.noise.variance(),
                bound: self.lattice.bound(),
                n_coordinates: u64::from(self.settings.n_regions)
                    * u64::from(self.settings.n_features),
            },
        }
    }
}

/// Checks N, P, M ≥ 1, M ≤ [`MAX_FEATURES`], P·M ≤ [`Mechanism::MAX_COORDINATES`].
pub(crate) fn check_dimensions(
    n_slots: u32,
    n_regions: u32,
    n_features: u32,
) -> Result<(), MechanismError> {
    for (name, value, largest) in [
        ("n_slots", n_slots, u32::MAX),
        ("n_regions", n_regions, u32::MAX),
        ("n_features", n_features, MAX_FEATURES),
    ] {
        if value == 0 || value > largest {
            return Err(MechanismError::Count { name, value, largest });
        }
    }
    if u64::from(n_regions) * u64::from(n_features) > Mechanism::MAX_COORDINATES {
        return Err(MechanismError::TooManyCoordinates {
            n_regions,
            n_features,
            largest: Mechanism::MAX_COORDINATES,
        });
    }
    Ok(())
}
