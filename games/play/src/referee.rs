//! The referee: collects the moves, has the payoffs computed, and records the round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fedbo_games::{Action, Decision, Game, GameError, History, Player, Round};
use fedbo_objective::{CommandSpec, Program};
use fedbo_space::Point;
use fedbo_streams::Seed;

use crate::game_history::placeholders;
use crate::move_collector::MoveCollector;
use crate::payoffs::{Lost, pay};
use crate::reasoners::reasoner;
use crate::{
    ActionSource, GameFile, GameHistory, GameRecord, MissingActionReason, MoveSource, OnFailure,
    OnLostPayoffs, PlayError, RoundRecord, SubstituteAction, ToldMove,
};

/// Receives the events of a game. Rounds count from 1, players from 0.
pub trait GameObserver {
    /// Called when the game starts waiting for a player's move.
    fn awaits(&self, round: usize, player: usize);
    /// Returns a move entered here, if any. Polled while the game waits.
    fn given(&self, player: usize) -> Option<Point>;
    /// Called when an entered move is not an action of the player.
    fn refused(&self, player: usize, why: &PlayError);
    /// Called when a player gave no action and a substitute is used.
    fn action_substituted(&self, round: usize, substitute: &SubstituteAction);
    /// Called when a payoff is outside the range in the file, once per run and player.
    fn outside(&self, round: usize, player: usize, payoff: f64, range: (f64, f64));
    /// Called when a round has been played and is on disk.
    fn played(&self, round: usize, played: &RoundRecord);
}

/// The reason why a run of a game ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All rounds have been played.
    Complete,
    /// The run was asked to stop.
    Stopped,
}

/// Plays a game round by round and keeps its record.
///
/// The actions of reasoning players depend only on the definition and the record, so an interrupted
/// game continues as it would have without the interruption. In each round, all moves are collected
/// before any player can observe them: reasoning players decide, programs run, and the referee
/// waits for submitted moves. Then the payoffs are computed, and the complete round is recorded.
#[derive(Debug)]
pub struct Referee {
    record: GameRecord,
    course: GameHistory,
    game: Game,
    minds: Vec<Option<Player>>,
    history: History,
    seed: Seed,
}

/// An action with its point and its source.
struct Move {
    point: Point,
    seconds: f64,
    substitute: Option<SubstituteAction>,
}

impl Referee {
    /// Creates the referee of a new game or of the game in the record.
    ///
    /// # Errors
    /// If the record or a setting is invalid.
    pub fn new(record: GameRecord) -> Result<Self, PlayError> {
        let definition = record.definition().clone();
        let course = GameHistory::new(definition, record.rounds()?)?;
        let game = course.game()?;
        let mut minds = Vec::new();
        for (player, spec) in course.definition().players.iter().enumerate() {
            minds.push(match &spec.plays {
                ActionSource::Reasoning(mind) => {
                    let reasoner = reasoner(&game, player, mind, course.definition().seed);
                    let made = reasoner.and_then(|reasoner| Player::new(&game, player, reasoner));
                    Some(
                        made.map_err(|cause| PlayError::Mind { player: spec.name.clone(), cause })?,
                    )
                }
                ActionSource::Program | ActionSource::ByHand => None,
            });
        }
        let mut referee = Self {
            seed: Seed::new(course.definition().seed),
            history: History::new(),
            record,
            game,
            minds,
            course,
        };
        for index in 0..referee.course.rounds().len() {
            let round = referee.round(&referee.course.rounds()[index])?;
            referee.history.push(&referee.game, round)?;
        }
        Ok(referee)
    }

    /// Returns the game with the rounds played so far.
    pub fn course(&self) -> &GameHistory {
        &self.course
    }

    /// Returns the record to which rounds are appended.
    pub fn record(&self) -> &GameRecord {
        &self.record
    }

    /// Plays until the game has the file's number of rounds or `stop` is set. Each round is on disk
    /// before the next one starts.
    ///
    /// # Errors
    /// If a player or the payoffs fail and the file requests to stop the game in this case, or if
    /// the record cannot be written.
    pub fn play(
        &mut self,
        file: &GameFile,
        watcher: &dyn GameObserver,
        stop: &Arc<AtomicBool>,
    ) -> Result<Ended, PlayError> {
        let spec = file.payoffs.clone().unwrap_or_default();
        let payoffs = self.program(&spec, stop)?;
        // Consecutive failures of each player and of the payoffs.
        let mut in_a_row = vec![0; self.minds.len() + 1];
        let mut ranges = file.ranges.clone();
        while self.course.rounds().len() < file.n_rounds {
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            match self.play_round(file, &payoffs, &mut in_a_row, watcher, stop)? {
                Some(played) => {
                    let round = self.course.rounds().len();
                    for (player, payoff) in played.payoffs.iter().enumerate() {
                        let range = ranges.get(player).copied().flatten();
                        if let (Some(payoff), Some((low, high))) = (payoff, range)
                            && !(low..=high).contains(payoff)
                        {
                            watcher.outside(round, player, *payoff, (low, high));
                            ranges[player] = None;
                        }
                    }
                    watcher.played(round, &played);
                }
                None => return Ok(Ended::Stopped),
            }
        }
        Ok(Ended::Complete)
    }

    /// Prepares the command that computes the payoffs.
    fn program(&self, spec: &CommandSpec, stop: &Arc<AtomicBool>) -> Result<Program, PlayError> {
        let players = self.course.definition().players.iter().enumerate();
        let spaces =
            players.map(|(i, player)| (player.name.as_str(), self.course.actions(i).space()));
        let known = placeholders(spaces);
        Ok(Program::new(spec, &known, Arc::clone(stop))?)
    }

    /// Plays one round. Returns `None` if asked to stop; only submitted moves are then kept.
    fn play_round(
        &mut self,
        file: &GameFile,
        program: &Program,
        in_a_row: &mut [usize],
        watcher: &dyn GameObserver,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<RoundRecord>, PlayError> {
        let index = self.course.rounds().len();
        let mut moves: Vec<Option<Move>> = self.decide()?;
        let asking = MoveCollector { course: &self.course, record: &self.record, watcher, stop };
        // Moves made by hand come last, after all others.
        let (programs, by_hand): (Vec<usize>, Vec<usize>) = (0..moves.len())
            .filter(|player| moves[*player].is_none())
            .partition(|player| matches!(file.movers[*player], MoveSource::Program { .. }));
        for player in programs.into_iter().chain(by_hand) {
            let mover = &file.movers[player];
            let asked = Instant::now();
            let told = match asking.ask(player, mover)? {
                Ok(None) => return Ok(None),
                Ok(Some(told)) => told,
                Err(cause) => {
                    let times = in_a_row[player] + 1;
                    let given = self.substitute(player, mover, times, file, cause)?;
                    // Once the substitute is stored, no move can be submitted. A move that was
                    // submitted at the same moment takes precedence.
                    let kept = self.record.keep(index, player, given)?;
                    if let Some(substitute) = &kept.substitute {
                        watcher.action_substituted(index + 1, substitute);
                    }
                    kept
                }
            };
            match told.substitute {
                Some(_) => in_a_row[player] += 1,
                None => in_a_row[player] = 0,
            }
            moves[player] = Some(Move {
                point: self.course.check_move(player, &told.point)?,
                seconds: asked.elapsed().as_secs_f64(),
                substitute: told.substitute,
            });
        }
        let moves: Vec<Move> = moves.into_iter().flatten().collect();
        let actions: Vec<Point> = moves.iter().map(|each| each.point.clone()).collect();
        let began = Instant::now();
        let counter = in_a_row.last_mut();
        let paid = match pay(&self.course, program, &actions) {
            Ok(None) => return Ok(None),
            Ok(Some(paid)) => {
                if let Some(counter) = counter {
                    *counter = 0;
                }
                (paid, None)
            }
            Err(Lost { paid, cause }) => {
                let times = counter.map_or(1, |counter| {
                    *counter += 1;
                    *counter
                });
                (paid, Some(self.lose(file, times, cause)?))
            }
        };
        let played = RoundRecord {
            actions,
            payoffs: paid.0,
            move_seconds: moves.iter().map(|each| each.seconds).collect(),
            payoff_seconds: began.elapsed().as_secs_f64(),
            stand_ins: moves.into_iter().filter_map(|each| each.substitute).collect(),
            lost_because: paid.1,
        };
        let round = self.round(&played)?;
        self.record.append(index, &played)?;
        self.history.push(&self.game, round)?;
        self.course.push(played.clone());
        Ok(Some(played))
    }

    /// Decides the next moves of all reasoning players in parallel.
    fn decide(&mut self) -> Result<Vec<Option<Move>>, PlayError> {
        let index = self.course.rounds().len() as u64;
        let (history, seed) = (&self.history, &self.seed);
        let decided: Vec<Option<(Result<Decision, GameError>, f64)>> = thread::scope(|scope| {
            let started: Vec<_> = (0_u64..)
                .zip(&mut self.minds)
                .map(|(player, mind)| {
                    mind.as_mut().map(|mind| {
                        let mut stream = seed.stream(fedbo_games::PLAY, player, index);
                        scope.spawn(move || {
                            let began = Instant::now();
                            let decision = mind.decide(history, &mut stream);
                            (decision, began.elapsed().as_secs_f64())
                        })
                    })
                })
                .collect();
            let joined = started.into_iter().map(|handle| {
                handle.map(|handle| match handle.join() {
                    Ok(decided) => decided,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            });
            joined.collect()
        });
        let mut moves = Vec::with_capacity(decided.len());
        for (player, decided) in decided.into_iter().enumerate() {
            let Some((decision, seconds)) = decided else {
                moves.push(None);
                continue;
            };
            let decision = decision
                .map_err(|cause| PlayError::Mind { player: self.name(player).to_owned(), cause })?;
            let (point, _) = self.course.actions(player).played(decision.action);
            moves.push(Some(Move { point, seconds, substitute: None }));
        }
        Ok(moves)
    }

    /// Returns the substitute for a missing action.
    fn substitute(
        &self,
        player: usize,
        mover: &MoveSource,
        times: usize,
        file: &GameFile,
        cause: MissingActionReason,
    ) -> Result<ToldMove, PlayError> {
        let index = self.course.rounds().len();
        let name = self.name(player).to_owned();
        let on_failure = match mover {
            MoveSource::Reasoning => OnFailure::Stop,
            MoveSource::Program { on_failure, .. } | MoveSource::ByHand { on_failure, .. } => {
                *on_failure
            }
        };
        if on_failure == OnFailure::Stop {
            return Err(PlayError::Player { round: index + 1, player: name, cause });
        }
        if times >= file.failures_max {
            return Err(PlayError::Repeatedly {
                round: index + 1,
                what: format!("player {name:?}"),
                times,
                cause,
            });
        }
        let last = self.course.rounds().last();
        let (point, kind) = match (on_failure, last) {
            (OnFailure::Repeat, Some(last)) => (last.actions[player].clone(), "repeat"),
            _ => {
                let mut stream = self.seed.stream(fedbo_games::PLAY, player as u64, index as u64);
                let action = self.game.action_set(player).uniform(&mut stream);
                (self.course.actions(player).played(action).0, "random")
            }
        };
        let substitute =
            SubstituteAction { player, kind: kind.to_owned(), because: cause.to_string() };
        Ok(ToldMove { point, substitute: Some(substitute) })
    }

    /// Returns the reason to record for a round without payoffs; an error if the game ends instead.
    fn lose(
        &self,
        file: &GameFile,
        times: usize,
        cause: MissingActionReason,
    ) -> Result<String, PlayError> {
        let round = self.course.rounds().len() + 1;
        match file.on_lost_payoffs {
            OnLostPayoffs::Stop => Err(PlayError::Payoffs { round, cause }),
            OnLostPayoffs::GoOn if times >= file.failures_max => {
                Err(PlayError::Repeatedly { round, what: "the payoffs".to_owned(), times, cause })
            }
            OnLostPayoffs::GoOn => Ok(cause.to_string()),
        }
    }

    /// Converts a round to the form that reasoning players use.
    fn round(&self, played: &RoundRecord) -> Result<Round, PlayError> {
        let mut actions: Vec<Action> = Vec::with_capacity(played.actions.len());
        for (player, point) in played.actions.iter().enumerate() {
            let action = self.course.actions(player).action(point);
            actions.push(action.map_err(|why| PlayError::NotARecord {
                path: self.record.path().to_owned(),
                message: format!("an action of {:?}: {why}", self.name(player)),
            })?);
        }
        Ok(Round { actions, payoffs: played.payoffs.clone() })
    }

    fn name(&self, player: usize) -> &str {
        &self.course.definition().players[player].name
    }
}
