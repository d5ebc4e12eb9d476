//! Tracing spans of the service. docs/operations.md has the allow-list (INV-4).
//!
//! No span begins or ends when a release has been computed: that instant depends on the noise, and
//! nobody may see it (INV-9).

use tracing::field::Empty;
use tracing::info_span;
pub(crate) use tracing::{Instrument, Span};

/// Target of all spans of the service, for subscribers to filter on.
pub const SPANS: &str = "fedbo::spans";

/// Span of a request, until its answer.
pub(crate) fn request(method: &str, route: &str) -> Span {
    // An unknown method is text of the sender, so it is recorded as `_OTHER`.
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

/// Records the status of the answer.
pub(crate) fn answered(request: &Span, status: u16) {
    request.record("http.response.status_code", status);
}

/// Span of a round, until the next round begins or another coordinator takes over the study.
pub(crate) fn round(study: &str, round: u64) -> Span {
    info_span!(target: SPANS, parent: None, "round", study, round)
}
