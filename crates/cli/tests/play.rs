//! Games played by the real program: players and payoffs that fail, kills, moves by hand, changed files, mistakes.
#![cfg(unix)]

#[path = "play/by_hand.rs"]
mod by_hand;
#[path = "play/changes.rs"]
mod changes;
mod common;
#[path = "play/duel.rs"]
mod duel;
#[path = "play/failures.rs"]
mod failures;
#[path = "play/going_on.rs"]
mod going_on;
#[path = "play/mistaken_minds.rs"]
mod mistaken_minds;
#[path = "play/mistakes.rs"]
mod mistakes;
#[path = "play/terminal.rs"]
mod terminal;
#[path = "play/together.rs"]
mod together;
