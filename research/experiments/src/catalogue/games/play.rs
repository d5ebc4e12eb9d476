//! One run of one arm: a game from its initial rounds to the last round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedbo_games::{Game, History, Player, Round};
use fedbo_report::Row;
use fedbo_streams::Seed;

use super::arms::Arm;
use super::{GameProblem, Played, Shown};
use fedbo_runner::RowLabels;

/// A completed game.
pub(super) struct Match<'a> {
    /// The game of the match.
    pub(super) arena: &'a dyn GameProblem,
    /// All rounds, starting with the initial ones.
    pub(super) history: History,
    /// The outcome of each round.
    pub(super) played: Vec<Played>,
    /// The players, with their models as of the last decision.
    pub(super) players: Vec<Player>,
    /// Seconds spent on each player's decisions, round by round.
    seconds: Vec<Vec<f64>>,
}

impl<'a> Match<'a> {
    /// Plays the initial rounds and `n_rounds` more. Returns `None` if stopped. Initial actions and
    /// randomness depend only on the seed, so arms with the same seed share them.
    ///
    /// # Errors
    /// If a player cannot decide, or there are no payoffs.
    pub(super) fn play(
        arena: &'a dyn GameProblem,
        arm: &Arm,
        n_rounds: usize,
        seed: Seed,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Self>> {
        let game = arena.game();
        let reasoners = (arm.seats)(game, seed)?;
        let players = reasoners
            .into_iter()
            .enumerate()
            .map(|(player, reasoner)| Player::new(game, player, reasoner));
        let mut ended = Self {
            arena,
            history: History::new(),
            played: Vec::new(),
            players: players.collect::<Result<_, _>>()?,
            seconds: Vec::new(),
        };
        for round in 0..game.n_initial() + n_rounds {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            ended.round(round, seed)?;
        }
        Ok(Some(ended))
    }

    fn round(&mut self, round: usize, seed: Seed) -> anyhow::Result<()> {
        let mut actions = Vec::with_capacity(self.players.len());
        let mut seconds = Vec::with_capacity(self.players.len());
        for (index, player) in (0_u64..).zip(&mut self.players) {
            let began = Instant::now();
            let mut stream = seed.stream(fedbo_games::PLAY, index, round as u64);
            actions.push(player.decide(&self.history, &mut stream)?.action);
            // Microseconds are precise enough. Shorter numbers keep the file small, as it has a row
            // for every round.
            seconds.push((began.elapsed().as_secs_f64() * 1e6).round() / 1e6);
        }
        let played = self.arena.play(&actions, seed, round)?;
        let payoffs = played.observed.clone();
        self.history.push(self.arena.game(), Round { actions, payoffs })?;
        self.played.push(played);
        self.seconds.push(seconds);
        Ok(())
    }

    /// Returns the game.
    pub(super) fn game(&self) -> &'a Game {
        self.arena.game()
    }

    /// Returns the rounds after the initial ones.
    pub(super) fn after_initial(&self) -> impl Iterator<Item = (&Round, &Played)> {
        let rounds = self.history.rounds().iter().zip(&self.played);
        rounds.skip(self.game().n_initial())
    }

    /// Returns one row per round and shown player. Initial rounds end at iteration 0.
    pub(super) fn rows(&self, unit: &RowLabels, shown: &[Shown], columns: &[String]) -> Vec<Row> {
        let mut rows = Vec::with_capacity(shown.len() * self.played.len());
        for each in shown {
            let level = self.players[each.player].reasoner().level();
            let largest = self.arena.largest(each.player);
            let mut best: Option<f64> = None;
            for (index, (played, seconds)) in self.played.iter().zip(&self.seconds).enumerate() {
                let is_initial = index < self.game().n_initial();
                let value = played.payoffs[each.player];
                best = Some(best.map_or(value, |best| best.max(value)));
                let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
                rows.push(Row {
                    experiment: each.experiment.clone(),
                    arm: unit.arm.clone(),
                    agent: each.agent.clone(),
                    run: unit.run,
                    iteration: number(index) + 1 - number(self.game().n_initial()),
                    source: match is_initial {
                        true => "initial".into(),
                        false => format!("level {level}"),
                    },
                    parameters: columns.iter().cloned().zip(played.cells.iter().cloned()).collect(),
                    value: Some(value),
                    best,
                    regret: largest.map(|largest| largest - value),
                    ask_seconds: if is_initial { 0.0 } else { seconds[each.player] },
                    status: Row::ok_status(),
                });
            }
        }
        rows
    }
}
