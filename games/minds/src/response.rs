//! Best responses: a player's own action with the largest expected bound, given the possible
//! actions of the others.

use std::ops::Range;

use fedbo_gp::Predictor;
use fedbo_optim::{Function, Points, best};
use fedbo_streams::Stream;

use crate::payoff_model::PayoffModel;
use crate::{Action, ActionSet, Game, GameError, Search, Ucb};

/// Maximum number of the others' joint actions that are enumerated.
const MOST_ATOMS: usize = 1 << 18;

/// Number of joint actions for which bounds are computed in one batch.
const BLOCK: usize = 4096;

/// One joint action of the others, with its probability.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub(crate) weight: f64,
    /// The D coordinates of a joint action. The player's own coordinates are filled in later.
    joint: Vec<f64>,
    /// The others' contribution to the joint action's number, if all sets are finite.
    number: usize,
}

impl Atom {
    fn empty(game: &Game) -> Self {
        Self { weight: 1.0, joint: vec![0.0; game.dim()], number: 0 }
    }

    /// Adds one more player's action, with its probability.
    fn with(
        &self,
        game: &Game,
        player: usize,
        action: &Action,
        probability: f64,
    ) -> Result<Self, GameError> {
        let point = game.action_set(player).point(action);
        let point = point.ok_or(GameError::NoLaw { player })?;
        let mut atom = self.clone();
        atom.joint[game.coordinates(player)].copy_from_slice(point);
        atom.weight *= probability;
        if let Action::Index(index) = action {
            atom.number += index * game.stride(player);
        }
        Ok(atom)
    }
}

/// Returns all joint actions of independent players with their probabilities, except those with
/// probability 0.
pub(crate) fn product(
    game: &Game,
    laws: &[(usize, Vec<(Action, f64)>)],
) -> Result<Vec<Atom>, GameError> {
    let mut found = 1_usize;
    for (player, law) in laws {
        let size = law.iter().filter(|(_, p)| *p > 0.0).count();
        if size == 0 {
            return Err(GameError::NoLaw { player: *player }); // weights may overflow
        }
        found = found.saturating_mul(size);
    }
    if found > MOST_ATOMS {
        return Err(GameError::TooManyJointActions { found, most: MOST_ATOMS });
    }
    let mut atoms = vec![Atom::empty(game)];
    for (player, law) in laws {
        let mut extended = Vec::with_capacity(atoms.len() * law.len());
        for atom in &atoms {
            for (action, probability) in law.iter().filter(|(_, p)| *p > 0.0) {
                extended.push(atom.with(game, *player, action, *probability)?);
            }
        }
        atoms = extended;
    }
    Ok(atoms)
}

/// A best response.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    pub(crate) action: Action,
    /// The expected bound of the action.
    pub(crate) score: f64,
    /// The bounds of all own actions, if the set is finite.
    pub(crate) scores: Option<Vec<f64>>,
}

/// Returns argmax_{x_i} Σ_a w_a α(x_i, a) ((8.3), (8.4), (8.8), (E.1) to (E.3)), the first
/// maximizer if there are several.
///
/// Cost for K own actions, m atoms and n rounds: O(K m n) if the bounds of all joint actions are
/// cached, otherwise O(K m n²); for a continuous set, O(m n²) per search point.
pub(crate) fn best_response(
    game: &Game,
    model: &mut PayoffModel,
    search: &Search,
    atoms: &[Atom],
    (ucb, factor): (&Ucb, f64),
    stream: &mut Stream,
) -> Result<Best, GameError> {
    let player = model.player();
    match game.action_set(player) {
        ActionSet::Finite(own) => {
            let scores = scores(game, model, own, atoms, ucb, factor);
            let index = best(&scores)?;
            Ok(Best { action: Action::Index(index), score: scores[index], scores: Some(scores) })
        }
        ActionSet::Continuous { dim } => {
            let (level, scale) = model.level_and_scale();
            let function = ExpectedBound {
                predictor: &model.posterior().predictor(),
                own: game.coordinates(player),
                atoms,
                factor,
                noise: model.noise_of(ucb),
            };
            let (x, value) = match search {
                Search::MultiStart(search) => {
                    let maxima = search.maximize(&function, stream.bits(), &Points::new(*dim))?;
                    (maxima.best().x.clone(), maxima.best().value)
                }
                Search::Direct(search) => {
                    let maximum = search.maximize(&function)?;
                    (maximum.x, maximum.value)
                }
            };
            let weight: f64 = atoms.iter().map(|atom| atom.weight).sum();
            Ok(Best {
                action: Action::Point(x),
                score: weight * level + scale * value,
                scores: None,
            })
        }
    }
}

fn scores(
    game: &Game,
    model: &mut PayoffModel,
    own: &Points,
    atoms: &[Atom],
    ucb: &Ucb,
    factor: f64,
) -> Vec<f64> {
    let player = model.player();
    let mut scores = vec![0.0; own.len()];
    // Updating the cache costs n per joint action of the game. Recomputing the bounds costs n²/2
    // per relevant joint action.
    let anew = own.len() * atoms.len() * model.posterior().len() / 2;
    if game.n_joint().is_some_and(|n_joint| anew > n_joint)
        && let Some(bounds) = model.grid_bounds(game, ucb, factor)
    {
        let stride = game.stride(player);
        for atom in atoms {
            for (action, score) in scores.iter_mut().enumerate() {
                *score += atom.weight * bounds[atom.number + action * stride];
            }
        }
        return scores;
    }
    for block in atoms.chunks((BLOCK / own.len()).max(1)) {
        let mut cells = Points::new(game.dim());
        for atom in block {
            let mut joint = atom.joint.clone();
            for x in own.rows() {
                joint[game.coordinates(player)].copy_from_slice(x);
                cells.push(&joint);
            }
        }
        let bounds = model.bounds(&cells, ucb, factor);
        for (atom, bounds) in block.iter().zip(bounds.chunks_exact(own.len())) {
            for (score, bound) in scores.iter_mut().zip(bounds) {
                *score += atom.weight * bound;
            }
        }
    }
    scores
}

/// Σ_a w_a (μ(x, a) + β^{1/2} σ(x, a)) of an own action x, in the units of the process.
struct ExpectedBound<'a> {
    predictor: &'a Predictor<'a>,
    own: Range<usize>,
    atoms: &'a [Atom],
    factor: f64,
    noise: f64,
}

impl Function for ExpectedBound<'_> {
    fn dim(&self) -> usize {
        self.own.len()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let posterior = self.predictor.posterior();
        let mut values = Vec::with_capacity(points.len());
        for x in points.rows() {
            let mut cells = Points::new(posterior.kernel().dim());
            for atom in self.atoms {
                let mut joint = atom.joint.clone();
                joint[self.own.clone()].copy_from_slice(x);
                cells.push(&joint);
            }
            let (mut value, mut atoms) = (0.0, self.atoms.iter());
            posterior.predict_each(&cells, |mean, variance, _| {
                let weight = atoms.next().map_or(0.0, |atom| atom.weight);
                value += weight * (mean + self.factor * (variance + self.noise).sqrt());
            });
            values.push(value);
        }
        values
    }

    /// The gradient is Σ_a w_a (∇μ + β^{1/2} ∇σ²/(2σ)), where ∇σ² = −2 v·∇v. The term with ∇σ² is 0
    /// if σ² is lost to rounding.
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        let mut of_joint = vec![0.0; self.predictor.posterior().kernel().dim()];
        for atom in self.atoms {
            let mut joint = atom.joint.clone();
            joint[self.own.clone()].copy_from_slice(point);
            let found = self.predictor.predict(&joint);
            let std = (found.variance() + self.noise).sqrt();
            let slope = if found.variance() > 0.0 { -self.factor / std } else { 0.0 };
            let weights = found.whitened().iter().map(|v| slope * v).collect();
            found.gradient(1.0, weights, &mut of_joint);
            value += atom.weight * (found.mean() + self.factor * std);
            for (g, v) in gradient.iter_mut().zip(&of_joint[self.own.clone()]) {
                *g += atom.weight * v;
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel, Posterior};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    /// Gradients agree with central differences (step 1e-6), with and without noise in the standard
    /// deviation. Values agree with those computed in a batch.
    #[test]
    fn slopes_of_an_expected_bound_agree_with_differences() {
        let game =
            Game::new(vec![ActionSet::Continuous { dim: 1 }, ActionSet::Continuous { dim: 2 }], 0);
        let game = game.unwrap();
        let kernel = Kernel::new(Family::Matern52, vec![0.3, 0.5, 0.4], 1.2).unwrap();
        let inputs = uniform_points(15, 3, &mut test_stream(1));
        let y = inputs.rows().map(|x| x[0] - x[1] * x[2]).collect();
        let posterior = Posterior::new(kernel, 1e-3, inputs, y).unwrap();
        let mut atoms = Vec::new();
        for (action, weight) in [(0.2, 0.5), (0.7, 0.3), (0.9, 0.2)] {
            let atom = Atom::empty(&game).with(&game, 0, &Action::Point(vec![action]), weight);
            atoms.push(atom.unwrap());
        }
        for noise in [0.0, 0.5] {
            let function = ExpectedBound {
                predictor: &posterior.predictor(),
                own: game.coordinates(1),
                atoms: &atoms,
                factor: 1.7,
                noise,
            };
            let points = uniform_points(6, 2, &mut test_stream(2));
            let values = function.values(&points);
            for (x, value) in points.rows().zip(values) {
                let mut gradient = [0.0; 2];
                assert!((function.value_gradient(x, &mut gradient) - value).abs() < 1e-10);
                for j in 0..2 {
                    let moved = |step: f64| {
                        let mut near = x.to_vec();
                        near[j] += step;
                        function.values(&Points::from_flat(2, near))[0]
                    };
                    let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    assert!((gradient[j] - slope).abs() < 1e-5, "{gradient:?} {slope}");
                }
            }
        }
    }

    /// Recomputed bounds, cached bounds, and bounds that exceed the cache are bitwise equal.
    #[test]
    fn kept_and_recomputed_scores_are_the_same() {
        use crate::{Level0Strategy, PlayerSettings};
        let game =
            Game::new(vec![ActionSet::grid(9), ActionSet::grid(7), ActionSet::grid(4)], 0).unwrap();
        let mut basics = PlayerSettings::as_in_authors_code(&game, 1);
        basics.level0_strategy = Level0Strategy::RandomSearch;
        basics.payoff_model.hyperparameters.noise_variance = 1e-4;
        let mut model = PayoffModel::new(&game, 1, basics.payoff_model.clone()).unwrap();
        let mut stream = test_stream(3);
        for _ in 0..25 {
            let actions = [9, 7, 4].map(|n| Action::Index(stream.below(n)));
            model.observe(&game.joint(&actions).unwrap(), stream.normal()).unwrap();
        }
        let law =
            |n: usize| (0..n).map(|i| (Action::Index(i), 1.0 / crate::error::count(n))).collect();
        let atoms = product(&game, &[(0, law(9)), (2, law(4))]).unwrap();
        assert_eq!(atoms.len(), 36);
        let ActionSet::Finite(own) = game.action_set(1) else { unreachable!() };
        let all = scores(&game, &mut model, own, &atoms, &basics.ucb, 1.3);
        assert!(model.grid_bounds(&game, &basics.ucb, 1.3).is_some());
        let mut parts = vec![0.0; 7];
        for atom in &atoms {
            let of_atom =
                scores(&game, &mut model, own, std::slice::from_ref(atom), &basics.ucb, 1.3);
            parts.iter_mut().zip(of_atom).for_each(|(sum, score)| *sum += score);
        }
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&all), bits(&parts));
    }

    /// Overflowed weights are an error and do not select the first action. Too many joint actions
    /// are also an error.
    #[test]
    fn laws_that_give_nothing_are_refused() {
        let sets = vec![ActionSet::grid(2), ActionSet::grid(600), ActionSet::grid(600)];
        let game = Game::new(sets, 0).unwrap();
        let law = |p: f64, n| (0..n).map(|i| (Action::Index(i), p)).collect::<Vec<_>>();
        let of = |p| product(&game, &[(1, law(p, 600))]).map(|atoms| atoms.len());
        assert_eq!(of(1.0 / 600.0), Ok(600));
        assert_eq!(of(f64::NAN), Err(GameError::NoLaw { player: 1 }));
        let all =
            product(&game, &[(1, law(0.1, 600)), (2, law(0.1, 600))]).map(|atoms| atoms.len());
        assert!(matches!(all, Err(GameError::TooManyJointActions { found: 360_000, .. })));
    }
}
