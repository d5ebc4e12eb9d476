//! Tests of the contents of a game's pictures, including awkward data.

mod actions;
mod payoffs;

use super::*;
use crate::chart::svg::{
    BLUE, INK, VERMILION, assert_sound, at_of, discs, elements, lines, png_size, polygons,
    rectangles, says, svg_size, texts,
};

const BAND: &str = "#E2E4EE";

/// Returns a deterministic pseudorandom number from 0 to 1 (the square of the fractional part of a
/// multiple of the golden ratio).
fn noise(index: usize) -> f64 {
    let index = index as f64;
    (index * index * 0.618_033_988_749_894_9 + index * 0.754_877_666).fract()
}

fn player(name: &str, label: &str, payoffs: Vec<Option<f64>>) -> PlayerCourse {
    PlayerCourse {
        name: name.to_owned(),
        label: label.to_owned(),
        payoffs,
        ..PlayerCourse::default()
    }
}

fn float(name: &str, (low, high): (f64, f64), log: bool, values: &[f64]) -> ParameterCourse {
    ParameterCourse {
        name: name.to_owned(),
        range: Kind::Float { low, high, log },
        values: values.iter().copied().map(PlottedValue::Number).collect(),
    }
}

fn choices(name: &str, choices: &[&str], indices: &[usize]) -> ParameterCourse {
    let choices = choices.iter().map(|choice| (*choice).into()).collect();
    ParameterCourse {
        name: name.to_owned(),
        range: Kind::Categorical { choices },
        values: indices.iter().copied().map(PlottedValue::Choice).collect(),
    }
}

fn game(n_initial: usize, players: Vec<PlayerCourse>) -> GamePicture {
    GamePicture { title: "a < b".to_owned(), n_initial, players }
}

/// Creates a game in which the payoffs sum to one: two players with one number each.
fn constant_sum(n_rounds: usize) -> GamePicture {
    let share = |round_idx: usize| {
        let learnt = 0.2 * (round_idx as f64 / 15.0).min(1.0);
        (0.5 * noise(round_idx) + 0.25 + learnt).min(1.0)
    };
    let rounds = || 0..n_rounds;
    let attack: Vec<f64> = rounds().map(|t| noise(t + 100)).collect();
    let defence: Vec<f64> = rounds().map(|t| noise(t + 200)).collect();
    let first = PlayerCourse {
        parameters: vec![float("rate", (0.0, 1.0), false, &attack)],
        ..player("attacker", "level 1", rounds().map(|t| Some(share(t))).collect())
    };
    let second = PlayerCourse {
        parameters: vec![float("rate", (0.0, 1.0), false, &defence)],
        ..player("defender", "level 0 (gp-mw)", rounds().map(|t| Some(1.0 - share(t))).collect())
    };
    game(5, vec![first, second])
}

/// Creates players with `n_parameters` numbers each.
fn many(n_players: usize, n_parameters: usize, n_rounds: usize) -> GamePicture {
    let rounds = || 0..n_rounds;
    let course = |index: usize| {
        let seed = 1000 * index;
        let level = noise(index + 7);
        let payoffs = rounds().map(|t| Some(level + noise(seed + t) - noise(seed + 3 * t)));
        let values: Vec<f64> = rounds().map(|t| noise(seed + 2 * t)).collect();
        PlayerCourse {
            parameters: (0..n_parameters)
                .map(|p| float(&format!("x{p}"), (0.0, 1.0), false, &values))
                .collect(),
            ..player(&format!("player {index}"), &format!("level {}", index % 3), payoffs.collect())
        }
    };
    game(5, (0..n_players).map(course).collect())
}

/// Creates two players with names, labels, parameters and choices that are too long, in several
/// scripts.
fn long_names() -> GamePicture {
    let name = "der_verteidiger_des_größten_österreichischen_überlandnetzes_";
    let mut game = constant_sum(12);
    for (index, player) in game.players.iter_mut().enumerate() {
        player.name = format!("{name}{index}");
        player.label =
            "program python3 strategies/very/deep/folder/respond_to_everything.py".to_owned();
        let values: Vec<f64> = (0..12).map(|t| 10f64.powf(-5.0 + 4.0 * noise(t))).collect();
        let indices: Vec<usize> = (0..12).map(|t| t % 3).collect();
        player.parameters = vec![
            float(
                "encoder.layers.0.attention.dropout.rate.of.the.first",
                (1e-5, 1e-1),
                true,
                &values,
            ),
            choices(
                "ξ–стратегия",
                &["первая очень длинная стратегия", "вторая очень длинная стратегия", "ω"],
                &indices,
            ),
        ];
    }
    game.title = "Ein Titel, der nicht auf die Breite eines einzigen Bildes passt und daher gekürzt werden muss, etwa hier".to_owned();
    game
}

/// Returns both files that `write` creates in a folder: the SVG text and the PNG bytes.
fn files(names: [&str; 2], write: impl Fn(&Path) -> Result<(), ReportError>) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path()).expect("a picture");
    let [svg, png] = names.map(|name| std::fs::read(folder.path().join(name)).expect("the file"));
    (String::from_utf8(svg).expect("text"), png)
}

fn payoffs_svg(game: &GamePicture) -> String {
    files(GAME_PAYOFF_FILES, |folder| game.write_payoffs(folder)).0
}

fn actions_svg(game: &GamePicture) -> String {
    files(GAME_ACTION_FILES, |folder| game.write_actions(folder)).0
}

/// Returns the error of a picture that cannot be drawn, and checks that nothing was written.
fn refused(write: impl Fn(&Path) -> Result<(), ReportError>) -> ReportError {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = write(folder.path()).expect_err("no picture");
    let written = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(written.count(), 0);
    error
}

#[test]
fn both_files_of_both_pictures_are_written_in_equal_proportions() {
    let game = constant_sum(40);
    for (svg, png) in [
        files(GAME_PAYOFF_FILES, |folder| game.write_payoffs(folder)),
        files(GAME_ACTION_FILES, |folder| game.write_actions(folder)),
    ] {
        assert!(svg.contains("a &lt; b") && png.starts_with(b"\x89PNG"));
        let (width, height) = svg_size(&svg);
        assert_eq!(png_size(&png), (2.0 * width, 2.0 * height));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let nowhere = Path::new("/nonexistent");
    let game = constant_sum(3);
    for (error, name) in
        [(game.write_payoffs(nowhere), "payoffs.svg"), (game.write_actions(nowhere), "actions.svg")]
    {
        let error = error.expect_err("no such folder");
        assert!(matches!(error, ReportError::Write { .. }), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn what_is_not_finite_is_refused() {
    let mut game = constant_sum(4);
    game.players[1].payoffs[2] = Some(f64::INFINITY);
    game.players[0].parameters[0].values[3] = PlottedValue::Number(f64::NAN);
    let error = refused(|folder| game.write_payoffs(folder));
    let of_payoff = matches!(&error, ReportError::NotFinite { column: "payoff", value, .. } if value.is_infinite());
    assert!(of_payoff, "{error:?}");
    let error = refused(|folder| game.write_actions(folder));
    let of_action =
        matches!(&error, ReportError::NotFinite { column: "action", value, .. } if value.is_nan());
    assert!(of_action, "{error:?}");
    assert!(error.to_string().contains("actions.svg"), "{error}");
}

#[test]
fn rounds_of_different_numbers_are_refused() {
    let message = |game: &GamePicture| {
        let error = refused(|folder| game.write_actions(folder));
        assert!(matches!(error, ReportError::Draw { .. }), "{error:?}");
        error.to_string()
    };
    let mut game = constant_sum(4);
    game.players[1].payoffs.pop();
    let text = message(&game);
    assert!(text.contains("\"defender\" has 3 payoffs, but the first player has 4"), "{text}");
    assert!(matches!(refused(|folder| game.write_payoffs(folder)), ReportError::Draw { .. }));
    let mut game = constant_sum(4);
    game.players[0].substituted = vec![false; 5];
    let text = message(&game);
    assert!(text.contains("\"attacker\" has 5 flags"), "{text}");
    let mut game = constant_sum(4);
    game.players[0].parameters[0].values.pop();
    let text = message(&game);
    assert!(text.contains("\"attacker\", parameter \"rate\": 3 values"), "{text}");
}

#[test]
fn awkward_games_are_drawn_too() {
    let no_parameter = game(3, vec![player("a", "", vec![Some(1.0), None])]);
    let all_lost = game(0, vec![player("a", "by hand", vec![None; 3]); 2]);
    let huge = [f64::MAX, f64::MIN, 5e-324, 0.0, -1e300].map(Some).to_vec();
    let mut huge = game(1, vec![player("a", "", huge.clone()), player("b", "", huge)]);
    let values = [f64::MAX, f64::MIN, -1.0, 0.0, 1e-310];
    let ranges = [(0.0, 0.0), (f64::MIN, f64::MAX), (1e-308, 1e308)];
    huge.players[0].parameters = ranges
        .into_iter()
        .flat_map(|range| [false, true].map(|log| float("x", range, log, &values)))
        .chain([choices("none", &["only"], &[0; 5])])
        .collect();
    let mut whole = constant_sum(1);
    whole.players[0].parameters[0].range = Kind::Int { low: i64::MIN, high: i64::MAX, log: false };
    let cases = [
        ("no player", GamePicture::default()),
        ("no round", constant_sum(0)),
        ("one round", constant_sum(1)),
        ("only random rounds", constant_sum(4)),
        ("two after random ones", constant_sum(7)),
        ("no parameter", no_parameter),
        ("all lost", all_lost),
        ("huge", huge),
        ("all whole numbers", whole),
        ("long names", long_names()),
        ("sixteen players", many(16, 2, 30)),
    ];
    for (case, game) in cases {
        assert_sound(&payoffs_svg(&game), case);
        assert_sound(&actions_svg(&game), case);
    }
}

#[test]
fn ten_thousand_rounds_of_sixteen_players_are_files_of_a_few_megabytes() {
    let game = many(16, 1, 10_000);
    for svg in [payoffs_svg(&game), actions_svg(&game)] {
        assert_sound(&svg, "many");
        assert!(svg.len() < 4_000_000, "{}", svg.len());
        // 160,000 marks: one in 8 rounds has dots.
        assert!((20_000..20_100).contains(&elements(&svg, "circle").len()));
        let footnote = "10000 rounds; dots: 1 round in 8";
        assert!(texts(&svg).iter().any(|(text, _)| text.starts_with(footnote)));
    }
}

#[test]
fn a_game_without_rounds_says_so() {
    let game = constant_sum(0);
    assert!(says(&payoffs_svg(&game), "no round was played"));
    assert!(says(&actions_svg(&game), "no round was played"));
    assert!(says(&payoffs_svg(&game), "0 rounds"));
}
