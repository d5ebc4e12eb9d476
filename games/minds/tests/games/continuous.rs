//! Continuous action sets, alone and combined with finite ones.

use fedbo_games::{
    Action, ActionSet, Choice, Expectation, Game, GameError, History, Level0Strategy,
    MixedStrategy, Player, PlayerSettings, Reasoner, Round, Search, Ucb, UcbWidth,
};
use fedbo_optim::{Direct, Points};
use fedbo_streams::Stream;
use fedbo_testkit::{dense, test_stream};

/// Player 0 acts on a square, player 1 on five points of a line.
fn game() -> Game {
    Game::new(vec![ActionSet::Continuous { dim: 2 }, ActionSet::grid(5)], 0).unwrap()
}

fn basics(game: &Game) -> Vec<PlayerSettings> {
    let one = |player| {
        let mut basics = PlayerSettings::for_game(game, player, (-2.0, 2.0));
        basics.payoff_model.learning = None;
        basics.level0_strategy = Level0Strategy::RandomSearch;
        basics.ucb = Ucb::new(UcbWidth::Constant(1.5));
        basics
    };
    vec![one(0), one(1)]
}

fn record(game: &Game, n_rounds: usize) -> History {
    let (mut history, mut stream) = (History::new(), test_stream(300));
    for _ in 0..n_rounds {
        let x = vec![stream.uniform(), stream.uniform()];
        let b = stream.below(5);
        let shift = f64::from(u8::try_from(b).unwrap()) / 4.0;
        let payoff = (5.0 * x[0] - 3.0 * shift).sin() - (x[1] - shift).powi(2);
        let round = Round {
            actions: vec![Action::Point(x), Action::Index(b)],
            payoffs: vec![Some(payoff), Some(-payoff + 0.1 * stream.normal())],
        };
        history.push(game, round).unwrap();
    }
    history
}

/// Computes Σ_b p_b α(x, b) by dense elimination.
fn expected(
    game: &Game,
    basics: &PlayerSettings,
    history: &History,
    points: &Points,
    law: &[f64],
) -> Vec<f64> {
    let (mut inputs, mut y) = (Points::new(3), Vec::new());
    for round in history.rounds() {
        inputs.push(&game.joint(&round.actions).unwrap());
        y.push(round.payoffs[0].unwrap());
    }
    let n = f64::from(u32::try_from(y.len()).unwrap());
    let level = y.iter().sum::<f64>() / n;
    let scale = (y.iter().map(|v| (v - level).powi(2)).sum::<f64>() / n).sqrt();
    let y: Vec<f64> = y.iter().map(|v| (v - level) / scale).collect();
    let model = &basics.payoff_model.hyperparameters;
    let mut sums = vec![0.0; points.len()];
    for (b, p) in law.iter().enumerate() {
        let last = f64::from(u8::try_from(b).unwrap()) / 4.0;
        let cells = Points::from_rows(3, points.rows().map(|x| [x[0], x[1], last]));
        let (mean, covariance) =
            dense::posterior(&model.kernel, model.noise_variance, &inputs, &y, &cells);
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += p * (level + scale * (mean[i] + 1.5 * covariance.at(i, i).sqrt()));
        }
    }
    sums
}

/// At level 1 against random play with five actions, both searches find an action that is at least
/// as good as the best of a 41 × 41 grid, computed by dense elimination. The reported bound is
/// correct.
#[test]
fn a_continuous_response_is_at_least_the_best_of_a_grid() {
    let game = game();
    let (mut basics, history) = (basics(&game), record(&game, 12));
    let ticks = (0..41_u8).map(|i| f64::from(i) / 40.0);
    let grid: Vec<[f64; 2]> =
        ticks.clone().flat_map(|a| ticks.clone().map(move |b| [a, b])).collect();
    let grid = Points::from_rows(2, grid);
    let law = [0.2; 5];
    let values = expected(&game, &basics[0], &history, &grid, &law);
    let best = values.iter().copied().fold(f64::MIN, f64::max);
    for search in [Search::for_game(&game, 0), Search::Direct(Direct::default())] {
        basics[0].search = search;
        let reasoner = Reasoner::at_level(0, 1, &basics, Expectation::Exact).unwrap();
        let mut player = Player::new(&game, 0, reasoner).unwrap();
        let decision = player.decide(&history, &mut test_stream(301)).unwrap();
        let Action::Point(x) = &decision.action else { panic!() };
        let found = expected(&game, &basics[0], &history, &Points::from_rows(2, [x]), &law)[0];
        assert!(found > best - 1e-4, "{found} {best}"); // DIRECT stops slightly below
        let Choice::Response { bound, bounds, .. } = decision.thought.unwrap().choice else {
            panic!()
        };
        assert!((bound - found).abs() < 1e-8 && bounds.is_none());
    }
}

/// A finite player at level 2 against a continuous one at level 1 responds to the exact action that
/// the other player chooses with this reasoning. A continuous level-0 strategy requires samples.
#[test]
fn finite_and_continuous_players_reason_about_each_other() {
    let game = game();
    let (basics, history) = (basics(&game), record(&game, 12));
    let decide = |player, level, expectation| {
        let reasoner = Reasoner::at_level(player, level, &basics, expectation).unwrap();
        let mut player = Player::new(&game, player, reasoner).unwrap();
        player.decide(&history, &mut test_stream(302))
    };
    let level1 = decide(0, 1, Expectation::Exact).unwrap().action;
    let level2 = decide(1, 2, Expectation::Exact).unwrap();
    let imagined = &level2.thought.as_ref().unwrap().others[0].choice;
    assert!(matches!(imagined, Choice::Response { action, .. } if *action == level1));
    let refused = decide(1, 1, Expectation::Exact);
    assert!(matches!(refused, Err(GameError::NeedsFiniteActions { player: 0, .. })));
    let sampled = decide(1, 1, Expectation::Samples(50)).unwrap();
    assert!(matches!(sampled.action, Action::Index(_)));
    let imagined = &sampled.thought.unwrap().others[0].choice;
    assert_eq!(*imagined, Choice::Mixed { probabilities: None, drawn: None });
}

/// A strategy from which actions can only be drawn. It plays the mean of the other player's past
/// actions, with a little noise.
#[derive(Debug)]
struct Follower;

impl MixedStrategy for Follower {
    fn probabilities(&self, _: &Game, _: usize, _: &[Round]) -> Option<Vec<f64>> {
        None
    }

    fn sample(&self, _: &Game, _: usize, rounds: &[Round], stream: &mut Stream) -> Action {
        let n = f64::from(u32::try_from(rounds.len()).unwrap());
        let shares = rounds.iter().map(|round| match round.actions[1] {
            Action::Index(b) => f64::from(u8::try_from(b).unwrap()) / 4.0 / n,
            Action::Point(_) => unreachable!(),
        });
        let middle = shares.sum::<f64>();
        Action::Point(vec![middle, 0.1 * stream.uniform()])
    }
}

#[test]
fn a_strategy_of_ones_own_is_drawn_from() {
    let game = game();
    let (mut basics, history) = (basics(&game), record(&game, 12));
    basics[0].level0_strategy = Level0Strategy::Custom(std::sync::Arc::new(Follower));
    let reasoner = Reasoner::at_level(1, 1, &basics, Expectation::Lite).unwrap();
    let mut player = Player::new(&game, 1, reasoner).unwrap();
    let decision = player.decide(&history, &mut test_stream(303)).unwrap();
    let Choice::Mixed { drawn: Some(Action::Point(x)), .. } =
        &decision.thought.unwrap().others[0].choice.clone()
    else {
        panic!()
    };
    assert!(x[1] < 0.1 && (0.0..=1.0).contains(&x[0]));
    // A strategy that returns an action outside the player's set is an error.
    basics[1].level0_strategy = Level0Strategy::Custom(std::sync::Arc::new(Follower));
    let mut player = Player::new(&game, 1, Reasoner::level0(basics[1].clone())).unwrap();
    let refused = player.decide(&history, &mut test_stream(304));
    assert_eq!(refused, Err(GameError::NoLaw { player: 1 }));
}

#[test]
fn strategies_of_finite_sets_are_refused_for_continuous_ones() {
    let game = game();
    let of = |strategy, width| {
        let mut basics = basics(&game).swap_remove(0);
        basics.level0_strategy = strategy;
        basics.ucb = Ucb::new(width);
        Player::new(&game, 0, Reasoner::level0(basics)).map(|_| ())
    };
    let finite = PlayerSettings::for_game(&game, 1, (0.0, 1.0)).level0_strategy;
    let exp3 = fedbo_games::Exp3Settings::as_in_authors_code(0.1, 2, 0);
    let constant = UcbWidth::Constant(1.0);
    for (strategy, width) in [
        (finite, constant),
        (Level0Strategy::Exp3(exp3), constant),
        (Level0Strategy::Fixed(vec![1.0]), constant),
        (Level0Strategy::RandomSearch, UcbWidth::Theorem { failure_prob: 0.1 }),
    ] {
        let refused = of(strategy, width);
        assert!(
            matches!(refused, Err(GameError::NeedsFiniteActions { player: 0, .. })),
            "{refused:?}"
        );
    }
    assert_eq!(of(Level0Strategy::RandomSearch, constant), Ok(()));
}
