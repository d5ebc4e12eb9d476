//! The description that the service gives of itself.

/// OpenAPI 3.1, as it is served.
pub const OPENAPI: &str = include_str!("openapi.json");
