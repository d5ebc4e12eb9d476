//! The commands `fedbo play` and `fedbo game`, and the results and pictures of a game.
//!
//! The program `fedbo` includes them if it is built with the feature `games`.

mod display;
mod game;
mod play;
mod plot;
mod results;

pub use game::Game;
pub use play::Play;
pub use plot::plot;

use std::error::Error;

use fedbo_console::Exit;
use fedbo_play::PlayError;

/// Returns the exit code for a game error; `None` for other errors.
#[must_use]
pub fn exit_of(error: &(dyn Error + 'static)) -> Option<Exit> {
    Some(match error.downcast_ref()? {
        PlayError::Player { .. } | PlayError::Payoffs { .. } | PlayError::Repeatedly { .. } => {
            Exit::Game
        }
        PlayError::Refused { .. } | PlayError::Gone { .. } => Exit::Output,
        PlayError::Mind { .. } | PlayError::Game(_) => Exit::Internal,
        _ => Exit::Input,
    })
}
