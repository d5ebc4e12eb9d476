//! Longer tasks of the project: `cargo xtask check`, `test`, `mutants`, `fuzz`, `bench`, `python`,
//! `deny`, `digests`, `docs` and `dist`.
//!
//! The tasks require only Rust; they install other tools if needed. CI runs the same commands.
//! Every command is printed before it runs.
#![expect(
    clippy::print_stdout,
    reason = "results go to standard output, all else to standard error"
)]

mod api;
mod bench;
mod deny;
mod digests;
mod dist;
mod docs;
#[cfg(test)]
mod features;
mod fuzz;
mod ignored_tests;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod language;
#[cfg(test)]
mod language_rates;
mod mutants;
mod process;
mod production;
mod python;
#[cfg(test)]
mod readme;
mod side_by_side;
mod system;
mod tests;
mod verify;
mod workspace;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGINT;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check format, lints, unit tests and documentation, as before a commit
    Check,
    /// Check format, lints and documentation, and run unit, integration and documentation tests;
    /// needs only a Rust toolchain
    ///
    /// --all also runs tests with further requirements. Some compare results with published data in
    /// FEDBO_DATA, by default ../shared/data next to the workspace. Others start a PostgreSQL
    /// server, which is installed by apt-get if it is missing. Tests that were not run are listed.
    /// The last output is a table of stages and their durations in seconds.
    Test(verify::Test),
    /// Seed bugs in a copy of the sources; the test named for each bug must fail
    ///
    /// The mutants.toml of each crate lists the bugs. Exit status: 0 if all were detected.
    Mutants(mutants::Mutants),
    /// Fuzz every decoder with libFuzzer; failing inputs are saved below fuzz/regressions
    ///
    /// Installs cargo-fuzz into target/tools and a C++ compiler by the system's package manager if
    /// they are missing.
    Fuzz(fuzz::Fuzz),
    /// Benchmark our operations, and those of peers if their packages are available
    Bench(bench::Bench),
    /// Build the Python package, compare its type stubs, check its types, and test it on the oldest
    /// and the newest installed Python
    ///
    /// Test dependencies are installed by pip into environments below the target folder.
    Python(python::Python),
    /// Compare the public interface of the library with crates/fedbo/api.txt
    Api(api::Api),
    /// Check licences, advisories, sources and duplicates of all dependencies
    Deny(deny::Deny),
    /// Record the results of examples and experiments, or compare them with the record after moving
    /// code
    ///
    /// Runs all examples and one run of every declared experiment in a release build, and writes
    /// tools/xtask/digests.txt.
    Digests(digests::Digests),
    /// Build the documentation site in target/book/site: the pages of docs, the Python package, and
    /// the crates
    ///
    /// Installs mdBook into target/tools if it is missing. Exit status: 0 if no link is broken.
    Docs(docs::Docs),
    /// Build a release in target/dist: archive, wheel, Debian package, and checksums; each is
    /// installed and tested
    ///
    /// Requires Linux and Python 3. Installs zig and maturin into an environment below the target
    /// folder, and cargo-cyclonedx into target/tools.
    Dist(dist::Dist),
}

fn main() -> ExitCode {
    if let Some(code) = process::as_if_typed() {
        return code;
    }
    let command = Cli::parse();
    // Ctrl-C ends this program. A shell may ignore SIGINT for background jobs, and children inherit
    // this setting. Installing a handler here restores the default for children, since some tests
    // send SIGINT.
    let ends = Arc::new(AtomicBool::new(true));
    if let Err(error) = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, ends) {
        eprintln!("xtask: cannot handle Ctrl-C: {error}");
        return ExitCode::FAILURE;
    }
    let outcome = match command.verb {
        Verb::Check => verify::check(),
        Verb::Test(test) => test.run(),
        Verb::Mutants(mutants) => mutants.run(),
        Verb::Fuzz(fuzz) => fuzz.run(),
        Verb::Bench(bench) => bench.run(),
        Verb::Python(python) => python.run(),
        Verb::Api(api) => api.run(),
        Verb::Deny(deny) => deny.run(),
        Verb::Digests(digests) => digests.run(),
        Verb::Docs(docs) => docs.run(),
        Verb::Dist(dist) => dist.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
