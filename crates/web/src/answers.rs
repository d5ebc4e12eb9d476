//! HTTP responses shared by all servers of this crate.

use axum::body::Body;
use axum::response::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

/// Content type of SVG.
pub(crate) const SVG: &str = "image/svg+xml";
/// Content type of PNG.
pub(crate) const PNG: &str = "image/png";

/// Returns a response with a content type, marked as not cacheable.
pub(crate) fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
