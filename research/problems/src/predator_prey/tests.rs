use super::world::{Body, PREY};
use super::*;

/// Actions of the three players.
type Actions = Vec<Vec<f64>>;

fn random_actions(n: u64) -> Vec<Actions> {
    let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
    let mut action = |d| (0..d).map(|_| stream.uniform()).collect::<Vec<f64>>();
    let triples = (0..n).map(|_| N_PARAMETERS.map(&mut action).to_vec());
    triples.collect()
}

fn action(parameters: &[f64]) -> Vec<f64> {
    let action = parameters.iter().map(|p| f64::midpoint(*p, 1.0));
    action.collect()
}

/// Returns the actions of idle policies.
fn idle() -> Actions {
    N_PARAMETERS.map(|d| vec![0.5; d]).to_vec()
}

/// Returns the action of a prey that pushes itself along the diagonal with `weight` times the sum
/// of its coordinates.
fn along_the_diagonal(weight: f64) -> Vec<f64> {
    let mut parameters = [0.0; N_PARAMETERS[PREY]];
    parameters[2..4].fill(weight);
    parameters[12..].copy_from_slice(&[0.0, 1.0, -1.0, 1.0, -1.0]);
    action(&parameters)
}

fn play(actions: &[Vec<f64>], run: u64) -> PredatorPreyOutcome {
    PredatorPrey.play(actions, run).unwrap()
}

#[test]
fn all_actions_together_have_55_dimensions() {
    let dims = PredatorPrey.dims();
    assert_eq!(dims, [19, 19, 17]);
    assert_eq!(dims.iter().sum::<usize>(), 55);
}

/// Compares with 50 steps and rewards of the particle environment's own code: `core.py` and
/// `simple_tag.py` of PettingZoo 1.24.3, with two adversaries, `shape = True`, and velocities
/// updated before positions, as in Lowe et al.'s version. Policies are sin(1 + k² + 7i), with the
/// prey's u scaled by 0.3 and its weights for its own position set to −1 and −0.8. The prey stays
/// inside and is touched in four steps. The environment's predators earn 0.1·2·2√2 less per step.
#[test]
fn an_episode_is_that_of_the_particle_environment() {
    let wave = |k: usize, player: usize| (1.0 + (k * k + 7 * player) as f64).sin();
    let policies = std::array::from_fn(|player| {
        let parameters = (0..N_PARAMETERS[player]).map(|k| wave(k, player));
        let mut parameters: Vec<f64> = parameters.collect();
        if player == PREY {
            parameters[..12].iter_mut().for_each(|u| *u *= 0.3);
            parameters[2..4].copy_from_slice(&[-1.0, -0.8]);
        }
        Policy::new(player, &action(&parameters)).unwrap()
    });
    let places = [[-0.5, 0.1], [0.25, -0.4], [-0.35, 0.15]];
    let start = World {
        agents: places.map(|position| Body { position, velocity: [0.0; 2] }),
        obstacles: [[0.0, 0.3], [0.6, -0.3]],
    };
    let mut world = start;
    for step in 1..=N_STEPS {
        let forces = std::array::from_fn(|i| policies[i].force(&world.observation_of(i)));
        world = world.after(&forces);
        let expected = match step {
            1 => [
                [-0.499_428_105_678_463, 0.102_731_993_061_499_52],
                [0.259_469_227_674_628_27, -0.355_656_638_099_473_23],
                [-0.315_143_791_161_421_3, 0.155_040_557_274_506_75],
            ],
            5 => [
                [-0.445_330_286_601_613_67, 0.361_162_372_231_924_9],
                [0.343_003_172_868_395_6, 0.035_523_729_506_526_02],
                [-0.100_166_613_972_789_48, 0.110_730_970_763_692_02],
            ],
            50 => [
                [-0.289_566_243_574_603_37, 1.105_261_882_849_998_5],
                [0.585_500_373_827_048_3, 0.286_124_475_137_979_1],
                [0.368_846_892_258_394_45, 0.098_190_757_803_106_54],
            ],
            _ => continue,
        };
        for (body, expected) in world.agents.iter().zip(expected) {
            for (found, expected) in body.position.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "step {step}");
            }
        }
    }
    let episode = Episode::of(start, &policies);
    let theirs = 33.245_967_677_767_304;
    assert!((episode.returns[PREY] + theirs).abs() < 1e-7, "{episode:?}");
    let moved = theirs + 50.0 * 0.1 * 2.0 * 8.0_f64.sqrt();
    assert!((episode.returns[0] - moved).abs() < 1e-7, "{episode:?}");
    assert_eq!(episode.n_outside, 0);
}

#[test]
fn an_outcome_is_a_function_of_actions_and_run() {
    for actions in random_actions(10) {
        let outcome = play(&actions, 4);
        assert_eq!(outcome, play(&actions, 4));
        assert_ne!(outcome, play(&actions, 5));
        let payoffs = PredatorPrey.payoffs(&actions, 4).unwrap();
        assert_eq!(payoffs.to_vec(), outcome.payoffs.to_vec());
    }
}

#[test]
fn an_outcome_is_the_mean_of_five_episodes() {
    for (run, actions) in (0..).zip(random_actions(5)) {
        let policies = std::array::from_fn(|i| Policy::new(i, &actions[i]).unwrap());
        let starts = (0..5).map(|number| Seed::new(run).stream(Purpose::PROBLEM, number, 0));
        let starts: Vec<World> = starts.map(|mut stream| World::random(&mut stream)).collect();
        assert_ne!(starts[0], starts[1]);
        let episodes = starts.iter().map(|start| Episode::of(*start, &policies));
        let episodes: Vec<Episode> = episodes.collect();
        let outcome = play(&actions, run);
        for (player, found) in outcome.returns.iter().enumerate() {
            let sum: f64 = episodes.iter().map(|episode| episode.returns[player]).sum();
            assert!((found - sum / 5.0).abs() < 1e-9);
        }
        let n_outside: usize = episodes.iter().map(|episode| episode.n_outside).sum();
        assert!((outcome.outside_share - n_outside as f64 / 250.0).abs() < 1e-12);
    }
}

/// Payoffs are returns scaled by their ranges and clipped at both ends. Both predators get the same
/// payoff. The first of a policy's five numbers has no effect, but every other parameter does.
#[test]
fn payoffs_are_scaled_returns() {
    let mut n_cut = [0; 2];
    for (run, actions) in (0..).zip(random_actions(300)) {
        let outcome = play(&actions, run);
        let [predator, other, prey] = outcome.payoffs;
        assert!((predator - other).abs() < 1e-15);
        let expected = (outcome.returns[0] / 50.0).min(1.0);
        assert!((predator - expected).abs() < 1e-12);
        let expected = ((outcome.returns[PREY] + 200.0) / 225.0).clamp(0.0, 1.0);
        assert!((prey - expected).abs() < 1e-12);
        n_cut[0] += usize::from(outcome.returns[PREY] < -200.0);
        n_cut[1] += usize::from(outcome.outside_share > 0.5);
    }
    assert!(n_cut.iter().all(|&n| (100..280).contains(&n)), "{n_cut:?}");
    let actions = &random_actions(1)[0];
    for (player, first_move) in [(0, 14), (1, 14), (2, 12)] {
        for parameter in 0..N_PARAMETERS[player] {
            let mut changed = actions.clone();
            changed[player][parameter] = 1.0 - changed[player][parameter];
            let same = play(&changed, 0) == play(actions, 0);
            assert_eq!(same, parameter == first_move, "{player}: {parameter}");
        }
    }
}

/// An idle player stays at its initial position unless it starts in contact. If all players stay,
/// every step has the same rewards.
#[test]
fn idle_players_are_paid_for_where_they_began() {
    let actions = idle();
    let policies = std::array::from_fn(|i| Policy::new(i, &actions[i]).unwrap());
    let mut n_free = 0;
    for run in 0..40 {
        let start = World::random(&mut Seed::new(run).stream(Purpose::PROBLEM, 0, 0));
        let pushed = start.after(&[[0.0; 2]; N_AGENTS]).agents;
        let speeds = pushed.map(|body| body.velocity[0].hypot(body.velocity[1]));
        if speeds.iter().any(|speed| *speed > 1e-20) {
            continue;
        }
        n_free += 1;
        let episode = Episode::of(start, &policies);
        for (sum, reward) in episode.returns.iter().zip(rewards(&start)) {
            assert!((sum - 50.0 * reward).abs() < 1e-9);
        }
        assert_eq!(episode.n_outside, 0);
    }
    assert!(n_free > 3, "{n_free}");
}

/// A prey that pushes itself back to the centre stays inside, and one that pushes itself away does
/// not. None of the predators' actions compensates for that, which is why the thesis calls such
/// actions dominated.
#[test]
fn a_prey_that_leaves_is_worse_off_against_all_predators() {
    let (mut stays, mut leaves) = (0.0, 0.0);
    for (run, actions) in (0..).zip(random_actions(40)) {
        let mut actions = actions.clone();
        actions[PREY] = along_the_diagonal(-0.5);
        let inside = play(&actions, run);
        actions[PREY] = along_the_diagonal(0.5);
        let outside = play(&actions, run);
        assert!(inside.payoffs[PREY] > outside.payoffs[PREY] + 0.3, "{inside:?} {outside:?}");
        assert!(inside.payoffs[0] > outside.payoffs[0], "{inside:?} {outside:?}");
        stays += inside.outside_share / 40.0;
        leaves += outside.outside_share / 40.0;
    }
    assert!(stays < 0.1 && leaves > 0.7, "{stays} {leaves}");
}

/// If the predators swap positions and policies, a prey with swapped weights for their two
/// positions gets the same rewards.
#[test]
fn predators_are_alike() {
    for (index, actions) in (0..).zip(random_actions(20)) {
        let start = World::random(&mut Seed::new(index).stream(Purpose::TEST, 0, 0));
        let mut swapped_start = start;
        swapped_start.agents.swap(0, 1);
        let mut swapped = actions.clone();
        swapped.swap(0, 1);
        for axis in 0..2 {
            swapped[PREY].swap(8 + axis, 10 + axis);
        }
        let episode = |start: World, actions: &[Vec<f64>]| {
            let policies = std::array::from_fn(|i| Policy::new(i, &actions[i]).unwrap());
            Episode::of(start, &policies)
        };
        let (one, other) = (episode(start, &actions), episode(swapped_start, &swapped));
        assert!((one.returns[PREY] - other.returns[PREY]).abs() < 1e-6, "{one:?} {other:?}");
        assert!((one.returns[0] - other.returns[1]).abs() < 1e-6, "{one:?} {other:?}");
        assert_ne!(one, episode(start, &swapped));
    }
}

#[test]
fn actions_that_cannot_be_are_refused() {
    let change = |change: &dyn Fn(&mut Actions)| {
        let mut actions = idle();
        change(&mut actions);
        match PredatorPrey.payoffs(&actions, 0) {
            Err(Failure::BadPoint { message }) => message,
            other => panic!("{other:?}"),
        }
    };
    let message = change(&|actions| actions.truncate(2));
    assert!(message.contains("three actions, found 2"), "{message}");
    let message = change(&|actions| actions[PREY].truncate(16));
    assert!(message.contains("the prey has 17 numbers, found 16"), "{message}");
    for wrong in [-0.01, 1.01, f64::NAN] {
        let message = change(&|actions| actions[1][3] = wrong);
        let expected = format!("predator 2 has the number {wrong}");
        assert!(message.contains(&expected), "{message}");
    }
    assert!(PredatorPrey.payoffs(&idle(), 0).is_ok());
}
