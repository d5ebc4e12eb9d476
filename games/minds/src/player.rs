//! A player decides the next action from the record with its reasoner.

use fedbo_streams::Stream;

use crate::level0::{Law, Level0};
use crate::payoff_model::PayoffModel;
use crate::reasoner::Reasoning;
use crate::response::{best_response, product};
use crate::ucb::BoundPurpose;
use crate::{
    Action, Choice, Decision, Expectation, Game, GameError, History, Level0Strategy, Reasoner,
    ReasoningStep, Round, Search, Ucb,
};

/// A player of a game.
///
/// A decision depends only on the game, the reasoner, the record and the stream. The player's state
/// between decisions (models, weights, bounds) is only a cache. The cache is built from the record
/// round by round, so a new player makes bitwise identical decisions. If a record does not extend
/// the previous one, the player reads it from the beginning.
#[derive(Clone, Debug)]
pub struct Player {
    game: Game,
    reasoner: Reasoner,
    plan: Plan,
    /// Memory before the first round, for a restart.
    blank: Memory,
    memory: Memory,
}

/// A reasoner, with the indices of its models and strategies in a [`Memory`].
#[derive(Clone, Debug)]
struct Plan {
    player: usize,
    level: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Level0 { place: usize },
    Response { model: usize, ucb: Ucb, search: Search, expectation: Expectation, others: Vec<Plan> },
}

/// State built from the record. Reasoners in a tree share it if they have equal beliefs about a
/// player.
#[derive(Clone, Debug, Default)]
struct Memory {
    rounds: Vec<Round>,
    models: Vec<PayoffModel>,
    level0: Vec<Level0>,
}

impl Player {
    /// Creates the player with number `player` in a game.
    ///
    /// # Errors
    /// If the beliefs do not cover every other player once, or a setting does not fit the game.
    pub fn new(game: &Game, player: usize, reasoner: Reasoner) -> Result<Self, GameError> {
        if player >= game.n_players() {
            return Err(GameError::UnknownPlayer { player, n_players: game.n_players() });
        }
        reasoner.validate(game, player)?;
        let mut blank = Memory::default();
        let plan = blank.plan(game, player, &reasoner)?;
        Ok(Self { game: game.clone(), reasoner, plan, memory: blank.clone(), blank })
    }

    /// Returns the player's number, from 0.
    pub fn player(&self) -> usize {
        self.plan.player
    }

    /// Returns the player's reasoner.
    pub fn reasoner(&self) -> &Reasoner {
        &self.reasoner
    }

    /// Returns the player's model of its own payoffs as of the last decision, or `None` if it does
    /// not need one.
    pub fn payoff_model(&self) -> Option<&PayoffModel> {
        let settings = &self.reasoner.basics.payoff_model;
        let mut models = self.memory.models.iter();
        models.find(|model| model.player() == self.player() && model.settings() == settings)
    }

    /// Decides the action for the round after this record. The stream must be the player's own for
    /// this round: `seed.stream(crate::PLAY, player, round)`.
    ///
    /// # Errors
    /// If the record does not belong to this game, or conditioning or maximization fails. The call
    /// can be retried with the same record.
    pub fn decide(
        &mut self,
        history: &History,
        stream: &mut Stream,
    ) -> Result<Decision, GameError> {
        if let Err(error) = self.read_new_rounds(history.rounds()) {
            self.memory = self.blank.clone();
            return Err(error);
        }
        let set = self.game.action_set(self.player());
        if history.len() < self.game.n_initial() {
            return Ok(Decision { action: set.uniform(stream), thought: None });
        }
        let (thought, action) = self.memory.think(&self.game, &self.plan, stream)?;
        Ok(Decision { action, thought: Some(thought) })
    }

    /// Reads the new rounds of the record, or all rounds if it does not extend the previous one.
    fn read_new_rounds(&mut self, rounds: &[Round]) -> Result<(), GameError> {
        if !rounds.starts_with(&self.memory.rounds) {
            self.memory = self.blank.clone();
        }
        for (index, round) in rounds.iter().enumerate().skip(self.memory.rounds.len()) {
            self.game.check(index, round)?;
            self.memory.observe(&self.game, index, round)?;
        }
        Ok(())
    }
}

impl Memory {
    /// Creates the plan of a reasoner, and adds the models and strategies that it needs.
    fn plan(&mut self, game: &Game, player: usize, reasoner: &Reasoner) -> Result<Plan, GameError> {
        let basics = &reasoner.basics;
        let kind = match &reasoner.reasoning {
            Reasoning::Level0 => {
                let strategy = &basics.level0_strategy;
                let model = match strategy {
                    Level0Strategy::GpMw(_) => {
                        Some((self.model(game, player, reasoner)?, basics.ucb))
                    }
                    _ => None,
                };
                let known = self.level0.iter().position(|l| l.is(player, strategy, model));
                let place = match known {
                    Some(place) => place,
                    None => {
                        self.level0.push(Level0::new(game, player, strategy, model)?);
                        self.level0.len() - 1
                    }
                };
                Kind::Level0 { place }
            }
            Reasoning::BestResponse { beliefs, expectation } => {
                let model = self.model(game, player, reasoner)?;
                let mut others = Vec::with_capacity(beliefs.len());
                for belief in beliefs {
                    others.push(self.plan(game, belief.player, &belief.reasoner)?);
                }
                others.sort_by_key(|plan| plan.player);
                Kind::Response {
                    model,
                    ucb: basics.ucb,
                    search: basics.search.clone(),
                    expectation: *expectation,
                    others,
                }
            }
        };
        Ok(Plan { player, level: reasoner.level(), kind })
    }

    /// Returns the index of the player's payoff model with these settings. Adds the model if it
    /// does not exist.
    fn model(
        &mut self,
        game: &Game,
        player: usize,
        reasoner: &Reasoner,
    ) -> Result<usize, GameError> {
        let settings = &reasoner.basics.payoff_model;
        let same = |model: &PayoffModel| model.player() == player && model.settings() == settings;
        if let Some(place) = self.models.iter().position(same) {
            return Ok(place);
        }
        self.models.push(PayoffModel::new(game, player, settings.clone())?);
        Ok(self.models.len() - 1)
    }

    /// Updates models and strategies with a round.
    fn observe(&mut self, game: &Game, index: usize, round: &Round) -> Result<(), GameError> {
        let joint = game
            .joint(&round.actions)
            .ok_or(GameError::UnknownAction { round: index, player: 0 })?;
        for model in &mut self.models {
            if let Some(payoff) = round.payoffs[model.player()] {
                model.observe(&joint, payoff)?;
            }
        }
        for level0 in &mut self.level0 {
            level0.observe(game, &self.models, index, round)?;
        }
        self.rounds.push(round.clone());
        Ok(())
    }

    /// Returns a reasoner's reasoning step and action.
    fn think(
        &mut self,
        game: &Game,
        plan: &Plan,
        stream: &mut Stream,
    ) -> Result<(ReasoningStep, Action), GameError> {
        match &plan.kind {
            Kind::Level0 { place } => {
                let law = self.level0[*place].law(game, &self.rounds)?;
                let drawn = law.sample(game, plan.player, &self.rounds, stream)?;
                let thought = ReasoningStep::mixed(plan.player, law, Some(drawn.clone()));
                Ok((thought, drawn))
            }
            Kind::Response { model, ucb, search, expectation, others } => {
                let mut thoughts = Vec::with_capacity(others.len());
                let mut laws = Vec::with_capacity(others.len());
                let mut any_expectation = false;
                for other in others {
                    let (thought, law) = match (&other.kind, expectation) {
                        (Kind::Level0 { place }, Expectation::Exact | Expectation::Samples(_)) => {
                            any_expectation = true;
                            let law = self.level0[*place].law(game, &self.rounds)?;
                            (
                                ReasoningStep::mixed(other.player, law.clone(), None),
                                PredictedAction::Mixed(law),
                            )
                        }
                        _ => {
                            let (thought, action) = self.think(game, other, stream)?;
                            (thought, PredictedAction::Sure(action))
                        }
                    };
                    thoughts.push(thought);
                    laws.push((other.player, law));
                }
                let of = if any_expectation {
                    BoundPurpose::Expectation
                } else {
                    BoundPurpose::Response
                };
                let factor = ucb.factor(game, plan.player, game.iteration(self.rounds.len()), of);
                let atoms = self.atoms(game, &laws, *expectation, any_expectation, stream)?;
                let model = &mut self.models[*model];
                let found = best_response(game, model, search, &atoms, (ucb, factor), stream)?;
                let thought = ReasoningStep {
                    player: plan.player,
                    level: plan.level,
                    choice: Choice::Response {
                        action: found.action.clone(),
                        bound: found.score,
                        bounds: found.scores,
                    },
                    others: thoughts,
                };
                Ok((thought, found.action))
            }
        }
    }

    /// Returns the joint actions of the others: the product of the exact distributions, or
    /// independent draws from it.
    fn atoms(
        &self,
        game: &Game,
        laws: &[(usize, PredictedAction)],
        expectation: Expectation,
        any_expectation: bool,
        stream: &mut Stream,
    ) -> Result<Vec<crate::response::Atom>, GameError> {
        match expectation {
            Expectation::Samples(n) if any_expectation => {
                let mut atoms = Vec::with_capacity(n);
                for _ in 0..n {
                    let mut drawn = Vec::with_capacity(laws.len());
                    for (player, law) in laws {
                        let action = match law {
                            PredictedAction::Sure(action) => action.clone(),
                            PredictedAction::Mixed(law) => {
                                law.sample(game, *player, &self.rounds, stream)?
                            }
                        };
                        drawn.push((*player, vec![(action, 1.0)]));
                    }
                    for mut atom in product(game, &drawn)? {
                        atom.weight /= crate::error::count(n);
                        atoms.push(atom);
                    }
                }
                Ok(atoms)
            }
            _ => {
                let mut exact = Vec::with_capacity(laws.len());
                for (player, law) in laws {
                    let list = match law {
                        PredictedAction::Sure(action) => vec![(action.clone(), 1.0)],
                        PredictedAction::Mixed(Law::Finite(probabilities)) => {
                            let pairs = probabilities.iter().enumerate();
                            pairs.map(|(index, p)| (Action::Index(index), *p)).collect()
                        }
                        PredictedAction::Mixed(_) => {
                            return Err(GameError::NeedsFiniteActions {
                                what: "an exact expectation",
                                player: *player,
                            });
                        }
                    };
                    exact.push((*player, list));
                }
                product(game, &exact)
            }
        }
    }
}

/// The predicted action of another player.
enum PredictedAction {
    Sure(Action),
    Mixed(Law),
}
