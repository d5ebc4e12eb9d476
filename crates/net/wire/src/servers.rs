//! Messages between the two servers of a secure sum.
//!
//! The leader signs each request like any other request. Each response ends with the helper's
//! signature over the digest of the request and the response. The sizes of all parts follow from
//! the study's configuration.
//!
//! A helper draws a session identifier when it begins to serve a study, and accepts only requests
//! with this identifier. Requests recorded in an earlier session can therefore not be replayed
//! (INV-28).

use std::fmt;

use crate::fields::Fields;
use crate::{
    BadSignature, Digest, LAYOUT_VERSION, LedgerEntry, PublicKey, RoundKey, Signature, SigningKey,
    digest,
};

/// Maximum number of reports in a verification request.
pub const REPORTS_MAX: usize = 500;

/// Error for bytes that are not a message between the servers of this study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerMessageUnreadable {
    /// The message has the wrong kind, version, round, study or length.
    #[error("the message between the servers does not match this study and round: its {field}")]
    Field {
        /// Name of the wrong field.
        field: &'static str,
    },
    /// The helper did not sign the response, or signed it for a different request.
    #[error("the response is not the helper's response to the request: {0}")]
    Signature(#[from] BadSignature),
}

/// An agent's report, as forwarded by the leader to the helper.
#[derive(Clone, PartialEq, Eq)]
pub struct PassedReport {
    /// The agent's slot.
    pub slot: u32,
    /// Identifier of the report.
    pub nonce: [u8; 16],
    /// The public share, which both servers see.
    pub public: Vec<u8>,
    /// The helper's sealed share, which only the helper can open.
    pub for_helper: Vec<u8>,
    /// The leader's verifier share.
    pub verifier: Vec<u8>,
}

/// Sizes of the parts of a forwarded report and of its verdict, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedSizes {
    /// Size of the public share.
    pub public: usize,
    /// Size of the helper's sealed share.
    pub for_helper: usize,
    /// Size of a verifier share.
    pub verifier: usize,
    /// Size of the verifier message, on which both servers agree.
    pub message: usize,
}

/// 16 random bytes that a helper draws when it begins to serve a study.
pub type Session = [u8; 16];

/// Session in a request to open a round, whose response contains the helper's session.
pub const NO_SESSION: Session = [0; 16];

/// The context of a message: the study's configuration, the round, and the helper's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumPlace {
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// Round of the message.
    pub round: u64,
    /// The helper's session.
    pub session: Session,
}

const HEADER_SIZE: usize = 4 + 2 + 2 + 8 + 32 + 16 + 4;
const SIGNATURE_SIZE: usize = 64;

impl SumPlace {
    /// Encodes a header with the kind, version, context and a count.
    fn header(self, kind: [u8; 4], n: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind);
        bytes.extend(LAYOUT_VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.config.0);
        bytes.extend(self.session);
        bytes.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
        bytes
    }

    /// Checks the header. Returns the count and the rest of the message.
    fn read(
        self,
        kind: [u8; 4],
        bytes: &[u8],
    ) -> Result<(u32, Fields<'_>), ServerMessageUnreadable> {
        let expected = self.header(kind, 0);
        let names = [
            (0..4, "kind"),
            (4..8, "version"),
            (8..16, "round"),
            (16..48, "config"),
            (48..64, "session"),
        ];
        for (range, name) in names {
            if bytes.get(range.clone()) != expected.get(range) {
                return Err(ServerMessageUnreadable::Field { field: name });
            }
        }
        let mut fields = Fields(&bytes[64..]);
        let n = fields.u32().ok_or(ServerMessageUnreadable::Field { field: "count" })?;
        Ok((n, fields))
    }
}

const OPEN: [u8; 4] = *b"FBOQ";
const OPENED: [u8; 4] = *b"FBOA";
const VERIFY: [u8; 4] = *b"FBVQ";
const VERDICTS: [u8; 4] = *b"FBVA";
const CLOSE: [u8; 4] = *b"FBCQ";
const CLOSED: [u8; 4] = *b"FBCA";
const REVEAL: [u8; 4] = *b"FBRQ";
const ENTRIES: [u8; 4] = *b"FBRA";

/// Encodes `FBOQ`, which announces that the leader is about to begin a round.
///
/// The message identifies the helper's newest share known to the leader, by the share's round and
/// the helper's commitment.
///
/// ```text
/// header | n × (round u64 | hash 32), n at most 1
/// ```
pub fn open_to_bytes(place: SumPlace, known: Option<(u64, Digest)>) -> Vec<u8> {
    let mut bytes = place.header(OPEN, known.iter().len());
    if let Some((round, hash)) = known {
        bytes.extend(round.to_le_bytes());
        bytes.extend(hash.0);
    }
    bytes
}

/// Returns the maximum size of a request to open a round.
pub fn open_size() -> usize {
    HEADER_SIZE + 8 + 32
}

/// Decodes a message of [`open_to_bytes`].
///
/// # Errors
/// If the bytes are not this message.
pub fn open_from_bytes(
    bytes: &[u8],
    place: SumPlace,
) -> Result<Option<(u64, Digest)>, ServerMessageUnreadable> {
    let (n, mut fields) = place.read(OPEN, bytes)?;
    let mut known = || match n {
        0 => Some(None),
        1 => Some(Some((fields.u64()?, Digest(fields.take()?)))),
        _ => None,
    };
    let known = known().ok_or(ServerMessageUnreadable::Field { field: "known share" })?;
    match fields.n_left() {
        0 => Ok(known),
        _ => Err(ServerMessageUnreadable::Field { field: "length" }),
    }
}

/// The helper's response to a leader that opens a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAnswer {
    /// Session to use in all further messages.
    pub session: Session,
    /// Key for the round, or `None` if the helper has closed the round.
    pub key: Option<RoundKey>,
}

impl OpenAnswer {
    /// Encodes `FBOA`: the header, the session, n × (key 32 | signature of the key 64), n at most
    /// 1, the signature.
    pub fn to_bytes(&self, place: SumPlace, (key, request): (&SigningKey, &[u8])) -> Vec<u8> {
        let mut bytes = place.header(OPENED, self.key.iter().len());
        bytes.extend(self.session);
        if let Some(key) = &self.key {
            bytes.extend(key.key);
            bytes.extend(key.signature.0);
        }
        signed(bytes, key, request)
    }

    /// Returns the maximum size of a response.
    pub fn size_max() -> usize {
        HEADER_SIZE + 16 + 32 + 64 + SIGNATURE_SIZE
    }

    /// Decodes a message of [`OpenAnswer::to_bytes`]. The caller must check the signature of the
    /// round key.
    ///
    /// # Errors
    /// If the bytes are not this message, or not the helper's response to this request.
    pub fn from_bytes(
        bytes: &[u8],
        place: SumPlace,
        (helper, request): (&PublicKey, &[u8]),
    ) -> Result<Self, ServerMessageUnreadable> {
        let bytes = verified(bytes, helper, request)?;
        let (n, mut fields) = place.read(OPENED, bytes)?;
        let mut read = || {
            let session = fields.take()?;
            let key = match n {
                0 => None,
                1 => Some(RoundKey {
                    round: place.round,
                    key: fields.take()?,
                    signature: Signature(fields.take()?),
                }),
                _ => return None,
            };
            (fields.n_left() == 0).then_some(Self { session, key })
        };
        read().ok_or(ServerMessageUnreadable::Field { field: "key" })
    }
}

/// Encodes `FBVQ`, which contains reports for the helper to verify.
///
/// ```text
/// header: kind 4 | version u16 | 0 u16 | round u64 | config 32 | session 16 | n u32
/// n × (slot u32 | nonce 16 | public share | sealed for the helper | the leader's share of the verification)
/// ```
pub fn verify_to_bytes(place: SumPlace, reports: &[PassedReport]) -> Vec<u8> {
    let mut bytes = place.header(VERIFY, reports.len());
    for report in reports {
        bytes.extend(report.slot.to_le_bytes());
        bytes.extend(report.nonce);
        bytes.extend(&report.public);
        bytes.extend(&report.for_helper);
        bytes.extend(&report.verifier);
    }
    bytes
}

/// Returns the size of a request with `n` reports.
pub fn verify_size(sizes: PassedSizes, n: usize) -> usize {
    let one = 4 + 16 + sizes.public + sizes.for_helper + sizes.verifier;
    HEADER_SIZE + n.saturating_mul(one)
}

/// Decodes a message of [`verify_to_bytes`]. Checks the size before it allocates (INV-19).
///
/// # Errors
/// If the bytes are not this message.
pub fn verify_from_bytes(
    bytes: &[u8],
    place: SumPlace,
    sizes: PassedSizes,
) -> Result<Vec<PassedReport>, ServerMessageUnreadable> {
    let (n, mut fields) = place.read(VERIFY, bytes)?;
    let wrong = || ServerMessageUnreadable::Field { field: "length" };
    if n as usize > REPORTS_MAX || bytes.len() != verify_size(sizes, n as usize) {
        return Err(wrong());
    }
    let mut report = || {
        let (slot, nonce) = (fields.u32()?, fields.take()?);
        let mut part = |size: usize| fields.bytes(size as u64).map(<[u8]>::to_vec);
        let (public, for_helper) = (part(sizes.public)?, part(sizes.for_helper)?);
        Some(PassedReport { slot, nonce, public, for_helper, verifier: part(sizes.verifier)? })
    };
    (0..n).map(|_| report().ok_or_else(wrong)).collect()
}

/// The helper's verdict on a report: the verifier message, or `None` if the report is refused.
pub type Verdict = Option<Vec<u8>>;

/// Encodes `FBVA`: the header, then for each report u8 (1 if it is valid) and the verifier message
/// (zeros if it is not valid), then the signature.
pub fn verdicts_to_bytes(
    place: SumPlace,
    (key, request): (&SigningKey, &[u8]),
    verdicts: &[Verdict],
    sizes: PassedSizes,
) -> Vec<u8> {
    let mut bytes = place.header(VERDICTS, verdicts.len());
    for verdict in verdicts {
        bytes.push(verdict.is_some().into());
        match verdict {
            Some(message) => bytes.extend(message),
            None => bytes.extend(std::iter::repeat_n(0, sizes.message)),
        }
    }
    signed(bytes, key, request)
}

/// Decodes a message of [`verdicts_to_bytes`].
///
/// # Errors
/// If the bytes are not this message, or not the helper's response to this request.
pub fn verdicts_from_bytes(
    bytes: &[u8],
    place: SumPlace,
    (helper, request): (&PublicKey, &[u8]),
    (n, sizes): (usize, PassedSizes),
) -> Result<Vec<Verdict>, ServerMessageUnreadable> {
    let bytes = verified(bytes, helper, request)?;
    let (found, mut fields) = place.read(VERDICTS, bytes)?;
    let wrong = || ServerMessageUnreadable::Field { field: "length" };
    if found as usize != n || bytes.len() != HEADER_SIZE + n * (1 + sizes.message) {
        return Err(wrong());
    }
    let mut verdict = || {
        let [is_valid] = fields.take()?;
        let message = fields.bytes(sizes.message as u64)?;
        match is_valid {
            0 => message.iter().all(|byte| *byte == 0).then_some(None),
            1 => Some(Some(message.to_vec())),
            _ => None,
        }
    };
    (0..n).map(|_| verdict().ok_or(ServerMessageUnreadable::Field { field: "verdict" })).collect()
}

/// Encodes `FBCQ`, which contains the slots in the round's sum: the header, then n × slot u32,
/// ascending.
pub fn close_to_bytes(place: SumPlace, slots: &[u32]) -> Vec<u8> {
    let mut bytes = place.header(CLOSE, slots.len());
    slots.iter().for_each(|slot| bytes.extend(slot.to_le_bytes()));
    bytes
}

/// Returns the size of a request with `n` slots.
pub fn close_size(n: usize) -> usize {
    HEADER_SIZE + n.saturating_mul(4)
}

/// Decodes a message of [`close_to_bytes`].
///
/// # Errors
/// If the bytes are not this message.
pub fn close_from_bytes(
    bytes: &[u8],
    place: SumPlace,
    n_slots: u32,
) -> Result<Vec<u32>, ServerMessageUnreadable> {
    let (n, mut fields) = place.read(CLOSE, bytes)?;
    read_slots(&mut fields, n, n_slots)
        .filter(|_| fields.n_left() == 0)
        .ok_or(ServerMessageUnreadable::Field { field: "slots" })
}

/// Reads `n` slots, which must ascend and be below `n_slots`.
fn read_slots(fields: &mut Fields<'_>, n: u32, n_slots: u32) -> Option<Vec<u32>> {
    if fields.n_left() < 4 * u64::from(n) {
        return None;
    }
    let slots: Option<Vec<u32>> = (0..n).map(|_| fields.u32()).collect();
    let slots = slots?;
    let ascend = slots.windows(2).all(|pair| pair[0] < pair[1]);
    (ascend && slots.iter().all(|slot| *slot < n_slots)).then_some(slots)
}

/// The helper's response to a close request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseAnswer {
    /// The helper's share for these slots is charged and stored. A hash that reveals nothing about
    /// the share commits the helper to it.
    Closed {
        /// Slots in the sum. They may come from an earlier request, because a round closes only
        /// once.
        slots: Vec<u32>,
        /// SHA-256 of a secret salt and the share.
        commitment: Digest,
    },
    /// The helper has no vectors for these slots, and has not closed the round.
    Missing {
        /// Slots without a vector.
        slots: Vec<u32>,
    },
}

impl CloseAnswer {
    /// Encodes `FBCA`: the header, u8 (1 if the round is closed), the commitment or zeros, n × slot
    /// u32, the signature.
    pub fn to_bytes(&self, place: SumPlace, (key, request): (&SigningKey, &[u8])) -> Vec<u8> {
        let (closed, slots, commitment) = match self {
            Self::Closed { slots, commitment } => (1, slots, *commitment),
            Self::Missing { slots } => (0, slots, Digest([0; 32])),
        };
        let mut bytes = place.header(CLOSED, slots.len());
        bytes.push(closed);
        bytes.extend(commitment.0);
        slots.iter().for_each(|slot| bytes.extend(slot.to_le_bytes()));
        signed(bytes, key, request)
    }

    /// Returns the maximum size of a response.
    pub fn size_max(n_slots: u32) -> usize {
        HEADER_SIZE + 1 + 32 + 4 * n_slots as usize + SIGNATURE_SIZE
    }

    /// Decodes a message of [`CloseAnswer::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not this message, or not the helper's response to this request.
    pub fn from_bytes(
        bytes: &[u8],
        place: SumPlace,
        (helper, request): (&PublicKey, &[u8]),
        n_slots: u32,
    ) -> Result<Self, ServerMessageUnreadable> {
        let bytes = verified(bytes, helper, request)?;
        let (n, mut fields) = place.read(CLOSED, bytes)?;
        let mut read = || {
            let [closed] = fields.take()?;
            let commitment = Digest(fields.take()?);
            let slots = read_slots(&mut fields, n, n_slots)?;
            match (closed, fields.n_left()) {
                (1, 0) => Some(Self::Closed { slots, commitment }),
                (0, 0) if commitment.0 == [0; 32] => Some(Self::Missing { slots }),
                _ => None,
            }
        };
        read().ok_or(ServerMessageUnreadable::Field { field: "slots" })
    }
}

/// Encodes `FBRQ`, which reveals the leader's share of a round and commits the leader to it: the
/// header with n = the share's size, the share.
pub fn reveal_to_bytes(place: SumPlace, share: &[u8]) -> Vec<u8> {
    let mut bytes = place.header(REVEAL, share.len());
    bytes.extend(share);
    bytes
}

/// Returns the size of a request with a share of `share` bytes.
pub fn reveal_size(share: usize) -> usize {
    HEADER_SIZE + share
}

/// Decodes a message of [`reveal_to_bytes`].
///
/// # Errors
/// If the bytes are not this message.
pub fn reveal_from_bytes(
    bytes: &[u8],
    place: SumPlace,
    size: usize,
) -> Result<&[u8], ServerMessageUnreadable> {
    let (n, fields) = place.read(REVEAL, bytes)?;
    let share = fields.0;
    (n as usize == size && share.len() == size)
        .then_some(share)
        .ok_or(ServerMessageUnreadable::Field { field: "share" })
}

/// An entry of the helper's ledger. Its signature covers the chain up to the entry and the leader's
/// share of the same round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperEntry {
    /// The entry, whose release is the helper's share.
    pub entry: LedgerEntry,
    /// Digest of the leader's share of the round, or zeros if the leader has not revealed one.
    pub leader_share: Digest,
    /// The helper's signature.
    pub signature: Signature,
}

const ENTRY: &str = "fedbo helper entry, version 1";

/// Returns the digest that identifies the leader's share in the helper's signature.
pub fn share_digest(share: &[u8]) -> Digest {
    digest("fedbo share of a release, version 1", &[share])
}

/// Returns the hash that commits the helper to its share before it sees the leader's share.
pub fn commitment(salt: &[u8; 32], share: &[u8]) -> Digest {
    digest("fedbo commitment to a share, version 1", &[salt, share])
}

impl HelperEntry {
    /// Signs the entry that ends the chain with this hash.
    pub fn new(
        key: &SigningKey,
        config: &Digest,
        entry: LedgerEntry,
        hash: &[u8; 32],
        leader_share: Digest,
    ) -> Self {
        let parts: [&[u8]; 4] = [&config.0, &entry.seq.to_le_bytes(), hash, &leader_share.0];
        let signature = key.sign(ENTRY, &parts);
        Self { entry, leader_share, signature }
    }

    /// Checks that the helper signed the entry that ends the chain with this hash.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(
        &self,
        helper: &PublicKey,
        config: &Digest,
        hash: &[u8; 32],
    ) -> Result<(), BadSignature> {
        let seq = self.entry.seq.to_le_bytes();
        let parts: [&[u8]; 4] = [&config.0, &seq, hash, &self.leader_share.0];
        helper.verify(ENTRY, &parts, &self.signature)
    }
}

/// Encodes `FBRA`, which contains entries of the helper's ledger in order: the header, the 32-byte
/// salt of the round's commitment, the entries, the signature.
///
/// ```text
/// n × (seq u64 | round u64 | n_event u64 | event | n_release u64 | release | leader's share 32 | signature 64)
/// ```
pub fn entries_to_bytes(
    place: SumPlace,
    (key, request): (&SigningKey, &[u8]),
    salt: &[u8; 32],
    entries: &[HelperEntry],
) -> Vec<u8> {
    let mut bytes = place.header(ENTRIES, entries.len());
    bytes.extend(salt);
    entries.iter().for_each(|entry| entry.write(&mut bytes));
    signed(bytes, key, request)
}

/// Decodes a message of [`entries_to_bytes`] into the salt and the entries.
///
/// # Errors
/// If the bytes are not this message, or not the helper's response to this request.
pub fn entries_from_bytes(
    bytes: &[u8],
    place: SumPlace,
    (helper, request): (&PublicKey, &[u8]),
    release_bytes_max: u64,
) -> Result<([u8; 32], Vec<HelperEntry>), ServerMessageUnreadable> {
    let bytes = verified(bytes, helper, request)?;
    let (n, mut fields) = place.read(ENTRIES, bytes)?;
    let wrong = || ServerMessageUnreadable::Field { field: "entries" };
    let salt = fields.take().ok_or_else(wrong)?;
    let mut entries = Vec::new();
    for _ in 0..n {
        entries.push(HelperEntry::read(&mut fields, release_bytes_max).ok_or_else(wrong)?);
    }
    match fields.n_left() {
        0 => Ok((salt, entries)),
        _ => Err(wrong()),
    }
}

impl HelperEntry {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let LedgerEntry { seq, round, event, release } = &self.entry;
        bytes.extend(seq.to_le_bytes());
        bytes.extend(round.to_le_bytes());
        for part in [event, release] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
        bytes.extend(self.leader_share.0);
        bytes.extend(self.signature.0);
    }

    pub(crate) fn read(fields: &mut Fields<'_>, release_bytes_max: u64) -> Option<Self> {
        let (seq, round) = (fields.u64()?, fields.u64()?);
        let mut part = |most: u64| {
            let n = fields.u64().filter(|n| *n <= most)?;
            fields.bytes(n).map(<[u8]>::to_vec)
        };
        let (event, release) = (part(crate::EVENT_BYTES_MAX)?, part(release_bytes_max)?);
        Some(Self {
            entry: LedgerEntry { seq, round, event, release },
            leader_share: Digest(fields.take()?),
            signature: Signature(fields.take()?),
        })
    }
}

/// Returns the maximum size of a list of `n` entries.
pub fn entries_size_max(n: u64, release_bytes_max: u64) -> u64 {
    let one = release_bytes_max.saturating_add(32 + crate::EVENT_BYTES_MAX + 32 + 64);
    n.saturating_mul(one).saturating_add((HEADER_SIZE + 32 + SIGNATURE_SIZE) as u64)
}

const ANSWER: &str = "fedbo helper answer, version 1";

fn signed(mut bytes: Vec<u8>, key: &SigningKey, request: &[u8]) -> Vec<u8> {
    let signature = key.sign(ANSWER, &[&crate::keys::sha256(request), &bytes]);
    bytes.extend(signature.0);
    bytes
}

fn verified<'a>(
    bytes: &'a [u8],
    helper: &PublicKey,
    request: &[u8],
) -> Result<&'a [u8], ServerMessageUnreadable> {
    let (content, signature) = bytes
        .split_last_chunk::<SIGNATURE_SIZE>()
        .ok_or(ServerMessageUnreadable::Field { field: "length" })?;
    let parts: [&[u8]; 2] = [&crate::keys::sha256(request), content];
    helper.verify(ANSWER, &parts, &Signature(*signature))?;
    Ok(content)
}

impl fmt::Debug for PassedReport {
    /// Prints lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_bytes = self.public.len() + self.for_helper.len() + self.verifier.len();
        write!(f, "PassedReport {{ slot: {}, {n_bytes} bytes }}", self.slot)
    }
}
