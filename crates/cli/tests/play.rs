//! Games played by the real program: players and payoffs that fail, kills, moves by hand, changed files, mistakes.
#![cfg(unix)]

#[path = "play/by_hand.rs"]
mod by_hand;
#[path = "play/changes.rs"]
mod changes;
mod common;
#[path = "play/concurrent_runs.rs"]
mod concurrent_runs;
#[path = "play/failures.rs"]
mod failures;
#[path = "play/mistakes.rs"]
mod mistakes;
#[path = "play/resuming.rs"]
mod resuming;
#[path = "play/terminal.rs"]
mod terminal;
#[path = "play/two_programs.rs"]
mod two_programs;
#[path = "play/wrong_beliefs.rs"]
mod wrong_beliefs;
