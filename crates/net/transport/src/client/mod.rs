//! HTTP client: signed and unsigned requests, proxies, and advice on failed connections.

mod address;
mod courier;
mod error;
mod http_client;
mod proxy;
mod tls_advice;
mod trust_roots;

pub use address::checked_url;
pub use courier::{CarriedRequest, CarriedResponse, Courier};
pub use error::LinkError;
pub use http_client::{Answer, HttpClient, JSON_BYTES_MAX, Signer};
pub use proxy::{ProxySetting, proxy_for};
pub use trust_roots::check_authority;
