//! Checks that the service's OpenAPI description is correct: the routes, problems and bodies match
//! a running service.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod answers;
mod bodies;
mod description;
mod routes;
