//! The beliefs in a file, compared with reasoners built by hand.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_games::{
    Action, Belief, Expectation, Game, GpMwSettings, History, Level0Strategy, MwRate, Player,
    PlayerSettings, Reasoner, Round, Ucb, UcbWidth,
};
use fedbo_gp::{Family, Hyperparameters, Kernel};
use fedbo_play::{
    Actions, Ended, GameFile, GameObserver, GameRecord, PlayError, Referee, RoundRecord,
    SubstituteAction,
};
use fedbo_space::Point;
use fedbo_streams::Seed;

/// An observer that ignores all events.
struct Nobody;

impl GameObserver for Nobody {
    fn outside(&self, _: usize, _: usize, _: f64, _: (f64, f64)) {}

    fn awaits(&self, _: usize, _: usize) {}
    fn given(&self, _: usize) -> Option<Point> {
        None
    }
    fn refused(&self, _: usize, _: &PlayError) {}
    fn action_substituted(&self, _: usize, _: &SubstituteAction) {}
    fn played(&self, _: usize, _: &RoundRecord) {}
}

const SEED: u64 = 11;
const N_INITIAL: usize = 3;
/// The weights wrongly believed to be carol's strategy.
const WEIGHTS: [f64; 3] = [0.0, 1.0, 3.0];

/// Three players at levels 2, 1 and 0. Alice is wrong: bob has a different β_t, and neither of the
/// others follows the beliefs that she ascribes to bob. For settings of bob and carol that she
/// omits, their own tables apply.
fn file(n_rounds: usize, expectation: &str, of_bobs_model: &str) -> String {
    format!(
        r#"
[game]
name = "three"
rounds = {n_rounds}
initial = {N_INITIAL}
seed = {SEED}

[payoffs]
command = ["sh", "-c", '''awk -v a="$1" -v b="$2" -v c="$3" -v d="$4" 'BEGIN {{
    k = (c == "red") - (c == "blue") / 3
    printf "%.17g %.17g %.17g\n", sin(5 * a + b) + k * d, cos(3 * a - b * k) - d / 4, k * b / 5 - a
}}'''', "sh", "{{alice.x}}", "{{bob.n}}", "{{carol.kind}}", "{{alice.y}}"]
range = [-3.0, 3.0]

[players.alice]
level = 2
grid = 4
expectation = {expectation}
ucb_multiplier = 1.5
surrogate = {{ kernel = "squared-exponential", lengthscale = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8], outputscale = 1.5, noise_variance = 0.01 }}
space.x = {{ type = "float", low = 0.0, high = 1.0 }}
space.y = {{ type = "float", low = 1.0, high = 100.0, log = true }}

[players.alice.believes.bob]
level = 1
expectation = "lite"
ucb_multiplier = 1.0
believes.alice.level0 = "random"
believes.carol.level0 = [0.0, 1.0, 3.0]

[players.alice.believes.carol]
level = 0

[players.bob]
level = 1
expectation = {expectation}
space.n = {{ type = "int", low = 1, high = 5 }}
{of_bobs_model}

[players.carol]
level = 0
level0 = "gp-mw"
payoff_range = [-1.0, 2.0]
ucb_multiplier = 3.0
surrogate = {{ kernel = "matern-3/2", lengthscale = 0.4, standardize = false }}
space.kind = {{ type = "categorical", choices = ["red", "green", "blue"] }}
"#
    )
}

/// Writes the file. Returns the guard that deletes its folder, and its path.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// Plays a file to the end, in memory.
fn played(text: &str) -> Referee {
    let (_folder, path) = written(text);
    let file = GameFile::load(&path).unwrap();
    let record = GameRecord::in_memory(file.definition.clone()).unwrap();
    let mut referee = Referee::new(record).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let ended = referee.play(&file, &Nobody, &stop).unwrap();
    assert_eq!(ended, Ended::Complete);
    referee
}

fn gp_mw(range: (f64, f64)) -> Level0Strategy {
    Level0Strategy::GpMw(GpMwSettings { mw_rate: MwRate::Anytime, payoff_bounds: Some(range) })
}

/// Returns a player's basics: the multiplier of its bound, and a model with the given
/// hyperparameters, or the initial model if it learns.
fn basics(
    game: &Game,
    player: usize,
    level0: Level0Strategy,
    ucb_multiplier: f64,
    given: Option<(Family, Vec<f64>, f64, f64, bool)>,
) -> PlayerSettings {
    let mut basics = PlayerSettings::for_game(game, player, (0.0, 1.0));
    basics.level0_strategy = level0;
    basics.ucb = Ucb::new(UcbWidth::Constant(ucb_multiplier));
    if let Some((family, lengthscales, outputscale, noise_variance, standardize)) = given {
        basics.payoff_model.learning = None;
        basics.payoff_model.standardize = standardize;
        basics.payoff_model.hyperparameters = Hyperparameters {
            kernel: Kernel::new(family, lengthscales, outputscale).unwrap(),
            noise_variance,
        };
    }
    basics
}

/// Builds the three reasoners of [`file`] by hand.
fn reasoners(
    game: &Game,
    expectation: Expectation,
    bobs_model: Option<(Family, Vec<f64>, f64, f64, bool)>,
) -> [Reasoner; 3] {
    let range = (-3.0, 3.0);
    let alices = (Family::SquaredExponential, vec![0.3, 0.4, 0.5, 0.6, 0.7, 0.8], 1.5, 0.01, true);
    let carols = (Family::Matern32, vec![0.4; 6], 1.0, 1e-4, false);
    let alice = |level0| basics(game, 0, level0, 1.5, Some(alices.clone()));
    let bob = |ucb_multiplier| basics(game, 1, gp_mw(range), ucb_multiplier, bobs_model.clone());
    let carol = |level0| basics(game, 2, level0, 3.0, Some(carols.clone()));
    let belief = |player, reasoner| Belief { player, reasoner };
    let carol_as_she_is = || Reasoner::level0(carol(gp_mw((-1.0, 2.0))));
    let believed_bob = Reasoner::responding(
        bob(1.0),
        vec![
            belief(0, Reasoner::level0(alice(Level0Strategy::RandomSearch))),
            belief(2, Reasoner::level0(carol(Level0Strategy::Fixed(WEIGHTS.to_vec())))),
        ],
        Expectation::Lite,
    );
    [
        Reasoner::responding(
            alice(gp_mw(range)),
            vec![belief(1, believed_bob), belief(2, carol_as_she_is())],
            expectation,
        ),
        Reasoner::responding(
            bob(2.0),
            vec![belief(0, Reasoner::level0(alice(gp_mw(range)))), belief(2, carol_as_she_is())],
            expectation,
        ),
        carol_as_she_is(),
    ]
}

/// Converts the game and its rounds to the form that reasoning players use.
fn as_seen(referee: &Referee) -> (Game, Vec<Round>) {
    let course = referee.course();
    let sets: Vec<&Actions> = (0..3).map(|player| course.actions(player)).collect();
    let game = Game::new(sets.iter().map(|own| own.set().clone()).collect(), N_INITIAL).unwrap();
    let rounds = course.rounds().iter().map(|round| Round {
        actions: sets
            .iter()
            .zip(&round.actions)
            .map(|(own, point)| own.action(point).unwrap())
            .collect(),
        payoffs: round.payoffs.clone(),
    });
    let rounds = rounds.collect();
    (game, rounds)
}

/// Counts, for each player, how often a reasoner built by hand takes the same action on the same
/// record.
fn agreements(referee: &Referee, by_hand: impl Fn(&Game) -> [Reasoner; 3]) -> [usize; 3] {
    let (game, rounds) = as_seen(referee);
    let mut agreeing = [0; 3];
    for (player, reasoner) in by_hand(&game).into_iter().enumerate() {
        let mut history = History::new();
        for (index, round) in rounds.iter().enumerate() {
            // A new player for each round, so that nothing depends on earlier calls.
            let mut mind = Player::new(&game, player, reasoner.clone()).unwrap();
            let mut stream = Seed::new(SEED).stream(fedbo_games::PLAY, player as u64, index as u64);
            let decision = mind.decide(&history, &mut stream).unwrap();
            agreeing[player] += usize::from(decision.action == round.actions[player]);
            history.push(&game, round.clone()).unwrap();
        }
    }
    agreeing
}

/// Tests exact expectations, one draw, and 40 draws, with given models.
#[test]
fn wrong_beliefs_are_what_the_file_says() {
    let model = "surrogate.lengthscale = 0.5";
    let of_bob = || Some((Family::Matern52, vec![0.5; 6], 1.0, 1e-4, true));
    for (word, expectation) in [
        ("\"exact\"", Expectation::Exact),
        ("\"lite\"", Expectation::Lite),
        ("40", Expectation::Samples(40)),
    ] {
        let referee = played(&file(12, word, model));
        let by_hand = |game: &Game| reasoners(game, expectation, of_bob());
        assert_eq!(agreements(&referee, by_hand), [12; 3], "{word}");
        // Simpler minds would act differently, so the actions distinguish them.
        let simpler = |game: &Game| {
            let [alice, bob, carol] = reasoners(game, expectation, of_bob());
            let [alice, bob, carol] = [alice, bob, carol].map(|mind| mind.basics);
            let basics = [alice, bob, carol];
            [0, 1, 2].map(|player| {
                Reasoner::at_level(player, [1, 2, 1][player], &basics, expectation).unwrap()
            })
        };
        let others = agreements(&referee, simpler);
        assert!(others.iter().all(|n| *n < 12), "{word}: {others:?}");
    }
}

/// A model without settings in the file learns after every 10 payoffs, also in beliefs.
#[test]
fn models_that_learn_are_those_of_the_defaults() {
    let referee = played(&file(23, "\"exact\"", ""));
    let by_hand = |game: &Game| reasoners(game, Expectation::Exact, None);
    assert_eq!(agreements(&referee, by_hand), [23; 3]);
}

/// Without beliefs in the file, all others reason one level lower, as in (E.3).
#[test]
fn without_beliefs_levels_are_those_of_theory() {
    let text = file(10, "\"exact\"", "surrogate.lengthscale = 0.5");
    let (head, rest) = text.split_once("[players.alice.believes.bob]").unwrap();
    let (_, tail) = rest.split_once("[players.bob]").unwrap();
    let referee = played(&format!("{head}[players.bob]{tail}"));
    let by_hand = |game: &Game| {
        let basics = reasoners(
            game,
            Expectation::Exact,
            Some((Family::Matern52, vec![0.5; 6], 1.0, 1e-4, true)),
        )
        .map(|mind| mind.basics);
        let at =
            |player, level| Reasoner::at_level(player, level, &basics, Expectation::Exact).unwrap();
        [at(0, 2), at(1, 1), at(2, 0)]
    };
    assert_eq!(agreements(&referee, by_hand), [10; 3]);
}

/// A partly played record continues as if the game had never been interrupted.
#[test]
fn a_definition_survives_its_record() {
    let (folder, path) = written(&file(6, "40", ""));
    let file = GameFile::load(&path).unwrap();
    let stored = folder.path().join("three.db");
    let stop = Arc::new(AtomicBool::new(false));
    for n_rounds in [2, 4, 6] {
        let mut file = file.clone();
        file.n_rounds = n_rounds;
        let record = GameRecord::open(&stored, file.definition.clone()).unwrap();
        let mut referee = Referee::new(record).unwrap();
        referee.play(&file, &Nobody, &stop).unwrap();
    }
    let parts = GameRecord::load(&stored).unwrap();
    assert_eq!(parts.definition(), &file.definition);
    let whole = played(&std::fs::read_to_string(&path).unwrap());
    let course = |rounds: Vec<RoundRecord>| -> Vec<_> {
        let told = rounds.into_iter().map(|round| (round.actions, round.payoffs));
        told.collect()
    };
    assert_eq!(course(parts.rounds().unwrap()), course(whole.course().rounds().to_vec()));
}

/// Values between grid points do not exist, and a stored action is read back as the one played.
#[test]
fn actions_of_a_record_are_those_that_were_played() {
    let referee = played(&file(4, "\"lite\"", ""));
    let (game, rounds) = as_seen(&referee);
    for round in &rounds {
        let indices = round.actions.iter().map(|action| matches!(action, Action::Index(_)));
        assert!(indices.into_iter().all(|is_one| is_one));
        assert!(game.joint(&round.actions).is_some());
    }
    let n_actions: Vec<_> = (0..3).map(|player| game.action_set(player).n_actions()).collect();
    assert_eq!(n_actions, [Some(16), Some(5), Some(3)]);
}

/// The maximum size of an exact expectation is the same in a file and in a reasoning player.
#[test]
fn exact_expectations_are_taken_as_far_as_a_file_may_ask() {
    let text = |largest: u32| {
        let player = |name: &str, more: &str, largest: u32| {
            format!(
                "[players.{name}]\n{more}\nspace.n = {{ type = \"int\", low = 1, high = {largest} }}\n"
            )
        };
        let head = "[game]\nname = \"many\"\nrounds = 2\ninitial = 1\n[payoffs]\ncommand = [\"echo\", \"1\", \"2\", \"3\"]\n";
        head.to_owned()
            + &player("few", "level = 1\nexpectation = \"exact\"\nsurrogate.lengthscale = 0.5", 2)
            + &player("many", "level = 0", 512)
            + &player("more", "level = 0", largest)
    };
    assert_eq!(played(&text(512)).course().rounds().len(), 2);
    let (_folder, path) = written(&text(513));
    let message = GameFile::load(&path).unwrap_err().to_string();
    for part in ["line 9", "players.few.expectation = \"exact\"", "262144", "262656"] {
        assert!(message.contains(part), "{message}");
    }
}
