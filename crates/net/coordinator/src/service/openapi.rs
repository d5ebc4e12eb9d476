//! The OpenAPI description of the service.

/// OpenAPI 3.1 description, as the service returns it.
pub const OPENAPI: &str = include_str!("openapi.json");
