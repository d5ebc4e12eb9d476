//! Answering requests: connections with limits, signatures, answers that give reasons.

mod answer;
mod listen;
mod request;
mod strangers;
mod tls;

pub use answer::{Refusal, json, of_type};
pub use listen::{
    ConnectionCounts, ConnectionLimits, ListenError, ListenSettings, Listening, closing,
};
pub use request::{Length, Signed, check_version, claimed, read_known, read_signed};
pub use tls::{TlsFiles, TlsUnusable};
