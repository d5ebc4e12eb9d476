//! Pictures of a repeated game: `payoffs`, each player's payoffs by round, and `actions`, the
//! chosen actions.
//!
//! This module draws rounds. It does not depend on how players decide: its input is plain data. The
//! pictures follow Dai 2021 (thesis), Fig. 8.2, for one game. Start at [`GamePicture`].

mod actions;
mod dots;
mod payoffs;

use std::path::Path;

use fedbo_space::Kind;

use plotters::style::RGBColor;

use crate::chart::axis::Axis;
use crate::chart::style::{GREY, Glyph, NAME, Stroke};
use crate::chart::text::Font;
use crate::chart::{Chart, Key, Mark, Panel, Sign, at, counted, write};
use crate::error::ReportError;
use crate::study::PlottedValue;

/// File names of the payoff picture.
pub const GAME_PAYOFF_FILES: [&str; 2] = ["payoffs.svg", "payoffs.png"];

/// File names of the action picture.
pub const GAME_ACTION_FILES: [&str; 2] = ["actions.svg", "actions.png"];

/// Colour and minimum width of the band for random rounds.
const BAND: RGBColor = RGBColor(226, 228, 238);
const BAND_MIN: f64 = 3.0;
/// Maximum number of rounds for which markers have a white rim.
const N_RIMMED: usize = 200;
/// Maximum widths of a player's name and label in the legend.
const NAME_ROOM: f64 = 230.0;
const LABEL_ROOM: f64 = 190.0;

/// The rounds of a game, as plotted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GamePicture {
    /// Title at the top of both pictures; empty for none.
    pub title: String,
    /// Planned number of random rounds at the start, even if the game ended earlier.
    pub n_initial: usize,
    /// The players, in the order of the file.
    pub players: Vec<PlayerCourse>,
}

/// The actions and payoffs of one player.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerCourse {
    /// The player's name, as in the file.
    pub name: String,
    /// The player's method: "level 2", "level 0 (gp-mw)", "by hand", "program"; may be empty.
    pub label: String,
    /// The payoff in each round; `None` if it was lost. All players have the same number of rounds.
    pub payoffs: Vec<Option<f64>>,
    /// The player's actions. Each parameter has one value per payoff.
    pub parameters: Vec<ParameterCourse>,
    /// For each round, true if a substitute replaced the player's failed action; empty if that
    /// never happened.
    pub substituted: Vec<bool>,
}

/// The values that a player chose for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterCourse {
    /// The parameter's name.
    pub name: String,
    /// The parameter's range.
    pub range: Kind,
    /// The value in each round.
    pub values: Vec<PlottedValue>,
}

impl GamePicture {
    /// Writes [`GAME_PAYOFF_FILES`] into an existing folder.
    ///
    /// Each round's payoff is a faint dot, and a line shows the mean payoff after the random
    /// rounds. Lost payoffs are in a strip below the axis. Players share a panel unless their
    /// payoffs differ so much in scale, or are so far apart, that some would be hard to
    /// distinguish. In that case each player has a separate panel. If there are very many rounds,
    /// dots are drawn only for some of them, as the footnote states; lines and crosses include all
    /// rounds.
    ///
    /// # Errors
    /// Returns [`ReportError::NotFinite`] if a payoff is not finite; returns [`ReportError::Draw`]
    /// if players have different numbers of rounds; returns [`ReportError::Write`] if a file cannot
    /// be written.
    pub fn write_payoffs(&self, folder: &Path) -> Result<(), ReportError> {
        let payoffs = self.players.iter().flat_map(|player| &player.payoffs);
        let values = payoffs.flatten().copied();
        self.write_both(folder, GAME_PAYOFF_FILES, ("payoff", values), || Ok(payoffs::chart(self)))
    }

    /// Writes [`GAME_ACTION_FILES`] into an existing folder.
    ///
    /// Each parameter of each player has a panel, up to 24 panels. A footnote states the number of
    /// omitted panels. A cross marks a substitute for a failed action. If there are very many
    /// rounds, dots are drawn only for some of them, as the footnote states.
    ///
    /// # Errors
    /// Returns [`ReportError::NotFinite`] if a value is not finite; returns [`ReportError::Draw`]
    /// if a value does not fit its parameter, or the number of values differs from the number of
    /// rounds; returns [`ReportError::Write`] if a file cannot be written.
    pub fn write_actions(&self, folder: &Path) -> Result<(), ReportError> {
        let parameters = self.players.iter().flat_map(|player| &player.parameters);
        let values = parameters.flat_map(|parameter| &parameter.values);
        let numbers = values.filter_map(|value| match value {
            PlottedValue::Number(number) => Some(*number),
            PlottedValue::Choice(_) => None,
        });
        self.write_both(folder, GAME_ACTION_FILES, ("action", numbers), || {
            self.check_values().map(|()| actions::chart(self))
        })
    }

    fn write_both(
        &self,
        folder: &Path,
        files: [&str; 2],
        (column, mut numbers): (&'static str, impl Iterator<Item = f64>),
        chart: impl FnOnce() -> Result<Chart, String>,
    ) -> Result<(), ReportError> {
        if let Some(value) = numbers.find(|number| !number.is_finite()) {
            return Err(ReportError::NotFinite { path: folder.join(files[0]), column, value });
        }
        write(self.check_lengths().and_then(|()| chart()), folder, files).map(|_| ())
    }

    /// Returns the number of rounds played.
    fn n_rounds(&self) -> usize {
        let payoffs = self.players.first().map(|player| &player.payoffs);
        payoffs.map_or(0, Vec::len)
    }

    fn check_lengths(&self) -> Result<(), String> {
        let n_rounds = self.n_rounds();
        for player in &self.players {
            let name = &player.name;
            let n_payoffs = player.payoffs.len();
            if n_payoffs != n_rounds {
                return Err(format!(
                    "the player {name:?} has {n_payoffs} payoffs, but the first player has {n_rounds}"
                ));
            }
            let n_told = player.substituted.len();
            if n_told != 0 && n_told != n_rounds {
                return Err(format!(
                    "the player {name:?} has {n_told} flags for substituted actions, but there are {n_rounds} rounds"
                ));
            }
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), String> {
        let n_rounds = self.n_rounds();
        for player in &self.players {
            for parameter in &player.parameters {
                let words =
                    || format!("the player {:?}, parameter {:?}", player.name, parameter.name);
                let n_values = parameter.values.len();
                if n_values != n_rounds {
                    return Err(format!(
                        "{}: {n_values} values, but there are {n_rounds} rounds",
                        words()
                    ));
                }
                let mut values = parameter.values.iter();
                if let Some(index) = values.position(|value| !parameter.fits(*value)) {
                    let value = parameter.values[index];
                    return Err(format!(
                        "{}: {value:?} of round {} does not fit the parameter",
                        words(),
                        index + 1
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the legend text of each player.
    fn key_texts(&self) -> Vec<String> {
        let names = self.short_names(NAME, NAME_ROOM);
        let labelled = |(player, name): (&PlayerCourse, String)| match NAME
            .cut(&player.label, LABEL_ROOM)
            .as_str()
        {
            "" => name,
            label => format!("{name}: {label}"),
        };
        self.players.iter().zip(names).map(labelled).collect()
    }

    /// Returns the players' names, shortened to this width.
    fn short_names(&self, font: Font, room: f64) -> Vec<String> {
        let names: Vec<&str> = self.players.iter().map(|p| p.name.as_str()).collect();
        font.cut_apart(&names, room)
    }

    /// Returns the number of random rounds played.
    fn n_random(&self) -> usize {
        self.n_initial.min(self.n_rounds())
    }

    /// Creates the horizontal axis over the rounds.
    fn x_axis(&self, n_columns: usize) -> Axis {
        Axis::whole(1.0, self.n_rounds().max(1) as f64, if n_columns == 1 { 8 } else { 5 })
    }

    /// Adds the band for the random rounds.
    fn lay_band(&self, panel: &mut Panel) {
        if self.n_random() == 0 {
            return;
        }
        let end = self.n_random() as f64 + 0.5;
        let (lowest, highest) = (f64::NEG_INFINITY, f64::INFINITY);
        let width = (panel.x.place(end) - panel.x.place(0.5)) * panel.size.0;
        // Extend the band into the margin, so that even a few of very many rounds are visible.
        let from = if width < BAND_MIN {
            at(end, highest).shifted(-BAND_MIN, 0.0)
        } else {
            at(0.5, highest)
        };
        let lower = match panel.strip {
            Some(_) => crate::chart::in_strip(end, 0.0),
            None => at(end, lowest),
        };
        panel.backdrop.push(Mark::Cell { from, to: lower, color: BAND });
        if end <= self.n_rounds() as f64 {
            let stroke = Stroke { dash: &[3.0, 2.5], ..Stroke::solid(GREY, 0.75) };
            panel.line(vec![at(end, highest), lower], stroke);
        }
    }

    /// Returns the legend entry of the band; `None` without random rounds.
    fn band_key(&self) -> Option<Key> {
        let text = counted(self.n_random(), "random round", "random rounds");
        (self.n_random() > 0).then_some(Key::new(Sign::Fill(BAND), text))
    }

    /// Returns the dot of one round, without a rim if there are many rounds.
    fn dot(&self, color: RGBColor) -> Glyph {
        let dot = Glyph::disc(color);
        if self.n_rounds() <= N_RIMMED { dot } else { dot.bare() }
    }
}

impl PlayerCourse {
    fn is_substituted(&self, round_idx: usize) -> bool {
        self.substituted.get(round_idx).copied().unwrap_or(false)
    }
}

impl ParameterCourse {
    /// Returns true if a value fits the parameter.
    fn fits(&self, value: PlottedValue) -> bool {
        value.place(&self.range, (0.0, 0.0), 0.0).is_some()
    }
}

/// Returns the number of a round on the axis, from 1.
fn round_number(round_idx: usize) -> f64 {
    round_idx as f64 + 1.0
}

#[cfg(test)]
mod tests;
