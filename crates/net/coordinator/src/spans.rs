//! Spans for a collector of traces: what the service does, from when to when. docs/operations.md has the allow-list (INV-4).
//!
//! None begins or ends when a release has been computed: that instant depends on noise, and nobody is to see it (INV-9).

use tracing::field::Empty;
use tracing::info_span;
pub(crate) use tracing::{Instrument, Span};

/// The target of all spans of the service, by which a subscriber knows them.
pub const SPANS: &str = "fedbo::spans";

/// A request, until it is answered.
pub(crate) fn request(method: &str, route: &str) -> Span {
    // A method that is not one of HTTP is the sender's text.
    let method = ["GET", "HEAD", "POST", "PUT"].into_iter().find(|known| *known == method);
    let method = method.unwrap_or("_OTHER");
    info_span!(
        target: SPANS,
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    )
}

/// Notes the status of the answer.
pub(crate) fn answered(request: &Span, status: u16) {
    request.record("http.response.status_code", status);
}

/// A round, until the next begins or another coordinator goes on with the study.
pub(crate) fn round(study: &str, round: u64) -> Span {
    info_span!(target: SPANS, parent: None, "round", study, round)
}
