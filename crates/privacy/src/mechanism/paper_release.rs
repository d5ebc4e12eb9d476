//! The release of a round of the paper's mechanism, and its encoding.

use std::fmt;
use std::marker::PhantomData;

use super::release::{Fields, ReleaseRefused};
use super::settings::check_dimensions;
use super::source::Kind;

/// The noisy weighted averages of one round, P×M.
#[derive(Clone, PartialEq)]
pub struct PaperRelease<K> {
    round: u64,
    /// Standard deviations of the noise, one for each of P regions.
    noise_stds: Vec<f64>,
    /// Weighted averages, P×M, row by row.
    region_weights: Vec<f64>,
    kind: PhantomData<fn() -> K>,
}

const FORMAT: [u8; 8] = *b"fdbpap\x001";

/// Size in bytes of the fields before the numbers: format, kind, round, P, M.
const HEADER_SIZE: usize = 8 + 1 + 8 + 4 + 4;

impl<K> PaperRelease<K> {
    /// Creates a release from P ≥ 1 standard deviations and P rows of equal length.
    pub(crate) fn new(round: u64, noise_stds: Vec<f64>, region_weights: Vec<f64>) -> Self {
        Self { round, noise_stds, region_weights, kind: PhantomData }
    }

    /// Returns the round.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns P.
    pub fn n_regions(&self) -> usize {
        self.noise_stds.len()
    }

    /// Returns M.
    pub fn n_features(&self) -> usize {
        self.region_weights.len() / self.n_regions().max(1)
    }

    /// Returns z φ_max S/q for each of P regions: the standard deviation of the noise on each of
    /// the region's numbers.
    pub fn noise_stds(&self) -> &[f64] {
        &self.noise_stds
    }

    /// Returns ω^(i) for each region i, M numbers each.
    pub fn region_weights(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.region_weights.chunks_exact(self.n_features().max(1))
    }
}

impl<K: Kind> PaperRelease<K> {
    /// Encodes the release in a fixed little-endian layout. P and M determine the size.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FORMAT.to_vec();
        bytes.push(K::CODE);
        bytes.extend(self.round.to_le_bytes());
        for count in [self.n_regions(), self.n_features()] {
            bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()); // counts come from 32 bits
        }
        for number in self.noise_stds.iter().chain(&self.region_weights) {
            bytes.extend(number.to_bits().to_le_bytes());
        }
        bytes
    }

    /// Decodes the output of [`Self::to_bytes`]. Allocates only after checking the size (INV-19),
    /// and accepts only finite numbers (INV-21).
    ///
    /// # Errors
    /// If the bytes do not encode exactly one release of kind K.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReleaseRefused> {
        let mut fields = Fields(bytes);
        if fields.take() != Some(FORMAT) {
            return Err(ReleaseRefused::UnknownFormat);
        }
        let cut = || ReleaseRefused::WrongSize { expected: HEADER_SIZE as u64, found: bytes.len() };
        let [kind] = fields.take().ok_or_else(cut)?;
        if kind != K::CODE {
            return Err(ReleaseRefused::OtherKind);
        }
        let round = u64::from_le_bytes(fields.take().ok_or_else(cut)?);
        let n_regions = u32::from_le_bytes(fields.take().ok_or_else(cut)?);
        let n_features = u32::from_le_bytes(fields.take().ok_or_else(cut)?);
        let field = |field| ReleaseRefused::Field { field };
        check_dimensions(1, n_regions, n_features)
            .map_err(|_| field("number of regions or features"))?;
        let n_numbers = u64::from(n_regions) * (u64::from(n_features) + 1);
        let (numbers, rest) = fields.0.as_chunks();
        if numbers.len() as u64 != n_numbers || !rest.is_empty() {
            return Err(ReleaseRefused::WrongSize {
                expected: HEADER_SIZE as u64 + 8 * n_numbers,
                found: bytes.len(),
            });
        }
        let mut numbers = numbers.iter().map(|n| f64::from_le_bytes(*n));
        let noise_stds: Vec<f64> = numbers.by_ref().take(n_regions as usize).collect();
        let region_weights: Vec<f64> = numbers.collect();
        if !noise_stds.iter().all(|std| std.is_finite() && *std >= 0.0) {
            return Err(field("standard deviation"));
        }
        if !region_weights.iter().all(|w| w.is_finite()) {
            return Err(field("number"));
        }
        Ok(Self::new(round, noise_stds, region_weights))
    }
}

/// Shows only lengths.
impl<K> fmt::Debug for PaperRelease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaperRelease")
            .field("round", &self.round)
            .field("n_numbers", &self.region_weights.len())
            .finish_non_exhaustive()
    }
}
