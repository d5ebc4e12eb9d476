//! The fuzz targets: hostile bytes go to a decoder, what is accepted is checked, and nothing may panic.
//!
//! Decides which decoders are reached and what must hold of what they accept. Where the bytes come from is left to others: to
//! libFuzzer in the binaries of the folder `fuzz`, or to the tests of this crate, which replay the corpus and the inputs of bugs
//! that were found. Start at [`TARGETS`].

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

/// A decoder, or a few that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its binary, and of its folders of inputs.
    pub name: &'static str,
    /// Gives it one input. Panics if anything is wrong.
    pub run: fn(&[u8]),
    /// Inputs to begin with, where there is no corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
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
