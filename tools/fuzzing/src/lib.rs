//! Fuzz targets, which pass hostile bytes to a decoder and check accepted values. No input may
//! cause a panic.
//!
//! This crate defines the tested decoders and the properties that accepted values must have. It
//! does not generate the bytes: they come from libFuzzer in the binaries of the folder `fuzz`, or
//! from the tests of this crate, which replay the corpus and the inputs of known bugs. Start at
//! [`TARGETS`].

mod broadcast;
mod checkpoint;
mod cli;
mod config;
mod database;
mod fakes;
mod http;
mod input_reader;
mod keys;
mod ledger;
mod ledger_file;
mod report;
mod scratch;
mod served;
mod service;
mod sqlite_file;
mod sum;
mod table;
mod upload;

pub use broadcast::broadcast;
pub use checkpoint::checkpoint;
pub use cli::cli;
pub use config::config;
pub use database::database;
pub use http::http;
pub use ledger::ledger;
pub use ledger_file::ledger_file;
pub use report::report;
pub use scratch::SCRATCH;
pub use service::service;
pub use sum::sum;
pub use table::table;
pub use upload::upload;

/// Fuzz target for one decoder or a few related decoders.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, its binary and its input folders.
    pub name: &'static str,
    /// Runs the target on one input. Panics on any defect.
    pub run: fn(&[u8]),
    /// Initial inputs for runs without a corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All fuzz targets.
pub const TARGETS: [Target; 13] = [
    target("broadcast", broadcast, broadcast::seeds),
    target("checkpoint", checkpoint, checkpoint::seeds),
    target("cli", cli, cli::seeds),
    target("config", config, config::seeds),
    target("database", database, database::seeds),
    target("http", http, http::seeds),
    target("ledger", ledger, ledger::seeds),
    target("ledger_file", ledger_file, ledger_file::seeds),
    target("report", report, report::seeds),
    target("service", service, service::seeds),
    target("sum", sum, sum::seeds),
    target("table", table, table::seeds),
    target("upload", upload, upload::seeds),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}
