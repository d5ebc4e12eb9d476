//! `payoffs`: each player's payoffs by round, and their running mean.

use super::dots::{Dot, dot_size, rounds_per_dot, rounds_with_dots, thinned};
use super::{GamePicture, PlayerCourse, counted, round_number};
use crate::chart::axis::Axis;
use crate::chart::style::{Glyph, INK, Stroke, color_of_arm, faded, grid, tick_font};
use crate::chart::text::Font;
use crate::chart::values::within_magnitude;
use crate::chart::{At, Chart, Key, Panel, Sign, Strip, at, in_strip};

/// Minimum fraction of a shared axis that each player's payoffs must span.
const LEAST_PART: f64 = 1.0 / 20.0;
/// Approximate maximum number of points in a line of means. A panel has fewer pixels.
const N_POINTS_MAX: usize = 1200;
/// Radius of a dot, and of a marker on a line.
const DOT: f64 = 2.8;
const MARKER: f64 = 3.8;
/// Heights of the strip for lost payoffs: with a single row, per row if there are several, and the
/// maximum.
const STRIP: f64 = 20.0;
const STRIP_ROW: f64 = 8.0;
const STRIP_MAX: f64 = 64.0;
/// The label of the strip.
const LOST: &str = "lost";

pub(super) fn chart(game: &GamePicture) -> Chart {
    let players = &game.players;
    let n_rounds = game.n_rounds();
    let apart = differ_in_scale(players);
    let panel_of = |player_idx: usize| if apart { player_idx } else { 0 };
    let means: Vec<Vec<At>> = players.iter().map(|p| means_so_far(p, game.n_initial)).collect();
    let has_lost = |index: &usize| players[*index].payoffs.iter().any(Option::is_none);
    let losers: Vec<usize> = (0..players.len()).filter(has_lost).collect();
    let n_rows = if apart { 1 } else { losers.len().max(1) };
    let height = (STRIP_ROW * n_rows as f64 + 4.0).clamp(STRIP, STRIP_MAX);
    let strip = (!losers.is_empty()).then_some(Strip { above: false, height, label: LOST });

    let (n_columns, size) = grid(if apart { players.len() } else { 1 });
    let texts = game.key_texts();
    let groups: Vec<&[PlayerCourse]> =
        if apart { players.chunks(1).collect() } else { vec![&players[..]] };
    let panel = |(index, players): (usize, &[PlayerCourse])| {
        let cell = (index / n_columns, index % n_columns);
        let y = y_axis(players, if n_columns == 1 { 7 } else { 5 });
        let nothing = nothing(players).to_owned();
        let mut panel =
            Panel { cell, nothing, strip, ..Panel::new(size, game.x_axis(n_columns), y) };
        game.lay_band(&mut panel);
        panel
    };
    let mut panels: Vec<Panel> = groups.into_iter().enumerate().map(panel).collect();
    let mut keys = Vec::new();
    if apart {
        let font = Font { bold: true, ..tick_font(n_columns) };
        let titles: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (panel, title) in panels.iter_mut().zip(font.cut_apart(&titles, size.0)) {
            panel.title = title;
        }
    } else {
        keys.extend(texts.into_iter().enumerate().map(|(index, text)| {
            Key::new(Sign::curve(Stroke::of_arm(index), Glyph::of_arm(index)), text)
        }));
    }
    keys.extend(game.band_key());
    if !losers.is_empty() {
        let sign = Sign::Point(Glyph::failed(INK));
        keys.push(Key::new(sign, "payoff lost"));
    }

    // Dots are drawn round by round, so that no player covers all the others.
    let mark = dot_size(n_rounds, DOT);
    let percent = if n_rounds <= 200 { 45 } else { 30 };
    for round_idx in rounds_with_dots(n_rounds, rounds_per_dot(n_rounds, players.len())) {
        for (player_idx, player) in players.iter().enumerate() {
            if let Some(payoff) = player.payoffs[round_idx] {
                let place = at(round_number(round_idx), within_magnitude(payoff));
                let glyph = game.dot(faded(color_of_arm(player_idx), percent));
                panels[panel_of(player_idx)].points(vec![place], glyph, mark);
            }
        }
    }
    // Each player that lost a payoff has a row in the strip, the first player at the top.
    let lost = losers.iter().enumerate().flat_map(|(row, player_idx)| {
        let share = 1.0 - (if apart { 0.0 } else { row as f64 } + 0.5) / n_rows as f64;
        let payoffs = players[*player_idx].payoffs.iter().enumerate();
        let rounds = payoffs.filter(|(_, payoff)| payoff.is_none());
        let panel = &panels[panel_of(*player_idx)];
        rounds.map(move |(round_idx, _)| {
            Dot::of(panel, *player_idx, in_strip(round_number(round_idx), share))
        })
    });
    let lost = thinned(lost.collect());
    let cross = dot_size(n_rounds, 3.7).clamp(1.9, (0.5 * height / n_rows as f64).max(1.9));
    for dot in lost {
        let glyph = Glyph::failed(color_of_arm(dot.series));
        panels[panel_of(dot.series)].points(vec![dot.mark], glyph, cross);
    }
    // The first player is drawn last, on top.
    for (player_idx, means) in means.iter().enumerate().rev() {
        let every = means.len().div_ceil(N_POINTS_MAX).max(1);
        let end = means.len().saturating_sub(1);
        let kept = (0..means.len()).filter(|index| index % every == 0 || *index == end);
        let points = kept.map(|index| means[index]).collect();
        panels[panel_of(player_idx)].line(points, Stroke::of_arm(player_idx));
    }
    for (player_idx, means) in means.iter().enumerate().rev() {
        let every = means.len().div_ceil(if apart { 5 } else { 8 }).max(1);
        let first = player_idx * every / players.len().max(1);
        let marked = means.iter().skip(first).step_by(every).copied().collect();
        panels[panel_of(player_idx)].points(marked, Glyph::of_arm(player_idx), MARKER);
    }
    Chart {
        title: game.title.clone(),
        keys,
        panels,
        x_label: "round".to_owned(),
        y_label: "payoff (larger is better)".to_owned(),
        footnote: footnote(game, means.iter().any(|means| !means.is_empty())),
        ..Chart::default()
    }
}

/// Creates the axis over all payoffs of these players.
fn y_axis(players: &[PlayerCourse], n_ticks: u32) -> Axis {
    let axis = |(low, high)| Axis::linear(low, high, n_ticks);
    range_of(players).map_or_else(|| Axis::bare(0.0, 1.0), axis)
}

/// Returns the text for an empty picture; an empty string if there is something to show.
fn nothing(players: &[PlayerCourse]) -> &'static str {
    match range_of(players) {
        Some(_) => "",
        None if players.iter().any(|player| !player.payoffs.is_empty()) => "all payoffs are lost",
        None => "no round was played",
    }
}

/// Returns the minimum and maximum payoff of these players; `None` if there are no payoffs.
fn range_of(players: &[PlayerCourse]) -> Option<(f64, f64)> {
    let payoffs = || {
        let all = players.iter().flat_map(|player| &player.payoffs);
        all.flatten().map(|payoff| within_magnitude(*payoff))
    };
    payoffs().reduce(f64::min).zip(payoffs().reduce(f64::max))
}

/// Returns true if some player's payoffs would be hard to distinguish on a shared axis: if the
/// range of all payoffs is more than 20 times this player's range.
///
/// If each player's payoffs are all equal, their magnitudes are compared instead.
fn differ_in_scale(players: &[PlayerCourse]) -> bool {
    let width = |(low, high): (f64, f64)| high - low;
    let ranges: Vec<_> =
        players.iter().filter_map(|player| range_of(std::slice::from_ref(player))).collect();
    let least = |lengths: &mut dyn Iterator<Item = f64>| {
        lengths.filter(|length| *length > 0.0).reduce(f64::min)
    };
    let whole = range_of(players).map_or(0.0, width);
    match least(&mut ranges.iter().copied().map(width)) {
        Some(narrowest) => narrowest < LEAST_PART * whole,
        None => {
            let magnitudes = || ranges.iter().map(|(low, _)| low.abs());
            let largest = magnitudes().fold(0.0, f64::max);
            least(&mut magnitudes()).is_some_and(|smallest| smallest < LEAST_PART * largest)
        }
    }
}

/// Returns the running mean of the payoffs after the random rounds, starting at the first of these
/// payoffs.
fn means_so_far(player: &PlayerCourse, n_initial: usize) -> Vec<At> {
    let mut means = Vec::new();
    let (mut n_payoffs, mut mean) = (0.0, 0.0);
    for (round_idx, payoff) in player.payoffs.iter().enumerate().skip(n_initial) {
        if let Some(payoff) = payoff {
            n_payoffs += 1.0;
            mean += (within_magnitude(*payoff) - mean) / n_payoffs;
        }
        if n_payoffs > 0.0 {
            means.push(at(round_number(round_idx), mean));
        }
    }
    means
}

/// Returns the footnote: the numbers of rounds and of lost payoffs, and the meaning of dots and
/// lines.
fn footnote(game: &GamePicture, any_mean: bool) -> String {
    let mut text = counted(game.n_rounds(), "round", "rounds");
    let payoffs = || game.players.iter().flat_map(|player| &player.payoffs);
    let n_lost = payoffs().filter(|payoff| payoff.is_none()).count();
    if n_lost > 0 {
        text += &format!(", {} lost", counted(n_lost, "payoff", "payoffs"));
    }
    if payoffs().any(Option::is_some) {
        let every = rounds_per_dot(game.n_rounds(), game.players.len());
        text += &match every {
            1 => "; dots: payoffs".to_owned(),
            _ => format!("; dots: 1 round in {every}"),
        };
    }
    if any_mean && game.n_random() > 0 {
        text += "; lines: mean after the random rounds";
    } else if any_mean {
        text += "; lines: mean so far";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(payoffs: &[Option<f64>]) -> PlayerCourse {
        PlayerCourse { payoffs: payoffs.to_vec(), ..PlayerCourse::default() }
    }

    #[test]
    fn means_leave_out_random_rounds_and_lost_payoffs() {
        let player = player(&[Some(100.0), None, Some(2.0), None, Some(4.0), Some(0.0)]);
        let means = means_so_far(&player, 1);
        // Rounds 3 to 6.
        assert_eq!(means, [at(3.0, 2.0), at(4.0, 2.0), at(5.0, 3.0), at(6.0, 2.0)]);
        assert_eq!(means_so_far(&player, 9), []);
    }

    #[test]
    fn players_are_apart_where_one_would_be_pressed_together() {
        let apart = |payoffs: &[&[f64]]| {
            let players = payoffs.iter().map(|payoffs| {
                let payoffs: Vec<Option<f64>> = payoffs.iter().copied().map(Some).collect();
                player(&payoffs)
            });
            differ_in_scale(&players.collect::<Vec<_>>())
        };
        assert!(!apart(&[]) && !apart(&[&[]]) && !apart(&[&[1.0, 2.0], &[]]));
        assert!(!apart(&[&[0.0, 1.0], &[0.0, 19.9]]));
        assert!(apart(&[&[0.0, 1.0], &[0.0, 20.1]]));
        assert!(apart(&[&[0.0, 1.0], &[1000.0, 1001.0]]), "equally wide, far apart");
        assert!(!apart(&[&[0.0, 1.0], &[0.5, 0.5]]), "always the same payoff");
        assert!(apart(&[&[0.01], &[5.0]]) && !apart(&[&[3.0], &[-4.0], &[0.0]]), "one round");
        assert!(!apart(&[&[-f64::MAX, 0.0], &[0.0, f64::MAX]]));
    }
}
