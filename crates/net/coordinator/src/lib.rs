//! The coordinator of federations as an HTTP service. It manages studies, their agents and their
//! rounds.
//!
//! This crate decides which requests are accepted, when changes become durable, and which resource
//! limits apply to clients. `fedbo-protocol` contains the state machines of rounds, `fedbo-privacy`
//! computes releases, `fedbo-ledger` charges them, and `fedbo-wire` defines the messages. Start at
//! [`Service`], then [`store::Store`].

mod attendance;
mod backup;
mod clock;
mod home;
mod host;
mod intake;
mod machine;
mod metrics;
mod observer;
mod published;
mod releases;
mod server;
mod service;
mod shards;
mod spans;
pub mod store;
mod study;
mod sum;
mod vectors;

pub use backup::{Backup, BackupError, FolderProblem, backup, noted_head, verify};
pub use home::{Home, HomeError, TOKEN_DAYS};
pub use host::LEASE;
pub use metrics::{Recorder, SECONDS};
pub use observer::{ObservedStudy, Observer};
pub use server::{HelperConnection, Service, ServiceError, ServiceSettings};
pub use service::OPENAPI;
pub use spans::SPANS;
pub use study::{Study, StudyUnusable};
