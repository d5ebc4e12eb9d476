//! What any service of ours stands on: connections with limits, signed requests, answers that say why.

pub use crate::listen::{
    ConnectionCounts, ConnectionLimits, ListenError, ListenSettings, Listening,
};
pub use crate::service::{Length, Refusal, Signed, claimed, json, of_type, read_known};
