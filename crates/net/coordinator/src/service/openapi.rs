//! The OpenAPI description of the service.

/// OpenAPI 3.1 description, as returned by `GET /v1/openapi.json`.
pub const OPENAPI: &str = include_str!("openapi.json");
