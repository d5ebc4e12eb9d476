//! Requests and answers that somebody else carries, where no connection may be opened.

use std::fmt::Debug;

use super::LinkError;

/// A carrier of whole requests, such as the messages of another system.
pub trait Courier: Debug + Send + Sync {
    /// Returns the answer to a request.
    ///
    /// # Errors
    /// [`LinkError::Stopped`] if the request is on its way and this process is not to wait for the answer.
    fn carry(&self, request: CarriedRequest) -> Result<CarriedAnswer, LinkError>;
}

/// A request of HTTP as it leaves its sender, with its signature.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedRequest {
    /// The method.
    pub method: String,
    /// Path and query, from `/v1/` on.
    pub target: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer of HTTP as it left its sender.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedAnswer {
    /// The status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Bodies are vectors of parties: their lengths alone are shown.
impl Debug for CarriedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}, {} bytes", self.method, self.target, self.body.len())
    }
}

impl Debug for CarriedAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}, {} bytes", self.status, self.body.len())
    }
}
