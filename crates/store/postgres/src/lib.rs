//! PostgreSQL servers: addresses, connections, TLS trust, and messages for their errors.
//!
//! Decides which server settings are refused, how long a call waits for an unreachable server, and
//! how a transaction is retried if its answer was lost. Does not know the content of the tables.
//! Start at [`PostgresAddress`] and [`Pool`], or at [`Connector`] for a single connection.

mod address;
mod connector;
mod password;
mod pool;
mod problem;
mod retry_deadline;
mod schema;
mod tls;

pub use address::{AddressUnreadable, PostgresAddress, masked};
pub use connector::{Connector, check_settings};
pub use pool::{Ended, Pool, PoolError, close};
pub use problem::{Operation, Problem, unsafe_setting};
pub use retry_deadline::Patience;
pub use schema::Layout;
