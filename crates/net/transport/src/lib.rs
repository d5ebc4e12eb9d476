//! Signed requests over HTTP and TLS: key files, client, server, and clocks.
//!
//! [`HttpClient`] sends requests and reads their responses (feature `client`). [`Listening`]
//! accepts connections within limits, [`read_authorized`] reads a request and verifies its
//! signature, and [`Refusal`] responds with a reason (feature `server`). The bytes of requests are
//! defined in `fedbo-wire`, and their meaning in other crates.

mod clock;
mod key_file;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "client")]
pub use client::{
    Answer, CarriedRequest, CarriedResponse, Courier, HttpClient, JSON_BYTES_MAX, LinkError,
    ProxySetting, Signer, check_authority, checked_url, proxy_for,
};
pub use clock::{Backoff, Clock, SystemClock};
pub use key_file::{KeyError, check_folder, read_key, read_or_make_key, write_new_secret};
#[cfg(feature = "server")]
pub use server::{
    ConnectionCounts, ConnectionLimits, Length, ListenError, ListenSettings, Listening, Refusal,
    Signed, TlsFiles, TlsUnusable, authenticate, check_version, claimed_signature, closing, json,
    of_type, read_authorized, read_signed,
};
