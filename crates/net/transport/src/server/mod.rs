//! HTTP server: limits on connections, signed requests, and responses that explain refusals.

mod eviction;
mod listen;
mod open_files;
mod request;
mod response;
mod tls;

pub use listen::{
    ConnectionCounts, ConnectionLimits, ListenError, ListenSettings, Listening, closing,
};
pub use request::{
    Length, Signed, authenticate, check_version, claimed_signature, read_authorized, read_signed,
};
pub use response::{Refusal, json, of_type};
pub use tls::{TlsFiles, TlsUnusable};
