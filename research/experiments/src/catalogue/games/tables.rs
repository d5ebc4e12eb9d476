//! Games on a grid with payoff tables: the authors' own, and draws from a Gaussian process.

use fedbo_games::{Action, ActionSet, Game, PayoffTable};
use fedbo_gp::linalg::SpdFactor;
use fedbo_gp::{Family, Kernel};
use fedbo_optim::Points;
pub(super) use fedbo_research_problems::{N_GAMES, N_GRID_ACTIONS as N_ACTIONS};
use fedbo_streams::{Purpose, Seed, Stream};

use super::{GameProblem, Played};

/// Length scale of the process from which payoffs are drawn.
pub(super) const LENGTHSCALE: f64 = 0.1;
/// Standard deviation of the observation noise.
pub(super) const NOISE_STD: f64 = 1e-4;

/// A game with one table per player.
pub(super) struct TableGame {
    game: Game,
    tables: Vec<PayoffTable>,
    noise_std: f64,
}

impl TableGame {
    /// Creates a game with one player per payoff table, `n_actions` actions each, `n_initial`
    /// initial rounds, and Gaussian noise on the players' observations.
    ///
    /// # Errors
    /// If there are fewer than two players, or a table's size differs from the number of joint
    /// actions.
    pub(super) fn new(
        payoffs: Vec<Values>,
        n_actions: usize,
        n_initial: usize,
        noise_std: f64,
    ) -> anyhow::Result<Self> {
        let sizes = vec![n_actions; payoffs.len()];
        let sets = sizes.iter().map(|n| ActionSet::grid(*n)).collect();
        let tables = payoffs.into_iter();
        let tables = tables.map(|values| PayoffTable::new(sizes.clone(), values));
        Ok(Self {
            game: Game::new(sets, n_initial)?,
            tables: tables.collect::<Result<_, _>>()?,
            noise_std,
        })
    }
}

impl GameProblem for TableGame {
    fn game(&self) -> &Game {
        &self.game
    }

    fn play(&self, actions: &[Action], seed: Seed, round: usize) -> anyhow::Result<Played> {
        let indices = indices(actions)?;
        let payoffs: Vec<f64> = self.tables.iter().map(|table| table.value(&indices)).collect();
        let noisy = (0_u64..).zip(&payoffs).map(|(player, payoff)| {
            let mut stream = seed.stream(Purpose::OBSERVATION_NOISE, player, round as u64);
            Some(payoff + self.noise_std * stream.normal())
        });
        Ok(Played { observed: noisy.collect(), payoffs, cells: Vec::new() })
    }

    fn largest(&self, player: usize) -> Option<f64> {
        Some(self.tables[player].largest())
    }

    fn table(&self, player: usize) -> Option<&PayoffTable> {
        self.tables.get(player)
    }
}

/// Returns a joint action as indices.
///
/// # Errors
/// If an action is not an index.
pub(super) fn indices(actions: &[Action]) -> anyhow::Result<Vec<usize>> {
    let index = |action: &Action| match action {
        Action::Index(index) => Ok(*index),
        Action::Point(_) => anyhow::bail!("an action that is not an index"),
    };
    actions.iter().map(index).collect()
}

/// The relation between the payoffs of two agents (thesis section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Both get f_1.
    Common,
    /// Agent 1 gets f_1, agent 2 gets f_2.
    General,
    /// Agent 1 gets f_1, agent 2 gets 1 − f_1.
    Constant,
}

impl Kind {
    /// All kinds in the order of Fig. 8.2.
    pub(super) const ALL: [Self; 3] = [Self::Common, Self::General, Self::Constant];

    /// Returns the name used in the thesis.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Common => "common-payoff",
            Self::General => "general-sum",
            Self::Constant => "constant-sum",
        }
    }

    /// Returns the payoffs of a game of this kind, from f_1 and f_2.
    pub(super) fn payoffs(self, pair: &[Values; 2]) -> Vec<Values> {
        let [first, second] = pair.clone();
        let second = match self {
            Self::Common => first.clone(),
            Self::General => second,
            Self::Constant => opposite(&first),
        };
        vec![first, second]
    }
}

/// A function's values at all joint actions. The last agent's index varies fastest.
pub(super) type Values = Vec<f64>;

/// Returns 1 − f.
pub(super) fn opposite(values: &Values) -> Values {
    values.iter().map(|value| 1.0 - value).collect()
}

/// Functions on a grid of [0, 1]^M with n points per coordinate, drawn from a zero-mean process
/// with the squared exponential kernel.
///
/// K = ⊗_i K_1, so f = (⊗_i L_1) z with K_1 + jitter·I = L_1 L_1ᵀ. Cost: O(M n^{M+1}) per draw.
pub(super) struct GridDraws {
    factor: SpdFactor,
    n_players: usize,
}

impl GridDraws {
    /// Creates the process with this number of points per coordinate.
    ///
    /// # Errors
    /// If the covariance cannot be factorized.
    pub(super) fn new(n_actions: usize, n_players: usize) -> anyhow::Result<Self> {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, LENGTHSCALE, 1.0)?;
        let last = (n_actions - 1) as f64;
        let points = (0..n_actions).map(|i| i as f64 / last).collect();
        let gram = kernel.gram(&Points::from_flat(1, points));
        Ok(Self { factor: SpdFactor::new(&gram)?, n_players })
    }

    /// Returns one draw, in which the last coordinate varies fastest.
    pub(super) fn draw(&self, stream: &mut Stream) -> Values {
        let n_players = u32::try_from(self.n_players).unwrap_or(u32::MAX);
        let n_joint = self.factor.size().pow(n_players);
        self.multiply(stream.normals(n_joint))
    }

    /// Returns (⊗_i L_1) z.
    fn multiply(&self, z: Values) -> Values {
        let (n, n_joint) = (self.factor.size(), z.len());
        let mut values = z;
        // Each pass multiplies along the first coordinate and moves it to the end. After M passes
        // the order is restored.
        for _ in 0..self.n_players {
            let rest = n_joint / n;
            let mut turned = vec![0.0; n_joint];
            for place in 0..rest {
                let along: Vec<f64> = (0..n).map(|i| values[i * rest + place]).collect();
                let multiplied = self.factor.multiply_lower(&along);
                turned[place * n..(place + 1) * n].copy_from_slice(&multiplied);
            }
            values = turned;
        }
        values
    }

    /// Returns one draw, scaled to [0, 1] as in appendix E.6.1.1a.
    pub(super) fn unit(&self, stream: &mut Stream) -> Values {
        let drawn = self.draw(stream);
        let (low, high) = range(&drawn);
        drawn.iter().map(|f| (f - low) / (high - low)).collect()
    }
}

/// Returns the smallest and the largest value.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests {
    use fedbo_games::Action;

    use super::*;

    /// The images of the unit vectors are the columns of a matrix F with F Fᵀ = K, where K is the
    /// kernel matrix of points in the cube.
    #[test]
    fn draws_have_the_covariance_of_the_kernel() {
        for (n, n_players) in [(5_usize, 2_usize), (4, 3)] {
            let draws = GridDraws::new(n, n_players).unwrap();
            let n_joint = n.pow(u32::try_from(n_players).unwrap());
            let columns: Vec<Values> = (0..n_joint)
                .map(|place| {
                    let mut z = vec![0.0; n_joint];
                    z[place] = 1.0;
                    draws.multiply(z)
                })
                .collect();
            let place = |mut number: usize| {
                let mut x = vec![0.0; n_players];
                for coordinate in x.iter_mut().rev() {
                    *coordinate = (number % n) as f64 / (n - 1) as f64;
                    number /= n;
                }
                x
            };
            for a in 0..n_joint {
                for b in 0..n_joint {
                    let found: f64 = columns.iter().map(|column| column[a] * column[b]).sum();
                    let square: f64 =
                        place(a).iter().zip(place(b)).map(|(x, y)| (x - y).powi(2)).sum();
                    let kernel = (-0.5 * square / LENGTHSCALE.powi(2)).exp();
                    assert!((found - kernel).abs() < 1e-6, "{a}, {b}: {found}, {kernel}");
                }
            }
        }
    }

    #[test]
    fn kinds_of_game_hang_together_as_they_should() {
        let draws = GridDraws::new(7, 2).unwrap();
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        let pair = [draws.unit(&mut stream), draws.unit(&mut stream)];
        assert_eq!(range(&pair[0]), (0.0, 1.0));
        for kind in Kind::ALL {
            let game = TableGame::new(kind.payoffs(&pair), 7, 1, NOISE_STD).unwrap();
            let actions = [Action::Index(2), Action::Index(5)];
            let played = game.play(&actions, Seed::new(3), 4).unwrap();
            let [first, second] = played.payoffs[..] else { panic!("two payoffs") };
            assert!((first - pair[0][2 * 7 + 5]).abs() < 1e-15);
            let expected = match kind {
                Kind::Common => first,
                Kind::General => pair[1][2 * 7 + 5],
                Kind::Constant => 1.0 - first,
            };
            assert!((second - expected).abs() < 1e-15, "{}", kind.name());
            for (observed, payoff) in played.observed.iter().zip(&played.payoffs) {
                let noise = observed.unwrap() - payoff;
                assert!(noise.abs() < 6.0 * NOISE_STD && noise.abs() > 0.0);
            }
            // The noise is independent of the actions.
            let other = [Action::Index(0), Action::Index(0)];
            let other = game.play(&other, Seed::new(3), 4).unwrap();
            let noise = |played: &Played| played.observed[0].unwrap() - played.payoffs[0];
            assert!((noise(&played) - noise(&other)).abs() < 1e-15);
        }
    }

    /// `games.json` gives the position of the largest payoff. The row is the action of agent 1.
    #[test]
    #[ignore = "data: run by cargo xtask test --all"]
    fn the_authors_functions_are_read_with_agent_1_along_rows() {
        let data = fedbo_testkit::published_data("r2b2-synthetic");
        let pairs = fedbo_research_problems::read_payoff_functions(&data).unwrap();
        let text = std::fs::read_to_string(data.join("r2b2-synthetic/games.json")).unwrap();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(pairs.len(), N_GAMES);
        for (game, pair) in pairs.iter().enumerate() {
            for (values, name) in pair.iter().zip(["f1", "f2"]) {
                let about = &said["games"][game][name];
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                assert!((mean - about["mean"].as_f64().unwrap()).abs() < 1e-8);
                let place = |axis: usize| {
                    usize::try_from(about["argmax_ij"][axis].as_u64().unwrap()).unwrap()
                };
                let sizes = vec![N_ACTIONS, N_ACTIONS];
                let table = PayoffTable::new(sizes, values.clone()).unwrap();
                let there = table.value(&[place(0), place(1)]);
                assert!(there >= table.largest(), "game {game} {name}");
            }
        }
    }
}
