//! A game that people play: `game.toml`, the record of rounds, and who is asked for what.
//!
//! Decides what a file says of a game, whose action comes from where (a reasoning player, a program, a person), what happens when one
//! of them or the payoffs fail, and what of a round is durable and when. Knows nothing of how a reasoning player decides
//! (`fedbo-games`) or of terminals. Rounds count from 1 for people, players are named. Start at [`GameFile`] and [`Referee`].

mod actions;
mod asking;
mod course;
mod definition;
mod error;
mod file;
mod mind;
mod movers;
mod payoffs;
mod record;
mod referee;
mod schema;
mod spec;

pub use actions::{ACTIONS_MAX, Actions};
pub use course::{Course, PlayedRound, StandIn};
pub use definition::{Definition, Level0Spec, MindSpec, ModelSpec, PlayerSpec, Plays, Reasoning};
pub use error::{Cause, PlayError};
pub use file::{GameFile, ROUNDS_MAX};
pub use movers::{Mover, OnFailure, OnLostPayoffs};
pub use record::{GameRecord, Told, ToldMove};
pub use referee::{Ended, Referee, Watcher};
