//! PostgreSQL servers: how one is named, connected to, trusted, and what its errors mean to a user.
//!
//! Decides which settings of a server are refused, how long one waits for a server that is away, and how a transaction whose
//! answer was lost is taken up again. Knows nothing of what the tables hold. Start at [`PostgresAddress`] and [`Pool`], or at
//! [`Connector`] for a single connection.

mod address;
mod connector;
mod password;
mod patience;
mod pool;
mod problem;
mod schema;
mod tls;

pub use address::{AddressUnreadable, PostgresAddress, masked};
pub use connector::{Connector, check_settings};
pub use patience::Patience;
pub use pool::{Ended, Pool, PoolError};
pub use problem::{Doing, Problem, unsafe_setting};
pub use schema::Layout;
