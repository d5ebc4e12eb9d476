//! Responses, and refusals that state a reason and a fix.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use fedbo_wire::{HEADER_PROTOCOL, PROTOCOL_VERSION, Problem, ProblemCode};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

/// A refused request.
#[derive(Debug)]
pub struct Refusal {
    code: ProblemCode,
    message: String,
}

impl Refusal {
    /// Creates a refusal. The message should state how to fix the problem.
    pub fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the problem code.
    #[must_use]
    pub fn code(&self) -> ProblemCode {
        self.code
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem { code: self.code, message: self.message };
        let status = StatusCode::from_u16(self.code.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(&problem);
        *response.status_mut() = status;
        if status == StatusCode::UNAUTHORIZED {
            let headers = response.headers_mut();
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("fedbo-signature"));
        }
        if self.code.is_temporary() {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Returns a JSON response.
pub fn json(body: &impl serde::Serialize) -> Response {
    // Bodies are plain data, so serialization does not fail.
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    of_type("application/json", bytes)
}

/// Returns a response with this content type.
pub fn of_type(kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(HEADER_PROTOCOL, HeaderValue::from(PROTOCOL_VERSION));
    response
}
