//! The payoff functions of the authors' synthetic games (thesis section 8.4.1; r2b2-synthetic).

use std::path::Path;

use crate::table::{DataError, read_numbers};

/// Number of games, each a pair of functions.
pub const N_GAMES: usize = 10;
/// Number of actions of each of the two agents.
pub const N_GRID_ACTIONS: usize = 100;

/// Returns the path of a function's file within the data folder. `function` is 1 or 2.
pub(crate) fn file(game: usize, function: usize) -> String {
    format!("r2b2-synthetic/game{game}_f{function}.csv")
}

/// Reads the functions f_1 and f_2 of every game from `r2b2-synthetic/game{0..9}_f{1,2}.csv` in the
/// data folder. Each has 100 × 100 values in row-major order. The row is the action of agent 1.
///
/// # Errors
/// If a file is missing or is not a 100 × 100 table of finite numbers.
pub fn read_payoff_functions(folder: &Path) -> Result<Vec<[Vec<f64>; 2]>, DataError> {
    let read = |game, function| read_function(folder, &file(game, function));
    (0..N_GAMES).map(|game| Ok([read(game, 1)?, read(game, 2)?])).collect()
}

/// Reads one function.
pub(crate) fn read_function(folder: &Path, file: &str) -> Result<Vec<f64>, DataError> {
    read_numbers(folder, file, N_GRID_ACTIONS, N_GRID_ACTIONS)
}
