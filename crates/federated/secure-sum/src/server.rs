//! A server's round: what it holds of vectors, its noise, and the share of the release that it gives away.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use fedbo_privacy::mechanism::{Kind, NoiseError, NoiseSource, ReleaseShape, Server};
use prio::field::{Field64, FieldElement, FieldElementWithInteger};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::{OutputShare, Sharing};

/// A round of one server. Its noise is drawn before it sees a report (INV-8).
pub struct ServerRound<K> {
    sharing: Sharing,
    server: Server,
    round: u64,
    shape: ReleaseShape,
    noise: Zeroizing<Vec<i64>>,
    /// Vectors as this server knows them, by slot.
    vectors: BTreeMap<u32, OutputShare>,
    kind: PhantomData<K>,
}

/// Slots whose vectors are to be in a sum, of which this server has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other server counts slots whose vectors are not here: {slots:?}")]
pub struct SlotsMissing {
    /// The slots.
    pub slots: Vec<u32>,
}

impl Sharing {
    /// Begins a round of a server: draws its whole noise.
    ///
    /// # Errors
    /// If the source has no randomness to give. The round has no release then.
    pub fn begin<S: NoiseSource>(
        &self,
        server: Server,
        (round, shape): (u64, ReleaseShape),
        source: &mut S,
    ) -> Result<ServerRound<S::Kind>, NoiseError> {
        let n = self.n_sums(shape) * self.n_coordinates();
        let noise = self.mechanism().server_noise(server, (n, round), source)?;
        Ok(ServerRound {
            sharing: self.clone(),
            server,
            round,
            shape,
            noise,
            vectors: BTreeMap::new(),
            kind: PhantomData,
        })
    }

    fn n_sums(&self, shape: ReleaseShape) -> usize {
        match shape {
            ReleaseShape::Regions => self.mechanism().settings().n_regions as usize,
            ReleaseShape::Total => 1,
        }
    }

    /// M and the coordinates that are noise alone.
    fn n_coordinates(&self) -> usize {
        self.mechanism().settings().n_features as usize
    }
}

impl<K: Kind> ServerRound<K> {
    /// The round's number.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Keeps the verified vector of a slot. The first of a slot counts (INV-6).
    pub fn keep(&mut self, slot: u32, vector: OutputShare) {
        self.vectors.entry(slot).or_insert(vector);
    }

    /// The slots whose vectors are here.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.vectors.keys().copied()
    }

    /// Ends the round: adds up the vectors of these slots, by region, on top of the noise. Any other vector is dropped.
    ///
    /// # Errors
    /// If a vector is missing: then nothing has been added, and the round is as it was.
    pub fn close(self, slots: &[u32]) -> Result<NoisedShare<K>, (Box<Self>, SlotsMissing)> {
        let missing = slots.iter().filter(|slot| !self.vectors.contains_key(slot));
        let missing: Vec<u32> = missing.copied().collect();
        if !missing.is_empty() {
            return Err((Box::new(self), SlotsMissing { slots: missing }));
        }
        let width = self.sharing.n_coordinates();
        let n_regions = self.sharing.mechanism().settings().n_regions;
        let mut sums: Vec<Field64> = self.noise.iter().map(|noise| residue(*noise)).collect();
        let offset = match self.server {
            // A public number, taken off by one of the two.
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

impl<K> fmt::Debug for ServerRound<K> {
    /// The round; nothing of vectors or noise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRound")
            .field("server", &self.server)
            .field("round", &self.round)
            .finish_non_exhaustive()
    }
}

/// A whole number modulo p.
fn residue(number: i64) -> Field64 {
    let size = Field64::from(number.unsigned_abs());
    match number < 0 {
        true => -size,
        false => size,
    }
}

/// A number modulo p as the whole number nearest to zero.
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

/// The part of a release that one server gives away: its share of the sums, with its noise. Without the other server's it says nothing.
///
/// ```text
/// "fdbshr\x001" | kind u8 | server u8 | shape u8 | 0 u8 | parameters 32 | round u64 | slots 32 | numbers 8·n
/// ```
///
/// Numbers have their little end first and are below p = 2^64 − 2^32 + 1.
#[derive(Clone, PartialEq, Eq)]
pub struct NoisedShare<K> {
    server: Server,
    shape: ReleaseShape,
    parameters: [u8; 32],
    round: u64,
    /// Digest of the slots whose vectors are in it.
    slots: [u8; 32],
    numbers: Vec<u64>,
    kind: PhantomData<K>,
}

const FORMAT: [u8; 8] = *b"fdbshr\x001";
const HEADER_SIZE: usize = 8 + 4 + 32 + 8 + 32;

/// Bytes or shares of which no release can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareRefused {
    /// The bytes are no share of this study and kind.
    #[error("its {field} is not that of a server's share in this study")]
    Field {
        /// The field.
        field: &'static str,
    },
    /// The two servers added up the vectors of different slots: one of them broke the protocol.
    #[error(
        "the two servers summed the vectors of different slots in round {round}: one of them is wrong"
    )]
    Slots {
        /// The round.
        round: u64,
    },
}

impl<K: Kind> NoisedShare<K> {
    /// The round.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The bytes that are kept for ever and signed.
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
    /// SHA-256 of all public parameters: a share names them.
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

    /// The coordinates of a server's share in which there is its noise alone, in the units of the vectors.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "noise of far fewer bits than 53, or wrong anyway"
    )]
    pub fn witnesses<K: Kind>(&self, share: &NoisedShare<K>) -> Vec<f64> {
        let (width, n_features) = (self.n_coordinates(), self.n_features());
        let spacing = self.mechanism().lattice().spacing();
        let rows = share.numbers.chunks(width).flat_map(|row| row.get(n_features..));
        let noise = rows.flatten().map(|number| centred(Field64::from(*number)) as f64 * spacing);
        noise.collect()
    }

    /// Bytes of a share of the release of this shape.
    #[must_use]
    pub fn share_size(&self, shape: ReleaseShape) -> usize {
        HEADER_SIZE + 8 * self.n_sums(shape) * self.n_coordinates()
    }

    /// Reads a server's share of a round's release. Nothing is allocated before its size is known to be right (INV-19).
    ///
    /// # Errors
    /// If the bytes are not such a share.
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

/// The release of both servers' shares of a round: all sums, row by row, in units of the lattice's spacing. The noise of a number has the
/// variance 2σ².
///
/// # Errors
/// If the servers summed different vectors.
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
    /// Lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoisedShare")
            .field("server", &self.server)
            .field("round", &self.round)
            .field("n_numbers", &self.numbers.len())
            .finish_non_exhaustive()
    }
}
