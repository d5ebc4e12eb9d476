//! One decision of an R2-B2 player at each level, in a running game and from the game's record.

use anyhow::Result;
use fedbo_games::{
    Action, ActionSet, Expectation, Game, History, Player, PlayerSettings, Reasoner, Round,
};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Map, Value, json};

use crate::measure::{Limits, Timing, columns, measure};

/// The dimensions of a game.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) n_players: usize,
    /// Number of actions of each player.
    pub(crate) n_actions: usize,
}

/// Returns two rows for each combination of a level from 0 to 3 and a number of rounds.
///
/// In the first row, the player has already processed all rounds except the last. At level 2 this
/// decision has the time limit `seconds_most`, if given. In the second row, a new player decides
/// from the record only. Uses the kernel and noise of the synthetic games.
pub(crate) fn rows(
    size: Size,
    rounds: &[usize],
    seconds_most: Option<f64>,
    limits: &Limits,
) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for &n_rounds in rounds {
        let bench = Bench::new(size, n_rounds)?;
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
                let mut row = row(what, level, size, n_rounds, &timing);
                if level == 2
                    && what == "one round more"
                    && let Some(most) = seconds_most
                {
                    row.insert("seconds_most".into(), json!(most));
                    row.insert("held".into(), json!(timing.median() <= most));
                }
                rows.push(Value::Object(row));
            }
        }
    }
    Ok(rows)
}

/// A running game.
struct Bench {
    game: Game,
    basics: Vec<PlayerSettings>,
    history: History,
    /// The record without its last round.
    before: History,
}

impl Bench {
    fn new(size: Size, n_rounds: usize) -> Result<Self> {
        let sets = vec![ActionSet::grid(size.n_actions); size.n_players];
        let game = Game::new(sets, 1)?;
        let basics = (0..size.n_players).map(|player| {
            let mut basics = PlayerSettings::as_in_authors_code(&game, player);
            basics.payoff_model.hyperparameters.noise_variance = 1e-8;
            basics
        });
        let basics = basics.collect();
        let (mut history, mut before) = (History::new(), History::new());
        let mut stream = Seed::new(1).stream(Purpose::PROBLEM, 0, 0);
        for _ in 0..n_rounds {
            before.clone_from(&history);
            let actions = (0..size.n_players).map(|_| Action::Index(stream.below(size.n_actions)));
            let actions: Vec<Action> = actions.collect();
            let x = game.joint(&actions).unwrap_or_default();
            let of_others: f64 = x[1..].iter().map(|each| (7.0 * each).cos()).product();
            let payoff = |shift: f64| Some((9.0 * x[0] + shift).sin() * of_others);
            let shifts = (0_u32..).map(|player| 2.0 * f64::from(player));
            let round =
                Round { payoffs: shifts.map(payoff).take(size.n_players).collect(), actions };
            history.push(&game, round)?;
        }
        Ok(Self { game, basics, history, before })
    }

    fn player(&self, level: usize) -> Result<Player> {
        let reasoner = Reasoner::at_level(0, level, &self.basics, Expectation::Exact)?;
        Ok(Player::new(&self.game, 0, reasoner)?)
    }

    fn stream(&self, draw: u64) -> fedbo_streams::Stream {
        Seed::new(2).stream(fedbo_games::PLAY, 0, draw)
    }
}

fn row(what: &str, level: usize, size: Size, t: usize, timing: &Timing) -> Map<String, Value> {
    let mut row = columns(json!({
        "peer": "fedbo", "what": what, "level": level, "players": size.n_players,
        "actions": size.n_actions, "t": t,
    }));
    row.extend(timing.columns());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_two_rows_and_level_2_is_held_to_a_limit() {
        let limits = Limits { budget_s: 0.0, min_reps: 1, max_reps: 1 };
        let size = Size { n_players: 2, n_actions: 7 };
        for (seconds_most, held) in [(1e3, true), (0.0, false)] {
            let rows = rows(size, &[12], Some(seconds_most), &limits).unwrap();
            let levels: Vec<u64> = rows.iter().filter_map(|row| row["level"].as_u64()).collect();
            assert_eq!(levels, [0, 0, 1, 1, 2, 2, 3, 3]);
            assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
            let verdicts: Vec<&Value> = rows.iter().filter_map(|row| row.get("held")).collect();
            assert_eq!(verdicts, [&json!(held)]);
        }
    }

    #[test]
    fn a_player_that_played_along_decides_as_one_made_anew() {
        let sizes = [(2, 8), (3, 4)];
        for ((n_players, n_actions), level) in
            sizes.into_iter().flat_map(|s| (0..=3).map(move |l| (s, l)))
        {
            let size = Size { n_players, n_actions };
            let bench = Bench::new(size, 15).unwrap();
            let mut along = bench.player(level).unwrap();
            along.decide(&bench.before, &mut bench.stream(0)).unwrap();
            let along = along.decide(&bench.history, &mut bench.stream(1)).unwrap();
            let mut anew = bench.player(level).unwrap();
            let anew = anew.decide(&bench.history, &mut bench.stream(1)).unwrap();
            assert_eq!(along, anew);
        }
    }
}
