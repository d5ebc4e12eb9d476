//! PostgreSQL servers: addresses, connections, TLS trust, and messages for their errors.
//!
//! This crate refuses unsafe server settings, limits the wait for an unreachable server, and
//! retries a transaction if the server's response was lost. It makes no assumptions about the
//! tables' content. Start at [`PostgresAddress`] and [`Pool`], or at [`Connector`] for a single
//! connection.

mod address;
mod connector;
mod password;
mod pool;
mod problem;
mod retry_deadline;
mod schema;
mod tls;

pub use address::{AddressUnreadable, PostgresAddress};
pub use connector::{Connector, check_settings};
pub use pool::{Ended, Pool, PoolError, close};
pub use problem::{Operation, Problem, unsafe_setting};
pub use retry_deadline::Patience;
pub use schema::Layout;
