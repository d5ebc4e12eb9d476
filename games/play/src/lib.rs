//! A playable game: `game.toml`, the record of rounds, and the requests for moves.
//!
//! This crate defines the meaning of a game file, the source of each action (a reasoning player, a
//! program, a person), the handling of failed players and payoffs, and the durability of a round.
//! It does not implement the decisions of reasoning players (`fedbo-games` does), and uses no
//! terminal. For users, rounds count from 1 and players have names. Start at [`GameFile`] and
//! [`Referee`].

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
