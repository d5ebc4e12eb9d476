//! Wrong beliefs, and invalid beliefs.

use fedbo_games::{
    Belief, Choice, Expectation, Game, GameError, Level0Strategy, Player, PlayerSettings, Reasoner,
    Ucb, UcbWidth,
};
use fedbo_testkit::test_stream;

use crate::enumeration::{World, only};

fn believing(player: usize, reasoner: Reasoner) -> Vec<Belief> {
    vec![Belief { player, reasoner }]
}

/// The other player uses GP-MW. The player believes that it uses random search, fixed
/// probabilities, or level 1 with a different kernel and a different width. The action equals the
/// one that enumeration gives for this belief, and sometimes differs from the one for the true
/// strategy.
#[test]
fn a_wrong_belief_gives_what_enumeration_with_it_gives() {
    let (mut n_other, mut n_all) = (0, 0);
    for seed in 0..20 {
        let world = World::new(&[6, 5], 7, false, 200 + seed);
        let own = &world.basics[0];
        let truth = only(&world.at_level(0, 1));
        let mut random = world.basics[1].clone();
        random.level0_strategy = Level0Strategy::RandomSearch;
        let mut odds = world.basics[1].clone();
        odds.level0_strategy = Level0Strategy::Fixed(vec![0.0, 2.0, 0.0, 1.0, 1.0]);
        let mut other_model = world.basics[1].clone();
        let model = &mut other_model.payoff_model.hyperparameters;
        model.kernel =
            fedbo_gp::Kernel::isotropic(fedbo_gp::Family::Matern32, 2, 0.7, 2.0).unwrap();
        model.noise_variance = 0.3;
        other_model.ucb = Ucb::new(UcbWidth::Constant(0.5));

        let level1 = |basics: &PlayerSettings| {
            let of_me = believing(0, Reasoner::level0(own.clone()));
            Reasoner::responding(basics.clone(), of_me, Expectation::Exact)
        };
        let imagined = [world.gp_mw(0, own), Vec::new()];
        let cases = [
            (Reasoner::level0(random), vec![0.2; 5]),
            (Reasoner::level0(odds), vec![0.0, 0.5, 0.0, 0.25, 0.25]),
            (level1(&other_model), world.response(1, &other_model, &imagined)),
        ];
        for (belief, law) in cases {
            let reasoner =
                Reasoner::responding(own.clone(), believing(1, belief), Expectation::Exact);
            let mut player = Player::new(&world.game, 0, reasoner).unwrap();
            let action = player.decide(&world.history, &mut test_stream(1)).unwrap().action;
            let expected = only(&world.response(0, own, &[Vec::new(), law]));
            assert_eq!(action, expected, "{seed}");
            n_all += 1;
            n_other += i32::from(action != truth);
        }
    }
    assert!(n_other * 5 > n_all, "{n_other} of {n_all} differ");
}

/// A level-2 player believes that the other player is mistaken about it.
#[test]
fn beliefs_about_beliefs_may_be_wrong_too() {
    let world = World::new(&[4, 4], 6, false, 230);
    let mut odd = world.basics[0].clone();
    odd.level0_strategy = Level0Strategy::Fixed(vec![0.0, 0.0, 1.0, 0.0]);
    let of_me = believing(0, Reasoner::level0(odd));
    let other = Reasoner::responding(world.basics[1].clone(), of_me, Expectation::Exact);
    let reasoner =
        Reasoner::responding(world.basics[0].clone(), believing(1, other), Expectation::Exact);
    assert_eq!(reasoner.level(), 2);
    let mut player = Player::new(&world.game, 0, reasoner).unwrap();
    let decision = player.decide(&world.history, &mut test_stream(1)).unwrap();
    // Level 1 uses the width for expectations, although all the probability is on one action.
    let mut basics = world.basics[1].clone();
    basics.ucb = Ucb::new(UcbWidth::Constant((0.4 * 10.0_f64.ln()).sqrt()));
    let imagined = world.response(1, &basics, &[world.sure(0, 2), Vec::new()]);
    let Choice::Response { action, .. } = &decision.thought.unwrap().others[0].choice.clone()
    else {
        panic!()
    };
    assert_eq!(*action, only(&imagined));
    assert_eq!(
        decision.action,
        only(&world.response(0, &world.basics[0], &[Vec::new(), imagined]))
    );
}

/// Player 0 of three believes that players 1 and 2 reason at level 1, with different beliefs about
/// player 0 and each other: different probabilities, or a different kernel behind the same weights.
/// One tree therefore contains several strategies and models of the same player.
#[test]
fn believed_players_may_disagree_about_the_same_one() {
    let mut actions = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let world = World::new(&[5, 4, 4], 7, false, 250 + seed);
        let odds = |player: usize, weights: &[f64]| {
            let mut basics = world.basics[player].clone();
            basics.level0_strategy = Level0Strategy::Fixed(weights.to_vec());
            basics
        };
        let mut other_model = world.basics[0].clone();
        let kernel = fedbo_gp::Kernel::isotropic(fedbo_gp::Family::Matern52, 3, 0.15, 3.0);
        other_model.payoff_model.hyperparameters.kernel = kernel.unwrap();
        other_model.payoff_model.hyperparameters.noise_variance = 1e-3;
        // Beliefs about player 0: weights from two models, or two sets of fixed probabilities.
        let of_player_0 = match seed % 2 {
            0 => [other_model.clone(), world.basics[0].clone()],
            _ => [odds(0, &[0.0, 0.0, 0.25, 0.0, 0.75]), odds(0, &[0.5, 0.0, 0.0, 0.5, 0.0])],
        };
        let laws_of_player_0 = match seed % 2 {
            0 => of_player_0.each_ref().map(|basics| world.gp_mw(0, basics)),
            _ => [vec![0.0, 0.0, 0.25, 0.0, 0.75], vec![0.5, 0.0, 0.0, 0.5, 0.0]],
        };
        let belief = |player, reasoner| Belief { player, reasoner };
        let of_one = vec![
            belief(0, Reasoner::level0(of_player_0[0].clone())),
            belief(2, Reasoner::level0(odds(2, &[0.0, 0.0, 0.0, 1.0]))),
        ];
        let of_two = vec![
            belief(0, Reasoner::level0(of_player_0[1].clone())),
            belief(1, Reasoner::level0(odds(1, &[0.5, 0.5, 0.0, 0.0]))),
        ];
        let exact = Expectation::Exact;
        let one = Reasoner::responding(world.basics[1].clone(), of_one, exact);
        let two = Reasoner::responding(world.basics[2].clone(), of_two, exact);
        let decide = |beliefs: Vec<Belief>| {
            let own = other_model.clone();
            let mut player =
                Player::new(&world.game, 0, Reasoner::responding(own, beliefs, exact)).unwrap();
            player.decide(&world.history, &mut test_stream(1)).unwrap()
        };
        let decision = decide(vec![belief(1, one.clone()), belief(2, two.clone())]);
        let [by_one, by_two] = laws_of_player_0;
        let laws = [by_one.clone(), Vec::new(), vec![0.0, 0.0, 0.0, 1.0]];
        let first = world.response(1, &world.basics[1], &laws);
        let laws = [by_two.clone(), vec![0.5, 0.5, 0.0, 0.0], Vec::new()];
        let second = world.response(2, &world.basics[2], &laws);
        let expected =
            world.response(0, &other_model, &[Vec::new(), first.clone(), second.clone()]);
        assert_eq!(decision.action, only(&expected), "{seed}");
        let thoughts = &decision.thought.as_ref().unwrap().others;
        for (thought, (law, of_player_0)) in
            thoughts.iter().zip([(first, by_one), (second, by_two)])
        {
            let Choice::Response { action, .. } = &thought.choice else { panic!() };
            assert_eq!(*action, only(&law), "{seed}");
            let Choice::Mixed { probabilities: Some(found), .. } = &thought.others[0].choice else {
                panic!()
            };
            let close = found.iter().zip(of_player_0).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(close, "{seed} {found:?}");
        }
        // The order of beliefs does not matter.
        assert_eq!(decide(vec![belief(2, two), belief(1, one)]), decision);
        actions.insert(format!("{:?}", decision.action));
    }
    assert!(actions.len() > 2, "{actions:?}");
}

#[test]
fn beliefs_that_are_none_are_refused() {
    let world = World::new(&[3, 3, 3], 1, false, 240);
    let level0 = |player: usize| Belief {
        player,
        reasoner: Reasoner::level0(world.basics[player.min(2)].clone()),
    };
    let refused = |beliefs: Vec<Belief>, expectation| {
        let reasoner = Reasoner::responding(world.basics[0].clone(), beliefs, expectation);
        Player::new(&world.game, 0, reasoner).map(|_| ()).unwrap_err()
    };
    let exact = Expectation::Exact;
    let about = |other| GameError::Beliefs { player: 0, other };
    assert_eq!(refused(vec![level0(1)], exact), about(2));
    assert_eq!(refused(vec![level0(1), level0(2), level0(1)], exact), about(1));
    assert_eq!(refused(vec![level0(0), level0(1), level0(2)], exact), about(0));
    assert_eq!(refused(vec![level0(1), level0(7)], exact), about(7));
    let none = refused(vec![level0(1), level0(2)], Expectation::Samples(0));
    assert!(matches!(none, GameError::Setting { name: "samples", .. }));
    let wide = Reasoner::at_level(0, 40, &world.basics, exact).map(|_| ());
    assert!(matches!(wide, Err(GameError::TooManyBeliefs { .. })));
    let wrong_dim = Game::new(vec![fedbo_games::ActionSet::grid(3); 2], 0).unwrap();
    let reasoner = Reasoner::at_level(0, 1, &world.basics[..2], exact).unwrap();
    let found = Player::new(&wrong_dim, 0, reasoner).map(|_| ());
    assert!(matches!(found, Err(GameError::Count { found: 3, expected: 2, .. })));
    let deep = Reasoner::at_level(0, 64, &world.basics[..2], exact).unwrap();
    assert_eq!(deep.level(), 64);
    assert!(Reasoner::at_level(0, 65, &world.basics[..2], exact).is_err());
    let two = World::new(&[3, 3], 4, false, 241);
    let deep = Reasoner::at_level(0, 64, &two.basics, exact).unwrap();
    let mut player = Player::new(&two.game, 0, deep.clone()).unwrap();
    assert!(player.decide(&two.history, &mut test_stream(1)).is_ok());
    let deeper = Reasoner::responding(two.basics[1].clone(), believing(0, deep), exact);
    assert!(matches!(Player::new(&two.game, 1, deeper), Err(GameError::Setting { .. })));
    for weights in [vec![0.5; 2], vec![0.0; 3], vec![1.0, -1.0, 1.0], vec![1.0, f64::NAN, 1.0]] {
        let mut basics = world.basics[0].clone();
        basics.level0_strategy = Level0Strategy::Fixed(weights);
        assert!(Player::new(&world.game, 0, Reasoner::level0(basics)).is_err());
    }
}
