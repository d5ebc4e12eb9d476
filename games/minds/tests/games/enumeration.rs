//! Small finite games, solved by enumeration of all joint actions. The posterior uses dense
//! Gaussian elimination. It shares no recursion with the code under test, and keeps no state
//! between rounds.

use fedbo_games::{
    Action, ActionSet, CountedDim, Game, GpMwSettings, History, Level0Strategy, MwRate,
    PayoffModelSettings, PlayerSettings, Repeats, Round, Search, Ucb, UcbWidth,
};
use fedbo_gp::{Family, Hyperparameters, Kernel};
use fedbo_optim::Points;
use fedbo_streams::Stream;
use fedbo_testkit::{dense, test_stream};

/// A game on equally spaced actions with two initial rounds, and its players' settings.
pub(crate) struct World {
    pub(crate) game: Game,
    pub(crate) sizes: Vec<usize>,
    pub(crate) basics: Vec<PlayerSettings>,
    pub(crate) history: History,
}

/// Player settings: an anisotropic squared exponential kernel, large noise, and different widths
/// for expectations and responses.
pub(crate) fn basics(game: &Game, player: usize, standardize: bool) -> PlayerSettings {
    let shift = 0.1 * f64::from(u8::try_from(player).unwrap());
    let lengthscales =
        (0..game.dim()).map(|j| 0.2 + shift + 0.05 * f64::from(u8::try_from(j).unwrap()));
    let kernel = Kernel::new(Family::SquaredExponential, lengthscales.collect(), 1.0 + shift);
    PlayerSettings {
        level0_strategy: Level0Strategy::GpMw(GpMwSettings {
            mw_rate: MwRate::Given(0.7),
            payoff_bounds: Some((-1.5, 1.5)),
        }),
        payoff_model: PayoffModelSettings {
            hyperparameters: Hyperparameters {
                kernel: kernel.unwrap(),
                noise_variance: 0.02 + shift,
            },
            standardize,
            repeats: Repeats::Kept,
            learning: None,
        },
        ucb: Ucb::new(UcbWidth::Logarithmic { factor: 0.4, dim: CountedDim::OwnInExpectations }),
        search: Search::for_game(game, player),
    }
}

impl World {
    /// Creates a world with `n_rounds` rounds of random play, including the initial rounds.
    pub(crate) fn new(sizes: &[usize], n_rounds: usize, standardize: bool, seed: u64) -> Self {
        let sets = sizes.iter().map(|n| ActionSet::grid(*n)).collect();
        let game = Game::new(sets, 2).unwrap();
        let mut world = Self {
            basics: (0..sizes.len()).map(|p| basics(&game, p, standardize)).collect(),
            game,
            sizes: sizes.to_vec(),
            history: History::new(),
        };
        let mut stream = test_stream(seed);
        let slopes = stream.normals(3 * sizes.len());
        for _ in 0..n_rounds {
            world.play_at_random(&slopes, &mut stream);
        }
        world
    }

    fn play_at_random(&mut self, slopes: &[f64], stream: &mut Stream) {
        let actions: Vec<usize> = self.sizes.iter().map(|n| stream.below(*n)).collect();
        let x = self.point(&actions);
        let payoffs = (0..self.sizes.len()).map(|player| {
            let angle: f64 = x.iter().zip(&slopes[player..]).map(|(x, s)| 4.0 * s * x).sum();
            Some((angle + slopes[2 * player]).sin() + 0.05 * stream.normal())
        });
        let round = Round {
            payoffs: payoffs.collect(),
            actions: actions.into_iter().map(Action::Index).collect(),
        };
        self.history.push(&self.game, round).unwrap();
    }

    fn point(&self, actions: &[usize]) -> Vec<f64> {
        let share = |(a, n): (&usize, &usize)| {
            f64::from(u32::try_from(*a).unwrap()) / f64::from(u32::try_from(n - 1).unwrap())
        };
        actions.iter().zip(&self.sizes).map(share).collect()
    }

    /// Returns all joint actions.
    pub(crate) fn joints(&self) -> Vec<Vec<usize>> {
        let mut joints = vec![vec![]];
        for size in &self.sizes {
            let longer = joints.iter().flat_map(|joint: &Vec<usize>| {
                (0..*size).map(|action| [joint.as_slice(), &[action]].concat())
            });
            joints = longer.collect();
        }
        joints
    }

    /// Returns the bound of a player's payoff at each joint action after `n_rounds` rounds.
    pub(crate) fn bounds(
        &self,
        player: usize,
        basics: &PlayerSettings,
        n_rounds: usize,
        of_expectation: bool,
    ) -> Vec<f64> {
        let (mut inputs, mut y) = (Points::new(self.sizes.len()), Vec::new());
        for round in &self.history.rounds()[..n_rounds] {
            if let Some(payoff) = round.payoffs[player] {
                inputs.push(&self.game.joint(&round.actions).unwrap());
                y.push(payoff);
            }
        }
        let n = f64::from(u32::try_from(y.len()).unwrap());
        let (mut level, mut scale) = (0.0, 1.0);
        if basics.payoff_model.standardize {
            level = y.iter().sum::<f64>() / n;
            let square = y.iter().map(|v| (v - level).powi(2)).sum::<f64>() / n;
            let largest = y.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            scale = if square > 1e-20 { square.sqrt() } else { largest };
        }
        let y: Vec<f64> = y.iter().map(|v| (v - level) / scale).collect();
        let joints = self.joints();
        let at = Points::from_rows(self.sizes.len(), joints.iter().map(|joint| self.point(joint)));
        let Hyperparameters { kernel, noise_variance } = &basics.payoff_model.hyperparameters;
        let (mean, covariance) = dense::posterior(kernel, *noise_variance, &inputs, &y, &at);
        let extra = if basics.ucb.with_noise { *noise_variance } else { 0.0 };
        // t is the iteration of the next round, after two initial rounds. d counts one coordinate
        // per player.
        let t = f64::from(u32::try_from(n_rounds.max(2) - 1).unwrap());
        let d =
            if of_expectation { 1.0 } else { f64::from(u32::try_from(self.sizes.len()).unwrap()) };
        let width = match basics.ucb.width {
            UcbWidth::Logarithmic { factor, .. } => (factor * d * (2.0 * t).ln()).sqrt(),
            UcbWidth::Constant(width) => width,
            UcbWidth::Theorem { .. } => unreachable!("not in these games"),
        };
        let bound = |i: usize| {
            level + scale * (mean[i] + width * (covariance.at(i, i).max(0.0) + extra).sqrt())
        };
        (0..joints.len()).map(bound).collect()
    }

    /// Returns the distribution of GP-MW: the product of exp(0.7 u) over the rounds, normalized at
    /// the end.
    pub(crate) fn gp_mw(&self, player: usize, basics: &PlayerSettings) -> Vec<f64> {
        let joints = self.joints();
        let mut weights = vec![1.0; self.sizes[player]];
        for (index, round) in self.history.rounds().iter().enumerate() {
            let bounds = self.bounds(player, basics, index + 1, false);
            for (joint, bound) in joints.iter().zip(bounds) {
                let others_as_played = (0..self.sizes.len())
                    .all(|p| p == player || Action::Index(joint[p]) == round.actions[p]);
                if others_as_played {
                    weights[joint[player]] *= (0.7 * ((bound + 1.5) / 3.0).clamp(0.0, 1.0)).exp();
                }
            }
        }
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    /// Returns the expected bound of each of the player's actions if the others follow these
    /// distributions. The player's own distribution is ignored.
    pub(crate) fn expected(
        &self,
        player: usize,
        basics: &PlayerSettings,
        laws: &[Vec<f64>],
    ) -> Vec<f64> {
        let sure = |law: &Vec<f64>| law.iter().filter(|p| **p > 0.0).count() == 1;
        let of_expectation = (0..laws.len()).any(|p| p != player && !sure(&laws[p]));
        let bounds = self.bounds(player, basics, self.history.len(), of_expectation);
        let mut expected = vec![0.0; self.sizes[player]];
        for (joint, bound) in self.joints().iter().zip(bounds) {
            let others = (0..laws.len()).filter(|p| *p != player);
            let weight: f64 = others.map(|p| laws[p][joint[p]]).product();
            expected[joint[player]] += weight * bound;
        }
        expected
    }

    /// Returns the best response as a distribution.
    pub(crate) fn response(
        &self,
        player: usize,
        basics: &PlayerSettings,
        laws: &[Vec<f64>],
    ) -> Vec<f64> {
        let expected = self.expected(player, basics, laws);
        let mut best = 0;
        for (action, value) in expected.iter().enumerate() {
            if *value > expected[best] {
                best = action;
            }
        }
        self.sure(player, best)
    }

    /// Returns the distribution concentrated on one action.
    pub(crate) fn sure(&self, player: usize, action: usize) -> Vec<f64> {
        (0..self.sizes[player]).map(|a| if a == action { 1.0 } else { 0.0 }).collect()
    }

    /// Returns the distribution of a player's actions at a level if every player believes that all
    /// others are one level lower.
    pub(crate) fn at_level(&self, player: usize, level: usize) -> Vec<f64> {
        self.among(player, level, &vec![level.saturating_sub(1); self.sizes.len()])
    }

    /// Returns the distribution of a player's actions among others at these levels.
    pub(crate) fn among(&self, player: usize, level: usize, levels: &[usize]) -> Vec<f64> {
        if level == 0 {
            return self.gp_mw(player, &self.basics[player]);
        }
        let laws = (0..self.sizes.len()).map(|other| {
            if other == player { Vec::new() } else { self.at_level(other, levels[other]) }
        });
        let laws: Vec<Vec<f64>> = laws.collect();
        self.response(player, &self.basics[player], &laws)
    }
}

/// Returns the only action with positive probability.
pub(crate) fn only(law: &[f64]) -> Action {
    let place = law.iter().position(|p| *p > 0.5).unwrap();
    assert!((law[place] - 1.0).abs() < 1e-12);
    Action::Index(place)
}
