//! A player's reasoning and its beliefs about the others' reasoning, as plain data. Beliefs may be
//! wrong.

use fedbo_gp::{Family, FitCriterion, FitOptions, Hyperparameters, Kernel};
use fedbo_optim::{Direct, MultiStart};

use crate::error::count;
use crate::{
    CountedDim, Game, GameError, GpMwSettings, Learning, Level0Strategy, MwRate,
    PayoffModelSettings, Repeats, Ucb, UcbWidth,
};

/// Settings of a player that do not depend on its level of reasoning.
#[derive(Clone, Debug)]
pub struct PlayerSettings {
    /// Strategy at level 0.
    pub level0_strategy: Level0Strategy,
    /// Model of the player's payoffs.
    pub payoff_model: PayoffModelSettings,
    /// Upper confidence bound that GP-MW and best responses use.
    pub ucb: Ucb,
    /// Search for best responses in a continuous set. A finite set is scanned.
    pub search: Search,
}

/// Search for a best response in a continuous action set.
#[derive(Clone, Debug, PartialEq)]
pub enum Search {
    /// Evaluates a batch of points and refines the best ones by gradient ascent.
    MultiStart(MultiStart),
    /// DIRECT, as in the authors' code.
    Direct(Direct),
}

/// A player's settings and level of reasoning.
#[derive(Clone, Debug)]
pub struct Reasoner {
    /// Settings that do not depend on the level.
    pub basics: PlayerSettings,
    /// Level of reasoning, with the player's beliefs.
    pub reasoning: Reasoning,
}

/// The levels of thesis section 8.3.1.
#[derive(Clone, Debug)]
pub enum Reasoning {
    /// Level 0: a draw from its mixed strategy.
    Level0,
    /// Level k ≥ 1: the best response to the player's beliefs about the others. The highest level
    /// among the beliefs is k − 1.
    BestResponse {
        /// One belief per other player.
        beliefs: Vec<Belief>,
        /// Method for computing the expectation over level-0 players.
        expectation: Expectation,
    },
}

/// A player's belief about another player: that player's reasoner, including its own beliefs.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The player that the belief concerns.
    pub player: usize,
    /// The reasoner that `player` is believed to have.
    pub reasoner: Reasoner,
}

/// The expectation over level-0 strategies in (8.3), (E.1) and (E.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Over all joint actions, for finite sets.
    Exact,
    /// Over this number of independent draws; 500 and 1,000 in appendix E.6.2.1.
    Samples(usize),
    /// R2-B2-Lite: the best response to one draw ((8.8), (E.2)).
    Lite,
}

impl PlayerSettings {
    /// Maximum number of joint coordinates with individual length scales. With 55 coordinates and
    /// 155 payoffs, one shared length scale performs better (experiment `games-predator-prey`).
    pub const MOST_LENGTHSCALES: usize = 20;

    /// Returns the defaults for a game with payoffs between these bounds: Matérn-5/2 on
    /// standardized payoffs; hyperparameters learned after every 10 payoffs; one length scale per
    /// coordinate up to [`Self::MOST_LENGTHSCALES`]; β^{1/2} = 2; GP-MW for games of unknown
    /// length, or random search for continuous actions.
    pub fn for_game(game: &Game, player: usize, payoff_bounds: (f64, f64)) -> Self {
        let lengthscale = 0.3 * count(game.dim()).sqrt();
        let kernel = Kernel::isotropic(Family::Matern52, game.dim(), lengthscale, 1.0);
        let level0_strategy = match game.action_set(player).n_actions() {
            Some(_) => Level0Strategy::GpMw(GpMwSettings {
                mw_rate: MwRate::Anytime,
                payoff_bounds: Some(payoff_bounds),
            }),
            None => Level0Strategy::RandomSearch,
        };
        Self {
            level0_strategy,
            payoff_model: PayoffModelSettings {
                hyperparameters: Hyperparameters {
                    kernel: kernel
                        .unwrap_or_else(|error| unreachable!("a positive length scale: {error}")),
                    noise_variance: 1e-2,
                },
                standardize: true,
                repeats: Repeats::Kept,
                learning: Some(Learning {
                    every: 10,
                    options: FitOptions {
                        isotropic: game.dim() > Self::MOST_LENGTHSCALES,
                        ..FitOptions::default()
                    },
                    seed: 0,
                }),
            },
            ucb: Ucb::new(UcbWidth::Constant(2.0)),
            search: Search::for_game(game, player),
        }
    }

    /// Returns the settings of the authors' code for the synthetic games of appendix E.6.1: squared
    /// exponential kernel with the true length scale 0.1 and variance 1; noise variance 1, which is
    /// their library's default and is included in their standard deviations; raw payoffs;
    /// overwritten payoffs of repeated joint actions; β_t = 0.5 d ln 2t with d as
    /// [`CountedDim::OwnInExpectations`]; GP-MW with η = 0.1 and without clipping.
    pub fn as_in_authors_code(game: &Game, player: usize) -> Self {
        let kernel = Kernel::isotropic(Family::SquaredExponential, game.dim(), 0.1, 1.0);
        Self {
            level0_strategy: Level0Strategy::GpMw(GpMwSettings {
                mw_rate: MwRate::Given(0.1),
                payoff_bounds: None,
            }),
            payoff_model: PayoffModelSettings {
                hyperparameters: Hyperparameters {
                    kernel: kernel
                        .unwrap_or_else(|error| unreachable!("a positive length scale: {error}")),
                    noise_variance: 1.0,
                },
                standardize: false,
                repeats: Repeats::Overwritten,
                learning: None,
            },
            ucb: Ucb {
                width: UcbWidth::Logarithmic { factor: 0.5, dim: CountedDim::OwnInExpectations },
                with_noise: true,
            },
            search: Search::for_game(game, player),
        }
    }

    /// Returns the settings of the authors' code for adversarial learning (appendix E.6.2): one
    /// length scale per coordinate, fitted by likelihood without a prior after every 10 payoffs;
    /// random search; DIRECT; d counts the player's own coordinates.
    pub fn as_in_authors_adversarial_code(game: &Game, player: usize) -> Self {
        let mut basics = Self::as_in_authors_code(game, player);
        let kernel = Kernel::isotropic(Family::SquaredExponential, game.dim(), 0.05, 1.0);
        basics.level0_strategy = Level0Strategy::RandomSearch;
        basics.payoff_model.hyperparameters.kernel =
            kernel.unwrap_or_else(|error| unreachable!("a positive length scale: {error}"));
        basics.payoff_model.learning = Some(Learning {
            every: 10,
            options: FitOptions {
                criterion: FitCriterion::MaximumLikelihood,
                n_restarts: 9,
                ..FitOptions::default()
            },
            seed: 0,
        });
        basics.ucb.width = UcbWidth::Logarithmic { factor: 0.5, dim: CountedDim::Own };
        basics.search = Search::Direct(Direct::default());
        basics
    }
}

impl Search {
    /// Evaluates 64 points per dimension, climbs from 8 of them, and refines 2. The numbers are
    /// small because an expectation over samples needs hundreds of predictions per point.
    pub fn for_game(game: &Game, player: usize) -> Self {
        let dim = game.action_set(player).dim();
        Self::MultiStart(MultiStart {
            n_starts: dim.saturating_mul(64).clamp(128, 512),
            n_candidates: 8,
            n_refine: 2,
            ..MultiStart::for_dim(dim)
        })
    }
}

impl Reasoner {
    /// Maximum number of reasoners in a tree of beliefs.
    pub const MOST: usize = 1024;
    /// Maximum level. People rarely reason above level 2 (Camerer et al. 2004).
    pub const MOST_LEVEL: usize = 64;

    /// Creates a reasoner at level 0.
    pub fn level0(basics: PlayerSettings) -> Self {
        Self { basics, reasoning: Reasoning::Level0 }
    }

    /// Creates a reasoner that best-responds to these beliefs.
    pub fn responding(
        basics: PlayerSettings,
        beliefs: Vec<Belief>,
        expectation: Expectation,
    ) -> Self {
        Self { basics, reasoning: Reasoning::BestResponse { beliefs, expectation } }
    }

    /// Creates a reasoner at `level` among two or more players. The reasoner believes that all
    /// others reason one level lower and hold the same kind of belief about all others, down to
    /// level 0. `basics[i]` are the settings of player i. The tree has (n − 1)^k reasoners at level
    /// 0.
    ///
    /// # Errors
    /// If the tree exceeds [`Reasoner::MOST`], or the level is above [`Reasoner::MOST_LEVEL`].
    pub fn at_level(
        player: usize,
        level: usize,
        basics: &[PlayerSettings],
        expectation: Expectation,
    ) -> Result<Self, GameError> {
        let lower = vec![level.saturating_sub(1); basics.len()];
        Self::among(player, level, &lower, basics, expectation)
    }

    /// Creates a reasoner at `level` among others at these `levels` (its own entry is ignored),
    /// each with the beliefs of [`Reasoner::at_level`]. For level 2 this is (E.3), with others at
    /// level 0 and at level 1.
    ///
    /// # Errors
    /// As for [`Reasoner::at_level`].
    pub fn among(
        player: usize,
        level: usize,
        levels: &[usize],
        basics: &[PlayerSettings],
        expectation: Expectation,
    ) -> Result<Self, GameError> {
        let too_many = GameError::TooManyBeliefs { most: Self::MOST };
        let n_others = basics.len().saturating_sub(1).max(1);
        let size = |level: usize| n_others.checked_pow(u32::try_from(level).unwrap_or(u32::MAX));
        let others = (0..basics.len()).filter(|other| *other != player);
        let sizes = others.clone().map(|other| size(levels[other]).unwrap_or(usize::MAX));
        let deepest = others.clone().map(|other| levels[other]).max().unwrap_or(0);
        if level.max(deepest) > Self::MOST_LEVEL {
            return Err(Self::level_too_high(level.max(deepest)));
        }
        if level > 0 && sizes.fold(deepest, usize::saturating_add) > Self::MOST {
            return Err(too_many);
        }
        let own = basics[player].clone();
        if level == 0 {
            return Ok(Self::level0(own));
        }
        let beliefs = others.map(|other| {
            let reasoner = Self::at_level(other, levels[other], basics, expectation)?;
            Ok(Belief { player: other, reasoner })
        });
        let beliefs: Result<Vec<Belief>, GameError> = beliefs.collect();
        Ok(Self::responding(own, beliefs?, expectation))
    }

    fn level_too_high(level: usize) -> GameError {
        GameError::Setting {
            name: "reasoning_level",
            value: level.to_string(),
            expected: "at most 64",
        }
    }

    /// Returns the level k: 0, or one more than the highest level among the beliefs.
    pub fn level(&self) -> usize {
        match &self.reasoning {
            Reasoning::Level0 => 0,
            Reasoning::BestResponse { beliefs, .. } => {
                let levels = beliefs.iter().map(|belief| belief.reasoner.level());
                1 + levels.max().unwrap_or(0)
            }
        }
    }

    /// Validates a tree of beliefs.
    pub(crate) fn validate(&self, game: &Game, player: usize) -> Result<(), GameError> {
        self.validate_from(game, player, 0, Self::MOST).map(|_| ())
    }

    /// Returns the number of reasoners in the subtree at this depth, at most `most`.
    fn validate_from(
        &self,
        game: &Game,
        player: usize,
        depth: usize,
        most: usize,
    ) -> Result<usize, GameError> {
        if most == 0 {
            return Err(GameError::TooManyBeliefs { most: Self::MOST });
        }
        if depth > Self::MOST_LEVEL {
            return Err(Self::level_too_high(depth));
        }
        self.basics.ucb.validate(game, player)?;
        let Reasoning::BestResponse { beliefs, expectation } = &self.reasoning else {
            return Ok(1);
        };
        if *expectation == Expectation::Samples(0) {
            return Err(GameError::Setting {
                name: "samples",
                value: "0".into(),
                expected: "at least 1",
            });
        }
        let mut times = vec![0_usize; game.n_players()];
        for belief in beliefs {
            if belief.player >= game.n_players() {
                return Err(GameError::Beliefs { player, other: belief.player });
            }
            times[belief.player] += 1;
        }
        let expected = |other: usize| usize::from(other != player);
        if let Some(other) = (0..times.len()).find(|other| times[*other] != expected(*other)) {
            return Err(GameError::Beliefs { player, other });
        }
        let mut n = 1;
        for belief in beliefs {
            let left = most - n.min(most);
            n += belief.reasoner.validate_from(game, belief.player, depth + 1, left)?;
        }
        Ok(n)
    }
}
