//! Requests and responses carried by another system, for environments without outgoing connections.

use std::fmt::Debug;

use super::LinkError;

/// Carries whole requests, for example in the messages of another system.
pub trait Courier: Debug + Send + Sync {
    /// Returns the response to a request.
    ///
    /// # Errors
    /// [`LinkError::Stopped`] if the request was sent but this process should not wait for the
    /// response.
    fn carry(&self, request: CarriedRequest) -> Result<CarriedResponse, LinkError>;
}

/// A complete HTTP request, including its signature.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedRequest {
    /// The method.
    pub method: String,
    /// Path and query, starting with `/v1/`.
    pub target: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A complete HTTP response.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedResponse {
    /// The status.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Prints only the length of the body, which may contain a party's vector.
impl Debug for CarriedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}, {} bytes", self.method, self.target, self.body.len())
    }
}

impl Debug for CarriedResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}, {} bytes", self.status, self.body.len())
    }
}
