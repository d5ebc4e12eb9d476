//! The foundations of all our services: connections with limits, signed requests, answers that give reasons.

pub use crate::listen::{
    ConnectionCounts, ConnectionLimits, ListenError, ListenSettings, Listening,
};
pub use crate::service::{Length, Refusal, Signed, claimed, json, of_type, read_known};
