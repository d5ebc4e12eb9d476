//! PostgreSQL servers: how one is named, connected to, trusted, and what its errors mean to a user.
//!
//! Decides which settings of a server are refused, how long one waits for a server that is away, and how a transaction whose
//! answer was lost is taken up again. Knows nothing of what the tables hold. Start at [`PostgresAddress`] and [`Pool`], or at
//! [`Connector`] for a single connection.

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
