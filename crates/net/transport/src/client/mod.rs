//! Sending requests.

mod address;
mod courier;
mod error;
mod http_client;
mod json_client;
mod tls_advice;
mod trust_roots;

pub use address::checked_url;
pub use courier::{CarriedAnswer, CarriedRequest, Courier};
pub use error::LinkError;
pub use http_client::{Answer, HttpClient, JSON_BYTES_MAX, Signer};
pub use json_client::{JsonAnswer, JsonClient};
pub use trust_roots::check_authority;
