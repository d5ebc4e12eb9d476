//! Games played by the real program: failing players and payoffs, kills, moves by hand, changed
//! files, and mistakes.
#![cfg(unix)]

mod by_hand;
mod changes;
mod concurrent_runs;
mod failures;
mod mistakes;
mod resuming;
mod terminal;
mod two_programs;
mod wrong_beliefs;
