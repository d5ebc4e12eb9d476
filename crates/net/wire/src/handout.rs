//! The coordinator's signed handout, which begins a round.

use crate::content::{ENTRY_HEADER_SIZE, EVENT_BYTES_MAX, MESSAGE_HEADER_SIZE};
use crate::fields::Fields;
use crate::{
    BadSignature, Content, Digest, LAYOUT_VERSION, LedgerHead, PublicKey, RoundKey, Signature,
    SigningKey,
};

/// Header of a response without a handout: the current round.
pub const HEADER_ROUND: &str = "fedbo-round";

/// Header of a response without a handout: the study's state, a [`StudyState`](crate::StudyState).
pub const HEADER_STATE: &str = "fedbo-state";

/// Header of a response without a handout: a round whose upload the agent must send again, byte for
/// byte.
pub const HEADER_RESEND: &str = "fedbo-resend";

/// Header of a response with a handout: milliseconds since the handout's round began.
pub const HEADER_ELAPSED: &str = "fedbo-elapsed";

/// Header of a response without a handout: the current round's key, a
/// [`RoundKey`](crate::RoundKey), if two servers sum.
pub const HEADER_ROUND_KEY: &str = "fedbo-round-key";

/// Messages or releases since an agent's newest round.
///
/// ```text
/// "FBHO" | version u16 | kind u8 | collects u8 | round u64 | config 32 | head: seq u64, hash 32 | content | signature 64
/// kind 1, messages: n u64 | n × (sender u32 | round u64 | n_weights u64 | weights 8·n_weights) | n u64 | n × straggler u32
/// kind 2, releases: n u64 | n × (seq u64 | round u64 | n_event u64 | event | n_release u64 | release)
/// kind 3, shares: as kind 2, of the leader | n u64 | n × (as kind 2, of the helper | leader's share 32 | the helper's signature 64)
/// kind 4, shares and the helper's key of the round: as kind 3 | key 32 | the helper's signature 64
/// ```
///
/// Numbers are little-endian. The coordinator's signature covers all bytes before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Handout {
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// The round that begins.
    pub round: u64,
    /// True if vectors are collected in that round.
    pub collects: bool,
    /// Head of the ledger including these entries. [`LedgerHead::NONE`] with [`Content::Messages`].
    pub head: LedgerHead,
    /// The messages or releases for the agent.
    pub content: Content,
}

/// Limits that a study's configuration sets for a handout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of weights in a message.
    pub n_features: u32,
    /// Number of slots, N. Slots are 0 to N − 1.
    pub n_slots: u32,
    /// Maximum size of a release in bytes.
    pub release_bytes_max: u64,
}

/// Error for bytes that are not a handout of this study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoutUnreadable {
    /// The bytes do not begin with the magic number of handouts.
    #[error("not a handout: it does not begin with the bytes FBHO")]
    OtherKind,
    /// The version is not supported.
    #[error("a handout of version {found}, supported: [{LAYOUT_VERSION}]")]
    Version {
        /// The version found.
        found: u16,
    },
    /// The coordinator did not sign the handout.
    #[error("the handout is not from the coordinator of this study: {0}")]
    Signature(#[from] BadSignature),
    /// The bytes end before the handout does.
    #[error("the handout ends too early, in its {field}")]
    CutOff {
        /// The field being read.
        field: &'static str,
    },
    /// The value of a field is not allowed.
    #[error("the handout's {field} is {found}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// Description of the allowed values.
        expected: &'static str,
    },
    /// A count or size is larger than the study allows.
    #[error("the handout's {field} is {found}, at most {max} in this study")]
    TooLarge {
        /// Name of the number.
        field: &'static str,
        /// The number found.
        found: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A message has the wrong number of weights.
    #[error("the message of slot {sender} has {found} weights, the study uses {expected}")]
    Features {
        /// Slot of the sender.
        sender: u32,
        /// Number of weights according to the message.
        found: u64,
        /// The study's M.
        expected: u32,
    },
    /// A list is not ascending, or has repeated items.
    #[error("the handout's {field} {found} comes after {previous}: they must ascend{gaps}")]
    Order {
        /// Name of the kind of item.
        field: &'static str,
        /// The preceding item.
        previous: u64,
        /// The item found.
        found: u64,
        /// Description of the required step between items. Empty if any step is allowed.
        gaps: &'static str,
    },
    /// Bytes follow the end of the handout.
    #[error("{n} bytes follow the end of the handout")]
    Trailing {
        /// Number of extra bytes.
        n: u64,
    },
}

const MAGIC: [u8; 4] = *b"FBHO";
const PURPOSE: &str = "fedbo handout, version 1";
const MESSAGES: u8 = 1;
const RELEASES: u8 = 2;
const SHARES: u8 = 3;
const KEYED_SHARES: u8 = 4;

/// Size of the header before the content, in bytes.
const HEADER_SIZE: u64 = 4 + 2 + 1 + 1 + 8 + 32 + 8 + 32;
const SIGNATURE_SIZE: usize = 64;

impl Limits {
    /// Maximum size of a handout with `n_releases` releases. An agent reads at most this many bytes
    /// of a response (INV-18).
    pub fn handout_bytes_max(&self, n_releases: u64) -> u64 {
        /// Size of the digest and signature that accompany an entry of the helper.
        const SIGNED: u64 = 32 + 64;
        let message = MESSAGE_HEADER_SIZE + 8 * u64::from(self.n_features);
        let messages = u64::from(self.n_slots).saturating_mul(message + 4);
        let release = self.release_bytes_max.saturating_add(EVENT_BYTES_MAX + ENTRY_HEADER_SIZE);
        let of_both_servers = release.saturating_mul(2).saturating_add(SIGNED);
        messages
            .max(n_releases.saturating_mul(of_both_servers))
            .saturating_add(HEADER_SIZE + 16 + RoundKey::SIZE + SIGNATURE_SIZE as u64)
    }
}

impl Handout {
    /// Encodes and signs the handout. Does not check the order of lists, which
    /// [`Handout::from_bytes`] requires.
    pub fn to_bytes(&self, key: &SigningKey) -> Vec<u8> {
        let mut bytes = self.unsigned_bytes();
        let signature = key.sign(PURPOSE, &[&bytes]);
        bytes.extend(signature.0);
        bytes
    }

    /// Decodes a handout that is signed by the coordinator `signer`.
    ///
    /// Checks the signature first, then everything that the limits and the handout itself
    /// determine. Allocates memory only for bytes that are present (INV-19). The agent must check
    /// the round, the configuration and the head, the latter with [`LedgerHead::after`] (INV-13).
    ///
    /// # Errors
    /// If the bytes are not such a handout.
    pub fn from_bytes(
        bytes: &[u8],
        signer: &PublicKey,
        limits: Limits,
    ) -> Result<Self, HandoutUnreadable> {
        let mut fields = Fields(bytes);
        if !bytes.starts_with(&MAGIC) {
            return Err(HandoutUnreadable::OtherKind);
        }
        let _: [u8; 4] = fields.take().ok_or_else(cut_off("version"))?;
        let version = fields.u16().ok_or_else(cut_off("version"))?;
        if version != LAYOUT_VERSION {
            return Err(HandoutUnreadable::Version { found: version });
        }
        let (signed, signature) =
            bytes.split_last_chunk::<SIGNATURE_SIZE>().ok_or_else(cut_off("signature"))?;
        signer.verify(PURPOSE, &[signed], &Signature(*signature))?;
        Self::from_unsigned_bytes(signed, limits)
    }

    fn unsigned_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(LAYOUT_VERSION.to_le_bytes());
        bytes.push(match self.content {
            Content::Messages { .. } => MESSAGES,
            Content::Releases(_) => RELEASES,
            Content::Shares { key: None, .. } => SHARES,
            Content::Shares { key: Some(_), .. } => KEYED_SHARES,
        });
        bytes.push(self.collects.into());
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.config.0);
        bytes.extend(self.head.seq.to_le_bytes());
        bytes.extend(self.head.hash);
        self.content.write(&mut bytes);
        bytes
    }

    fn from_unsigned_bytes(bytes: &[u8], limits: Limits) -> Result<Self, HandoutUnreadable> {
        let mut fields = Fields(bytes);
        let _: [u8; 6] = fields.take().ok_or_else(cut_off("version"))?;
        let [kind] = fields.take().ok_or_else(cut_off("kind"))?;
        let [collects] = fields.take().ok_or_else(cut_off("collects"))?;
        let round = fields.u64().ok_or_else(cut_off("round"))?;
        let config = Digest(fields.take().ok_or_else(cut_off("config"))?);
        let head = LedgerHead {
            seq: fields.u64().ok_or_else(cut_off("head"))?,
            hash: fields.take().ok_or_else(cut_off("head"))?,
        };
        let unexpected =
            |field, found, expected| HandoutUnreadable::Field { field, found, expected };
        if collects > 1 {
            return Err(unexpected("collects", collects.into(), "0 or 1"));
        }
        let content = match kind {
            MESSAGES if head != LedgerHead::NONE => {
                return Err(unexpected("head", head.seq, "all zero beside messages"));
            }
            MESSAGES => Content::read_messages(&mut fields, limits)?,
            RELEASES => Content::read_releases(&mut fields, limits)?,
            SHARES => Content::read_shares(&mut fields, limits, None)?,
            KEYED_SHARES => Content::read_shares(&mut fields, limits, Some(round))?,
            _ => return Err(unexpected("kind", kind.into(), "1, 2, 3 or 4")),
        };
        match fields.n_left() {
            0 => Ok(Self { config, round, collects: collects == 1, head, content }),
            n => Err(HandoutUnreadable::Trailing { n }),
        }
    }
}

pub(crate) fn cut_off(field: &'static str) -> impl Fn() -> HandoutUnreadable {
    move || HandoutUnreadable::CutOff { field }
}
