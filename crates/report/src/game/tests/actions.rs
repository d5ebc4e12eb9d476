//! Tests of `actions`.

use super::*;

#[test]
fn each_parameter_of_each_player_has_a_panel_in_its_colour() {
    let svg = actions_svg(&constant_sum(40));
    let (blue, vermilion) = (discs(&svg, BLUE), discs(&svg, VERMILION));
    assert_eq!((blue.len(), vermilion.len()), (40, 40));
    let (first, second) = (at_of(&svg, "attacker: rate"), at_of(&svg, "defender: rate"));
    assert!(blue.iter().all(|at| at.0 > first.0 && at.0 < second.0));
    assert!(vermilion.iter().all(|at| at.0 > second.0));
    assert!(says(&svg, "attacker: level 1") && says(&svg, "defender: level 0 (gp-mw)"));
    assert!(says(&svg, "40 rounds") && says(&svg, "5 random rounds") && says(&svg, "round"));
    assert!(!svg.contains("substitute for"));
    assert_eq!(rectangles(&svg, BAND).len(), 3);
}

#[test]
fn a_logarithmic_range_has_a_logarithmic_axis() {
    let mut game = constant_sum(3);
    for log in [true, false] {
        game.players[0].parameters = vec![float("rate", (1e-4, 1.0), log, &[1e-4, 1e-2, 1.0])];
        let dots = discs(&actions_svg(&game), BLUE);
        let steps = [dots[0].1 - dots[1].1, dots[1].1 - dots[2].1];
        assert!(steps[0] > 0.0 && steps[1] > 0.0);
        assert_eq!((steps[0] - steps[1]).abs() <= 2.0, log, "{steps:?}");
    }
}

#[test]
fn choices_are_named_rows_from_the_top() {
    let mut game = game(0, vec![player("a", "", vec![Some(0.0); 4])]);
    game.players[0].parameters = vec![choices("way", &["left", "m<d", "right"], &[0, 2, 1, 0])];
    let svg = actions_svg(&game);
    let rows = ["left", "m&lt;d", "right"].map(|choice| at_of(&svg, choice).1);
    assert!(rows[0] < rows[1] && rows[1] < rows[2]);
    let dots = discs(&svg, BLUE);
    for (dot, row) in dots.iter().zip([rows[0], rows[2], rows[1], rows[0]]) {
        // The position of a text is its upper edge.
        assert!((dot.1 - row).abs() < 40.0, "{dots:?}, {rows:?}");
    }
}

#[test]
fn where_rounds_are_many_a_choice_fills_its_row_without_leaving_it() {
    let mut game = game(0, vec![player("a", "", vec![Some(0.0); 300])]);
    let indices: Vec<usize> = (0..300).map(|round_idx| round_idx % 2).collect();
    game.players[0].parameters = vec![choices("way", &["left", "right"], &indices)];
    let dots = discs(&actions_svg(&game), BLUE);
    assert_eq!(dots.len(), 300);
    let ys = |row: usize| -> Vec<f64> { dots.iter().skip(row).step_by(2).map(|at| at.1).collect() };
    let low = |ys: &[f64]| ys.iter().copied().fold(0.0, f64::max);
    let high = |ys: &[f64]| ys.iter().copied().fold(f64::INFINITY, f64::min);
    let (left, right) = (ys(0), ys(1));
    assert!(low(&left) < high(&right));
    assert!(low(&left) - high(&left) > 0.5 * 2.0 * 330.0);
}

#[test]
fn actions_that_stood_in_for_others_are_crosses_with_a_key() {
    let mut game = constant_sum(10);
    game.players[1].substituted = (0..10).map(|round_idx| round_idx == 6).collect();
    let svg = actions_svg(&game);
    assert_eq!((discs(&svg, BLUE).len(), discs(&svg, VERMILION).len()), (10, 9));
    let crosses = polygons(&svg, VERMILION, 12);
    assert_eq!(crosses.len(), 1);
    let xs: Vec<f64> = discs(&svg, VERMILION).iter().map(|at| at.0).collect();
    assert!(xs[5] < crosses[0].0 && crosses[0].0 < xs[6]);
    assert_eq!(polygons(&svg, INK, 12).len(), 1, "the legend's");
    assert!(says(&svg, "substitute for a failed action"));
}

#[test]
fn few_players_have_a_row_each() {
    let mut game = many(3, 2, 12);
    game.players[1].parameters.pop();
    let svg = actions_svg(&game);
    let title =
        |player: usize, parameter: usize| at_of(&svg, &format!("player {player}: x{parameter}"));
    for player in [0, 2] {
        let (left, right) = (title(player, 0), title(player, 1));
        assert!(left.0 < right.0 && (left.1 - right.1).abs() <= 1.0);
        assert!((left.0 - title(0, 0).0).abs() <= 1.0);
    }
    assert!(title(0, 0).1 < title(1, 0).1 && title(1, 0).1 < title(2, 0).1);
}

#[test]
fn of_many_parameters_the_first_are_shown_and_a_note_counts_the_others() {
    let svg = actions_svg(&many(16, 2, 12));
    let n_panels = texts(&svg).iter().filter(|(text, _)| text.contains(": x")).count();
    assert_eq!(n_panels, 24);
    assert!(says(&svg, "player 11: x1") && !says(&svg, "player 12: x0"));
    assert!(says(&svg, "player 11: level 2") && !says(&svg, "player 12: level 0"));
    assert!(says(&svg, "12 rounds; 8 more parameters not shown"));
    assert!(says(&actions_svg(&many(5, 5, 3)), "3 rounds; 1 more parameter not shown"));
    assert!(says(&actions_svg(&many(12, 2, 3)), "3 rounds"));
}

#[test]
fn a_value_that_does_not_fit_its_parameter_is_refused() {
    for (value, parameter) in [
        (PlottedValue::Choice(0), float("x", (0.0, 1.0), false, &[0.5; 4])),
        (PlottedValue::Choice(2), choices("x", &["a", "b"], &[0; 4])),
        (PlottedValue::Number(0.0), choices("x", &["a", "b"], &[0; 4])),
    ] {
        let mut game = constant_sum(4);
        game.players[0].parameters = vec![parameter];
        game.players[0].parameters[0].values[2] = value;
        let error = refused(|folder| game.write_actions(folder)).to_string();
        let words = "\"attacker\", parameter \"x\"";
        assert!(error.contains(words) && error.contains("of round 3 does not fit"), "{error}");
    }
}

#[test]
fn long_titles_keep_the_player_and_the_parameter() {
    let svg = actions_svg(&long_names());
    let texts = texts(&svg);
    for player in ["0", "1"] {
        let both = |text: &str| {
            let parts = text.split_once(": ");
            parts.is_some_and(|(name, parameter)| {
                name.contains('…') && name.ends_with(player) && parameter == "ξ–стратегия"
            })
        };
        let n_titles = texts.iter().filter(|(text, _)| both(text)).count();
        assert_eq!(n_titles, 1, "{texts:?}");
    }
}
