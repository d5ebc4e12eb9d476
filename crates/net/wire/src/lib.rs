//! Encodings and signatures of the messages between agents and their coordinator, or between peers.
//!
//! This crate defines the layout of every message, the names of headers and problems, the bytes
//! that a signature covers, and the bytes that a decoder refuses. Encodings are canonical: an
//! accepted message encodes back to the same bytes. `docs/protocol.md` is the specification for
//! programs in other languages, and `docs/protocol-vectors.json` contains examples that all
//! implementations must match.
//!
//! Other crates handle the meaning of messages, permissions, sockets, files and clocks. Time and
//! randomness are arguments. Callers must check that weights are finite (INV-5). Decoders never
//! panic, allocate memory only for bytes that are present, and refuse trailing bytes (INV-19).
//! `Debug` prints the lengths of a message and the public half of a key, but never a token's
//! secret.
//!
//! Start at [`SigningKey`], then [`RequestSignature`]. Agents send an [`Upload`] and receive a
//! [`Handout`]; peers send a [`PeerReport`] to their neighbours.

mod account;
mod body;
mod card;
mod config;
mod content;
mod fields;
mod handout;
mod hex;
mod keys;
mod ledger_head;
mod report;
mod request;
mod round_key;
mod sealed_upload;
mod servers;
mod token;
mod upload;

pub use account::{Account, Rounds, StudyAccount};
pub use body::{
    Accepted, AcceptedStatus, CoordinatorProof, EnrolRequest, Enrolled, JSON_REQUEST_BYTES_MAX,
    Problem, ProblemCode, RotateRequest, StateUnknown, StudyState, StudyStatus,
};
pub use card::{CardUnreadable, ServerCard};
pub use config::{HEADER_CONFIG, HEADER_SLOT, config_digest, sign_config, verify_config};
pub use content::{Content, EVENT_BYTES_MAX, LedgerEntry, RelayedMessage};
pub use handout::{
    HEADER_ELAPSED, HEADER_RESEND, HEADER_ROUND, HEADER_ROUND_KEY, HEADER_STATE, Handout,
    HandoutUnreadable, Limits,
};
pub use hex::HexUnreadable;
pub use keys::{BadSignature, Digest, KeyUnreadable, PublicKey, Signature, SigningKey, digest};
pub use ledger_head::{ChainBroken, CharterParts, LedgerHead};
pub use report::{PeerIdentity, PeerReport, Receipt, ReportUnreadable, SharedObservation};
pub use request::{
    CLOCK_TOLERANCE_MS, COUNTER_MAX, ClockDiffers, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL,
    HEADER_SIGNATURE, HEADER_TIME, HeadersUnreadable, RequestSignature, Stamp, sign_request,
};
pub use round_key::RoundKey;
pub use sealed_upload::{SealedSizes, SealedUpload};
pub use servers::{
    CloseAnswer, HelperEntry, NO_SESSION, OpenAnswer, PassedReport, PassedSizes, REPORTS_MAX,
    ServerMessageUnreadable, Session, SumPlace, Verdict, close_from_bytes, close_size,
    close_to_bytes, commitment, entries_from_bytes, entries_size_max, entries_to_bytes,
    open_from_bytes, open_size, open_to_bytes, reveal_from_bytes, reveal_size, reveal_to_bytes,
    share_digest, verdicts_from_bytes, verdicts_to_bytes, verify_from_bytes, verify_size,
    verify_to_bytes,
};
pub use token::{EnrolmentToken, TokenUnreadable};
pub use upload::{Upload, UploadUnreadable};

/// Version of the protocol that this crate implements, as sent in headers.
pub const PROTOCOL_VERSION: u16 = 3;

/// Version of the binary layouts. Independent of the protocol version, so that stored messages stay
/// readable.
pub const LAYOUT_VERSION: u16 = 1;
