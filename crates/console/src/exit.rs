//! Exit codes. They are also documented in docs/exit-codes.md.

use fedbo_error_class::{Class, Classified};

/// The table in `fedbo --help`.
pub const HELP: &str = "\
Exit codes:
  0    done
  1    internal error
  2    wrong usage, or a file, setting, command, study or data folder that cannot be used
  3    a privacy budget is spent
  4    results cannot be written: read-only folder, disk full
  5    every trial failed, or too many in a row
  6    a coordinator or neighbour cannot be reached, refuses, or is not to be trusted
  7    a player of a game, or its payoffs, failed; the rounds before are kept
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP); finished trials are kept";

/// Outcome of the program, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// Bug in this program.
    Internal = 1,
    /// Incorrect usage, or unusable input.
    Input = 2,
    /// A privacy budget is spent.
    BudgetSpent = 3,
    /// Results could not be written.
    Output = 4,
    /// Every trial failed, or too many trials failed in a row.
    NoTrial = 5,
    /// A coordinator or neighbour is unreachable, refuses a request, or cannot be trusted.
    Coordinator = 6,
    /// A player or the payoffs of a game failed.
    Game = 7,
    /// Interrupted by a signal.
    Interrupted = 130,
}

/// An unusable input, described by a message.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

impl Classified for BadInput {
    fn class(&self) -> Class {
        Class::Input
    }
}

impl From<Class> for Exit {
    fn from(class: Class) -> Self {
        match class {
            Class::Input => Self::Input,
            Class::Output => Self::Output,
            Class::BudgetSpent => Self::BudgetSpent,
            Class::NoTrial => Self::NoTrial,
            Class::Remote => Self::Coordinator,
            Class::Internal => Self::Internal,
        }
    }
}

impl Exit {
    /// Returns the exit status for the shell.
    #[must_use]
    pub fn status(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_help_says() {
        let page = include_str!("../../../docs/exit-codes.md");
        for line in HELP.lines().skip(1) {
            let (code, meaning) = line.trim().split_once(' ').expect("a code and a meaning");
            let row = format!("| {code} | {} |", meaning.trim());
            assert!(page.contains(&row), "{row}");
        }
    }
}
