//! The agents' models of their payoffs, and their level-0 strategies.

use fedbo_games::{
    Exp3Settings, Game, GpMwSettings, Level0Strategy, MwRate, PlayerSettings, Repeats, Ucb,
    UcbWidth,
};
use fedbo_gp::{Family, Kernel};
use fedbo_streams::{Purpose, Seed};

use super::super::tables::{LENGTHSCALE, NOISE_STD};
use super::N_ROUNDS;

/// Divisor of the draws, so that payoffs are in [−½, ½]: 4.5 standard deviations on either side.
pub(super) const RANGE: f64 = 9.0;
/// Noise under the theorems' assumptions: a quarter of the payoffs' standard deviation of 1/9.
pub(super) const THEOREMS_NOISE_STD: f64 = 0.25 / RANGE;
/// δ of the theorems.
pub(super) const FAILURE_PROB: f64 = 0.1;

/// The agents' model of their payoffs. Kernel and length scale always match those from which
/// payoffs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// Noise variance 1, raw payoffs, and standard deviations that include the noise.
    Authors,
    /// Like [`Self::Authors`], with the true noise variance 1e-8.
    TrueNoise,
    /// The true noise, standardized payoffs, and standard deviations that exclude the noise.
    Standardized,
    /// Known hyperparameters, β_t of Theorem 8.1, and η for the number of rounds.
    Theorems,
}

impl Model {
    /// The models for the authors' games.
    pub(super) const ALL: [Self; 3] = [Self::Authors, Self::TrueNoise, Self::Standardized];

    /// Returns the name used in configurations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Authors => "authors' code",
            Self::TrueNoise => "true noise",
            Self::Standardized => "standardized",
            Self::Theorems => "theorems",
        }
    }

    /// Returns the settings of each player of a game: model and level-0 strategy. The features of
    /// EXP3 depend on the run's seed.
    pub(super) fn basics(self, game: &Game, level0: Level0, seed: Seed) -> Vec<PlayerSettings> {
        let of = |player| {
            let mut basics = PlayerSettings::as_in_authors_code(game, player);
            self.set(&mut basics, game);
            match level0 {
                Level0::GpMw => {}
                Level0::RandomSearch => basics.level0_strategy = Level0Strategy::RandomSearch,
                Level0::Exp3 => {
                    let mut stream = seed.stream(Purpose::SHARED_FEATURES, player as u64, 0);
                    let drawn = u64::from(stream.bits());
                    let dim = game.action_set(player).dim();
                    let settings = Exp3Settings::as_in_authors_code(LENGTHSCALE, dim, drawn);
                    basics.level0_strategy = Level0Strategy::Exp3(settings);
                }
            }
            basics
        };
        (0..game.n_players()).map(of).collect()
    }

    fn set(self, basics: &mut PlayerSettings, game: &Game) {
        let model = &mut basics.payoff_model;
        match self {
            Self::Authors => {}
            Self::TrueNoise => model.hyperparameters.noise_variance = NOISE_STD * NOISE_STD,
            Self::Standardized => {
                model.hyperparameters.noise_variance = NOISE_STD * NOISE_STD;
                model.standardize = true;
                basics.ucb.with_noise = false;
            }
            Self::Theorems => {
                let variance = RANGE.powi(-2);
                let family = Family::SquaredExponential;
                let kernel = Kernel::isotropic(family, game.dim(), LENGTHSCALE, variance);
                model.hyperparameters.kernel =
                    kernel.unwrap_or_else(|error| unreachable!("a positive variance: {error}"));
                model.hyperparameters.noise_variance = THEOREMS_NOISE_STD * THEOREMS_NOISE_STD;
                model.repeats = Repeats::Kept;
                basics.ucb = Ucb::new(UcbWidth::Theorem { failure_prob: FAILURE_PROB });
                basics.level0_strategy = Level0Strategy::GpMw(GpMwSettings {
                    mw_rate: MwRate::Horizon(N_ROUNDS),
                    payoff_bounds: Some((-0.5, 0.5)),
                });
            }
        }
    }
}

/// The agents' level-0 strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level0 {
    /// Multiplicative weights.
    GpMw,
    /// Random search.
    RandomSearch,
    /// As in the authors' code.
    Exp3,
}

impl Level0 {
    /// Returns the name used in configurations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GpMw => "GP-MW",
            Self::RandomSearch => "random search",
            Self::Exp3 => "EXP3",
        }
    }
}
