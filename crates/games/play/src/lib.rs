//! A game that people play: `game.toml`, the record of rounds, and who is asked for what.
//!
//! Decides what a file says of a game, whose action comes from where (a reasoning player, a program, a person), what happens when one
//! of them or the payoffs fail, and what of a round is durable and when. Knows nothing of how a reasoning player decides
//! (`fedbo-games`) or of terminals. Rounds count from 1 for people, players are named. Start at [`GameFile`] and [`Referee`].

mod actions;
mod definition;
mod error;
mod file;
mod game_history;
mod move_collector;
mod move_source;
mod payoffs;
mod reasoners;
mod record;
mod referee;
mod schema;
mod spec;

pub use actions::{ACTIONS_MAX, Actions};
pub use definition::{
    ActionSource, Definition, Level0Spec, MindSpec, ModelSpec, PlayerSpec, Reasoning,
};
pub use error::{MissingActionReason, PlayError};
pub use file::{GameFile, ROUNDS_MAX};
pub use game_history::{GameHistory, RoundRecord, SubstituteAction};
pub use move_source::{MoveSource, OnFailure, OnLostPayoffs};
pub use record::{GameRecord, MoveOutcome, ToldMove};
pub use referee::{Ended, GameObserver, Referee};
