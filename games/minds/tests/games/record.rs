//! A game continues from its record.

use fedbo_games::{
    Action, Exp3Settings, Expectation, GameError, History, Learning, Level0Strategy, Player,
    PlayerSettings, Reasoner, Round,
};
use fedbo_gp::FitOptions;
use fedbo_streams::Seed;

use crate::enumeration::World;

/// Returns players of all kinds: with learning, EXP3, Lite, samples, and wrong beliefs.
fn reasoners(world: &World) -> Vec<Reasoner> {
    let learned: Vec<PlayerSettings> = world
        .basics
        .iter()
        .map(|basics| {
            let mut basics = basics.clone();
            basics.payoff_model.standardize = true;
            basics.payoff_model.learning =
                Some(Learning { every: 4, options: FitOptions::default(), seed: 5 });
            basics
        })
        .collect();
    let mut exp3 = world.basics.clone();
    for basics in &mut exp3 {
        basics.level0_strategy = Level0Strategy::Exp3(Exp3Settings::as_in_authors_code(0.2, 1, 3));
    }
    let at = |level, basics: &[PlayerSettings], e| Reasoner::at_level(0, level, basics, e).unwrap();
    vec![
        at(0, &world.basics, Expectation::Exact),
        at(0, &exp3, Expectation::Exact),
        at(1, &exp3, Expectation::Exact),
        at(1, &world.basics, Expectation::Lite),
        at(1, &learned, Expectation::Samples(7)),
        at(2, &learned, Expectation::Exact),
        at(3, &world.basics, Expectation::Exact),
    ]
}

/// After every round, a new player on the serialized record has the same reasoning steps as the
/// player that saw all rounds: actions, probabilities and bounds are bitwise equal.
#[test]
fn a_player_made_anew_decides_the_same() {
    let seed = Seed::new(77);
    for (kind, reasoner) in reasoners(&World::new(&[6, 5], 0, false, 400)).into_iter().enumerate() {
        let world = World::new(&[6, 5], 14, false, 400);
        let mut along = Player::new(&world.game, 0, reasoner.clone()).unwrap();
        let mut history = History::new();
        for (index, round) in (0_u64..).zip(world.history.rounds()) {
            let stream = || seed.stream(fedbo_games::PLAY, 0, index);
            let decision = along.decide(&history, &mut stream()).unwrap();
            assert_eq!(decision.thought.is_none(), index < 2);
            let text = serde_json::to_string(&history).unwrap();
            let read: History = serde_json::from_str(&text).unwrap();
            let mut anew = Player::new(&world.game, 0, reasoner.clone()).unwrap();
            assert_eq!(anew.decide(&read, &mut stream()).unwrap(), decision, "{kind} {index}");
            let mut round = round.clone();
            round.actions[0] = decision.action;
            history.push(&world.game, round).unwrap();
        }
    }
}

/// A player reads a different or shorter record from the beginning.
#[test]
fn a_record_that_does_not_go_on_is_read_anew() {
    let (one, other) = (World::new(&[6, 5], 9, false, 410), World::new(&[6, 5], 7, false, 411));
    let stream = || Seed::new(1).stream(fedbo_games::PLAY, 0, 0);
    for reasoner in reasoners(&one) {
        let fresh = |history: &History| {
            let mut player = Player::new(&one.game, 0, reasoner.clone()).unwrap();
            player.decide(history, &mut stream()).unwrap()
        };
        let mut player = Player::new(&one.game, 0, reasoner.clone()).unwrap();
        let mut decide = |history: &History| player.decide(history, &mut stream()).unwrap();
        let mut shorter = History::new();
        for round in &other.history.rounds()[..3] {
            shorter.push(&one.game, round.clone()).unwrap();
        }
        for history in [&one.history, &other.history, &shorter, &one.history] {
            assert_eq!(decide(history), fresh(history));
        }
    }
}

/// A round without the player's payoff does not change its model, but GP-MW still uses the other's
/// action.
#[test]
fn a_lost_payoff_is_left_out() {
    let mut world = World::new(&[5, 4], 6, false, 420);
    let mut rounds = world.history.rounds().to_vec();
    rounds[3].payoffs = vec![None, None];
    world.history = History::new();
    for round in rounds {
        world.history.push(&world.game, round).unwrap();
    }
    for level in 0..3 {
        let reasoner = Reasoner::at_level(0, level, &world.basics, Expectation::Exact).unwrap();
        let mut player = Player::new(&world.game, 0, reasoner).unwrap();
        let mut stream = Seed::new(1).stream(fedbo_games::PLAY, 0, 0);
        let decision = player.decide(&world.history, &mut stream).unwrap();
        let law = world.at_level(0, level);
        match decision.thought.unwrap().choice {
            fedbo_games::Choice::Mixed { probabilities, .. } => {
                let pairs = probabilities.unwrap().into_iter().zip(law);
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9));
            }
            fedbo_games::Choice::Response { action, .. } => {
                assert_eq!(action, crate::enumeration::only(&law));
            }
        }
        let model = player.payoff_model().unwrap();
        assert_eq!(model.posterior().len(), 5);
    }
}

/// A record that does not belong to the game is refused, and the player remains usable.
#[test]
fn a_defective_record_is_refused() {
    let world = World::new(&[5, 4], 6, false, 430);
    let reasoner = Reasoner::at_level(1, 1, &world.basics, Expectation::Exact).unwrap();
    let mut player = Player::new(&world.game, 1, reasoner).unwrap();
    let stream = || Seed::new(1).stream(fedbo_games::PLAY, 0, 0);
    let before = player.decide(&world.history, &mut stream()).unwrap();
    let text = serde_json::to_string(&world.history).unwrap();
    let mut rounds: Vec<Round> = serde_json::from_str(&text).unwrap();
    rounds[4].actions[1] = Action::Index(4);
    let defective: History =
        serde_json::from_str(&serde_json::to_string(&rounds).unwrap()).unwrap();
    let refused = player.decide(&defective, &mut stream());
    assert_eq!(refused, Err(GameError::UnknownAction { round: 4, player: 1 }));
    assert_eq!(player.decide(&world.history, &mut stream()).unwrap(), before);
    assert!(Player::new(&world.game, 2, Reasoner::level0(world.basics[0].clone())).is_err());
}
