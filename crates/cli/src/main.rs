//! The binary `fedbo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fedbo_cli::run_program(std::env::args_os()))
}
