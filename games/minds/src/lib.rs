//! Repeated games with unknown payoffs: R2-B2, Bayesian optimization by players that reason about
//! each other (Dai et al. 2020; thesis chapter 8).
//!
//! This crate decides a player's next action only from the record of rounds. It does not depend on
//! how payoffs are computed, and uses no files, threads or clocks. Players count from 0, and
//! payoffs are maximized.
//!
//! Start at [`Game`] and [`History`], then [`Reasoner`] (a player's reasoning and its beliefs about
//! the others) and [`Player`].

mod error;
mod game;
mod history;
mod level0;
mod payoff_model;
mod player;
mod reasoner;
mod reasoning_step;
mod regret;
mod response;
mod ucb;
mod whitened;

use fedbo_streams::Purpose;

pub use error::GameError;
pub use game::{Action, ActionSet, Game};
pub use history::{History, Round};
pub use level0::{
    Exp3Rate, Exp3Settings, Exploration, FeatureLaw, GpMwSettings, Level0Strategy, MixedStrategy,
    MwRate,
};
pub use payoff_model::{Learning, PayoffModel, PayoffModelSettings, Repeats};
pub use player::Player;
pub use reasoner::{Belief, Expectation, PlayerSettings, Reasoner, Reasoning, Search};
pub use reasoning_step::{Choice, Decision, ReasoningStep};
pub use regret::{PayoffTable, RegretBound};
pub use ucb::{CountedDim, Ucb, UcbWidth};

/// Streams for a player's choice in one round and for its simulation of the other players.
pub const PLAY: Purpose = Purpose::new("play");
