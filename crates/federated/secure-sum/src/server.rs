//! One server's part of a round: its shares of vectors, its noise, and its share of the release.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use fedbo_privacy::mechanism::{Kind, NoiseError, NoiseSource, ReleaseShape, Server};
use prio::field::{Field64, FieldElement, FieldElementWithInteger};
use sha2::{Digest as _, Sha256};

use crate::{OutputShare, Sharing};

/// One server's part of a round.
///
/// An open round holds no noise. The noise is drawn when the round closes, after the slots in the
/// sum are fixed (INV-29). Two copies of a round that close over different slots therefore have
/// independent noise.
pub struct ServerRound {
    sharing: Sharing,
    server: Server,
    round: u64,
    shape: ReleaseShape,
    /// This server's shares of the vectors, by slot.
    vectors: BTreeMap<u32, OutputShare>,
}

/// The reason that a round was not closed. In this case, nothing has been added up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClosed {
    /// This server has no vector for some of the slots.
    #[error("the other server counts slots without a vector here: {slots:?}")]
    Missing {
        /// The slots without a vector.
        slots: Vec<u32>,
    },
    /// No randomness is available.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Sharing {
    /// Begins a server's round without drawing any noise yet.
    #[must_use]
    pub fn begin(&self, server: Server, (round, shape): (u64, ReleaseShape)) -> ServerRound {
        ServerRound { sharing: self.clone(), server, round, shape, vectors: BTreeMap::new() }
    }

    fn n_sums(&self, shape: ReleaseShape) -> usize {
        match shape {
            ReleaseShape::Regions => self.mechanism().settings().n_regions as usize,
            ReleaseShape::Total => 1,
        }
    }

    /// Returns M plus the number of coordinates that hold only noise.
    fn n_coordinates(&self) -> usize {
        self.mechanism().settings().n_features as usize
    }
}

impl ServerRound {
    /// Returns the round's number.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Stores a slot's verified vector. Only the first vector of a slot counts (INV-6).
    pub fn keep(&mut self, slot: u32, vector: OutputShare) {
        self.vectors.entry(slot).or_insert(vector);
    }

    /// Returns the slots with a vector.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.vectors.keys().copied()
    }

    /// Closes the round: draws the server's full noise from fresh bytes, then adds the vectors of
    /// the given slots to the noise, by region (INV-29). Drops all other vectors.
    ///
    /// # Errors
    /// If a vector is missing, or the source provides no randomness. In this case, nothing has been
    /// added, and the round is returned unchanged.
    pub fn close<S: NoiseSource>(
        self,
        slots: &[u32],
        source: &mut S,
    ) -> Result<NoisedShare<S::Kind>, (Box<Self>, NotClosed)> {
        let missing = slots.iter().filter(|slot| !self.vectors.contains_key(slot));
        let missing: Vec<u32> = missing.copied().collect();
        if !missing.is_empty() {
            return Err((Box::new(self), NotClosed::Missing { slots: missing }));
        }
        let width = self.sharing.n_coordinates();
        let n = self.sharing.n_sums(self.shape) * width;
        let mechanism = self.sharing.mechanism();
        let noise = match mechanism.server_noise(self.server, (n, self.round), source) {
            Ok(noise) => noise,
            Err(error) => return Err((Box::new(self), error.into())),
        };
        let n_regions = mechanism.settings().n_regions;
        let mut sums: Vec<Field64> = noise.iter().map(|noise| residue(*noise)).collect();
        let offset = match self.server {
            // A public constant, which only one of the two servers subtracts.
            Server::Leader => Field64::from(self.sharing.offset()),
            Server::Helper => Field64::zero(),
        };
        for slot in slots {
            let Some(vector) = self.vectors.get(slot) else { continue };
            let region = match self.shape {
                ReleaseShape::Regions => (slot % n_regions) as usize, // INV-11
                ReleaseShape::Total => 0,
            };
            let sums = &mut sums[region * width..];
            for (sum, number) in sums.iter_mut().zip(&vector.0) {
                *sum += *number - offset;
            }
        }
        Ok(NoisedShare {
            server: self.server,
            shape: self.shape,
            parameters: self.sharing.hash(),
            round: self.round,
            slots: digest_of_slots(slots),
            numbers: sums.into_iter().map(u64::from).collect(),
            kind: PhantomData,
        })
    }
}

impl fmt::Debug for ServerRound {
    /// Omits vectors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRound")
            .field("server", &self.server)
            .field("round", &self.round)
            .finish_non_exhaustive()
    }
}

/// Reduces an integer modulo p.
fn residue(number: i64) -> Field64 {
    let size = Field64::from(number.unsigned_abs());
    match number < 0 {
        true => -size,
        false => size,
    }
}

/// Returns the representative of a residue modulo p that is nearest to zero.
fn centred(number: Field64) -> i64 {
    let modulus = Field64::modulus();
    let number = u64::from(number);
    match number > modulus / 2 {
        true => -((modulus - number).cast_signed()),
        false => number.cast_signed(),
    }
}

fn digest_of_slots(slots: &[u32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"fedbo secure sum, slots\0");
    slots.iter().for_each(|slot| hasher.update(slot.to_le_bytes()));
    hasher.finalize().into()
}

/// One server's share of a release: the server's share of the sums, plus its noise. The share
/// reveals nothing without the other server's share.
///
/// ```text
/// "fdbshr\x001" | kind u8 | server u8 | shape u8 | 0 u8 | parameters 32 | round u64 | slots 32 | numbers 8·n
/// ```
///
/// Numbers are little-endian and below p = 2^64 − 2^32 + 1.
#[derive(Clone, PartialEq, Eq)]
pub struct NoisedShare<K> {
    server: Server,
    shape: ReleaseShape,
    parameters: [u8; 32],
    round: u64,
    /// Digest of the slots that the share includes.
    slots: [u8; 32],
    numbers: Vec<u64>,
    kind: PhantomData<K>,
}

const FORMAT: [u8; 8] = *b"fdbshr\x001";
const HEADER_SIZE: usize = 8 + 4 + 32 + 8 + 32;

/// The reason that bytes or shares do not form a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareRefused {
    /// The bytes are not a share for this study and noise kind.
    #[error("its {field} does not match a server's share in this study")]
    Field {
        /// The field.
        field: &'static str,
    },
    /// The two servers added up the vectors of different slots, so one of them violated the
    /// protocol.
    #[error(
        "the two servers summed the vectors of different slots in round {round}: one of them is wrong"
    )]
    Slots {
        /// The round.
        round: u64,
    },
}

impl<K: Kind> NoisedShare<K> {
    /// Returns the round.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns the bytes that are signed and stored permanently.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE + 8 * self.numbers.len());
        bytes.extend(FORMAT);
        bytes.extend([K::PRIVATE.into(), code(self.server), shape_code(self.shape), 0]);
        bytes.extend(self.parameters);
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.slots);
        self.numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }
}

fn code(server: Server) -> u8 {
    match server {
        Server::Leader => 1,
        Server::Helper => 2,
    }
}

fn shape_code(shape: ReleaseShape) -> u8 {
    match shape {
        ReleaseShape::Regions => 1,
        ReleaseShape::Total => 2,
    }
}

impl Sharing {
    /// Returns the SHA-256 hash of all public parameters, which is part of every share.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(b"fedbo secure sum, parameters 1\0");
        hasher.update(self.mechanism().to_bytes());
        hasher.update((self.n_features() as u64).to_le_bytes());
        hasher.update(self.bits().to_le_bytes());
        hasher.update(self.proof().name());
        hasher.finalize().into()
    }

    /// Returns the coordinates of a server's share that hold only the server's noise, in the units
    /// of the vectors.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "noise has far fewer than 53 bits, or is wrong anyway"
    )]
    pub fn witnesses<K: Kind>(&self, share: &NoisedShare<K>) -> Vec<f64> {
        let (width, n_features) = (self.n_coordinates(), self.n_features());
        let spacing = self.mechanism().lattice().spacing();
        let rows = share.numbers.chunks(width).flat_map(|row| row.get(n_features..));
        let noise = rows.flatten().map(|number| centred(Field64::from(*number)) as f64 * spacing);
        noise.collect()
    }

    /// Returns the size in bytes of a server's share of a release with this shape.
    #[must_use]
    pub fn share_size(&self, shape: ReleaseShape) -> usize {
        HEADER_SIZE + 8 * self.n_sums(shape) * self.n_coordinates()
    }

    /// Parses a server's share of a round's release. Checks the size before allocating memory
    /// (INV-19).
    ///
    /// # Errors
    /// If the bytes are not this server's share for this round.
    pub fn read<K: Kind>(
        &self,
        server: Server,
        (round, shape): (u64, ReleaseShape),
        bytes: &[u8],
    ) -> Result<NoisedShare<K>, ShareRefused> {
        let refused = |field| ShareRefused::Field { field };
        if bytes.len() != self.share_size(shape) {
            return Err(refused("size"));
        }
        let mut rest = bytes;
        let mut matches = |field, expected: &[u8]| {
            let (found, after) = rest.split_at(expected.len());
            rest = after;
            (found == expected).then_some(()).ok_or(refused(field))
        };
        matches("format", &FORMAT)?;
        matches("kind", &[K::PRIVATE.into()])?;
        matches("server", &[code(server)])?;
        matches("shape", &[shape_code(shape), 0])?;
        matches("mechanism", &self.hash())?;
        matches("round", &round.to_le_bytes())?;
        let (slots, numbers) = rest.split_first_chunk().ok_or(refused("size"))?;
        let numbers = numbers.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        let numbers: Vec<u64> = numbers.collect();
        if numbers.iter().any(|number| *number >= Field64::modulus()) {
            return Err(refused("numbers"));
        }
        Ok(NoisedShare {
            server,
            shape,
            parameters: self.hash(),
            round,
            slots: *slots,
            numbers,
            kind: PhantomData,
        })
    }
}

/// Combines both servers' shares of a round into the release: all sums, row by row, in units of the
/// lattice spacing. The noise in each number has variance 2σ².
///
/// # Errors
/// If the servers summed different slots, or the shares do not belong together.
pub fn combine<K: Kind>(
    leader: &NoisedShare<K>,
    helper: &NoisedShare<K>,
) -> Result<Vec<i64>, ShareRefused> {
    if leader.slots != helper.slots {
        return Err(ShareRefused::Slots { round: leader.round });
    }
    let other = (&leader.parameters, leader.round, leader.shape, Server::Leader, Server::Helper);
    if (&helper.parameters, helper.round, helper.shape, leader.server, helper.server) != other {
        return Err(ShareRefused::Field { field: "round" });
    }
    let numbers = leader.numbers.iter().zip(&helper.numbers);
    Ok(numbers.map(|(a, b)| centred(Field64::from(*a) + Field64::from(*b))).collect())
}

impl<K> fmt::Debug for NoisedShare<K> {
    /// Prints only lengths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoisedShare")
            .field("server", &self.server)
            .field("round", &self.round)
            .field("n_numbers", &self.numbers.len())
            .finish_non_exhaustive()
    }
}
