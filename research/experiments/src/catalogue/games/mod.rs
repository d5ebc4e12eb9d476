//! Repeated games (thesis chapter 8): players that reason at different levels, round by round.
//!
//! A [`Plan`] is a declared experiment, a [`Configuration`] is a kind of game with its [`Arm`]s,
//! and a [`GameProblem`] is one game. A [`Match`] is one run of one arm. [`Outcome`] contains the
//! results of all matches.

pub(super) mod adversarial;
mod arms;
mod outcome;
mod play;
pub(super) mod predator_prey;
pub(super) mod synthetic;
mod tables;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fedbo_games::{Action, Game, PayoffTable};
use fedbo_report::{Clusters, Figure, FigureSpec, Metric, PanelBy, Row, SummaryRequest};
use fedbo_space::Direction;
use fedbo_streams::{Purpose, Seed};

use self::arms::Arm;
use self::outcome::Outcome;
use self::play::Match;
use super::jobs::Job;
use super::{Call, ExperimentResult, RunOptions};
use fedbo_runner::Ended;
use fedbo_runner::RowLabels;

/// A game whose payoffs the experiment can compute.
trait GameProblem: Send + Sync {
    /// Returns the action sets and initial rounds.
    fn game(&self) -> &Game;

    /// Returns the players' payoffs for their actions in a round. Randomness depends only on
    /// `seed`, the seed of the run, and on the round, but not on the arm. Arms are therefore
    /// compared under the same random draws.
    ///
    /// # Errors
    /// If there are no payoffs for these actions.
    fn play(&self, actions: &[Action], seed: Seed, round: usize) -> anyhow::Result<Played>;

    /// Returns a player's largest possible payoff, if known. Regret is the distance from it.
    fn largest(&self, _player: usize) -> Option<f64> {
        None
    }

    /// Returns a player's payoffs for all joint actions, if a table of them exists.
    fn table(&self, _player: usize) -> Option<&PayoffTable> {
        None
    }
}

/// The outcome of a round.
#[derive(Clone, Debug)]
struct Played {
    /// The payoffs that the players observe, with noise, one entry per player.
    observed: Vec<Option<f64>>,
    /// The payoffs without noise, or the best available estimate, shown in the column `value`.
    payoffs: Vec<f64>,
    /// The cells of additional columns, in the order of the plan's `columns`.
    cells: Vec<String>,
}

/// A player whose payoffs appear in the rows of results.
#[derive(Clone, Debug)]
struct Shown {
    /// Value of the `experiment` column. If a configuration shows several players, each has its own
    /// value, because arms are summarised by this column.
    experiment: String,
    /// Value of the `agent` column.
    agent: String,
    /// Number of the player, from 0.
    player: usize,
    /// Pairs (arm, control) for differences.
    pairs: Vec<(String, String)>,
}

/// A kind of game with its arms.
struct Configuration {
    /// Name in notes. The `experiment` column is that of [`Shown`].
    name: String,
    /// Run r plays arena r modulo the number of arenas. The quotient is the index of the start.
    arenas: Vec<Box<dyn GameProblem>>,
    /// Number of rounds after the initial ones.
    n_rounds: usize,
    /// The arms that play.
    arms: Vec<Arm>,
    /// The players whose payoffs are shown.
    shown: Vec<Shown>,
    /// Additional numbers measured for a whole match, by name, stored in [`Outcome`].
    measure: Option<Measure>,
}

/// Measures a match at its end.
type Measure = Box<dyn Fn(&Match<'_>) -> anyhow::Result<Vec<(&'static str, f64)>> + Send + Sync>;

/// Creates the notes on the tables from all matches.
type Notes = Box<dyn Fn(&[Configuration], &Outcome) -> Vec<String>>;

/// An additional figure of some configurations.
struct PartPicture {
    /// Base name of its files `FILE.svg` and `FILE.png`.
    file: &'static str,
    /// Title of the figure.
    title: String,
    /// Values of the `experiment` column, one panel each, in the order of the file.
    experiments: Vec<String>,
    /// The arms shown. If empty, all of them.
    arms: Vec<String>,
}

/// A declared experiment with games.
struct Plan {
    /// Name on the command line.
    name: &'static str,
    /// Title of the figure.
    title: String,
    /// Label of the figure's vertical axis.
    y_label: String,
    /// [`Metric::MeanRegret`] if the largest payoff is known, otherwise [`Metric::Mean`].
    metric: Metric,
    /// Rounds after which arms are compared, in addition to the last one.
    checkpoints: Vec<i64>,
    /// The unit of replication that counts as one value in standard errors.
    clusters: Clusters,
    /// Names of the cells in [`Played`].
    columns: Vec<String>,
    /// The kinds of game.
    configurations: Vec<Configuration>,
    /// Additional figures.
    pictures: Vec<PartPicture>,
    /// Notes on the tables of a complete run.
    notes: Notes,
}

impl Plan {
    /// Plays all matches, and writes results, summary and figures.
    ///
    /// # Errors
    /// If the folder cannot be written or a match cannot be played.
    fn run(self, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
        let runs = call.runs();
        let writer = call.writer(&self.columns)?;
        let measures = Mutex::new(BTreeMap::new());
        let root = call.seed();
        let mut jobs = Vec::new();
        for (index, configuration) in self.configurations.iter().enumerate() {
            for run in 0..runs {
                for (place, arm) in configuration.arms.iter().enumerate() {
                    let unit =
                        RowLabels::new(configuration.name.clone(), arm.name.clone(), "", run);
                    let (measures, columns) = (&measures, &self.columns);
                    jobs.push(Job::new(unit, move |unit, stop| {
                        let arena = configuration.arena(unit.run);
                        let seed = root.child(Purpose::RUN, u64::from(unit.run));
                        let n_rounds = configuration.n_rounds;
                        let Some(played) = Match::play(arena, arm, n_rounds, seed, stop)? else {
                            return Ok((Vec::new(), Ended::Interrupted));
                        };
                        if let Some(measure) = &configuration.measure {
                            let found = measure(&played)?.into_iter().collect();
                            let mut book = measures.lock().unwrap_or_else(PoisonError::into_inner);
                            book.insert((index, place, unit.run), found);
                        }
                        let rows = played.rows(unit, &configuration.shown, columns);
                        Ok((rows, Ended::Complete))
                    }));
                }
            }
        }
        let (rows, ended) = call.play(self.name, &jobs, writer)?;
        drop(jobs);
        let measures = measures.into_inner();
        let measures = measures.unwrap_or_else(PoisonError::into_inner);
        let outcome = Outcome::new(rows, self.metric, measures);
        let mut notes = Vec::new();
        if ended == Ended::Complete {
            notes = (self.notes)(&self.configurations, &outcome);
            for picture in &self.pictures {
                self.draw_part(picture, &outcome.rows, call.options)?;
            }
            let files = self.pictures.iter().map(|picture| picture.file);
            let files: Vec<&str> = files.collect();
            if !files.is_empty() {
                let files = files.join(", ");
                notes.push(format!("More figures there, as .svg and .png: {files}."));
            }
        }
        let request = SummaryRequest {
            checkpoints: self.checkpoints.clone(),
            clusters: self.clusters,
            figure: Some(self.figure(&self.title)),
            ..call.summary_request(self.name, Direction::Maximize, self.metric)
        };
        let pairs_of = |name: &str| {
            let shown = self.configurations.iter().flat_map(|each| &each.shown);
            let mut found = shown.filter(|shown| shown.experiment == name);
            found.next().map_or_else(Vec::new, |shown| shown.pairs.clone())
        };
        let concluded = call.conclude(&outcome.rows, ended, request, pairs_of)?;
        Ok(ExperimentResult { notes, ..concluded })
    }

    fn figure(&self, title: &str) -> FigureSpec {
        let n_panels = self.configurations.iter().map(|each| each.shown.len());
        FigureSpec {
            title: title.into(),
            x_label: "round, initial ones not counted".into(),
            y_label: self.y_label.clone(),
            panel_by: match n_panels.sum::<usize>() {
                1 => PanelBy::None,
                _ => PanelBy::Experiment,
            },
            ..FigureSpec::default()
        }
    }

    fn draw_part(
        &self,
        picture: &PartPicture,
        rows: &[Row],
        options: &RunOptions,
    ) -> anyhow::Result<()> {
        let of_part = rows.iter().filter(|row| {
            let is_arm = picture.arms.is_empty() || picture.arms.contains(&row.arm);
            is_arm && picture.experiments.contains(&row.experiment)
        });
        let of_part: Vec<Row> = of_part.cloned().collect();
        let figure = Figure::from_rows(&of_part, self.metric, &self.figure(&picture.title));
        figure.write_svg(&options.out.join(format!("{}.svg", picture.file)))?;
        figure.write_png(&options.out.join(format!("{}.png", picture.file)))?;
        Ok(())
    }
}

impl Configuration {
    /// Returns the game of a run.
    fn arena(&self, run: u32) -> &dyn GameProblem {
        self.arenas[run as usize % self.arenas.len()].as_ref()
    }
}
