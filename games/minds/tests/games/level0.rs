//! The guarantees of level-0 strategies.

use fedbo_games::{
    Action, ActionSet, Choice, Exp3Rate, Exp3Settings, Exploration, FeatureLaw, Game, GpMwSettings,
    History, Level0Strategy, MwRate, PayoffTable, Player, PlayerSettings, Reasoner, RegretBound,
    Round, Ucb, UcbWidth,
};
use fedbo_gp::Family;
use fedbo_streams::{Purpose, Seed, Stream};
use fedbo_testkit::test_stream;

const OWN: usize = 6;
const OTHERS: usize = 3;

/// Returns payoffs in [0, 1]. The best action depends on the other player's action.
fn table() -> PayoffTable {
    let mut values = Vec::new();
    for a in 0..OWN {
        for b in 0..OTHERS {
            let (x, y) = (
                f64::from(u8::try_from(a).unwrap()) / 5.0,
                f64::from(u8::try_from(b).unwrap()) / 2.0,
            );
            values.push(0.5 + 0.45 * (5.0 * x - 4.0 * y).sin());
        }
    }
    PayoffTable::new(vec![OWN, OTHERS], values).unwrap()
}

fn game() -> Game {
    Game::new(vec![ActionSet::grid(OWN), ActionSet::grid(OTHERS)], 0).unwrap()
}

/// Returns a strategy's regrets after the given numbers of rounds, against draws from fixed
/// probabilities.
fn regrets(strategy: &Level0Strategy, after: &[usize], run: u64) -> Vec<f64> {
    let (game, table) = (game(), table());
    let mut basics = PlayerSettings::for_game(&game, 0, (0.0, 1.0));
    basics.level0_strategy = strategy.clone();
    basics.payoff_model.standardize = false;
    basics.payoff_model.learning = None;
    basics.ucb = Ucb::new(UcbWidth::Theorem { failure_prob: 0.1 });
    let mut player = Player::new(&game, 0, Reasoner::level0(basics)).unwrap();
    let (seed, mut history, mut plays) = (Seed::new(run), History::new(), Vec::new());
    let mut other: Stream = seed.stream(Purpose::TEST, 0, 0);
    let longest = after.iter().copied().max().unwrap();
    for round in 0..longest {
        let mut stream = seed.stream(fedbo_games::PLAY, 0, round as u64);
        let own = player.decide(&history, &mut stream).unwrap().action;
        let Action::Index(a) = own else { panic!() };
        let b = other.choose(&[0.8, 0.1, 0.1]).unwrap();
        plays.push([a, b]);
        let payoff = table.value(&[a, b]) + 0.05 * other.normal();
        let round =
            Round { actions: vec![own, Action::Index(b)], payoffs: vec![Some(payoff), None] };
        history.push(&game, round).unwrap();
    }
    after.iter().map(|n| table.external_regret(0, &plays[..*n])).collect()
}

/// Returns the mean regrets over runs.
fn mean_regrets(strategy: &Level0Strategy, after: &[usize], n_runs: u64) -> Vec<f64> {
    let mut means = vec![0.0; after.len()];
    for run in 0..n_runs {
        for (mean, regret) in means.iter_mut().zip(regrets(strategy, after, run)) {
            *mean += regret / f64::from(u32::try_from(n_runs).unwrap());
        }
    }
    means
}

fn gp_mw(mw_rate: MwRate) -> Level0Strategy {
    Level0Strategy::GpMw(GpMwSettings { mw_rate, payoff_bounds: Some((0.0, 1.0)) })
}

fn exp3(rate: Exp3Rate) -> Level0Strategy {
    Level0Strategy::Exp3(Exp3Settings {
        family: Family::SquaredExponential,
        lengthscales: vec![0.15],
        n_features: OWN,
        law: FeatureLaw::Kernel,
        seed: 2,
        rate,
        exploration: Exploration::OptimalDesign,
        payoff_bounds: Some((0.0, 1.0)),
        stale_law: false,
    })
}

/// With four times as many rounds, regret roughly doubles for a no-regret strategy and quadruples
/// for random search. Regret is within the bound of Theorem 8.1 even without the bound's last and
/// smallest term.
#[test]
fn regret_grows_slower_than_the_number_of_rounds() {
    let ratio = |strategy: &Level0Strategy, n: usize, n_runs| {
        let means = mean_regrets(strategy, &[n, 4 * n], n_runs);
        (means[1] / means[0], means)
    };
    let (of_random, means) = ratio(&Level0Strategy::RandomSearch, 60, 20);
    assert!(of_random > 3.5, "{of_random} {means:?}");
    let (of_gp_mw, means) = ratio(&gp_mw(MwRate::Anytime), 60, 20);
    assert!(of_gp_mw < 2.4, "{of_gp_mw} {means:?}");
    let bound = RegretBound {
        n_actions: OWN,
        n_rounds: 240,
        failure_prob: 0.1,
        noise_variance: 0.0025,
        outputscale: 1.0,
        information_gain: 0.0,
    };
    assert!(means[1] < bound.gp_mw(), "{means:?}");
    let (of_exp3, means) = ratio(&exp3(Exp3Rate::Anytime), 400, 20);
    assert!(of_exp3 < 2.7, "{of_exp3} {means:?}");
    // With the theorems' rates for a known length, regret per round is smaller in the longer game.
    for (strategy, n) in [
        ((|n| gp_mw(MwRate::Horizon(n))) as fn(usize) -> Level0Strategy, 60),
        (|n| exp3(Exp3Rate::Horizon(n)), 400),
    ] {
        let short = mean_regrets(&strategy(n), &[n], 20)[0];
        let long = mean_regrets(&strategy(4 * n), &[4 * n], 20)[0];
        assert!(long < 2.7 * short, "{short} {long}");
    }
}

/// Payoffs of 1e300 with a rate of 1e5 still produce probabilities, with raw weights as in the
/// authors' code.
#[test]
fn huge_payoffs_leave_probabilities() {
    let game = game();
    let mut basics = PlayerSettings::as_in_authors_code(&game, 0);
    let strategies = [
        Level0Strategy::GpMw(GpMwSettings { mw_rate: MwRate::Given(1e5), payoff_bounds: None }),
        Level0Strategy::Exp3(Exp3Settings {
            rate: Exp3Rate::Given { rate: 1e5, exploration: 0.1 },
            ..Exp3Settings::as_in_authors_code(0.1, 1, 0)
        }),
    ];
    for strategy in strategies {
        basics.level0_strategy = strategy;
        let mut player = Player::new(&game, 0, Reasoner::level0(basics.clone())).unwrap();
        let mut history = History::new();
        for (round, payoff) in [1e300, -1e300, 3e299, 2e299].into_iter().enumerate() {
            let decision = player.decide(&history, &mut test_stream(round as u64)).unwrap();
            let Choice::Mixed { probabilities, .. } = decision.thought.unwrap().choice else {
                panic!()
            };
            let probabilities = probabilities.unwrap();
            assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{probabilities:?}");
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let round = Round {
                actions: vec![decision.action, Action::Index(round % OTHERS)],
                payoffs: vec![Some(payoff), None],
            };
            history.push(&game, round).unwrap();
        }
    }
}

/// EXP3 treats initial rounds differently: the same record without initial rounds produces a
/// different distribution.
#[test]
fn exp3_knows_initial_rounds() {
    let law = |n_initial| {
        let sets = vec![ActionSet::grid(OWN), ActionSet::grid(OTHERS)];
        let game = Game::new(sets, n_initial).unwrap();
        let mut basics = PlayerSettings::for_game(&game, 0, (0.0, 1.0));
        basics.level0_strategy = exp3(Exp3Rate::Given { rate: 0.3, exploration: 0.2 });
        let mut history = History::new();
        for (own, payoff) in [(1, 0.9), (4, 0.3), (1, 0.8)] {
            let round = Round {
                actions: vec![Action::Index(own), Action::Index(0)],
                payoffs: vec![Some(payoff), None],
            };
            history.push(&game, round).unwrap();
        }
        let mut player = Player::new(&game, 0, Reasoner::level0(basics)).unwrap();
        let decision = player.decide(&history, &mut test_stream(1)).unwrap();
        let Choice::Mixed { probabilities, .. } = decision.thought.unwrap().choice else {
            panic!()
        };
        probabilities.unwrap()
    };
    let (none, three) = (law(0), law(3));
    assert!(none.iter().zip(&three).any(|(a, b)| (a - b).abs() > 1e-6), "{none:?}");
}
