//! Tests of the contents of the pictures of a game, and of pictures of awkward data.

mod actions;
mod payoffs;

use super::*;

/// A place in pixels of the drawing.
type At = (f64, f64);

const BLUE: &str = "#0072B2";
const VERMILION: &str = "#D55E00";
const INK: &str = "#1E1E1E";
const BAND: &str = "#E2E4EE";

/// Numbers from 0 to 1 that look random and are always the same (the fractional parts of multiples of the golden ratio, squared).
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
    GamePicture {
        title: "a < b".to_owned(),
        n_initial,
        players,
    }
}

/// A game whose payoffs sum to one: two players, each with one number.
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
        ..player(
            "attacker",
            "level 1",
            rounds().map(|t| Some(share(t))).collect(),
        )
    };
    let second = PlayerCourse {
        parameters: vec![float("rate", (0.0, 1.0), false, &defence)],
        ..player(
            "defender",
            "level 0 (gp-mw)",
            rounds().map(|t| Some(1.0 - share(t))).collect(),
        )
    };
    game(5, vec![first, second])
}

/// Players with as many numbers each.
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
            ..player(
                &format!("player {index}"),
                &format!("level {}", index % 3),
                payoffs.collect(),
            )
        }
    };
    game(5, (0..n_players).map(course).collect())
}

/// Two players with names, labels, parameters and choices that do not fit, in several scripts.
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
                &[
                    "первая очень длинная стратегия",
                    "вторая очень длинная стратегия",
                    "ω",
                ],
                &indices,
            ),
        ];
    }
    game.title = "Ein Titel, der nicht auf die Breite eines einzigen Bildes passt und daher gekürzt werden muss, etwa hier".to_owned();
    game
}

/// Both files that `write` leaves in the folder: the SVG's text, and the bytes of the PNG.
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

/// Returns the error where there cannot be a picture, and checks that nothing was written.
fn refused(write: impl Fn(&Path) -> Result<(), ReportError>) -> ReportError {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = write(folder.path()).expect_err("no picture");
    let written = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(written.count(), 0);
    error
}

fn elements<'a>(svg: &'a str, tag: &str) -> Vec<&'a str> {
    let start = format!("{tag} ");
    svg.split('<')
        .filter(|element| element.starts_with(&start))
        .collect()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let (_, rest) = element
        .split_once(&format!(" {name}=\""))
        .unwrap_or_else(|| panic!("{name} of {element}"));
    rest.split('"').next().unwrap_or_default()
}

fn length(element: &str, name: &str) -> f64 {
    attribute(element, name).parse().expect("a length")
}

/// Middles of the discs of one colour.
fn discs(svg: &str, fill: &str) -> Vec<At> {
    let discs = elements(svg, "circle").into_iter();
    discs
        .filter(|disc| attribute(disc, "fill") == fill)
        .map(|disc| (length(disc, "cx"), length(disc, "cy")))
        .collect()
}

fn corners(element: &str) -> Vec<At> {
    let pair = |text: &str| {
        let (x, y) = text.split_once(',').expect("a pair");
        (x.parse().expect("x"), y.parse().expect("y"))
    };
    let points = attribute(element, "points").split_whitespace();
    points.map(pair).collect()
}

/// Middles of the polygons of one colour with so many corners.
fn polygons(svg: &str, fill: &str, n_corners: usize) -> Vec<At> {
    let polygons = elements(svg, "polygon").into_iter();
    let of_color = polygons.filter(|polygon| attribute(polygon, "fill") == fill);
    let middle = |corners: Vec<At>| {
        let n = corners.len() as f64;
        let add = |sum: At, at: &At| (sum.0 + at.0, sum.1 + at.1);
        let sum = corners.iter().fold((0.0, 0.0), add);
        (sum.0 / n, sum.1 / n)
    };
    let corners = of_color
        .map(corners)
        .filter(|corners| corners.len() == n_corners);
    corners.map(middle).collect()
}

/// Rectangles of one colour: left, upper, right and lower edge.
fn rectangles(svg: &str, fill: &str) -> Vec<[f64; 4]> {
    let rectangles = elements(svg, "rect").into_iter();
    rectangles
        .filter(|rectangle| attribute(rectangle, "fill") == fill)
        .map(|rectangle| {
            let [x, y, width, height] = ["x", "y", "width", "height"].map(|n| length(rectangle, n));
            [x, y, x + width, y + height]
        })
        .collect()
}

/// Corners of the lines of one colour with more than two of them: not those of axes and of the legend.
fn lines(svg: &str, stroke: &str) -> Vec<Vec<At>> {
    let lines = elements(svg, "polyline").into_iter();
    let of_color = lines.filter(|line| attribute(line, "stroke") == stroke);
    of_color
        .map(corners)
        .filter(|line| line.len() > 2)
        .collect()
}

/// Texts, each with its place.
fn texts(svg: &str) -> Vec<(String, At)> {
    let text = |element: &str| {
        let (_, content) = element.split_once('>').expect("a text");
        let at = (length(element, "x"), length(element, "y"));
        (content.trim().to_owned(), at)
    };
    elements(svg, "text").into_iter().map(text).collect()
}

fn at_of(svg: &str, wanted: &str) -> At {
    let texts = texts(svg);
    let found = texts.iter().find(|(text, _)| text == wanted);
    found.unwrap_or_else(|| panic!("{wanted} in {texts:?}")).1
}

fn says(svg: &str, wanted: &str) -> bool {
    texts(svg).iter().any(|(text, _)| text == wanted)
}

/// Every mark and every text within the picture, and every number a number.
fn assert_sound(svg: &str, case: &str) {
    for bad in ["NaN", "inf", "2147483647", "-2147483648"] {
        assert!(!svg.contains(bad), "{bad} in {case}");
    }
    let picture = elements(svg, "svg").remove(0);
    let size = ["width", "height"].map(|name| 4.0 * length(picture, name));
    let inside = |(x, y): At| (0.0..=size[0]).contains(&x) && (0.0..=size[1]).contains(&y);
    for disc in elements(svg, "circle") {
        let at = (length(disc, "cx"), length(disc, "cy"));
        // What is not a number lands in the corner.
        assert!(inside(at) && at.0 > 30.0 && at.1 > 30.0, "{disc} in {case}");
    }
    for polygon in elements(svg, "polygon") {
        assert!(
            corners(polygon).into_iter().all(inside),
            "{polygon} in {case}"
        );
    }
    for (text, at) in texts(svg) {
        assert!(inside(at), "{text} in {case}");
    }
}

#[test]
fn both_files_of_both_pictures_are_written_in_equal_proportions() {
    let game = constant_sum(40);
    for (svg, png) in [
        files(GAME_PAYOFF_FILES, |folder| game.write_payoffs(folder)),
        files(GAME_ACTION_FILES, |folder| game.write_actions(folder)),
    ] {
        assert!(svg.contains("a &lt; b") && png.starts_with(b"\x89PNG"));
        let big_endian = |at: usize| {
            f64::from(u32::from_be_bytes([
                png[at],
                png[at + 1],
                png[at + 2],
                png[at + 3],
            ]))
        };
        let size = elements(&svg, "svg").remove(0);
        assert_eq!(
            (big_endian(16), big_endian(20)),
            (2.0 * length(size, "width"), 2.0 * length(size, "height"))
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let nowhere = Path::new("/nonexistent");
    let game = constant_sum(3);
    for (error, name) in [
        (game.write_payoffs(nowhere), "payoffs.svg"),
        (game.write_actions(nowhere), "actions.svg"),
    ] {
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
    assert!(
        text.contains("\"defender\" has 3 payoffs, and the first player has 4"),
        "{text}"
    );
    assert!(matches!(
        refused(|folder| game.write_payoffs(folder)),
        ReportError::Draw { .. }
    ));
    let mut game = constant_sum(4);
    game.players[0].substituted = vec![false; 5];
    let text = message(&game);
    assert!(
        text.contains("\"attacker\" it is said of 5 rounds"),
        "{text}"
    );
    let mut game = constant_sum(4);
    game.players[0].parameters[0].values.pop();
    let text = message(&game);
    assert!(
        text.contains("\"attacker\", parameter \"rate\": 3 values"),
        "{text}"
    );
}

#[test]
fn awkward_games_are_drawn_too() {
    let no_parameter = game(3, vec![player("a", "", vec![Some(1.0), None])]);
    let all_lost = game(0, vec![player("a", "by hand", vec![None; 3]); 2]);
    let huge = [f64::MAX, f64::MIN, 5e-324, 0.0, -1e300].map(Some).to_vec();
    let mut huge = game(
        1,
        vec![player("a", "", huge.clone()), player("b", "", huge)],
    );
    let values = [f64::MAX, f64::MIN, -1.0, 0.0, 1e-310];
    let ranges = [(0.0, 0.0), (f64::MIN, f64::MAX), (1e-308, 1e308)];
    huge.players[0].parameters = ranges
        .into_iter()
        .flat_map(|range| [false, true].map(|log| float("x", range, log, &values)))
        .chain([choices("none", &["only"], &[0; 5])])
        .collect();
    let mut whole = constant_sum(1);
    whole.players[0].parameters[0].range = Kind::Int {
        low: i64::MIN,
        high: i64::MAX,
        log: false,
    };
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
        // 160,000 marks: one round in 8 has dots.
        assert!((20_000..20_100).contains(&elements(&svg, "circle").len()));
        let footnote = "10000 rounds; dots: 1 round in 8";
        assert!(
            texts(&svg)
                .iter()
                .any(|(text, _)| text.starts_with(footnote))
        );
    }
}

#[test]
fn a_game_without_rounds_says_so() {
    let game = constant_sum(0);
    assert!(says(&payoffs_svg(&game), "no round was played"));
    assert!(says(&actions_svg(&game), "no round was played"));
    assert!(says(&payoffs_svg(&game), "0 rounds"));
}
