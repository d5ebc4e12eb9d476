//! A swimmer of three rods and its linear policies: training by steps in an environment (thesis
//! section 4.5.3.1).

mod body;
#[cfg(test)]
mod newton_euler;

use fedbo_objective::{Direction, Failure};
use fedbo_space::{Point, Space};
use fedbo_streams::{Purpose, Seed};

use body::{Medium, Motion};

use crate::TrainingProblem;
use crate::problem::{ProblemError, coordinates, linear_space};

/// Number of steps in an episode.
const N_STEPS: usize = 1000;
/// Duration of a step in s.
const STEP: f64 = 0.04;
/// Number of integrator steps per step.
const N_SUBSTEPS: u32 = 2;
/// Number of episodes over which a policy's return is averaged.
const N_EPISODES: u64 = 5;
/// Maximum distance of each coordinate of an episode's first state from 0.
const START_SPREAD: f64 = 0.1;
/// Maximum torque at a joint, in N m.
const TORQUE: f64 = 5.0;
/// Penalty coefficient of the squared action, which is in [−1, 1] for each joint.
const ACTION_COST: f64 = 1e-4;
/// Mean rewards of an epoch that map to 0 and 1, in m/s. Rewards beyond them are clipped. The
/// fastest gaits found by searches swim at 0.65 m/s.
const REWARD_RANGE: [f64; 2] = [-0.2, 0.8];
/// Names of the quantities that a policy observes.
const OBSERVED: [&str; 8] = [
    "head_angle",
    "front_angle",
    "rear_angle",
    "velocity_x",
    "velocity_y",
    "head_rate",
    "front_rate",
    "rear_rate",
];
/// Joints that a policy controls.
const JOINTS: [&str; 2] = ["front", "rear"];

/// Policy search for a swimmer: the discounted return after each epoch, in [0, 1], to be maximized
/// (thesis, appendix A.4.3).
///
/// A policy is an 8×2 matrix W with entries in `[−1,1]`. The observation s consists of the angle of
/// the head's rod, the angles of the front and the rear joint, the velocity of the centre of mass
/// in x and y, and the angular velocities of head and joints. The action is a = clip(sᵀW, −1, 1),
/// and the torques at the joints are 5 N m times a for 0.04 s. The step's reward is the mean
/// velocity of the centre of mass in x, minus 1e-4 |a|². An episode has 1000 steps. The swimmer
/// starts stretched along x, perturbed by uniform numbers in [−0.1, 0.1] in each entry of s. These
/// perturbations depend on the run and the episode.
///
/// With r_j the mean reward of epoch j, clipped to [−0.2, 0.8] and mapped linearly onto [0, 1], and
/// discount γ, the value after epoch n of N is the mean over five episodes of
///
/// Σ_{j=1..n} γ^(j−1) r_j / Σ_{j=1..N} γ^(j−1)
///
/// This value never decreases with n. A swimmer at rest has r_j = 0.2.
///
/// This is not MuJoCo's Swimmer-v2, which the thesis used. The number of state variables, the
/// actions, the reward, and the start and length of an episode are the same. However, drag is
/// linear in velocity (Coulom 2002), where MuJoCo's grows mostly with its square, and positions and
/// velocities are those of the centre of mass instead of the head's rod. Clip range and scale are
/// our own choices, because the thesis does not state them. Returns are of the same order: policies
/// found with a few hundred evaluations have undiscounted returns up to 650.
///
/// The integrator makes two steps in 0.04 s. Undiscounted returns of random policies differ from
/// those with 32 steps by 0.03 in the median, and by less than 5 for 95 of 100. For some policies,
/// tiny differences select one of two gaits.
#[derive(Clone, Debug)]
pub struct Swimmer {
    space: Space,
    n_epochs: usize,
    discount: f64,
}

/// The return of a policy, averaged over the episodes of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SwimmerReturn {
    /// The discounted return after each epoch, in [0, 1].
    pub discounted: Vec<f64>,
    /// The undiscounted sum of all rewards, in m/s, which is the final criterion.
    pub undiscounted: f64,
}

impl Swimmer {
    /// Creates the problem with episodes of `n_epochs` epochs and a discount γ = `discount` per
    /// epoch.
    ///
    /// # Errors
    /// If the 1000 steps cannot be divided into this number of equal epochs, or the discount is not
    /// in (0, 1].
    pub fn new(n_epochs: usize, discount: f64) -> Result<Self, ProblemError> {
        let wrong = |key, found: String, expected: &str| ProblemError::Option {
            problem: "swimmer".to_owned(),
            key,
            found,
            expected: expected.to_owned(),
        };
        if n_epochs == 0 || !N_STEPS.is_multiple_of(n_epochs) {
            let expected = "a divisor of 1000, such as 50 or 100";
            return Err(wrong("n_epochs", n_epochs.to_string(), expected));
        }
        if !(discount > 0.0 && discount <= 1.0) {
            let expected = "a number above 0 and at most 1";
            return Err(wrong("discount", discount.to_string(), expected));
        }
        let names =
            OBSERVED.iter().flat_map(|seen| JOINTS.map(|joint| format!("{seen}_to_{joint}")));
        Ok(Self { space: linear_space(names.map(|name| (name, [-1.0, 1.0]))), n_epochs, discount })
    }

    /// Returns a policy's returns in the episodes of a run: the discounted return after each epoch,
    /// which is the curve, and the undiscounted return.
    ///
    /// # Errors
    /// If the point is not in the space.
    pub fn returns(&self, point: &Point, run: u64) -> Result<SwimmerReturn, Failure> {
        let policy = coordinates(&self.space, point)?;
        let episodes = (0..N_EPISODES).map(|episode| rewards(start(run, episode), &policy));
        let episodes: Vec<Vec<f64>> = episodes.collect();
        Ok(self.averaged(&episodes))
    }

    fn averaged(&self, episodes: &[Vec<f64>]) -> SwimmerReturn {
        let n_episodes = episodes.len() as f64;
        let epoch_steps = N_STEPS / self.n_epochs;
        let [low, high] = REWARD_RANGE;
        let (mut value, mut weight, mut weights) = (0.0, 1.0, 0.0);
        let mut discounted = Vec::with_capacity(self.n_epochs);
        for epoch in 0..self.n_epochs {
            let steps = epoch * epoch_steps..(epoch + 1) * epoch_steps;
            let shares = episodes.iter().map(|rewards| {
                let mean = rewards[steps.clone()].iter().sum::<f64>() / epoch_steps as f64;
                ((mean - low) / (high - low)).clamp(0.0, 1.0)
            });
            value += weight * shares.sum::<f64>() / n_episodes;
            weights += weight;
            weight *= self.discount;
            discounted.push(value);
        }
        for value in &mut discounted {
            *value /= weights;
        }
        SwimmerReturn {
            discounted,
            undiscounted: episodes.iter().flatten().sum::<f64>() / n_episodes,
        }
    }
}

/// Returns the first state of an episode. Each observation is uniform on [−0.1, 0.1].
fn start(run: u64, episode: u64) -> Motion {
    let mut stream = Seed::new(run).stream(Purpose::PROBLEM, episode, 0);
    let mut draw = || START_SPREAD * (2.0 * stream.uniform() - 1.0);
    let mut chain = || {
        let head = draw();
        let middle = head + draw();
        [head, middle, middle + draw()]
    };
    let (angles, rates) = (chain(), chain());
    Motion { angles, rates, velocity: [draw(), draw()], ..Motion::ZERO }
}

/// Returns the rewards of an episode's steps, in m/s.
fn rewards(start: Motion, policy: &[f64]) -> Vec<f64> {
    let mut motion = start;
    let step = |_| {
        let actions = actions(&motion, policy);
        let before = motion.centre[0];
        for _ in 0..N_SUBSTEPS {
            let torques = actions.map(|action| TORQUE * action);
            motion = Medium::VISCOUS.after(&motion, torques, STEP / f64::from(N_SUBSTEPS));
        }
        let forward = (motion.centre[0] - before) / STEP;
        forward - ACTION_COST * actions.iter().map(|action| action * action).sum::<f64>()
    };
    (0..N_STEPS).map(step).collect()
}

/// Returns a policy's action for each joint: clip(Σ_i s_i w_i, −1, 1) with the observation s in the
/// order of `OBSERVED`.
fn actions(motion: &Motion, policy: &[f64]) -> [f64; 2] {
    let relative = |chain: [f64; 3]| [chain[0], chain[1] - chain[0], chain[2] - chain[1]];
    let ([head, front, rear], [x, y]) = (relative(motion.angles), motion.velocity);
    let [head_rate, front_rate, rear_rate] = relative(motion.rates);
    let seen = [head, front, rear, x, y, head_rate, front_rate, rear_rate];
    let mut actions = [0.0; 2];
    for (number, parts) in seen.iter().zip(policy.chunks_exact(2)) {
        actions[0] += number * parts[0];
        actions[1] += number * parts[1];
    }
    actions.map(|action| action.clamp(-1.0, 1.0))
}

impl TrainingProblem for Swimmer {
    fn name(&self) -> String {
        format!("swimmer {} epochs discount {}", self.n_epochs, self.discount)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn n_epochs(&self) -> usize {
        self.n_epochs
    }

    fn curve(&self, point: &Point, run: u64) -> Result<Vec<f64>, Failure> {
        Ok(self.returns(point, run)?.discounted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of parameters of a policy.
    const N_PARAMETERS: usize = OBSERVED.len() * JOINTS.len();
    /// A policy found by search.
    const SWIMS: [f64; N_PARAMETERS] = [
        1.0, -0.795, 0.613, 0.458, -0.39, -0.715, 0.025, -0.131, 0.155, 0.048, -0.556, -0.041,
        0.795, 0.547, -0.803, 0.151,
    ];

    fn swimmer(n_epochs: usize, discount: f64) -> Swimmer {
        Swimmer::new(n_epochs, discount).unwrap()
    }

    fn point(problem: &Swimmer, policy: &[f64]) -> Point {
        let unit: Vec<f64> = policy.iter().map(|part| f64::midpoint(*part, 1.0)).collect();
        problem.space().decode(&unit)
    }

    fn random_policies(n: usize) -> Vec<Vec<f64>> {
        let mut stream = Seed::new(7).stream(Purpose::TEST, 0, 0);
        let numbers = (0..n * N_PARAMETERS).map(|_| 2.0 * stream.uniform() - 1.0);
        let numbers: Vec<f64> = numbers.collect();
        numbers.chunks(N_PARAMETERS).map(<[f64]>::to_vec).collect()
    }

    /// Constant rewards give r (1 − γⁿ)/(1 − γ^N), and r n/N without discounting.
    #[test]
    fn constant_rewards_give_the_geometric_sum() {
        for (reward, share) in [(0.3, 0.5), (2.0, 1.0), (-1.0, 0.0)] {
            let episodes = vec![vec![reward; N_STEPS]; 3];
            for (n_epochs, discount) in [(50, 0.9_f64), (100, 0.75), (50, 1.0)] {
                let found = swimmer(n_epochs, discount).averaged(&episodes);
                assert!((found.undiscounted - 1000.0 * reward).abs() < 1e-9);
                assert_eq!(found.discounted.len(), n_epochs);
                for (n, value) in (1..).zip(found.discounted) {
                    let sum = |n: i32| {
                        if discount < 1.0 {
                            (1.0 - discount.powi(n)) / (1.0 - discount)
                        } else {
                            f64::from(n)
                        }
                    };
                    let last = i32::try_from(n_epochs).unwrap();
                    let expected = share * sum(n) / sum(last);
                    assert!((value - expected).abs() < 1e-12, "{value} and {expected}");
                }
            }
        }
    }

    /// One episode has rewards only in epoch 2, which gives γ times the weight of the first epoch.
    /// Clipping is per epoch, so waves within an epoch cancel.
    #[test]
    fn epochs_are_discounted_clipped_and_averaged_one_by_one() {
        let [low, high] = REWARD_RANGE;
        let mut earns = vec![low; N_STEPS];
        for (step, reward) in (0..).zip(&mut earns[20..40]) {
            *reward = if step % 2 == 0 { high + 0.5 } else { high - 0.5 };
        }
        let found = swimmer(50, 0.75).averaged(&[earns, vec![low - 1.0; N_STEPS]]);
        let weights = (1.0 - 0.75_f64.powi(50)) / 0.25;
        assert!(found.discounted[0].abs() < 1e-12);
        for value in &found.discounted[1..] {
            assert!((value - 0.5 * 0.75 / weights).abs() < 1e-12, "{value}");
        }
    }

    #[test]
    fn curves_rise_within_their_bounds_and_are_a_function_of_policy_and_run() {
        let problem = swimmer(50, 0.9);
        for policy in random_policies(10) {
            let point = point(&problem, &policy);
            let curve = problem.curve(&point, 4).unwrap();
            assert_eq!(curve.len(), problem.n_epochs());
            assert!(curve.is_sorted(), "{curve:?}");
            assert!(curve[0] >= 0.0 && curve[49] <= 1.0, "{curve:?}");
            assert_eq!(curve, problem.curve(&point, 4).unwrap());
            assert_ne!(curve, problem.curve(&point, 5).unwrap());
        }
        let (one, other) = (start(3, 0), start(3, 1));
        assert_ne!(one, other);
    }

    /// An idle swimmer drifts to a halt: its distance is at most 0.1 m/s over k' l/m = 1/s, plus
    /// the effect of the rods' initial rotations. The rewards add up to the distance over 0.04 s. A
    /// policy that swims covers 26 m in 40 s.
    #[test]
    fn a_policy_found_by_search_swims_and_none_at_all_does_not() {
        let problem = swimmer(50, 0.9);
        for run in 0..3 {
            let idle = problem.returns(&point(&problem, &[0.0; N_PARAMETERS]), run).unwrap();
            assert!(idle.undiscounted.abs() < 0.15 / STEP, "{idle:?}");
            assert!((idle.discounted[49] - 0.2).abs() < 0.02, "{idle:?}");
            let swims = problem.returns(&point(&problem, &SWIMS), run).unwrap();
            assert!(swims.undiscounted > 600.0, "{swims:?}");
            assert!(swims.discounted[49] > 0.75, "{swims:?}");
        }
    }

    /// Mirroring along x flips the signs of all observations except the velocity in x. It also
    /// flips the actions if the weights of that velocity change sign. The rewards stay the same.
    #[test]
    fn a_mirrored_policy_from_a_mirrored_start_earns_the_same() {
        for (index, policy) in (0..).zip(random_policies(5)) {
            let first = start(1, index);
            let mirrored_start = Motion {
                angles: first.angles.map(|angle| -angle),
                rates: first.rates.map(|rate| -rate),
                velocity: [first.velocity[0], -first.velocity[1]],
                ..first
            };
            let mut mirrored = policy.clone();
            for part in &mut mirrored[6..8] {
                *part = -*part;
            }
            let own = rewards(first, &policy);
            let others = rewards(mirrored_start, &mirrored);
            let unmirrored = rewards(mirrored_start, &policy);
            let apart =
                |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum() };
            assert!(apart(&own, &others) < 1e-6);
            assert!(apart(&own, &unmirrored) > 1e-2);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (n_epochs, discount, expected) in [
            (30, 0.9, "n_epochs = 30, expected a divisor of 1000"),
            (0, 0.9, "n_epochs = 0"),
            (50, 0.0, "discount = 0"),
            (50, 1.5, "discount = 1.5"),
            (50, f64::NAN, "discount = NaN"),
        ] {
            let message = Swimmer::new(n_epochs, discount).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        let failed = swimmer(100, 1.0).curve(&Point::new(Vec::new()), 0);
        assert!(matches!(failed, Err(Failure::BadPoint { .. })));
    }
}
