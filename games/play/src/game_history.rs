//! The history of a game, and its form for reasoning players.

use fedbo_games::Game;
use fedbo_objective::Placeholder;
use fedbo_space::{Parameter, Point, Space};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::payoffs::expected_action;
use crate::{Actions, Definition, PlayError};

/// One played round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundRecord {
    /// One action per player.
    pub actions: Vec<Point>,
    /// One payoff per player; `None` if it was lost.
    pub payoffs: Vec<Option<f64>>,
    /// Duration of each player's move, in seconds.
    pub move_seconds: Vec<f64>,
    /// Time taken to compute the payoffs, in seconds.
    pub payoff_seconds: f64,
    /// Substitutes for missing actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stand_ins: Vec<SubstituteAction>,
    /// The reason why payoffs were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_because: Option<String>,
}

/// A substitute for a missing action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubstituteAction {
    /// The player's number.
    pub player: usize,
    /// `random` or `repeat`.
    pub kind: String,
    /// The reason for the missing action.
    pub because: String,
}

/// A game with the rounds played so far. Every player can observe all rounds (perfect monitoring).
#[derive(Clone, Debug)]
pub struct GameHistory {
    definition: Definition,
    actions: Vec<Actions>,
    rounds: Vec<RoundRecord>,
}

impl GameHistory {
    /// Creates a game with the given rounds.
    ///
    /// # Errors
    /// If the definition is invalid.
    pub fn new(definition: Definition, rounds: Vec<RoundRecord>) -> Result<Self, PlayError> {
        let mut actions = Vec::new();
        for player in &definition.players {
            let space = player.space().map_err(|error| PlayError::Move {
                message: format!("player {:?}: {error}", player.name),
            })?;
            actions.push(Actions::new(space, player.grid));
        }
        Ok(Self { definition, actions, rounds })
    }

    /// Returns the game's definition, which is fixed.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the actions of a player.
    pub fn actions(&self, player: usize) -> &Actions {
        &self.actions[player]
    }

    /// Returns the rounds played so far, in order.
    pub fn rounds(&self) -> &[RoundRecord] {
        &self.rounds
    }

    /// Adds a round.
    pub(crate) fn push(&mut self, round: RoundRecord) {
        self.rounds.push(round);
    }

    /// Converts the game to the form that reasoning players use.
    pub(crate) fn game(&self) -> Result<Game, PlayError> {
        let sets = self.actions.iter().map(|own| own.set().clone());
        Ok(Game::new(sets.collect(), self.definition.n_initial)?)
    }

    /// Returns the move that a point denotes, in the order and types of the space.
    ///
    /// # Errors
    /// [`PlayError::Move`] if the point is not an action of the player.
    pub fn check_move(&self, player: usize, point: &Point) -> Result<Point, PlayError> {
        let own = &self.actions[player];
        let played = own.action(point).map(|action| match own.n_actions() {
            Some(_) => own.point(&action),
            None => own.space().normalize(point).unwrap_or_else(|_| own.point(&action)),
        });
        played.map_err(|why| {
            let name = &self.definition.players[player].name;
            let names: Vec<&str> = own.space().parameters().iter().map(Parameter::name).collect();
            PlayError::Move {
                message: format!(
                    "not an action of {name:?}: {why}; expected {}",
                    expected_action(&names)
                ),
            }
        })
    }

    /// Returns the state that a player sees before its move: the game; the player's name and
    /// parameters, including the grid values of floats; the round, from 1; and all actions and
    /// payoffs so far.
    pub fn state(&self, player: usize) -> Value {
        let own = &self.definition.players[player];
        let space: Map<String, Value> = own
            .space
            .iter()
            .map(|(name, spec)| (name.clone(), without_nulls(json!(spec))))
            .collect();
        let values = self.actions[player].grid_values();
        let values: Map<String, Value> =
            values.into_iter().map(|(name, values)| (name.to_owned(), json!(values))).collect();
        let rounds: Vec<Value> = (1..)
            .zip(&self.rounds)
            .map(|(number, round)| self.round_state(number, round))
            .collect();
        json!({
            "game": self.definition.name,
            "player": own.name,
            "round": self.rounds.len() + 1,
            "space": space,
            "grid": own.grid,
            "values": values,
            "rounds": rounds,
        })
    }

    fn round_state(&self, number: usize, round: &RoundRecord) -> Value {
        let names = || self.definition.players.iter().map(|player| player.name.clone());
        let actions: Map<String, Value> =
            names().zip(round.actions.iter().map(|point| json!(point))).collect();
        let payoffs: Map<String, Value> =
            names().zip(round.payoffs.iter().map(|payoff| json!(payoff))).collect();
        json!({ "round": number, "actions": actions, "payoffs": payoffs })
    }
}

/// Removes null values from an object.
fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(object) = &mut value {
        object.retain(|_, each| !each.is_null());
    }
    value
}

/// Placeholders in the payoff command: PLAYER.PARAMETER.
pub(crate) fn placeholders<'a>(
    spaces: impl Iterator<Item = (&'a str, &'a Space)>,
) -> Vec<Placeholder> {
    let of_player = |(name, space): (&str, &Space)| -> Vec<Placeholder> {
        let parameters = space.parameters().iter();
        parameters.map(|p| Placeholder::named(format!("{name}.{}", p.name()), p)).collect()
    };
    spaces.flat_map(of_player).collect()
}
