//! The results of a game as JSON: payoffs and actions per round, and the final standings of
//! `fedbo play`.

use std::path::Path as FilePath;

use axum::response::Response;
use fedbo_report::{ResultsTail, Row};
use serde::Serialize;

use super::folder::is_game;
use super::request::{Asked, Problem, json};
use fedbo_documents::game_results::{PlayerResult, STAND_IN};
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// The JSON document of a game.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    /// Number of initial random rounds.
    n_initial: usize,
    players: Vec<Player>,
    standings: Vec<PlayerResult>,
}

/// A player, round by round.
#[derive(Serialize)]
struct Player {
    name: String,
    plays: String,
    payoffs: Vec<Option<f64>>,
    /// Mean payoff of the nonrandom rounds, up to each round.
    means: Vec<Option<f64>>,
    /// Distance from the largest payoff, if recorded.
    regrets: Vec<Option<f64>>,
    /// Source of each action.
    sources: Vec<String>,
    actions: Vec<Action>,
}

/// A parameter of a player's actions, as text.
#[derive(Serialize)]
struct Action {
    parameter: String,
    values: Vec<String>,
}

impl Player {
    /// Creates a player before its first round. The row's parameters are named `PLAYER.PARAMETER`.
    fn of(row: &Row) -> Self {
        let own = row.parameters.iter().filter_map(|(name, _)| own_parameter(&row.agent, name));
        Self {
            name: row.agent.clone(),
            plays: row.arm.clone(),
            payoffs: Vec::new(),
            means: Vec::new(),
            regrets: Vec::new(),
            sources: Vec::new(),
            actions: own
                .map(|name| Action { parameter: name.to_owned(), values: Vec::new() })
                .collect(),
        }
    }

    fn add(&mut self, row: Row) {
        let own = row.parameters.into_iter().filter_map(|(name, value)| {
            own_parameter(&row.agent, &name).is_some().then_some(value)
        });
        for (action, value) in self.actions.iter_mut().zip(own) {
            action.values.push(value);
        }
        self.payoffs.push(row.value);
        self.regrets.push(row.regret);
        self.sources.push(row.source);
    }

    fn conclude(&mut self, n_initial: usize) -> PlayerResult {
        let (mut sum, mut n) = (0.0, 0.0);
        self.means = self
            .payoffs
            .iter()
            .enumerate()
            .map(|(round, payoff)| {
                let payoff = payoff.filter(|_| round >= n_initial);
                sum += payoff.unwrap_or(0.0);
                n += if payoff.is_some() { 1.0 } else { 0.0 };
                (n > 0.0).then(|| sum / n)
            })
            .collect();
        let n_stand_ins = self.sources.iter().filter(|source| source.starts_with(STAND_IN)).count();
        PlayerResult::of(&self.name, self.plays.clone(), &self.payoffs, n_initial, n_stand_ins)
    }
}

/// Returns the name of a player's parameter, given its column name.
fn own_parameter<'a>(player: &str, column: &'a str) -> Option<&'a str> {
    column.strip_prefix(player)?.strip_prefix('.')
}

/// Returns the final standings of a game.
///
/// # Errors
/// Fails if the folder does not contain a game, or if its results cannot be read.
pub(super) fn standings(folder: &FilePath) -> anyhow::Result<Vec<PlayerResult>> {
    Ok(Document::of(folder)?.standings)
}

impl Document {
    fn of(folder: &FilePath) -> anyhow::Result<Self> {
        if !is_game(folder) {
            return Err(Problem::absent("these are not the results of a game").into());
        }
        let mut players: Vec<Player> = Vec::new();
        let mut n_random = 0;
        for row in ResultsTail::new(folder).more()?.unwrap_or_default() {
            let found = players.iter().position(|player| player.name == row.agent);
            let index = found.unwrap_or_else(|| {
                players.push(Player::of(&row));
                players.len() - 1
            });
            if index == 0 && row.iteration <= 0 {
                n_random += 1;
            }
            players[index].add(row);
        }
        let standings = players.iter_mut().map(|player| player.conclude(n_random)).collect();
        Ok(Self { schema_version: SCHEMA_VERSION, n_initial: n_random, players, standings })
    }
}

/// `GET /api/runs/{id}/game`.
pub(super) fn game(asked: &Asked) -> anyhow::Result<Response> {
    json(&Document::of(&asked.shared.catalog.run(asked.id())?)?)
}
