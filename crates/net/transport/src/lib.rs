//! Signed requests over HTTP and TLS: the keys that sign them, sending them, answering them, and the clocks of both.
//!
//! [`HttpClient`] sends requests and reads their answers (feature `client`); [`Listening`] accepts connections within
//! limits, [`read_authorized`] reads a request and verifies its signature, [`Refusal`] answers with a reason (feature `server`). What
//! requests are about is decided by others, what bytes look like by `fedbo-wire`.

mod clock;
mod key_file;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "client")]
pub use client::{
    Answer, CarriedAnswer, CarriedRequest, Courier, HttpClient, JSON_BYTES_MAX, JsonAnswer,
    JsonClient, LinkError, Signer, check_authority, checked_url,
};
pub use clock::{Backoff, Clock, SystemClock};
pub use key_file::{KeyError, check_folder, read_key, read_or_make_key, write_new_secret};
#[cfg(feature = "server")]
pub use server::{
    ConnectionCounts, ConnectionLimits, Length, ListenError, ListenSettings, Listening, Refusal,
    Signed, TlsFiles, TlsUnusable, authenticate, check_version, claimed_signature, closing, json,
    of_type, read_authorized, read_signed,
};
