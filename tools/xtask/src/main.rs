//! The project's longer tasks: `cargo xtask check`, `test`, `mutants`, `fuzz`, `bench`, `python`, `deny`, `digests`, `docs` and `dist`.
//!
//! Nothing needs to be installed first but Rust itself; CI runs the same verbs. Every command is shown before it runs.
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
mod mutants;
mod process;
mod production;
mod python;
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
    /// Before a commit: format, lints, unit tests, documentation
    Check,
    /// Format, lints, unit, integration and documentation tests, documentation; needs a Rust toolchain and nothing else
    ///
    /// With --all also the tests that need more. Some compare with published data, in FEDBO_DATA, by default ../shared/data
    /// beside the workspace. Others start a PostgreSQL server; where that is not installed, it is installed by apt-get.
    /// Tests that were not run are listed. A table of stages with their seconds ends the run.
    Test(verify::Test),
    /// Seed bugs in a copy of the sources; each must be found by the test that is named for it
    ///
    /// They are listed in the mutants.toml of each crate. Exit status: 0 if all were found.
    Mutants(mutants::Mutants),
    /// Hostile bytes for every decoder, by libFuzzer; an input that fails is kept below fuzz/regressions
    ///
    /// Installs cargo-fuzz into target/tools if it is not there, and a C++ compiler by the system's package manager.
    Fuzz(fuzz::Fuzz),
    /// Time our operations, and the peers' beside them where their packages are at hand
    Bench(bench::Bench),
    /// Build the Python package; compare its type stubs, check its types, and test it on the oldest and the newest Python here
    ///
    /// Packages that tests need are installed by pip into environments below the target folder.
    Python(python::Python),
    /// Compare the public interface of the library with crates/fedbo/api.txt
    Api(api::Api),
    /// Licences, advisories, sources and duplicates of all dependencies
    Deny(deny::Deny),
    /// Record what examples and experiments compute, or compare with the record after code was moved
    ///
    /// Runs the release build over every example and one run of every declared experiment, and writes tools/xtask/digests.txt.
    Digests(digests::Digests),
    /// The site of the documentation, in target/book/site: the pages of docs, the Python package, the crates
    ///
    /// Installs mdBook into target/tools if it is not there. Exit status: 0 if every link leads somewhere.
    Docs(docs::Docs),
    /// A release, in target/dist: archive, wheel, package for Debian, and their sums; each is installed and tried
    ///
    /// Needs Linux and Python 3; installs zig and maturin into an environment below the target folder, and cargo-cyclonedx into
    /// target/tools.
    Dist(dist::Dist),
}

fn main() -> ExitCode {
    if let Some(code) = process::as_if_typed() {
        return code;
    }
    let command = Cli::parse();
    // Ctrl-C ends this program. With a handler here it is heeded by what this starts too, also where a shell in the background has
    // it ignored: tests send it.
    let ends = Arc::new(AtomicBool::new(true));
    if let Err(error) = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, ends) {
        eprintln!("xtask: Ctrl-C cannot be heeded: {error}");
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
