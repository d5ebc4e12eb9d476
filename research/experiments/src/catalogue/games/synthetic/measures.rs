//! Agent 1's external regret (thesis (8.1)), and the bounds on it.

use anyhow::Context as _;
use fedbo_games::{PayoffModel, RegretBound};

use super::super::play::Match;
use super::super::tables::indices;
use super::model::FAILURE_PROB;

/// R_{1,T}.
pub(super) const EXTERNAL: &str = "external regret";
/// Information gain about f_1 from the played actions.
pub(super) const GAIN: &str = "information gain";
/// Bound of Theorem 8.1 at level 0, and of Theorems 8.2 and 8.3 above.
pub(super) const BOUND: &str = "bound";

/// Returns R_{1,T}.
pub(super) fn external_regret(played: &Match<'_>) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let table = played.arena.table(0).context("payoffs that are not a table")?;
    let plays = played.after_initial();
    let plays: anyhow::Result<Vec<Vec<usize>>> =
        plays.map(|(round, _)| indices(&round.actions)).collect();
    Ok(vec![(EXTERNAL, table.external_regret(0, &plays?))])
}

/// Returns R_{1,T}, the information gain and the bound, for a game without initial rounds.
pub(super) fn regret_and_bound(played: &Match<'_>) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut found = external_regret(played)?;
    let (game, player) = (played.game(), &played.players[0]);
    let settings = player.reasoner().basics.payoff_model.clone();
    let known = settings.hyperparameters.clone();
    let mut model = PayoffModel::new(game, 0, settings)?;
    for round in played.history.rounds() {
        let joint = game.joint(&round.actions).context("no joint action")?;
        model.observe(&joint, round.payoffs[0].context("no payoff")?)?;
    }
    let bound = RegretBound {
        n_actions: game.action_set(0).n_actions().context("no finite set")?,
        n_rounds: played.after_initial().count(),
        failure_prob: FAILURE_PROB,
        noise_variance: known.noise_variance,
        outputscale: known.kernel.outputscale(),
        information_gain: model.information_gain(),
    };
    let value = match player.reasoner().level() {
        0 => bound.gp_mw(),
        _ => bound.reasoning(),
    };
    found.extend([(GAIN, bound.information_gain), (BOUND, value)]);
    Ok(found)
}
