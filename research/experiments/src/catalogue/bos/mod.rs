//! Early stopping (thesis chapter 4): BO-BOS and its rivals, on problems with completely known
//! curves.

mod arms;
pub(super) mod curves;
pub(super) mod ends;
pub(super) mod features;
pub(super) mod logistic;
mod pictures;
pub(super) mod policy;
mod replay;
mod training_run;
mod tuner;
mod wrong_stops;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use fedbo_report::{
    Clusters, FigureSpec, Metric, PanelBy, Row, Scale, SummaryRequest, curves as mean_curves,
};
use fedbo_research_problems::TrainingProblem;
use fedbo_space::Point;
use fedbo_strategies::early_stopping::BosSettings;
use fedbo_streams::{Purpose, Seed};
use rayon::prelude::*;

use self::arms::{Arm, GP_UCB, Modelling, Setup, pairs};
use self::training_run::{TrainingRun, TrialTrace};
use self::wrong_stops::StopCount;
use super::jobs::{Job, columns_of};
use super::markdown::MarkdownTable;
use super::{Call, ExperimentResult};
use fedbo_runner::Ended;
use fedbo_runner::RowLabels;

/// A problem with its arms.
struct Configuration {
    /// Value of the `experiment` column.
    name: String,
    problem: Box<dyn TrainingProblem>,
    /// Best possible value of a complete training run, if known.
    optimum: Option<f64>,
    arms: Vec<Arm>,
    modelling: Modelling,
    n_initial: usize,
    /// Number of epochs after which no trial starts.
    budget: usize,
    /// The settings of BO-BOS, except for the schedule of K_1.
    bos: BosSettings,
    /// The number shown for a complete training run instead of its value.
    shown: Option<Shown>,
}

/// Function that returns the number shown for a complete training run, given the point and the
/// repetition.
type Shown = Box<dyn Fn(&Point, u64) -> Option<f64> + Send + Sync>;

/// The parts shared by several experiments.
struct Plan {
    name: &'static str,
    title: String,
    y_label: String,
    /// Label of the values.
    value_label: &'static str,
    scale: Scale,
    metric: Metric,
    /// Numbers of epochs at which arms are compared.
    checkpoints: Vec<i64>,
    configurations: Vec<Configuration>,
    /// True if all rules are replayed on the trials of GP-UCB.
    replays: bool,
    notes: Vec<String>,
}

/// The trials of each configuration, arm and run.
type TrialBook = BTreeMap<(usize, usize, u32), Vec<TrialTrace>>;

impl Plan {
    /// Runs all arms, and writes results, summary, figures and tables.
    fn run(self, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
        let runs = call.runs();
        let columns = columns_of(self.configurations.iter().map(|each| each.problem.space()));
        let writer = call.writer(&columns)?;
        let book: Mutex<TrialBook> = Mutex::new(BTreeMap::new());
        let mut jobs = Vec::new();
        for (index, configuration) in self.configurations.iter().enumerate() {
            for run in 0..runs {
                for (place, arm) in configuration.arms.iter().enumerate() {
                    let unit = RowLabels::new(configuration.name.clone(), arm.0, "study", run);
                    let (book, seed) = (&book, call.seed());
                    let job = Job::new(unit, move |unit, stop| {
                        let (course, ended) = configuration.course(unit, *arm, seed, stop)?;
                        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
                        book.insert((index, place, unit.run), course.trials);
                        Ok((course.rows, ended))
                    });
                    jobs.push(job.in_columns(&columns));
                }
            }
        }
        let (rows, ended) = call.play(self.name, &jobs, writer)?;
        drop(jobs);
        let book = book.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut notes = Vec::new();
        if ended == Ended::Complete {
            for (index, configuration) in self.configurations.iter().enumerate() {
                notes.extend(self.tables(index, configuration, &rows, &book, call.options.seed)?);
            }
            if let Some(first) = self.configurations.first() {
                pictures::write(first, &book, self.value_label, &call.options.out)?;
            }
        }
        notes.extend(self.notes.iter().cloned());
        let several = self.configurations.len() > 1;
        let figure = FigureSpec {
            title: self.title.clone(),
            x_label: "epochs spent, initial trials included".into(),
            y_label: self.y_label.clone(),
            scale: self.scale,
            panel_by: if several { PanelBy::Experiment } else { PanelBy::None },
            ..FigureSpec::default()
        };
        let direction = self.configurations[0].problem.direction();
        let request = SummaryRequest {
            checkpoints: self.checkpoints.clone(),
            figure: Some(figure),
            ..call.summary_request(self.name, direction, self.metric)
        };
        let pairs_of = |name: &str| {
            let of = self.configurations.iter().find(|each| each.name == name);
            of.map_or_else(Vec::new, |each| pairs(&each.arms))
        };
        let concluded = call.conclude(&rows, ended, request, pairs_of)?;
        Ok(ExperimentResult { notes, ..concluded })
    }

    /// Returns tables with the epochs needed to reach GP-UCB's values, the wrong stops that
    /// occurred, and the wrong stops of all rules on the same trials.
    fn tables(
        &self,
        index: usize,
        configuration: &Configuration,
        rows: &[Row],
        book: &TrialBook,
        seed: u64,
    ) -> anyhow::Result<Vec<String>> {
        let name = &configuration.name;
        let mut notes = Vec::new();
        let own: Vec<Row> = rows.iter().filter(|row| row.experiment == *name).cloned().collect();
        notes.extend(self.epochs_to_reach(configuration, &own));
        let mut counts = Vec::new();
        for (place, (arm, _)) in configuration.arms.iter().enumerate() {
            let mut count = StopCount::default();
            for ((at, of, _), trials) in book {
                if *at == index && *of == place {
                    trials.iter().for_each(|trial| count.add(trial));
                }
            }
            if count.n_stopped > 0 {
                counts.push(((*arm).to_owned(), count));
            }
        }
        let title = format!("{name}: stops as they happened, each arm on its own trials");
        notes.push(wrong_stops::table(&title, &counts));
        let Some(place) = configuration.arms.iter().position(|(arm, _)| *arm == GP_UCB) else {
            return Ok(notes);
        };
        if self.replays {
            let sequences: Vec<(u32, &Vec<TrialTrace>)> = book
                .iter()
                .filter(|((at, of, _), _)| *at == index && *of == place)
                .map(|((_, _, run), trials)| (*run, trials))
                .collect();
            let counts = replay::rules(&configuration.bos)?
                .into_iter()
                .map(|(rule, replayed)| {
                    let each = sequences.par_iter().map(|(run, trials)| {
                        let seed = Seed::new(seed).child(Purpose::RUN, u64::from(*run));
                        replayed.replay(trials, seed)
                    });
                    let mut total = StopCount::default();
                    for count in each.collect::<anyhow::Result<Vec<_>>>()? {
                        total.merge(count);
                    }
                    Ok((rule, total))
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            let title = format!("{name}: all rules on the trials of {GP_UCB}");
            notes.push(wrong_stops::table(&title, &counts));
        }
        Ok(notes)
    }

    /// Returns the number of epochs until each arm's mean reaches that of GP-UCB at the
    /// checkpoints.
    fn epochs_to_reach(&self, configuration: &Configuration, rows: &[Row]) -> Option<String> {
        let curves = mean_curves(rows, self.metric, Clusters::Units);
        let control = curves.iter().find(|curve| curve.arm == GP_UCB)?;
        let direction = configuration.problem.direction();
        let targets: Vec<(i64, f64)> = self
            .checkpoints
            .iter()
            .filter_map(|at| {
                let point = control.points.iter().rfind(|point| point.iteration <= *at)?;
                Some((*at, point.estimate.mean))
            })
            .collect();
        let title = format!(
            "{}: epochs after which the mean is as good as that of {GP_UCB} at a number of epochs (the first row shows the value itself)",
            configuration.name
        );
        let mut table = MarkdownTable::new(title, "arm", targets.iter().map(|(at, _)| at));
        table.row("value", targets.iter().map(|(_, value)| format!("{value:.5}")));
        for curve in &curves {
            let epochs = targets.iter().map(|(_, value)| {
                let reached = curve.points.iter().find(|point| {
                    let better = point.estimate.mean - value;
                    self.metric.improvement(direction, better) >= 0.0
                });
                reached.map_or("–".to_owned(), |point| point.iteration.to_string())
            });
            table.row(&curve.arm, epochs);
        }
        Some(table.into_text())
    }
}

impl Configuration {
    fn course(
        &self,
        unit: &RowLabels,
        arm: Arm,
        seed: Seed,
        stop: &AtomicBool,
    ) -> anyhow::Result<(training_run::RunTrace, Ended)> {
        let seed = seed.child(Purpose::RUN, u64::from(unit.run));
        let dim = self.problem.space().dim();
        let initial: Vec<Vec<f64>> = (0..self.n_initial)
            .map(|index| {
                let mut stream = seed.stream(Purpose::INITIAL_DESIGN, index as u64, 0);
                (0..dim).map(|_| stream.uniform()).collect()
            })
            .collect();
        let run = TrainingRun {
            unit,
            problem: self.problem.as_ref(),
            initial: &initial,
            budget: self.budget,
            optimum: self.optimum,
            shown: self.shown.as_ref(),
        };
        let setup = Setup {
            space: self.problem.space().clone(),
            n_epochs: self.problem.n_epochs(),
            seed,
            modelling: self.modelling,
            bos: self.bos,
        };
        setup.run(arm.1, &run, stop)
    }
}
