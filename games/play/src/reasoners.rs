//! Conversion of a definition's minds to reasoners.

use fedbo_games::{
    Belief, Exp3Rate, Exp3Settings, Expectation, Exploration, FeatureLaw, Game, GameError,
    GpMwSettings, Level0Strategy, MwRate, PlayerSettings, Reasoner, Ucb, UcbWidth,
};
use fedbo_gp::{Hyperparameters, Kernel};

use crate::{Level0Spec, MindSpec, ModelSpec, Reasoning};

/// Number of EXP3 features: twice that of the authors' code, which has an effective length scale of
/// 0.63.
const N_FEATURES: usize = 10;
/// Length scale of EXP3's features per coordinate of the unit cube.
const FEATURE_LENGTHSCALE: f64 = 0.3;

/// Creates the reasoner of a player.
pub(crate) fn reasoner(
    game: &Game,
    player: usize,
    mind: &MindSpec,
    seed: u64,
) -> Result<Reasoner, GameError> {
    let basics = basics(game, player, mind, seed)?;
    let Reasoning::Response { samples, believes } = &mind.reasoning else {
        return Ok(Reasoner::level0(basics));
    };
    let beliefs = believes.iter().map(|(other, mind)| {
        let reasoner = reasoner(game, *other, mind, seed)?;
        Ok(Belief { player: *other, reasoner })
    });
    let beliefs: Result<Vec<Belief>, GameError> = beliefs.collect();
    let expectation = match samples {
        0 => Expectation::Exact,
        1 => Expectation::Lite,
        n => Expectation::Samples(*n),
    };
    Ok(Reasoner::responding(basics, beliefs?, expectation))
}

fn basics(
    game: &Game,
    player: usize,
    mind: &MindSpec,
    seed: u64,
) -> Result<PlayerSettings, GameError> {
    let mut basics = PlayerSettings::for_game(game, player, (0.0, 1.0));
    basics.level0_strategy = level0(game, player, &mind.level0, seed);
    basics.ucb = Ucb::new(UcbWidth::Constant(mind.ucb_multiplier));
    set_model(game, &mut basics, &mind.model)?;
    Ok(basics)
}

fn level0(game: &Game, player: usize, spec: &Level0Spec, seed: u64) -> Level0Strategy {
    match spec {
        Level0Spec::Random => Level0Strategy::RandomSearch,
        Level0Spec::Fixed(weights) => Level0Strategy::Fixed(weights.clone()),
        Level0Spec::GpMw { range } => Level0Strategy::GpMw(GpMwSettings {
            mw_rate: MwRate::Anytime,
            payoff_bounds: Some(*range),
        }),
        Level0Spec::Exp3 { range } => Level0Strategy::Exp3(Exp3Settings {
            family: fedbo_gp::Family::SquaredExponential,
            lengthscales: vec![FEATURE_LENGTHSCALE; game.action_set(player).dim()],
            n_features: N_FEATURES,
            law: FeatureLaw::Kernel,
            seed,
            rate: Exp3Rate::Anytime,
            exploration: Exploration::OptimalDesign,
            payoff_bounds: Some(*range),
            stale_law: false,
        }),
    }
}

fn set_model(game: &Game, basics: &mut PlayerSettings, spec: &ModelSpec) -> Result<(), GameError> {
    let unknown = || GameError::Setting {
        name: "kernel",
        value: spec.kernel.clone(),
        expected: "one that this program knows",
    };
    let family = spec.family().ok_or_else(unknown)?;
    let model = &mut basics.payoff_model;
    model.standardize = spec.standardize;
    let before = &model.hyperparameters;
    let (lengthscales, outputscale, noise_variance) = match &spec.given {
        Some(given) => {
            model.learning = None;
            given.clone()
        }
        None => (
            before.kernel.lengthscales().to_vec(),
            before.kernel.outputscale(),
            before.noise_variance,
        ),
    };
    if lengthscales.len() != game.dim() {
        return Err(GameError::Count {
            what: "length scales of a payoff model",
            found: lengthscales.len(),
            expected: game.dim(),
        });
    }
    model.hyperparameters =
        Hyperparameters { kernel: Kernel::new(family, lengthscales, outputscale)?, noise_variance };
    Ok(())
}
