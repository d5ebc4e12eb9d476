//! `payoffs`: what each player gained in each round, and on average so far.

use plotters::backend::DrawingBackend;

use super::dots::{
    Dot, dot_size, draw_cross, draw_dot, faded, rounds_per_dot, rounds_with_dots, thinned,
};
use super::sheet::{PanelOf, Rounds, Sheet, Words};
use super::{GamePicture, PlayerCourse, counted, round_number, within_magnitude};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Canvas, Font};
use crate::plot::frame::draw_marker;
use crate::plot::render::Picture;
use crate::plot::style::{ArmStyle, LINE_WIDTH, grid, tick_font};
use crate::study::head::{Sign, WIDER};

/// Each player's payoffs take at least this part of an axis that players share.
const LEAST_PART: f64 = 1.0 / 20.0;
/// A line of means has about so many points at most, more than a panel has pixels.
const N_POINTS_MAX: usize = 1200;
/// Radius of a dot, and of a marker on a line.
const DOT: f64 = 2.8;
const MARKER: f64 = 3.8;
/// Heights of the strip of lost payoffs: of one row, of each of several, and at most.
const STRIP: f64 = 20.0;
const STRIP_ROW: f64 = 8.0;
const STRIP_MAX: f64 = 64.0;
/// The label of the strip.
const LOST: &str = "lost";

/// The picture with its measures.
pub(super) struct Payoffs<'a> {
    game: &'a GamePicture,
    sheet: Sheet,
    /// True if each player has a panel of its own.
    apart: bool,
    /// Each player's mean payoff after each round, as far as there is one.
    means: Vec<Vec<(usize, f64)>>,
    /// The players who lost a payoff.
    losers: Vec<usize>,
}

impl<'a> Payoffs<'a> {
    pub(super) fn of(game: &'a GamePicture) -> Result<Self, String> {
        let rounds = Rounds {
            n_rounds: game.n_rounds(),
            n_initial: game.n_initial,
        };
        let apart = differ_in_scale(&game.players);
        let means = game.players.iter();
        let means: Vec<_> = means.map(|p| means_so_far(p, game.n_initial)).collect();
        let has_lost = |player: &PlayerCourse| player.payoffs.iter().any(Option::is_none);
        let losers = (0..game.players.len()).filter(|index| has_lost(&game.players[*index]));
        let losers: Vec<usize> = losers.collect();
        let strip = match losers.len() {
            0 => 0.0,
            _ if apart => STRIP,
            n => (STRIP_ROW * n as f64 + 4.0).clamp(STRIP, STRIP_MAX),
        };

        let n_panels = if apart { game.players.len() } else { 1 };
        let (n_columns, panel_size) = grid(n_panels);
        let n_ticks = if n_columns == 1 { 7 } else { 5 };
        let texts = game.key_texts()?;
        let panels = if apart {
            let font = Font {
                bold: true,
                ..tick_font(n_columns)
            };
            let titles: Vec<&str> = texts.iter().map(String::as_str).collect();
            let titles = font.shortened_apart(&titles, panel_size.0 / WIDER)?;
            let panels = game.players.chunks(1).zip(titles).enumerate();
            panels
                .map(|(index, (player, title))| {
                    let cell = (index / n_columns, index % n_columns);
                    panel(player, title, cell, n_ticks)
                })
                .collect()
        } else {
            vec![panel(&game.players, String::new(), (0, 0), n_ticks)]
        };

        let mut keys = Vec::new();
        if !apart {
            keys.extend((0..).map(Sign::Curve).zip(texts));
        }
        keys.extend(rounds.key());
        if !losers.is_empty() {
            keys.push((Sign::Failed, "payoff lost".to_owned()));
        }
        let words = Words {
            title: game.title.clone(),
            y_label: "payoff (larger is better)",
            footnote: footnote(game, rounds, means.iter().any(|mean| !mean.is_empty())),
            keys,
            strip: (strip, LOST),
        };
        Ok(Self {
            game,
            sheet: Sheet::of(words, panels, (n_columns, panel_size), rounds)?,
            apart,
            means,
            losers,
        })
    }

    fn panel_idx(&self, player_idx: usize) -> usize {
        if self.apart { player_idx } else { 0 }
    }

    fn x(&self, player_idx: usize, round_idx: usize) -> f64 {
        let frame = self.sheet.frame(self.panel_idx(player_idx));
        frame.x(frame.x_axis.place(round_number(round_idx)))
    }

    /// Each player's marks in one round of `every` for which `y` has a place, those of a round after each other.
    fn marks(&self, every: usize, y: impl Fn(usize, Option<f64>) -> Option<f64>) -> Vec<Dot> {
        let mut marks = Vec::new();
        for round_idx in rounds_with_dots(self.game.n_rounds(), every) {
            for (player_idx, player) in self.game.players.iter().enumerate() {
                if let Some(y) = y(player_idx, player.payoffs[round_idx]) {
                    let at = (self.x(player_idx, round_idx), y);
                    marks.push(Dot { at, player_idx });
                }
            }
        }
        marks
    }

    fn draw_dots<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let n_rounds = self.game.n_rounds();
        let size = dot_size(n_rounds, DOT);
        let percent = if n_rounds <= 200 { 45 } else { 30 };
        let every = rounds_per_dot(n_rounds, self.game.players.len());
        let dots = self.marks(every, |player_idx, payoff| {
            let frame = self.sheet.frame(self.panel_idx(player_idx));
            let value = within_magnitude(payoff?);
            Some(frame.y(frame.y_axis.place(value)))
        });
        for dot in dots {
            let color = faded(ArmStyle::of(dot.player_idx).color, percent);
            draw_dot(dot.at, (size, n_rounds), color, canvas)?;
        }
        Ok(())
    }

    /// Each player who lost a payoff has a row in the strip, the first on top.
    fn draw_lost<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let n_rows = if self.apart { 1 } else { self.losers.len() };
        let row = STRIP_MAX.min(STRIP.max(STRIP_ROW * n_rows as f64)) / n_rows.max(1) as f64;
        let size = dot_size(self.game.n_rounds(), 3.2).clamp(1.6, (0.45 * row).max(1.6));
        let lost = self.marks(1, |player_idx, payoff| {
            if payoff.is_some() {
                return None;
            }
            let found = self.losers.iter().position(|loser| *loser == player_idx);
            let row = found.filter(|_| !self.apart).unwrap_or(0);
            let place = 1.0 - (row as f64 + 0.5) / n_rows as f64;
            Some(self.sheet.y_in_strip(self.panel_idx(player_idx), place))
        });
        for dot in thinned(lost) {
            draw_cross(dot.at, size, ArmStyle::of(dot.player_idx).color, canvas)?;
        }
        Ok(())
    }

    fn mean_at(&self, player_idx: usize, (round_idx, mean): (usize, f64)) -> (f64, f64) {
        let frame = self.sheet.frame(self.panel_idx(player_idx));
        (
            self.x(player_idx, round_idx),
            frame.y(frame.y_axis.place(mean)),
        )
    }

    fn draw_means<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        // The first player is drawn last, above the others.
        for (player_idx, means) in self.means.iter().enumerate().rev() {
            let every = means.len().div_ceil(N_POINTS_MAX).max(1);
            let end = means.len().saturating_sub(1);
            let kept = (0..means.len()).filter(|index| index % every == 0 || *index == end);
            let points: Vec<_> = kept.map(|i| self.mean_at(player_idx, means[i])).collect();
            let style = ArmStyle::of(player_idx);
            canvas.line(&points, style.color, LINE_WIDTH, style.dash)?;
        }
        let n_players = self.means.len().max(1);
        for (player_idx, means) in self.means.iter().enumerate().rev() {
            let style = ArmStyle::of(player_idx);
            let every = means.len().div_ceil(if self.apart { 5 } else { 8 }).max(1);
            let first = player_idx * every / n_players;
            for mean in means.iter().skip(first).step_by(every) {
                let at = self.mean_at(player_idx, *mean);
                draw_marker((style.marker, style.color), at, MARKER, canvas)?;
            }
        }
        Ok(())
    }
}

impl Picture for Payoffs<'_> {
    fn size(&self) -> (u32, u32) {
        self.sheet.size()
    }

    fn n_panels(&self) -> usize {
        self.sheet.n_panels()
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        self.sheet.draw(canvas)?;
        self.draw_dots(canvas)?;
        self.draw_lost(canvas)?;
        self.draw_means(canvas)
    }
}

/// The panel of some players, with an axis over all their payoffs.
fn panel(players: &[PlayerCourse], title: String, cell: (usize, usize), n_ticks: u32) -> PanelOf {
    let range = range_of(players);
    let played = players.iter().any(|player| !player.payoffs.is_empty());
    let nothing = match range {
        Some(_) => None,
        None if played => Some("all payoffs are lost"),
        None => Some("no round was played"),
    };
    PanelOf {
        cell,
        title,
        y_axis: range.map_or_else(Axis::bare, |(low, high)| Axis::linear(low, high, n_ticks)),
        choices: Vec::new(),
        nothing,
    }
}

/// The least and the largest payoff of these players; none if there is no payoff.
fn range_of(players: &[PlayerCourse]) -> Option<(f64, f64)> {
    let payoffs = || {
        let all = players.iter().flat_map(|player| &player.payoffs);
        all.flatten().map(|payoff| within_magnitude(*payoff))
    };
    payoffs().reduce(f64::min).zip(payoffs().reduce(f64::max))
}

/// Returns true if some player's payoffs would be pressed together on an axis that all players share: if the range of
/// all payoffs is more than 20 times that of one player's. Where each player's payoffs are all equal, their magnitudes
/// are compared instead.
fn differ_in_scale(players: &[PlayerCourse]) -> bool {
    let width = |(low, high): (f64, f64)| high - low;
    let ranges: Vec<_> = players
        .iter()
        .filter_map(|player| range_of(std::slice::from_ref(player)))
        .collect();
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

/// The mean of the payoffs after the random rounds, after each of these rounds; from the first payoff on.
fn means_so_far(player: &PlayerCourse, n_initial: usize) -> Vec<(usize, f64)> {
    let mut means = Vec::new();
    let (mut n_payoffs, mut mean) = (0.0, 0.0);
    for (round_idx, payoff) in player.payoffs.iter().enumerate().skip(n_initial) {
        if let Some(payoff) = payoff {
            n_payoffs += 1.0;
            mean += (within_magnitude(*payoff) - mean) / n_payoffs;
        }
        if n_payoffs > 0.0 {
            means.push((round_idx, mean));
        }
    }
    means
}

/// Returns the footnote: the number of rounds, the number of lost payoffs, and the meaning of dots and lines.
fn footnote(game: &GamePicture, rounds: Rounds, any_mean: bool) -> String {
    let mut text = counted(rounds.n_rounds, "round", "rounds");
    let payoffs = || game.players.iter().flat_map(|player| &player.payoffs);
    let n_lost = payoffs().filter(|payoff| payoff.is_none()).count();
    if n_lost > 0 {
        text += &format!(", {} lost", counted(n_lost, "payoff", "payoffs"));
    }
    if payoffs().any(Option::is_some) {
        let every = rounds_per_dot(rounds.n_rounds, game.players.len());
        text += &match every {
            1 => "; dots: payoffs".to_owned(),
            _ => format!("; dots: 1 round in {every}"),
        };
    }
    if any_mean && rounds.n_random() > 0 {
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
        PlayerCourse {
            payoffs: payoffs.to_vec(),
            ..PlayerCourse::default()
        }
    }

    #[test]
    fn means_leave_out_random_rounds_and_lost_payoffs() {
        let player = player(&[Some(100.0), None, Some(2.0), None, Some(4.0), Some(0.0)]);
        let means = means_so_far(&player, 1);
        let rounds: Vec<usize> = means.iter().map(|(round_idx, _)| *round_idx).collect();
        assert_eq!(rounds, [2, 3, 4, 5]);
        for ((_, mean), expected) in means.iter().zip([2.0, 2.0, 3.0, 2.0]) {
            assert!((mean - expected).abs() < 1e-12, "{means:?}");
        }
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
        assert!(
            apart(&[&[0.0, 1.0], &[1000.0, 1001.0]]),
            "equally wide, far apart"
        );
        assert!(
            !apart(&[&[0.0, 1.0], &[0.5, 0.5]]),
            "always the same payoff"
        );
        assert!(
            apart(&[&[0.01], &[5.0]]) && !apart(&[&[3.0], &[-4.0], &[0.0]]),
            "one round"
        );
        assert!(!apart(&[&[-f64::MAX, 0.0], &[0.0, f64::MAX]]));
    }
}
