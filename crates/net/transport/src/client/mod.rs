//! Sending requests.

mod address;
mod authority;
mod error;
mod http_client;
mod tls_advice;

pub use address::checked_url;
pub use error::LinkError;
pub use http_client::{Answer, HttpClient, JSON_BYTES_MAX, Signer};
