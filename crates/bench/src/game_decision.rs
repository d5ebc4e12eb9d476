//! One decision of a player of R2-B2 at each level, in the course of a game and from its record alone.

use anyhow::Result;
use fedbo_games::{Action, ActionSet, Basics, Expectation, Game, History, Player, Reasoner, Round};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Map, Value, json};

use crate::measure::{Limits, Timing, columns, measure};

/// Rows for levels 0 to 3 and every number of rounds: with all but the last round seen before, which may take no longer than
/// `seconds_most` at level 2, and from the record alone. Two players with `n_actions` actions each, the synthetic games' kernel
/// and their noise.
pub(crate) fn rows(
    n_actions: usize,
    rounds: &[usize],
    seconds_most: f64,
    limits: &Limits,
) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for &n_rounds in rounds {
        let bench = Bench::new(n_actions, n_rounds)?;
        for level in 0..=3 {
            let fresh = bench.player(level)?;
            let mut along = fresh.clone();
            along.decide(&bench.before, &mut bench.stream(0))?;
            for (what, player) in [("one round more", along), ("record alone", fresh)] {
                let setup = |draw| Ok((player.clone(), bench.stream(draw)));
                let decide = |(player, stream): &mut (Player, _)| {
                    Ok(player.decide(&bench.history, stream)?.action)
                };
                let (timing, _) = measure(limits, setup, decide)?;
                let mut row = row(what, level, n_actions, n_rounds, &timing);
                if level == 2 && what == "one round more" {
                    row.insert("seconds_most".into(), json!(seconds_most));
                    row.insert("held".into(), json!(timing.median() <= seconds_most));
                }
                rows.push(Value::Object(row));
            }
        }
    }
    Ok(rows)
}

/// A game in its course.
struct Bench {
    game: Game,
    basics: Vec<Basics>,
    history: History,
    /// The record without its last round.
    before: History,
}

impl Bench {
    fn new(n_actions: usize, n_rounds: usize) -> Result<Self> {
        let sets = vec![ActionSet::grid(n_actions), ActionSet::grid(n_actions)];
        let game = Game::new(sets, 1)?;
        let basics = [0, 1].map(|player| {
            let mut basics = Basics::as_in_authors_code(&game, player);
            basics.payoff_model.hyperparameters.noise_variance = 1e-8;
            basics
        });
        let (mut history, mut before) = (History::new(), History::new());
        let mut stream = Seed::new(1).stream(Purpose::Problem, 0, 0);
        for _ in 0..n_rounds {
            before.clone_from(&history);
            let actions = [stream.below(n_actions), stream.below(n_actions)].map(Action::Index);
            let x = game.joint(&actions).unwrap_or_default();
            let payoff = |shift: f64| Some((9.0 * x[0] + shift).sin() * (7.0 * x[1]).cos());
            let round = Round {
                payoffs: vec![payoff(0.0), payoff(2.0)],
                actions: actions.to_vec(),
            };
            history.push(&game, round)?;
        }
        Ok(Self {
            game,
            basics: basics.to_vec(),
            history,
            before,
        })
    }

    fn player(&self, level: usize) -> Result<Player> {
        let reasoner = Reasoner::at_level(0, level, &self.basics, Expectation::Exact)?;
        Ok(Player::new(&self.game, 0, reasoner)?)
    }

    fn stream(&self, draw: u64) -> fedbo_streams::Stream {
        Seed::new(2).stream(Purpose::Play, 0, draw)
    }
}

fn row(
    what: &str,
    level: usize,
    n_actions: usize,
    t: usize,
    timing: &Timing,
) -> Map<String, Value> {
    let mut row = columns(json!({
        "peer": "fedbo", "what": what, "level": level, "actions": n_actions, "t": t,
    }));
    row.extend(timing.columns());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_two_rows_and_level_2_is_held_to_a_limit() {
        let limits = Limits {
            budget_s: 0.0,
            min_reps: 1,
            max_reps: 1,
        };
        for (seconds_most, held) in [(1e3, true), (0.0, false)] {
            let rows = rows(7, &[12], seconds_most, &limits).unwrap();
            let levels: Vec<u64> = rows
                .iter()
                .filter_map(|row| row["level"].as_u64())
                .collect();
            assert_eq!(levels, [0, 0, 1, 1, 2, 2, 3, 3]);
            assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
            let verdicts: Vec<&Value> = rows.iter().filter_map(|row| row.get("held")).collect();
            assert_eq!(verdicts, [&json!(held)]);
        }
    }

    /// Both kinds of rows decide the same.
    #[test]
    fn a_player_that_played_along_decides_as_one_made_anew() {
        let bench = Bench::new(8, 15).unwrap();
        for level in 0..=3 {
            let mut along = bench.player(level).unwrap();
            along.decide(&bench.before, &mut bench.stream(0)).unwrap();
            let along = along.decide(&bench.history, &mut bench.stream(1)).unwrap();
            let mut anew = bench.player(level).unwrap();
            let anew = anew.decide(&bench.history, &mut bench.stream(1)).unwrap();
            assert_eq!(along, anew);
        }
    }
}
