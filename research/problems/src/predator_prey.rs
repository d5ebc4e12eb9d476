//! Two predators and a prey, each with its own policy: a game of three (thesis sections 8.4.3 and
//! E.6.3).

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
/// Mean returns that map to payoffs 0 and 1, with clipping beyond them: predators, predators, prey.
/// In 98 % of 2000 random triples of actions predators get 0.8 to 34 and the prey −652 to 15; a
/// prey that stays inside gets up to 25.
const RETURN_RANGES: [[f64; 2]; N_AGENTS] = [[0.0, 50.0], [0.0, 50.0], [-200.0, 25.0]];

/// Policy search for two predators and a prey: payoffs in `[0, 1]`, to be maximized by each player.
///
/// Players are predator 1, predator 2 and the prey. A player's action, in `[0,1]^d`, is mapped
/// linearly onto `[−1,1]^d`. It holds the parameters of a linear policy of rank one: u, with an
/// entry for each number of the observation, and then v, with five. In a step with observation s,
/// the player's five numbers are
///
/// a = (sᵀu) v,   push = c (a_2 − a_3, a_4 − a_5),   c = 3 for a predator, 4 for the prey
///
/// s holds the player's velocity and position, the two obstacles and the two others relative to
/// itself, and for a predator the prey's velocity: 14 numbers for a predator, 12 for the prey. So d
/// is 19, 19 and 17, and all three together have 55 dimensions. As in the particle environment the
/// first of the five numbers has no effect, and none is clipped. Only the speed is bounded, by 1
/// for predators and 1.3 for the prey.
///
/// An episode has 50 steps; agents start at rest, uniform on `[−1,1]²`, among two obstacles. The
/// rewards of a step are as follows, with d_i the distance of predator i to the prey; both
/// predators get the same reward:
///
/// predators: Σ_i (0.1 max(2√2 − d_i, 0) + 10 if i touches the prey), or 0 when the prey is outside
/// `[−1,1]²`; prey: Σ_i (0.1 d_i − 10 if i touches it), minus a penalty for each of |x| and |y|: 0
/// up to 0.9, from there ten times the excess up to 1, and exp(2|x| − 2), at most 10, beyond.
///
/// A payoff is the mean return of five episodes, clipped to a range, [0, 50] for predators and
/// [−200, 25] for the prey, and mapped linearly onto [0, 1].
///
/// Reference: Lowe et al. 2017, the scenario "simple tag" with distances rewarded (its option
/// "shape").
/// Deviations: the thesis says that predators are rewarded for being close to the prey "if the prey
/// stays within the boundary", and gives neither the formula nor the clipping ranges of returns.
/// The scenario's own reward for closeness is −0.1 d, which is never above 0, so a reward of 0
/// while the prey is outside would be an advantage. Here the reward is therefore measured from the
/// diagonal of the square.
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
    /// Dimensions of the actions of predator 1, predator 2 and prey: 19, 19, 17.
    pub fn dims(&self) -> [usize; N_AGENTS] {
        N_PARAMETERS
    }

    /// The payoffs of predator 1, predator 2 and prey; see [`Self::play`].
    ///
    /// # Errors
    /// If there are not three actions, or an action is not in its player's `[0,1]^d`.
    pub fn payoffs(&self, actions: &[Vec<f64>], run: u64) -> Result<[f64; N_AGENTS], Failure> {
        Ok(self.play(actions, run)?.payoffs)
    }

    /// Plays five episodes with the players' actions, in the order predator 1, predator 2, prey.
    /// The initial states depend on `run` alone.
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
            let mut stream = Seed::new(run).stream(Purpose::Problem, number, 0);
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
