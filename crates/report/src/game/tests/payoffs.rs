//! Tests of `payoffs`.

use super::*;

/// Colours of the players' dots if there are few rounds.
const PALE_BLUE: &str = "#8CBFDC";
const PALE_VERMILION: &str = "#ECB68C";

#[test]
fn each_payoff_is_a_dot_and_each_player_has_a_line() {
    let first = [3.0, 1.0, 4.0, 2.0, 6.0, 4.0].map(Some).to_vec();
    let second = first.iter().map(|payoff| payoff.map(|p| 7.0 - p)).collect();
    let svg = payoffs_svg(&game(
        2,
        vec![player("attacker", "level 2", first), player("defender", "by hand", second)],
    ));
    let (blue, vermilion) = (discs(&svg, PALE_BLUE), discs(&svg, PALE_VERMILION));
    assert_eq!((blue.len(), vermilion.len()), (6, 6));
    for pair in blue.windows(2) {
        assert!(pair[0].0 < pair[1].0, "rounds go to the right");
    }
    // Larger payoffs are higher, on a linear scale: the distance from 1 to 3 equals the distance
    // from 4 to 6.
    let steps = [blue[1].1 - blue[0].1, blue[2].1 - blue[4].1];
    assert!(steps[0] > 0.0 && (steps[0] - steps[1]).abs() <= 2.0, "{steps:?}");
    // The means after the two random rounds: 4, 3, 4, 4.
    let lines = lines(&svg, BLUE, 2);
    assert_eq!(lines.len(), 1, "the first player's line is solid");
    let line = &lines[0];
    assert_eq!(line.len(), 4);
    for (at, (round_idx, like)) in line.iter().zip([(2, 2), (3, 0), (4, 2), (5, 2)]) {
        assert!((at.0 - blue[round_idx].0).abs() <= 1.0, "{line:?}");
        assert!((at.1 - blue[like].1).abs() <= 1.0, "{line:?}");
    }
    for words in [
        "a &lt; b",
        "attacker: level 2",
        "defender: by hand",
        "2 random rounds",
        "round",
        "payoff (larger is better)",
        "6 rounds; dots: payoffs; lines: mean after the random rounds",
    ] {
        assert!(says(&svg, words), "{words} in {:?}", texts(&svg));
    }
    assert!(!says(&svg, "lost") && !says(&svg, "payoff lost"));
}

#[test]
fn a_band_holds_the_random_rounds_that_were_played() {
    let band_of = |n_initial: usize| {
        let mut game = constant_sum(6);
        game.n_initial = n_initial;
        let svg = payoffs_svg(&game);
        // The last band is in the panel, the one before it in the legend.
        let bands = rectangles(&svg, BAND);
        let xs: Vec<f64> = discs(&svg, PALE_BLUE).iter().map(|at| at.0).collect();
        (bands, xs)
    };
    let (bands, xs) = band_of(2);
    assert_eq!(bands.len(), 2);
    let [left, _, right, _] = bands[1];
    assert!(left < xs[0] && xs[1] < right && right < xs[2]);
    let (bands, xs) = band_of(9);
    assert!(bands[1][0] < xs[0] && xs[5] < bands[1][2], "the game ended before");
    assert_eq!(band_of(0).0.len(), 0);
}

#[test]
fn without_random_rounds_the_mean_is_that_of_all() {
    let mut game = constant_sum(6);
    game.n_initial = 0;
    let svg = payoffs_svg(&game);
    assert!(says(&svg, "6 rounds; dots: payoffs; lines: mean so far"));
    assert_eq!(lines(&svg, BLUE, 2)[0].len(), 6);
    game.n_initial = 6;
    let svg = payoffs_svg(&game);
    assert!(says(&svg, "6 rounds; dots: payoffs"), "no line yet");
    assert_eq!(lines(&svg, BLUE, 2).len(), 0);
}

#[test]
fn lost_payoffs_stand_below_the_axis_each_player_in_a_row() {
    let mut game = constant_sum(8);
    game.players[0].payoffs[3] = None;
    game.players[1].payoffs[3] = None;
    game.players[1].payoffs[6] = None;
    let svg = payoffs_svg(&game);
    let (blue, vermilion) = (polygons(&svg, BLUE, 12), polygons(&svg, VERMILION, 12));
    assert_eq!((blue.len(), vermilion.len()), (1, 2));
    assert!((blue[0].0 - vermilion[0].0).abs() <= 1.0 && vermilion[1].0 > blue[0].0);
    assert!(blue[0].1 + 8.0 < vermilion[0].1, "a row of its own");
    assert!((vermilion[0].1 - vermilion[1].1).abs() <= 1.0);
    let dots = [discs(&svg, PALE_BLUE), discs(&svg, PALE_VERMILION)];
    assert_eq!((dots[0].len(), dots[1].len()), (7, 6));
    assert!(dots.iter().flatten().all(|at| at.1 < blue[0].1));
    assert_eq!(polygons(&svg, INK, 12).len(), 1, "the legend's");
    assert!(says(&svg, "lost") && says(&svg, "payoff lost"));
    let footnote = "8 rounds, 3 payoffs lost; dots: payoffs; lines: mean after the random rounds";
    assert!(says(&svg, footnote), "{:?}", texts(&svg));
}

#[test]
fn where_all_are_lost_the_panel_says_so() {
    let svg = payoffs_svg(&game(0, vec![player("a", "", vec![None; 3])]));
    assert!(says(&svg, "all payoffs are lost"));
    assert_eq!(polygons(&svg, BLUE, 12).len(), 3);
}

#[test]
fn players_whose_payoffs_differ_in_scale_have_a_panel_each() {
    let mut game = constant_sum(10);
    let scaled = |payoff: &Option<f64>| payoff.map(|payoff| 1000.0 * payoff);
    game.players[1].payoffs = game.players[1].payoffs.iter().map(scaled).collect();
    game.players[1].payoffs[7] = None;
    let svg = payoffs_svg(&game);
    let (first, second) =
        (at_of(&svg, "attacker: level 1"), at_of(&svg, "defender: level 0 (gp-mw)"));
    assert!(first.0 + 1000.0 < second.0 && (first.1 - second.1).abs() <= 1.0);
    let (blue, vermilion) = (discs(&svg, PALE_BLUE), discs(&svg, PALE_VERMILION));
    assert_eq!((blue.len(), vermilion.len()), (10, 9));
    assert!(blue.iter().all(|at| at.0 < second.0) && vermilion.iter().all(|at| at.0 > second.0));
    // Each player fills a separate axis.
    for dots in [&blue, &vermilion] {
        let low = dots.iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
        let high = dots.iter().map(|at| at.1).fold(0.0, f64::max);
        assert!(high - low > 0.7 * 4.0 * 220.0, "{low} to {high}");
    }
    let crosses = polygons(&svg, VERMILION, 12);
    assert_eq!(crosses.len(), 1);
    assert!(crosses[0].0 > second.0, "in the panel of the player that lost it");
    assert_eq!(rectangles(&svg, BAND).len(), 3, "each panel's and the legend's");
}

#[test]
fn a_player_without_a_label_is_called_by_name_alone() {
    let svg = payoffs_svg(&game(0, vec![player("alone", "", vec![Some(1.0)])]));
    assert!(says(&svg, "alone"));
    assert!(says(&svg, "1 round; dots: payoffs; lines: mean so far"));
}
