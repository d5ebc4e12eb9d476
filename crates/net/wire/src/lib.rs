//! The messages between agents and their coordinator, or between peers, as bytes, and their signatures.
//!
//! Decides the layout of every message, the names of headers and problems, what a signature covers, and which bytes are
//! refused. Every message has one form: what is accepted encodes back to the same bytes. `docs/protocol.md` says the same
//! for programs in other languages, and `docs/protocol-vectors.json` holds examples that both must agree with.
//!
//! Leaves alone what a message means for a round, who may send it, sockets, files and clocks; time and randomness arrive as
//! arguments. Whether weights are finite is decided by who uses them (INV-5). Decoders allocate nothing that the bytes
//! at hand do not pay for, never panic, and refuse what trails (INV-19). `Debug` of a message prints lengths, of a key its
//! public half, of a token nothing.
//!
//! Start at [`SigningKey`], then [`RequestSignature`]; [`Upload`] goes up, [`Handout`] comes down; [`PeerReport`]
//! goes to neighbours.

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
mod sealed_upload;
mod servers;
mod token;
mod upload;

pub use body::{
    Accepted, AcceptedStatus, CoordinatorProof, EnrolRequest, Enrolled, JSON_REQUEST_BYTES_MAX,
    Problem, ProblemCode, RotateRequest, StateUnknown, StudyState, StudyStatus,
};
pub use card::{CardUnreadable, ServerCard};
pub use config::{HEADER_CONFIG, config_digest, sign_config, verify_config};
pub use content::{Content, EVENT_BYTES_MAX, LedgerEntry, RelayedMessage};
pub use handout::{
    HEADER_ELAPSED, HEADER_RESEND, HEADER_ROUND, HEADER_STATE, Handout, HandoutUnreadable, Limits,
};
pub use hex::HexUnreadable;
pub use keys::{BadSignature, Digest, KeyUnreadable, PublicKey, Signature, SigningKey, digest};
pub use ledger_head::{ChainBroken, CharterParts, LedgerHead};
pub use report::{PeerIdentity, PeerReport, Receipt, ReportUnreadable, SharedObservation};
pub use request::{
    CLOCK_TOLERANCE_MS, ClockDiffers, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME,
    HeadersUnreadable, RequestSignature, sign_request,
};
pub use sealed_upload::{SealedSizes, SealedUpload};
pub use servers::{
    CloseAnswer, HelperEntry, PassedReport, PassedSizes, REPORTS_MAX, ServerMessageUnreadable,
    SumPlace, Verdict, close_from_bytes, close_size, close_to_bytes, commitment,
    entries_from_bytes, entries_size_max, entries_to_bytes, reveal_from_bytes, reveal_size,
    reveal_to_bytes, share_digest, verdicts_from_bytes, verdicts_to_bytes, verify_from_bytes,
    verify_size, verify_to_bytes,
};
pub use token::{EnrolmentToken, TokenUnreadable};
pub use upload::{Upload, UploadUnreadable};

/// The version of the protocol that this crate speaks: the one in headers.
pub const PROTOCOL_VERSION: u16 = 2;

/// The version of the layouts of binary messages, which did not change with the protocol: what is stored stays readable.
pub const LAYOUT_VERSION: u16 = 1;
