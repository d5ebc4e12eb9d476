//! `actions`: the actions of each player, one panel per parameter.

use super::dots::{Dot, dot_size, rounds_per_dot, rounds_with_dots, spread_of, thinned};
use super::{GamePicture, ParameterCourse, counted, round_number};
use crate::chart::axis::Axis;
use crate::chart::style::{Glyph, INK, Marker, color_of_arm, grid, tick_font};
use crate::chart::text::Font;
use crate::chart::{Chart, Key, Panel, Sign, at};

/// Maximum number of parameters shown.
const N_PANELS_MAX: usize = 24;
/// A layout with one row per player is used only up to these numbers of players and of parameters
/// per player.
const N_ROWS_MAX: usize = 4;
const N_COLUMNS_MAX: usize = 5;
/// Maximum number of integer values that are shown in rows, like choices.
const N_WHOLE_ROWS: f64 = 12.0;
/// From this number of rounds on, the markers of a choice are spread over its row, which makes
/// their density visible.
const N_FOR_SPREAD: usize = 100;
/// Fraction of a row over which markers are spread: for a choice, and for an integer.
const CHOICE_SPREAD: f64 = 0.6;
const WHOLE_SPREAD: f64 = 0.4;
/// Radius of a dot, and minimum radius of a cross.
const DOT: f64 = 3.0;
const CROSS_MIN: f64 = 3.0;
/// Maximum width of a player's name in a panel's title, as a fraction of the panel's width.
const NAME_PART: f64 = 0.5;

pub(super) fn chart(game: &GamePicture) -> Chart {
    let n_rounds = game.n_rounds();
    let of_players = game.players.iter().enumerate();
    let mut shown: Vec<(usize, &ParameterCourse)> = of_players
        .flat_map(|(index, player)| player.parameters.iter().map(move |p| (index, p)))
        .collect();
    let n_left_off = shown.len().saturating_sub(N_PANELS_MAX);
    shown.truncate(N_PANELS_MAX);

    let Grid { n_columns, size, cells } = Grid::of(&shown);
    let n_ticks = if n_columns == 1 { 7 } else { 5 };
    let title = Font { bold: true, ..tick_font(n_columns) };
    let nothing = if n_rounds == 0 { "no round was played" } else { "" };
    let every = rounds_per_dot(n_rounds, shown.len());
    let mark = dot_size(n_rounds, DOT);
    let mut crosses = Vec::new();
    let mut panels: Vec<Panel> = Vec::with_capacity(shown.len());
    let titles = titles(game, &shown, size.0, title);
    for (index, ((player_idx, parameter), title)) in shown.iter().zip(titles).enumerate() {
        let player = &game.players[*player_idx];
        let y = Axis::of_range(&parameter.range, n_ticks, Axis::rows);
        let (cell, nothing) = (cells[index], nothing.to_owned());
        let mut panel =
            Panel { title, cell, nothing, ..Panel::new(size, game.x_axis(n_columns), y) };
        game.lay_band(&mut panel);
        let place = |round_idx: usize| {
            let spread = if n_rounds > N_FOR_SPREAD { spread_of(round_idx) } else { 0.0 };
            let moved = (WHOLE_SPREAD * spread, CHOICE_SPREAD * spread);
            let y = parameter.values[round_idx].place(&parameter.range, moved, N_WHOLE_ROWS);
            at(round_number(round_idx), y.unwrap_or(0.0))
        };
        let is_own = |round_idx: &usize| !player.is_substituted(*round_idx);
        let own = rounds_with_dots(n_rounds, every).filter(is_own).map(place).collect();
        panel.points(own, game.dot(color_of_arm(*player_idx)), mark);
        let others = (0..n_rounds).filter(|round_idx| !is_own(round_idx));
        crosses.extend(others.map(|round_idx| Dot::of(&panel, index, place(round_idx))));
        panels.push(panel);
    }
    for cross in thinned(crosses) {
        let glyph = Glyph::new(Marker::Cross, color_of_arm(shown[cross.series].0));
        panels[cross.series].points(vec![cross.mark], glyph, mark.max(CROSS_MIN));
    }
    if panels.is_empty() {
        let mut panel = Panel::new(size, game.x_axis(1), Axis::bare(0.0, 1.0));
        game.lay_band(&mut panel);
        let nothing = if nothing.is_empty() { "no player has a parameter" } else { nothing };
        panels.push(Panel { nothing: nothing.to_owned(), ..panel });
    }

    let mut footnote = counted(n_rounds, "round", "rounds");
    if every > 1 {
        footnote += &format!("; dots: 1 round in {every}");
    }
    if n_left_off > 0 {
        let others = counted(n_left_off, "more parameter", "more parameters");
        footnote += &format!("; {others} not shown");
    }
    Chart {
        title: game.title.clone(),
        keys: keys(game, &shown),
        panels,
        x_label: "round".to_owned(),
        footnote,
        ..Chart::default()
    }
}

/// The grid of panels.
struct Grid {
    n_columns: usize,
    size: (f64, f64),
    /// Row and column of each panel.
    cells: Vec<(usize, usize)>,
}

impl Grid {
    /// Uses one row per player if there are few players and at least one has several parameters;
    /// otherwise places one panel after another.
    fn of(panels: &[(usize, &ParameterCourse)]) -> Self {
        let of_players: Vec<_> = panels.chunk_by(|a, b| a.0 == b.0).collect();
        let n_most = of_players.iter().map(|panels| panels.len()).max();
        let n_most = n_most.unwrap_or(0);
        let in_rows =
            (2..=N_ROWS_MAX).contains(&of_players.len()) && (2..=N_COLUMNS_MAX).contains(&n_most);
        if in_rows {
            let row =
                |(row, panels): (usize, &&[_])| (0..panels.len()).map(move |column| (row, column));
            // Panels in four columns have the same size as in five.
            let (_, size) = grid(if n_most < 4 { n_most } else { 10 });
            Self {
                n_columns: n_most,
                size,
                cells: of_players.iter().enumerate().flat_map(row).collect(),
            }
        } else {
            let (n_columns, size) = grid(panels.len());
            let cell = |index: usize| (index / n_columns, index % n_columns);
            Self { n_columns, size, cells: (0..panels.len()).map(cell).collect() }
        }
    }
}

/// Returns the panel titles, "player: parameter". Both parts are shortened if they do not fit
/// together.
fn titles(
    game: &GamePicture,
    panels: &[(usize, &ParameterCourse)],
    room: f64,
    font: Font,
) -> Vec<String> {
    let short_names = game.short_names(font, NAME_PART * room);
    let mut titles = Vec::with_capacity(panels.len());
    for of_player in panels.chunk_by(|a, b| a.0 == b.0) {
        let player_idx = of_player[0].0;
        let prefix = format!("{}: ", short_names[player_idx]);
        let names: Vec<&str> = of_player.iter().map(|(_, p)| p.name.as_str()).collect();
        let names = font.cut_apart(&names, room - font.room(&prefix));
        for ((_, parameter), name) in of_player.iter().zip(names) {
            let whole = format!("{}: {}", game.players[player_idx].name, parameter.name);
            let shown = font.cut(&whole, room);
            titles.push(if shown == whole { shown } else { prefix.clone() + &name });
        }
    }
    titles
}

/// Returns the legend entries of the marks in use.
fn keys(game: &GamePicture, panels: &[(usize, &ParameterCourse)]) -> Vec<Key> {
    let is_shown = |player_idx: usize| panels.iter().any(|(index, _)| *index == player_idx);
    let texts = game.key_texts().into_iter().enumerate();
    let mut keys: Vec<Key> = texts
        .filter(|(index, _)| is_shown(*index))
        .map(|(index, text)| Key::new(Sign::Fill(color_of_arm(index)), text))
        .collect();
    keys.extend(game.band_key());
    let mut players = game.players.iter().enumerate();
    if players.any(|(index, player)| is_shown(index) && player.substituted.contains(&true)) {
        let text = "substitute for a failed action".to_owned();
        keys.push(Key::new(Sign::Point(Glyph::failed(INK)), text));
    }
    keys
}
