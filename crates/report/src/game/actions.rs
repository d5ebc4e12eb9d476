//! `actions`: what each player chose, one panel a parameter.

use fedbo_space::{Kind, Value};
use plotters::backend::DrawingBackend;

use super::dots::{Dot, dot_size, draw_dot, rounds_per_dot, rounds_with_dots, spread_of, thinned};
use super::sheet::{PanelOf, Rounds, Sheet, Words, row_place};
use super::{GamePicture, ParameterCourse, counted, round_number, within_magnitude};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Canvas, Font};
use crate::plot::frame::draw_marker;
use crate::plot::render::Picture;
use crate::plot::style::{ArmStyle, Marker, grid, tick_font};
use crate::study::PlottedValue;
use crate::study::head::{Sign, WIDER};

/// So many parameters are shown.
const N_PANELS_MAX: usize = 24;
/// Players have a row each where they are no more than this, and have no more parameters than this.
const N_ROWS_MAX: usize = 4;
const N_COLUMNS_MAX: usize = 5;
/// Whole numbers get rows like choices if there are no more than this.
const N_WHOLE_ROWS: f64 = 12.0;
/// From more rounds than this on, the marks of a choice are spread over its row: one sees how many there are.
const N_FOR_SPREAD: usize = 100;
/// Over which part of its row: of a choice, and of a whole number.
const CHOICE_SPREAD: f64 = 0.6;
const WHOLE_SPREAD: f64 = 0.4;
/// Radius of a dot, and the least of a cross.
const DOT: f64 = 3.0;
const CROSS_MIN: f64 = 3.0;
/// Most room for a player's name in a panel's title, as a part of the panel's width.
const NAME_PART: f64 = 0.5;

/// The picture with its measures.
pub(super) struct Actions<'a> {
    game: &'a GamePicture,
    sheet: Sheet,
    /// The parameter of each panel, and whose it is.
    panels: Vec<(usize, &'a ParameterCourse)>,
}

impl<'a> Actions<'a> {
    pub(super) fn of(game: &'a GamePicture) -> Result<Self, String> {
        let rounds = Rounds {
            n_rounds: game.n_rounds(),
            n_initial: game.n_initial,
        };
        let of_players = game.players.iter().enumerate();
        let mut panels: Vec<(usize, &ParameterCourse)> = of_players
            .flat_map(|(index, player)| player.parameters.iter().map(move |p| (index, p)))
            .collect();
        let n_left_off = panels.len().saturating_sub(N_PANELS_MAX);
        panels.truncate(N_PANELS_MAX);

        let Layout {
            n_columns,
            panel_size,
            cells,
        } = Layout::of(&panels);
        let n_ticks = if n_columns == 1 { 7 } else { 5 };
        let title = Font {
            bold: true,
            ..tick_font(n_columns)
        };
        let titles = titles(game, &panels, panel_size.0 / WIDER, title)?;
        let nothing = (rounds.n_rounds == 0).then_some("no round was played");
        let mut of_parameters: Vec<PanelOf> = panels
            .iter()
            .zip(titles)
            .zip(cells)
            .map(|(((_, parameter), title), cell)| PanelOf {
                cell,
                title,
                nothing,
                ..panel(&parameter.range, n_ticks)
            })
            .collect();
        if of_parameters.is_empty() {
            of_parameters.push(PanelOf {
                cell: (0, 0),
                title: String::new(),
                y_axis: Axis::bare(),
                choices: Vec::new(),
                nothing: nothing.or(Some("no player has a parameter")),
            });
        }

        let mut footnote = counted(rounds.n_rounds, "round", "rounds");
        let every = rounds_per_dot(rounds.n_rounds, panels.len());
        if every > 1 {
            footnote += &format!("; dots: 1 round in {every}");
        }
        if n_left_off > 0 {
            let others = counted(n_left_off, "more parameter", "more parameters");
            footnote += &format!("; {others} not shown");
        }
        let words = Words {
            title: game.title.clone(),
            y_label: "",
            footnote,
            keys: keys(game, &panels, rounds)?,
            strip: (0.0, ""),
        };
        Ok(Self {
            game,
            sheet: Sheet::of(words, of_parameters, (n_columns, panel_size), rounds)?,
            panels,
        })
    }

    /// Dots of own actions and crosses of those that stood in for one.
    fn marks(&self) -> (Vec<Dot>, Vec<Dot>) {
        let n_rounds = self.game.n_rounds();
        let every = rounds_per_dot(n_rounds, self.panels.len());
        let (mut own, mut substituted) = (Vec::new(), Vec::new());
        for (index, (player_idx, parameter)) in self.panels.iter().enumerate() {
            let player = &self.game.players[*player_idx];
            let frame = self.sheet.frame(index);
            let mark = |round_idx: usize| {
                let is_spread = n_rounds > N_FOR_SPREAD;
                let spread = if is_spread { spread_of(round_idx) } else { 0.0 };
                let value = parameter.values[round_idx];
                let y = place(value, &parameter.range, spread, frame.y_axis);
                let x = frame.x_axis.place(round_number(round_idx));
                Dot {
                    at: (frame.x(x), frame.y(y)),
                    player_idx: *player_idx,
                }
            };
            let is_own = |round_idx: &usize| !player.is_substituted(*round_idx);
            let with_dots = rounds_with_dots(n_rounds, every);
            own.extend(with_dots.filter(is_own).map(mark));
            let others = (0..n_rounds).filter(|round_idx| !is_own(round_idx));
            substituted.extend(others.map(mark));
        }
        (own, substituted)
    }
}

impl Picture for Actions<'_> {
    fn size(&self) -> (u32, u32) {
        self.sheet.size()
    }

    fn n_panels(&self) -> usize {
        self.sheet.n_panels()
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        self.sheet.draw(canvas)?;
        let n_rounds = self.game.n_rounds();
        let size = dot_size(n_rounds, DOT);
        let (own, substituted) = self.marks();
        for dot in own {
            let color = ArmStyle::of(dot.player_idx).color;
            draw_dot(dot.at, (size, n_rounds), color, canvas)?;
        }
        for dot in thinned(substituted) {
            let cross = (Marker::Cross, ArmStyle::of(dot.player_idx).color);
            draw_marker(cross, dot.at, size.max(CROSS_MIN), canvas)?;
        }
        Ok(())
    }
}

/// The layout of the panels.
struct Layout {
    n_columns: usize,
    panel_size: (f64, f64),
    /// Row and column of each panel.
    cells: Vec<(usize, usize)>,
}

impl Layout {
    /// A row a player where there are few players, some with several parameters; otherwise one panel after another.
    fn of(panels: &[(usize, &ParameterCourse)]) -> Self {
        let of_players: Vec<_> = panels.chunk_by(|a, b| a.0 == b.0).collect();
        let n_most = of_players.iter().map(|panels| panels.len()).max();
        let n_most = n_most.unwrap_or(0);
        let in_rows =
            (2..=N_ROWS_MAX).contains(&of_players.len()) && (2..=N_COLUMNS_MAX).contains(&n_most);
        if in_rows {
            let row =
                |(row, panels): (usize, &&[_])| (0..panels.len()).map(move |column| (row, column));
            // Panels of four columns are as large as those of five.
            let (_, panel_size) = grid(if n_most < 4 { n_most } else { 10 });
            Self {
                n_columns: n_most,
                panel_size,
                cells: of_players.iter().enumerate().flat_map(row).collect(),
            }
        } else {
            let (n_columns, panel_size) = grid(panels.len());
            let cell = |index: usize| (index / n_columns, index % n_columns);
            Self {
                n_columns,
                panel_size,
                cells: (0..panels.len()).map(cell).collect(),
            }
        }
    }
}

/// "player: parameter" above each panel, each part shortened where both do not fit.
fn titles(
    game: &GamePicture,
    panels: &[(usize, &ParameterCourse)],
    width: f64,
    font: Font,
) -> Result<Vec<String>, String> {
    let short_names = game.short_names(font, NAME_PART * width)?;
    let mut titles = Vec::with_capacity(panels.len());
    for of_player in panels.chunk_by(|a, b| a.0 == b.0) {
        let player_idx = of_player[0].0;
        let prefix = format!("{}: ", short_names[player_idx]);
        let names: Vec<&str> = of_player.iter().map(|(_, p)| p.name.as_str()).collect();
        let names = font.shortened_apart(&names, width - font.width(&prefix)?)?;
        for ((_, parameter), name) in of_player.iter().zip(names) {
            let whole = format!("{}: {}", game.players[player_idx].name, parameter.name);
            let shown = font.shortened(&whole, width)?;
            titles.push(if shown == whole {
                shown
            } else {
                prefix.clone() + &name
            });
        }
    }
    Ok(titles)
}

/// The panel of a parameter, without its place and its title.
fn panel(range: &Kind, n_ticks: u32) -> PanelOf {
    let numbers = |low: f64, high: f64, log: bool, whole: bool| {
        let (low, high) = (within_magnitude(low), within_magnitude(high));
        let (low, high) = (low.min(high), low.max(high));
        if log && low > 0.0 {
            Axis::log(low.log10(), high.log10(), n_ticks)
        } else if whole {
            Axis::whole(low, high, n_ticks)
        } else {
            Axis::linear(low, high, n_ticks)
        }
    };
    let (y_axis, choices) = match range {
        Kind::Float { low, high, log } => (numbers(*low, *high, *log, false), Vec::new()),
        Kind::Int { low, high, log } => {
            (numbers(*low as f64, *high as f64, *log, true), Vec::new())
        }
        Kind::Stepped(grid) => {
            let axis = numbers(grid.low(), grid.high(), false, grid.is_whole());
            (axis, Vec::new())
        }
        Kind::Categorical { choices } => {
            let texts = choices.iter().map(Value::to_string);
            (Axis::bare(), texts.collect())
        }
    };
    PanelOf {
        cell: (0, 0),
        title: String::new(),
        y_axis,
        choices,
        nothing: None,
    }
}

/// Returns the place of a value on its panel's axis; `spread` from −0.5 to 0.5 moves it within its row.
fn place(value: PlottedValue, range: &Kind, spread: f64, axis: &Axis) -> f64 {
    match (value, range) {
        (PlottedValue::Choice(index), Kind::Categorical { choices }) => {
            row_place(index, choices.len()) + CHOICE_SPREAD * spread / choices.len().max(1) as f64
        }
        (PlottedValue::Choice(_), _) => 0.0,
        (PlottedValue::Number(number), Kind::Int { low, high, log })
            if !log && *high as f64 - (*low as f64) < N_WHOLE_ROWS =>
        {
            axis.place(within_magnitude(number) + WHOLE_SPREAD * spread)
        }
        (PlottedValue::Number(number), Kind::Stepped(grid))
            if grid.n_values() as f64 <= N_WHOLE_ROWS =>
        {
            axis.place(within_magnitude(number) + WHOLE_SPREAD * grid.step() * spread)
        }
        (PlottedValue::Number(number), _) => axis.place(within_magnitude(number)),
    }
}

/// The keys of what there is.
fn keys(
    game: &GamePicture,
    panels: &[(usize, &ParameterCourse)],
    rounds: Rounds,
) -> Result<Vec<(Sign, String)>, String> {
    let is_shown = |player_idx: usize| panels.iter().any(|(index, _)| *index == player_idx);
    let texts = game.key_texts()?.into_iter().enumerate();
    let mut keys: Vec<(Sign, String)> = texts
        .filter(|(index, _)| is_shown(*index))
        .map(|(index, text)| (Sign::Bar(ArmStyle::of(index).color), text))
        .collect();
    keys.extend(rounds.key());
    let mut players = game.players.iter().enumerate();
    if players.any(|(index, player)| is_shown(index) && player.substituted.contains(&true)) {
        let text = "another action stood in for a failed one";
        keys.push((Sign::Failed, text.to_owned()));
    }
    Ok(keys)
}
