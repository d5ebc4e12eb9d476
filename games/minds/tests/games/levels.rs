//! Levels 0 to 4 of two players, and 0 to 2 of three, against enumeration.

use std::collections::BTreeSet;

use fedbo_games::{Action, Choice, Expectation, Player, Reasoner, ReasoningStep};
use fedbo_testkit::test_stream;

use crate::enumeration::{World, only};

fn thought(world: &World, player: usize, reasoner: Reasoner) -> (Action, ReasoningStep) {
    let mut player = Player::new(&world.game, player, reasoner).unwrap();
    let decision = player.decide(&world.history, &mut test_stream(9)).unwrap();
    (decision.action, decision.thought.unwrap())
}

fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < tolerance)
}

/// Compares levels 1 to 4 of either player in 24 games, with raw and standardized payoffs,
/// including all expected bounds and simulated steps. Actions differ between levels and games, so a
/// constant result would fail.
#[test]
fn two_players_do_what_enumeration_says() {
    let mut seen = BTreeSet::new();
    for seed in 0..24 {
        let mut world = World::new(&[5, 4], 3 + seed % 7, seed % 2 == 1, seed as u64);
        for basics in &mut world.basics {
            basics.ucb.with_noise = seed % 3 == 0;
        }
        for player in 0..2 {
            let mut of_levels = Vec::new();
            for level in 1..=4 {
                let reasoner = Reasoner::at_level(player, level, &world.basics, Expectation::Exact);
                let (action, thought) = thought(&world, player, reasoner.unwrap());
                assert_eq!(action, only(&world.at_level(player, level)), "{seed} {player} {level}");
                assert_eq!((thought.player, thought.level), (player, level));
                let mut inner = &thought.others[0];
                let mut other = (1 - player, level - 1);
                while other.1 > 0 {
                    let Choice::Response { action, .. } = &inner.choice else {
                        panic!("{inner:?}")
                    };
                    assert_eq!(*action, only(&world.at_level(other.0, other.1)));
                    (inner, other) = (&inner.others[0], (1 - other.0, other.1 - 1));
                }
                let Choice::Mixed { probabilities, drawn } = &inner.choice else {
                    panic!("{inner:?}")
                };
                let law = world.at_level(other.0, 0);
                assert!(close(probabilities.as_ref().unwrap(), &law, 1e-9) && drawn.is_none());
                let mut laws = vec![Vec::new(), Vec::new()];
                laws[1 - player] = world.at_level(1 - player, level - 1);
                let expected = world.expected(player, &world.basics[player], &laws);
                let Choice::Response { bound, bounds, .. } = &thought.choice else {
                    panic!("{thought:?}")
                };
                assert!(close(bounds.as_ref().unwrap(), &expected, 1e-8));
                assert!((bound - expected.iter().copied().fold(f64::MIN, f64::max)).abs() < 1e-8);
                of_levels.push(format!("{action:?}"));
            }
            seen.insert(of_levels);
        }
    }
    assert!(seen.len() > 15, "{seen:?}");
}

/// Checks (E.1) and (E.3) for players among others at the levels [2, 1, 0], [2, 0, 1] and [2, 1,
/// 1], and for level 1, with each player in each role.
#[test]
fn three_players_do_what_enumeration_says() {
    let mut seen = BTreeSet::new();
    for seed in 0..6 {
        let world = World::new(&[4, 3, 5], 8, false, 100 + seed);
        for player in 0..3 {
            let others: Vec<usize> = (0..3).filter(|p| *p != player).collect();
            for (level, first, second) in [(1, 0, 0), (2, 1, 0), (2, 0, 1), (2, 1, 1)] {
                let mut levels = [0; 3];
                (levels[others[0]], levels[others[1]]) = (first, second);
                let expectation = Expectation::Exact;
                let reasoner = Reasoner::among(player, level, &levels, &world.basics, expectation);
                let reasoner = reasoner.unwrap();
                assert_eq!(reasoner.level(), level);
                let (action, thought) = thought(&world, player, reasoner);
                let expected = only(&world.among(player, level, &levels));
                assert_eq!(action, expected, "{seed} {player} {levels:?}");
                let of_others: Vec<usize> = thought.others.iter().map(|t| t.player).collect();
                assert_eq!(of_others, others);
                seen.insert(format!("{player} {action:?}"));
            }
        }
    }
    assert!(seen.len() > 7, "{seen:?}");
}

/// Level-0 draws follow the distribution of the weights, which equals the enumerated one.
#[test]
fn level_0_draws_from_its_law() {
    let world = World::new(&[4, 3], 6, true, 40);
    let law = world.gp_mw(0, &world.basics[0]);
    let reasoner = Reasoner::level0(world.basics[0].clone());
    let mut player = Player::new(&world.game, 0, reasoner).unwrap();
    let mut counts = [0.0; 4];
    let mut stream = test_stream(41);
    for _ in 0..4000 {
        let decision = player.decide(&world.history, &mut stream).unwrap();
        let Action::Index(index) = decision.action else { panic!() };
        counts[index] += 1.0;
        let Choice::Mixed { probabilities, drawn } = decision.thought.unwrap().choice else {
            panic!()
        };
        assert!(close(&probabilities.unwrap(), &law, 1e-9));
        assert_eq!(drawn, Some(decision.action));
    }
    chi_squared(&counts, &law).unwrap();
}

/// With R2-B2-Lite, the drawn action follows the distribution of the other player at level 0, not
/// the uniform distribution, and the response is the best against this action.
#[test]
fn lite_responds_to_a_draw_that_has_the_law() {
    let world = World::new(&[4, 3], 9, false, 50);
    let law = world.gp_mw(1, &world.basics[1]);
    let reasoner = Reasoner::at_level(0, 1, &world.basics, Expectation::Lite).unwrap();
    let mut player = Player::new(&world.game, 0, reasoner).unwrap();
    let mut counts = [0.0; 3];
    let mut stream = test_stream(51);
    for _ in 0..4000 {
        let decision = player.decide(&world.history, &mut stream).unwrap();
        let thought = decision.thought.unwrap();
        let Choice::Mixed { drawn: Some(Action::Index(drawn)), .. } = thought.others[0].choice
        else {
            panic!("{thought:?}")
        };
        let laws = [Vec::new(), world.sure(1, drawn)];
        assert_eq!(decision.action, only(&world.response(0, &world.basics[0], &laws)));
        counts[drawn] += 1.0;
    }
    chi_squared(&counts, &law).unwrap();
    assert!(chi_squared(&counts, &[1.0 / 3.0; 3]).is_err());
}

/// An expectation over draws approaches the exact expectation: with 200,000 draws, it is within
/// five standard errors, computed from the spread of the bounds.
#[test]
fn samples_approach_the_exact_expectation() {
    let world = World::new(&[4, 3], 9, false, 60);
    let of = |expectation| {
        let reasoner = Reasoner::at_level(0, 1, &world.basics, expectation).unwrap();
        let Choice::Response { bounds, .. } = thought(&world, 0, reasoner).1.choice else {
            panic!()
        };
        bounds.unwrap()
    };
    let exact = of(Expectation::Exact);
    assert!(close(&of(Expectation::Samples(200_000)), &exact, 5.0 * 2.0 / 200_000_f64.sqrt()));
    assert!(!close(&of(Expectation::Samples(3)), &exact, 5.0 * 2.0 / 200_000_f64.sqrt()));
}

/// The first of several actions with equal bounds is chosen. All bounds are equal before any
/// payoff, and along an irrelevant coordinate.
#[test]
fn of_equal_bounds_the_first_counts() {
    let mut world = World::new(&[5, 4], 2, false, 70);
    for basics in &mut world.basics {
        let kernel = fedbo_gp::Kernel::new(fedbo_gp::Family::Matern52, vec![1e150, 0.3], 1.0);
        basics.payoff_model.hyperparameters.kernel = kernel.unwrap();
    }
    for level in 1..=3 {
        let reasoner = Reasoner::at_level(0, level, &world.basics, Expectation::Exact).unwrap();
        let (action, thought) = thought(&world, 0, reasoner);
        assert_eq!(action, Action::Index(0));
        let Choice::Response { bounds, .. } = thought.choice else { panic!() };
        let bounds = bounds.unwrap();
        assert!(bounds.iter().all(|bound| bound.to_bits() == bounds[0].to_bits()));
    }
}

/// Checks Pearson's statistic at the level 1e-6.
pub(crate) fn chi_squared(counts: &[f64], law: &[f64]) -> Result<(), String> {
    let n: f64 = counts.iter().sum();
    let terms = counts.iter().zip(law).map(|(c, p)| (c - n * p).powi(2) / (n * p));
    let degrees = f64::from(u32::try_from(law.len() - 1).unwrap());
    fedbo_testkit::statistics::check_chi_squared(terms.sum(), degrees, 1e-6)
}
