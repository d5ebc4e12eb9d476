//! Cart and pole: policy search from one initial state, aided by searches from other states (thesis
//! section 7.6.2).

mod state;

pub use state::CartState;

use fedbo_objective::{Direction, Objective, Outcome, Problem, TrialId};
use fedbo_space::{Point, Space};
use fedbo_streams::{Purpose, Seed};

use state::{ANGLE_LIMIT, FORCE, POSITION_LIMIT};

use crate::problem::{ProblemError, coordinates, linear_space};

/// Maximum number of steps of an episode.
const N_STEPS: u32 = 200;
/// Number of episodes over which a policy's value is averaged.
const N_EPISODES: usize = 10;
/// Maximum distance of each coordinate of an episode's first state from the task's initial state.
const START_SPREAD: f64 = 0.05;
/// Maximum distances of random initial states from 0.
const STATE_RANGE: [f64; 4] = [1.8, 1.0, 0.15, 1.0];
/// Share of [`STATE_RANGE`] within which the initial states of similar tasks lie around the
/// target's.
const SIMILAR_SHARE: f64 = 0.1;
/// Share of [`STATE_RANGE`] within which the initial states of targets lie. Similar tasks then stay
/// inside the range.
const TARGET_SHARE: f64 = 0.9;
/// Number of parameters of a policy: the weight of each state coordinate in the scores of left and
/// right.
const N_PARAMETERS: usize = 8;
/// A policy that keeps the pole up from nearly every state in [`STATE_RANGE`], found by random
/// search.
const STEADY: [f64; N_PARAMETERS] = [-0.0637, 0.0637, -0.0520, 0.0520, -1.0, 1.0, -0.1259, 0.1259];

/// Policy search from one initial state. The value of a policy is its mean share of 200 steps over
/// ten episodes, to be maximized.
///
/// A policy is a 4×2 matrix with entries in `[−1,1]`. In state s it pushes towards the side with
/// the larger entry of s·matrix, or to the left if both are equal. An episode ends after 200 steps,
/// or after the step in which the cart leaves the track or the pole falls; this step counts. The
/// first state is the task's state plus a uniform number in [−0.05, 0.05] for each coordinate. The
/// ten offsets are part of the task, so the value depends only on the policy.
///
/// Only the direction of the difference of the matrix's columns matters, so large parts of the
/// space share one value.
#[derive(Clone, Debug)]
pub struct CartPole {
    name: String,
    space: Space,
    initial: CartState,
    starts: Vec<CartState>,
    optimum: Option<f64>,
}

impl CartPole {
    /// Creates the task called `name`, with episodes that start near `initial`. `seed` determines
    /// the ten offsets.
    ///
    /// # Errors
    /// If a coordinate is not finite, or an episode could start off the track or with the pole
    /// down.
    pub fn new(name: &str, initial: CartState, seed: Seed) -> Result<Self, ProblemError> {
        let wrong = |key, found: f64, limit: f64| ProblemError::Option {
            problem: "cart-pole".to_owned(),
            key,
            found: found.to_string(),
            expected: format!("a finite number within {limit:.3} of 0"),
        };
        for (key, found, limit) in [
            ("position", initial.position, POSITION_LIMIT - START_SPREAD),
            ("velocity", initial.velocity, f64::MAX),
            ("angle", initial.angle, ANGLE_LIMIT - START_SPREAD),
            ("angular_velocity", initial.angular_velocity, f64::MAX),
        ] {
            if !(found.is_finite() && found.abs() <= limit) {
                return Err(wrong(key, found, limit));
            }
        }
        Ok(Self::within_limits(name, initial, seed))
    }

    fn within_limits(name: &str, initial: CartState, seed: Seed) -> Self {
        let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
        let starts = (0..N_EPISODES).map(|_| initial.moved([START_SPREAD; 4], &mut stream));
        let sides = ["left", "right"];
        let names = ["position", "velocity", "angle", "angular_velocity"]
            .into_iter()
            .flat_map(|coordinate| sides.map(|side| format!("{coordinate}_{side}")));
        let mut task = Self {
            name: name.to_owned(),
            space: linear_space(names.map(|name| (name, [-1.0, 1.0]))),
            initial,
            starts: starts.collect(),
            optimum: None,
        };
        task.optimum = (task.n_steps(&STEADY) == task.n_steps_max()).then_some(1.0);
        task
    }

    /// Returns the state near which the episodes start.
    pub fn initial(&self) -> CartState {
        self.initial
    }

    /// Returns the value of a policy, in (0, 1]. The matrix is in row-major order: entry 2i + j is
    /// the weight of coordinate i in the score of left (j = 0) or right (j = 1).
    ///
    /// # Panics
    /// If there are not exactly 8 numbers.
    pub fn value(&self, policy: &[f64]) -> f64 {
        f64::from(self.n_steps(policy)) / f64::from(self.n_steps_max())
    }

    /// Returns the total number of steps of all episodes.
    fn n_steps(&self, policy: &[f64]) -> u32 {
        assert_eq!(policy.len(), N_PARAMETERS, "parameters of a policy");
        let episodes = self.starts.iter().map(|start| n_steps_up(*start, policy));
        episodes.sum()
    }

    fn n_steps_max(&self) -> u32 {
        self.starts.iter().map(|_| N_STEPS).sum()
    }
}

/// Returns the number of steps of an episode.
fn n_steps_up(start: CartState, policy: &[f64]) -> u32 {
    let mut state = start;
    for step in 1..=N_STEPS {
        let (mut left, mut right) = (0.0, 0.0);
        for (coordinate, parts) in state.coordinates().iter().zip(policy.chunks_exact(2)) {
            left += coordinate * parts[0];
            right += coordinate * parts[1];
        }
        state = state.after_push(if right > left { FORCE } else { -FORCE });
        if !state.is_up() {
            return step;
        }
    }
    N_STEPS
}

impl Objective for CartPole {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        coordinates(&self.space, point)
            .map_or_else(Outcome::Failed, |policy| Outcome::Value(self.value(&policy)))
    }
}

impl Problem for CartPole {
    fn name(&self) -> String {
        format!("cart-pole {}", self.name)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    /// Returns 1 if a policy with this value is known.
    fn optimum(&self) -> Option<f64> {
        self.optimum
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        let policy = coordinates(&self.space, point).ok()?;
        Some(self.value(&policy))
    }
}

/// A target task, and earlier tasks that are similar or dissimilar to it.
#[derive(Clone, Debug)]
pub struct CartPoleTasks {
    /// The task to solve. At least one policy reaches the value 1.
    pub target: CartPole,
    /// Tasks with initial states near the target's.
    pub similar: Vec<CartPole>,
    /// Tasks with random initial states.
    pub dissimilar: Vec<CartPole>,
}

impl CartPoleTasks {
    /// Draws initial states and offsets.
    ///
    /// The target's state is uniform on ±(1.62, 0.9, 0.135, 0.9), redrawn until a policy with the
    /// value 1 is known. The state of a similar task lies within ±(0.18, 0.1, 0.015, 0.1) of it.
    /// The state of a dissimilar task is uniform on ±(1.8, 1, 0.15, 1).
    pub fn draw(seed: Seed, n_similar: u32, n_dissimilar: u32) -> Self {
        let mut stream = seed.stream(Purpose::PROBLEM, 0, 1);
        let mut numbers = 0..;
        let mut task = |name: String, centre: CartState, share: f64| {
            let initial = centre.moved(STATE_RANGE.map(|range| share * range), &mut stream);
            let number = numbers.next().unwrap_or(0);
            CartPole::within_limits(&name, initial, seed.child(Purpose::PROBLEM, number))
        };
        let target = loop {
            let target = task("target".to_owned(), CartState::ZERO, TARGET_SHARE);
            if target.optimum.is_some() {
                break target;
            }
        };
        let near = target.initial;
        let similar = (1..=n_similar).map(|n| task(format!("similar {n}"), near, SIMILAR_SHARE));
        let similar = similar.collect();
        let dissimilar =
            (1..=n_dissimilar).map(|n| task(format!("dissimilar {n}"), CartState::ZERO, 1.0));
        Self { target, similar, dissimilar: dissimilar.collect() }
    }

    /// Returns the similar tasks, followed by the dissimilar ones.
    pub fn earlier(&self) -> impl Iterator<Item = &CartPole> {
        self.similar.iter().chain(&self.dissimilar)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::Stream;

    use super::state::GRAVITY;
    use super::*;

    fn random_policy(stream: &mut Stream) -> Vec<f64> {
        let entries = (0..N_PARAMETERS).map(|_| 2.0 * stream.uniform() - 1.0);
        entries.collect()
    }

    /// Mirroring flips the signs of the state and the weights and swaps the sides. The scores of
    /// left and right are then swapped too, and the episode is mirrored. Swapping only the sides
    /// gives a different policy.
    #[test]
    fn a_mirrored_policy_from_a_mirrored_state_has_the_same_value() {
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        let mut n_other = 0;
        for _ in 0..100 {
            let task = CartPoleTasks::draw(Seed::new(stream.bits().into()), 3, 7).target;
            let policy = random_policy(&mut stream);
            let mut mirrored = task.clone();
            for start in &mut mirrored.starts {
                *start = CartState::new(start.coordinates().map(|c| -c));
            }
            let exchanged: Vec<f64> = policy.chunks(2).flat_map(|p| [p[1], p[0]]).collect();
            let mirror: Vec<f64> = exchanged.iter().map(|part| -part).collect();
            assert_eq!(task.n_steps(&policy), mirrored.n_steps(&mirror));
            n_other += u32::from(task.n_steps(&policy) != mirrored.n_steps(&exchanged));
        }
        assert!(n_other > 50, "{n_other}");
    }

    /// Only the direction of the difference of the columns matters.
    #[test]
    fn equal_parts_added_to_both_sides_and_a_smaller_size_change_nothing() {
        let task = CartPoleTasks::draw(Seed::new(5), 3, 7).target;
        let moved: Vec<f64> = STEADY
            .chunks(2)
            .zip([0.25, -0.5, 0.125, 0.0])
            .flat_map(|(parts, shift)| [parts[0] / 2.0 + shift, parts[1] / 2.0 + shift])
            .collect();
        assert_eq!(task.n_steps(&moved), task.n_steps(&STEADY));
    }

    #[test]
    fn tasks_are_drawn_as_described_and_the_value_is_a_share_of_the_steps() {
        for number in 0..20 {
            let tasks = CartPoleTasks::draw(Seed::new(number), 3, 7);
            let again = CartPoleTasks::draw(Seed::new(number), 3, 7);
            assert_eq!(tasks.target.starts, again.target.starts);
            assert_eq!(tasks.target.optimum(), Some(1.0));
            assert_eq!((tasks.similar.len(), tasks.dissimilar.len()), (3, 7));
            let more = CartPoleTasks::draw(Seed::new(number), 4, 2);
            assert_eq!((more.similar.len(), more.dissimilar.len()), (4, 2));
            assert_eq!(more.similar[2].starts, tasks.similar[2].starts);
            let target = tasks.target.initial.coordinates();
            for task in &tasks.similar {
                let at = task.initial.coordinates().into_iter().zip(target);
                for ((at, target), range) in at.zip(STATE_RANGE) {
                    assert!((at - target).abs() <= SIMILAR_SHARE * range);
                }
            }
            for task in tasks.earlier().chain([&tasks.target]) {
                assert!(task.starts.iter().all(|start| start.is_up()));
                // With scores of zero, every push is to the left, so the pole falls after a few
                // steps.
                let value = task.value(&[0.0; N_PARAMETERS]);
                assert!((0.005..0.3).contains(&value), "{value}");
            }
        }
    }

    /// The steps of a pole pushed left from rest in the upright position, according to the linear
    /// equation with a constant push: θ_n = (b/a)((1 + h√a)ⁿ + (1 − h√a)ⁿ − 2)/2 with b = 600/41.
    /// The first n beyond 12 degrees ends the episode.
    #[test]
    fn an_episode_ends_when_the_linear_equation_says() {
        let a = GRAVITY * 66.0 / 41.0;
        let angle = |n: i32| {
            let growth = 0.02 * a.sqrt();
            600.0 / 41.0 / a * ((1.0 + growth).powi(n) + (1.0 - growth).powi(n) - 2.0) / 2.0
        };
        let ends = (1..).find(|n| angle(*n) > ANGLE_LIMIT).unwrap();
        let steps = n_steps_up(CartState::ZERO, &[0.0; N_PARAMETERS]);
        assert_eq!(i64::from(steps), i64::from(ends));
    }

    #[test]
    fn a_state_from_which_an_episode_could_not_begin_is_refused() {
        for (at, key) in [
            ([2.4, 0.0, 0.0, 0.0], "position = 2.4"),
            ([0.0, f64::NAN, 0.0, 0.0], "velocity = NaN"),
            ([0.0, 0.0, 0.2, 0.0], "angle = 0.2"),
            ([0.0, 0.0, 0.0, f64::INFINITY], "angular_velocity = inf"),
        ] {
            let refused = CartPole::new("t", CartState::new(at), Seed::new(0));
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(key), "{message}");
        }
        let fine = CartState::new([2.0, 0.0, -0.1, 0.0]);
        assert!(CartPole::new("t", fine, Seed::new(0)).is_ok());
    }

    #[test]
    fn the_objective_through_its_space_is_the_value() {
        let task = CartPoleTasks::draw(Seed::new(2), 3, 7).target;
        let unit: Vec<f64> = STEADY.iter().map(|v| (v + 1.0) / 2.0).collect();
        let point = task.space().decode(&unit);
        let trial = TrialId { agent: 0, trial: 0 };
        assert_eq!(task.evaluate(&point, trial), Outcome::Value(1.0));
        assert_eq!(task.noiseless(&point), Some(1.0));
        assert!(matches!(task.evaluate(&Point::new(Vec::new()), trial), Outcome::Failed(_)));
    }
}
