//! Tracing spans of the service. docs/operations.md has the allow-list (INV-4).
//!
//! No span begins or ends when the computation of a release finishes: that time depends on the
//! noise and must not be observable (INV-9).

use tracing::field::Empty;
use tracing::info_span;
pub(crate) use tracing::{Instrument, Span};

/// Target of all of the service's spans, for subscribers to filter on.
pub const SPANS: &str = "fedbo::spans";

/// Creates the span of a request, which ends with the response.
pub(crate) fn request(method: &str, route: &str) -> Span {
    // An unknown method is arbitrary client input, so it is recorded as `_OTHER`.
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

/// Records the status of the response.
pub(crate) fn answered(request: &Span, status: u16) {
    request.record("http.response.status_code", status);
}

/// Creates the span of a round, which ends when the next round begins or another coordinator takes
/// over the study.
pub(crate) fn round(study: &str, round: u64) -> Span {
    info_span!(target: SPANS, parent: None, "round", study, round)
}
