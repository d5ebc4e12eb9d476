//! Two predators and a prey, each with its own policy: a three-player game (thesis sections 8.4.3
//! and E.6.3).

mod policy;
mod rewards;
mod world;

use fedbo_objective::Failure;
use fedbo_streams::{Purpose, Seed};

use policy::{N_PARAMETERS, Policy};
use rewards::{prey_is_outside, rewards};
use world::{N_AGENTS, World};

/// Number of steps in an episode.
const N_STEPS: usize = 50;
/// Number of episodes over which returns are averaged.
const N_EPISODES: u64 = 5;
/// Mean returns that map to the payoffs 0 and 1, for the two predators and the prey. Returns beyond
/// them are clipped. In 98 % of 2000 random triples of actions, predators get 0.8 to 34 and the
/// prey gets −652 to 15. A prey that stays inside gets up to 25.
const RETURN_RANGES: [[f64; 2]; N_AGENTS] = [[0.0, 50.0], [0.0, 50.0], [-200.0, 25.0]];

/// Policy search for two predators and a prey: payoffs in `[0, 1]`, which each player maximizes.
///
/// Players are predator 1, predator 2 and the prey. A player's action, in `[0,1]^d`, is mapped
/// linearly onto `[−1,1]^d`. It contains the parameters of a linear policy of rank one: u, with one
/// entry per number of the observation, followed by v, with five entries. In a step with
/// observation s, the player's five numbers are
///
/// a = (sᵀu) v,   push = c (a_2 − a_3, a_4 − a_5),   c = 3 for a predator, 4 for the prey
///
/// s contains the player's velocity and position, the two obstacles and the two other players
/// relative to itself, and for a predator also the prey's velocity: 14 numbers for a predator, 12
/// for the prey. Hence d is 19, 19 and 17, and all three players together have 55 dimensions. As in
/// the particle environment, the first of the five numbers has no effect, and none of them is
/// clipped. Only the speed is bounded, by 1 for predators and 1.3 for the prey.
///
/// An episode has 50 steps. Agents start at rest, uniformly distributed on `[−1,1]²`, among two
/// obstacles. With d_i the distance of predator i to the prey, the rewards of a step are as
/// follows. Both predators get the same reward.
///
/// - predators: Σ_i (0.1 max(2√2 − d_i, 0) + 10 if i touches the prey), or 0 when the prey is
///   outside `[−1,1]²`
/// - prey: Σ_i (0.1 d_i − 10 if i touches it), minus a penalty for each of |x| and |y|: 0 up to
///   0.9, ten times the excess from there to 1, and exp(2|x| − 2), at most 10, beyond 1
///
/// A payoff is the mean return of five episodes, clipped to [0, 50] for predators and [−200, 25]
/// for the prey, and mapped linearly onto [0, 1].
///
/// Reference: Lowe et al. 2017, the scenario "simple tag" with rewards for distance (its option
/// "shape"). Deviations: the thesis states that predators are rewarded for being close to the prey
/// "if the prey stays within the boundary", but gives neither the formula nor the clipping ranges
/// of returns. The scenario's own reward for closeness is −0.1 d, which is never above 0. With it,
/// a reward of 0 while the prey is outside would be an advantage, so this implementation measures
/// closeness from the diagonal of the square.
#[derive(Clone, Copy, Debug)]
pub struct PredatorPrey;

/// Outcome of three actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredatorPreyOutcome {
    /// Payoffs of predator 1, predator 2 and prey, in `[0, 1]`.
    pub payoffs: [f64; N_AGENTS],
    /// Mean returns of predator 1, predator 2 and prey, neither clipped nor scaled.
    pub returns: [f64; N_AGENTS],
    /// Share of all steps that end with the prey outside `[−1,1]²`.
    pub outside_share: f64,
}

impl PredatorPrey {
    /// Returns the dimensions of the actions of predator 1, predator 2 and the prey: 19, 19, 17.
    pub fn dims(&self) -> [usize; N_AGENTS] {
        N_PARAMETERS
    }

    /// Returns the payoffs of predator 1, predator 2 and the prey. See [`Self::play`].
    ///
    /// # Errors
    /// If there are not three actions, or an action is not in its player's `[0,1]^d`.
    pub fn payoffs(&self, actions: &[Vec<f64>], run: u64) -> Result<[f64; N_AGENTS], Failure> {
        Ok(self.play(actions, run)?.payoffs)
    }

    /// Plays five episodes with the players' actions, in the order predator 1, predator 2, prey.
    /// The initial states depend only on `run`.
    ///
    /// # Errors
    /// If there are not three actions, or an action is not in its player's `[0,1]^d`.
    pub fn play(&self, actions: &[Vec<f64>], run: u64) -> Result<PredatorPreyOutcome, Failure> {
        let bad = |message: String| Failure::BadPoint { message };
        let [first, second, prey] = actions else {
            return Err(bad(format!(
                "predator and prey take three actions, found {}",
                actions.len()
            )));
        };
        let policy = |player, action| Policy::new(player, action).map_err(bad);
        let policies = [policy(0, first)?, policy(1, second)?, policy(2, prey)?];
        let mut returns = [0.0; N_AGENTS];
        let mut outside_share = 0.0;
        for number in 0..N_EPISODES {
            let mut stream = Seed::new(run).stream(Purpose::PROBLEM, number, 0);
            let episode = Episode::of(World::random(&mut stream), &policies);
            outside_share += episode.n_outside as f64 / (N_STEPS as f64 * N_EPISODES as f64);
            for (sum, part) in returns.iter_mut().zip(episode.returns) {
                *sum += part / N_EPISODES as f64;
            }
        }
        let mut payoffs = returns;
        for (payoff, [low, high]) in payoffs.iter_mut().zip(RETURN_RANGES) {
            *payoff = ((*payoff - low) / (high - low)).clamp(0.0, 1.0);
        }
        Ok(PredatorPreyOutcome { payoffs, returns, outside_share })
    }
}

/// Outcome of an episode.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Episode {
    /// Sums of the rewards.
    returns: [f64; N_AGENTS],
    /// Number of steps that ended with the prey outside.
    n_outside: usize,
}

impl Episode {
    fn of(start: World, policies: &[Policy; N_AGENTS]) -> Self {
        let mut episode = Self { returns: [0.0; N_AGENTS], n_outside: 0 };
        let mut world = start;
        for _ in 0..N_STEPS {
            let forces = std::array::from_fn(|i| policies[i].force(&world.observation_of(i)));
            world = world.after(&forces);
            episode.n_outside += usize::from(prey_is_outside(&world));
            for (sum, reward) in episode.returns.iter_mut().zip(rewards(&world)) {
                *sum += reward;
            }
        }
        episode
    }
}

#[cfg(test)]
mod tests;
