//! The release of a round, and its encoding.

use std::fmt;
use std::marker::PhantomData;

use super::lattice::Lattice;
use super::settings::Mechanism;
use super::source::Kind;

/// The shape of the sums that a round releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseShape {
    /// P sums of M numbers each, one sum per region, for agent weights that differ between regions.
    Regions,
    /// One sum of M numbers over all slots, with the noise of one region. This shape is sufficient
    /// once the weights are uniform.
    Total,
}

impl ReleaseShape {
    fn code(self) -> u8 {
        match self {
            Self::Regions => 1,
            Self::Total => 2,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Regions, Self::Total].into_iter().find(|shape| shape.code() == code)
    }
}

/// The public fields that precede the sums in a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) mechanism: [u8; 32],
    pub(crate) round: u64,
    pub(crate) shape: ReleaseShape,
    pub(crate) n_regions: u32,
    pub(crate) n_features: u32,
    pub(crate) exponent: i32,
}

impl Header {
    pub(crate) fn of(mechanism: &Mechanism, round: u64, shape: ReleaseShape) -> Self {
        Self {
            mechanism: mechanism.hash(),
            round,
            shape,
            n_regions: mechanism.settings().n_regions,
            n_features: mechanism.settings().n_features,
            exponent: mechanism.lattice().exponent(),
        }
    }

    fn n_sums(&self) -> u32 {
        match self.shape {
            ReleaseShape::Regions => self.n_regions,
            ReleaseShape::Total => 1,
        }
    }

    pub(crate) fn n_coordinates(&self) -> u64 {
        u64::from(self.n_sums()) * u64::from(self.n_features)
    }

    /// Returns [`Self::n_coordinates`] as a `usize`; a mechanism has at most 2^24 coordinates.
    pub(crate) fn len(&self) -> usize {
        self.n_sums() as usize * self.n_features as usize
    }

    /// Returns the index of the sum that includes the slot's vector (INV-11).
    pub(crate) fn sum_of(&self, slot: u32) -> u32 {
        match self.shape {
            ReleaseShape::Regions => slot % self.n_regions,
            ReleaseShape::Total => 0,
        }
    }
}

/// The noisy sums of one round, in multiples of the lattice's spacing g.
///
/// A release is created only by closing a round or by decoding a release. The kind K,
/// [`Secure`](super::Secure) or [`Simulated`](super::Simulated), never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Release<K> {
    header: Header,
    sums: Vec<i64>,
    kind: PhantomData<fn() -> K>,
}

/// The error for bytes that are not a release of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefused {
    /// The bytes do not start with this version's format identifier.
    #[error("not a release of a supported version")]
    UnknownFormat,
    /// The release has the wrong kind: simulated instead of secure noise, or the reverse.
    #[error("the release is of another kind: simulated and secure releases do not mix")]
    OtherKind,
    /// There are too few or too many bytes.
    #[error("the release has {found} bytes, its header states {expected}")]
    WrongSize {
        /// The number of bytes according to the header.
        expected: u64,
        /// The actual number of bytes.
        found: usize,
    },
    /// A field has a value that no mechanism would write.
    #[error("the release's {field} is out of range")]
    Field {
        /// The field's name.
        field: &'static str,
    },
    /// The release was made by a different mechanism.
    #[error("the release was made by a mechanism with other parameters")]
    OtherMechanism,
    /// The release belongs to a different round.
    #[error("the release belongs to round {found}, not {expected}")]
    OtherRound {
        /// The requested round.
        expected: u64,
        /// The round of the release.
        found: u64,
    },
}

const FORMAT: [u8; 8] = *b"fdbrel\x001";

/// Size in bytes of the fields before the sums: format, kind, shape, mechanism, round, P, M, e.
const HEADER_SIZE: usize = 8 + 1 + 1 + 32 + 8 + 4 + 4 + 4;

impl<K> Release<K> {
    pub(crate) fn new(header: Header, sums: Vec<i64>) -> Self {
        Self { header, sums, kind: PhantomData }
    }

    /// Returns the round.
    pub fn round(&self) -> u64 {
        self.header.round
    }

    /// Returns the shape of the sums.
    pub fn shape(&self) -> ReleaseShape {
        self.header.shape
    }

    /// Returns the [`Mechanism::hash`] of the mechanism that made the release.
    pub fn mechanism(&self) -> [u8; 32] {
        self.header.mechanism
    }

    /// Returns P, the number of regions of the mechanism. The release has P sums or one.
    pub fn n_regions(&self) -> u32 {
        self.header.n_regions
    }

    /// Returns the number of sums: P or 1.
    pub fn n_sums(&self) -> u32 {
        self.header.n_sums()
    }

    /// Returns M.
    pub fn n_features(&self) -> u32 {
        self.header.n_features
    }

    /// Returns g, the distance between adjacent values.
    pub fn spacing(&self) -> f64 {
        Lattice::spacing_of(self.header.exponent)
    }

    /// Returns all sums in units of g: n_sums × M, row by row.
    pub fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// Returns the M numbers of a region's sum in the units of the vectors, k g. A
    /// [`ReleaseShape::Total`] has only region 0.
    ///
    /// # Panics
    /// If the region is out of range.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a released value; beyond 2^53 it is still rounded to a multiple of g"
    )]
    pub fn values(&self, region: u32) -> Vec<f64> {
        assert!(region < self.n_sums(), "there is no sum {region}");
        let (m, g) = (self.header.n_features as usize, self.spacing());
        let sum = self.sums.chunks_exact(m).nth(region as usize);
        sum.unwrap_or_default().iter().map(|k| *k as f64 * g).collect()
    }
}

impl<K: Kind> Release<K> {
    /// Encodes the release in a fixed little-endian layout. The shape, P and M determine the size.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE + 8 * self.sums.len());
        bytes.extend(FORMAT);
        bytes.extend([K::CODE, self.header.shape.code()]);
        bytes.extend(self.header.mechanism);
        bytes.extend(self.header.round.to_le_bytes());
        bytes.extend(self.header.n_regions.to_le_bytes());
        bytes.extend(self.header.n_features.to_le_bytes());
        bytes.extend(self.header.exponent.to_le_bytes());
        for sum in &self.sums {
            bytes.extend(sum.to_le_bytes());
        }
        bytes
    }

    /// Decodes the output of [`Self::to_bytes`]. Allocates only after checking the size (INV-19).
    ///
    /// # Errors
    /// If the bytes do not encode exactly one release of kind K.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReleaseRefused> {
        let mut fields = Fields(bytes);
        if fields.take() != Some(FORMAT) {
            return Err(ReleaseRefused::UnknownFormat);
        }
        let cut = || ReleaseRefused::WrongSize { expected: HEADER_SIZE as u64, found: bytes.len() };
        let [kind, shape] = fields.take().ok_or_else(cut)?;
        if kind != K::CODE {
            return Err(ReleaseRefused::OtherKind);
        }
        let shape = ReleaseShape::from_code(shape);
        let header = Header {
            shape: shape.ok_or(ReleaseRefused::Field { field: "shape" })?,
            mechanism: fields.take().ok_or_else(cut)?,
            round: u64::from_le_bytes(fields.take().ok_or_else(cut)?),
            n_regions: u32::from_le_bytes(fields.take().ok_or_else(cut)?),
            n_features: u32::from_le_bytes(fields.take().ok_or_else(cut)?),
            exponent: i32::from_le_bytes(fields.take().ok_or_else(cut)?),
        };
        super::settings::check_dimensions(1, header.n_regions, header.n_features)
            .map_err(|_| ReleaseRefused::Field { field: "number of regions or features" })?;
        if !Lattice::has_exponent(header.exponent) {
            return Err(ReleaseRefused::Field { field: "spacing" });
        }
        let (sums, rest) = fields.0.as_chunks();
        if sums.len() as u64 != header.n_coordinates() || !rest.is_empty() {
            return Err(ReleaseRefused::WrongSize {
                expected: HEADER_SIZE as u64 + 8 * header.n_coordinates(),
                found: bytes.len(),
            });
        }
        let sums = sums.iter().map(|sum| i64::from_le_bytes(*sum)).collect();
        Ok(Self::new(header, sums))
    }
}

impl Mechanism {
    /// Decodes a release that this mechanism made in `round`.
    ///
    /// # Errors
    /// If the bytes do not encode a release, or the release has a different kind, mechanism or
    /// round.
    pub fn read<K: Kind>(&self, round: u64, bytes: &[u8]) -> Result<Release<K>, ReleaseRefused> {
        let release = Release::from_bytes(bytes)?;
        let found = &release.header;
        if *found != Header::of(self, found.round, found.shape) {
            return Err(ReleaseRefused::OtherMechanism);
        }
        if found.round != round {
            return Err(ReleaseRefused::OtherRound { expected: round, found: found.round });
        }
        Ok(release)
    }

    /// Returns the size in bytes of a release with this shape, which is the same in every round
    /// (INV-4, INV-18).
    pub fn release_size(&self, shape: ReleaseShape) -> u64 {
        HEADER_SIZE as u64 + 8 * Header::of(self, 0, shape).n_coordinates()
    }
}

/// Reads fixed-size fields from the front of a byte slice.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

/// Shows only lengths.
impl<K> fmt::Debug for Release<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release")
            .field("round", &self.header.round)
            .field("shape", &self.header.shape)
            .field("n_numbers", &self.sums.len())
            .finish_non_exhaustive()
    }
}
