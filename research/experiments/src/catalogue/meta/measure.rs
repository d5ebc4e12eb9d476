//! Runs all arms in all run settings, and writes the results.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use fedbo_report::{Clusters, FigureSpec, Metric, PanelBy, Row, SummaryRequest, TaskWeightRow};
use fedbo_space::Direction;

use super::super::jobs::Job;
use super::super::{Call, ExperimentResult};
use super::arms::{Arm, EarlierTasks, pairs};
use super::run_setting::{RunSetting, RunSettings, initial_points, party};
use super::{RunTrace, TaskWeightBook};
use fedbo_runner::Ended;
use fedbo_runner::RowLabels;

/// The declaration of an experiment: its names, its arms and its figures.
pub(super) struct Declaration {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) y_label: &'static str,
    pub(super) metric: Metric,
    /// Number of queries after the initial points.
    pub(super) n_queries: u64,
    pub(super) clusters: Clusters,
    pub(super) arms: Vec<Arm>,
    /// Arms whose weights are recorded.
    pub(super) weighing: Vec<&'static str>,
    /// Task names in the table and the figure of weights.
    pub(super) naming: Naming,
}

/// Labels of the tasks in the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// Names of the tasks.
    Tasks,
    /// Ranks by weight at the last query, for runs with different targets. Ranks after the third
    /// are omitted.
    Ranks,
}

/// The results of an experiment.
pub(super) struct Measured {
    pub(super) rows: Vec<Row>,
    pub(super) weights: Vec<TaskWeightRow>,
    pub(super) concluded: ExperimentResult,
}

/// Runs every arm in every run setting, and writes rows, summary, figures and weights.
///
/// # Errors
/// If an arm cannot continue or a file cannot be written.
pub(super) fn measure(
    declaration: &Declaration,
    occasions: &RunSettings,
    call: Call<'_>,
) -> anyhow::Result<Measured> {
    let parameters = occasions.made.first().map(|occasion| {
        let parameters = occasion.target.space().parameters().iter();
        parameters.map(|p| p.name().to_owned()).collect()
    });
    let columns: Vec<String> = parameters.unwrap_or_default();
    let writer = call.writer(&columns)?;
    let book = TaskWeightBook::default();
    let mut jobs = Vec::new();
    for occasion in &occasions.made {
        for arm in &declaration.arms {
            let unit =
                RowLabels::new(occasion.configuration.clone(), arm.name, "target", occasion.run);
            let (book, job) = (&book, jobs.len());
            jobs.push(Job::new(unit, move |unit, stop| {
                let n_queries = declaration.n_queries;
                let (course, ended) = tune(occasion, arm, unit, n_queries, stop)?;
                if declaration.weighing.contains(&arm.name) {
                    book.put(job, declaration.naming.apply(course.weights));
                }
                Ok((course.rows, ended))
            }));
        }
    }
    let (rows, mut ended) = call.play(declaration.name, &jobs, writer)?;
    drop(jobs);
    if occasions.ended == Ended::Interrupted {
        ended = Ended::Interrupted;
    }
    let n_queries = i64::try_from(declaration.n_queries)?;
    let request = SummaryRequest {
        checkpoints: [1, 3, 5, 10, 20].into_iter().filter(|t| *t < n_queries).collect(),
        clusters: declaration.clusters,
        figure: Some(FigureSpec {
            title: declaration.title.to_owned(),
            x_label: "queries after the initial points".to_owned(),
            y_label: declaration.y_label.to_owned(),
            panel_by: PanelBy::Experiment,
            ..FigureSpec::default()
        }),
        ..call.summary_request(declaration.name, Direction::Maximize, declaration.metric)
    };
    let pairs_of = |_: &str| pairs(&declaration.arms);
    let concluded = call.conclude(&rows, ended, request, pairs_of)?;
    let weights =
        book.write(&call.options.out, "Weights of the earlier tasks, and the share of all")?;
    Ok(Measured { rows, weights, concluded })
}

fn tune(
    occasion: &RunSetting,
    arm: &Arm,
    unit: &RowLabels,
    n_queries: u64,
    stop: &AtomicBool,
) -> anyhow::Result<(RunTrace, Ended)> {
    let (target, seed) = (occasion.target.as_ref(), occasion.seed);
    let initial = initial_points(&occasion.domain, &seed);
    let earlier = EarlierTasks { tasks: &occasion.tasks, tables: &occasion.tables };
    let mut strategy = arm.rule.strategy(occasion.domain.clone(), earlier, seed)?;
    party(target, unit, &initial, n_queries, seed, |party| party.run(strategy.as_mut(), stop))
}

impl Naming {
    /// Replaces the task names in the rows of one run with their labels. Ranks are in order at
    /// every query, and rows without a label are dropped.
    fn apply(self, rows: Vec<TaskWeightRow>) -> Vec<TaskWeightRow> {
        const RANKS: [&str; 3] = ["heaviest", "second", "third"];
        if self == Self::Tasks {
            return rows;
        }
        let last = rows.iter().map(|row| row.iteration).max();
        let is_last = |row: &&TaskWeightRow| Some(row.iteration) == last;
        let mut closing: Vec<&TaskWeightRow> = rows.iter().filter(is_last).collect();
        closing.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let heaviest: Vec<String> = closing.iter().map(|row| row.task.clone()).collect();
        let mut ranked: Vec<(usize, TaskWeightRow)> = rows
            .into_iter()
            .filter_map(|row| {
                let rank = heaviest.iter().position(|task| *task == row.task)?;
                let task = (*RANKS.get(rank)?).to_owned();
                Some((rank, TaskWeightRow { task, ..row }))
            })
            .collect();
        ranked.sort_by_key(|(rank, row)| (row.iteration, *rank));
        ranked.into_iter().map(|(_, row)| row).collect()
    }
}

/// Returns a note on the mean seconds per decision of each arm, over all configurations.
pub(super) fn seconds_note(rows: &[Row]) -> String {
    let mut of_arm: Vec<(&str, f64, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.iteration > 0) {
        match of_arm.iter_mut().find(|(arm, ..)| *arm == row.arm) {
            Some((_, seconds, n)) => {
                *seconds += row.ask_seconds;
                *n += 1.0;
            }
            None => of_arm.push((&row.arm, row.ask_seconds, 1.0)),
        }
    }
    let mut note = "Mean milliseconds per proposal:".to_owned();
    for (arm, seconds, n) in of_arm {
        let _ = write!(note, " {arm} {:.1},", 1e3 * seconds / n);
    }
    note.pop();
    note
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedbo_research_problems::{Function, Problem, TestFunction};
    use fedbo_strategies::Domain;
    use fedbo_streams::{Purpose, Seed};

    use super::super::super::RunOptions;
    use super::super::arms::Rule;
    use super::super::run_setting::{N_INITIAL, N_META_OBS, earlier_task, occasions};
    use super::*;

    /// Runs two searches on a function with the help of a third one.
    fn try_out(stop: &AtomicBool) -> anyhow::Result<Measured> {
        let problem = || TestFunction::new(Function::Branin, 0.0, Seed::new(0)).map(Arc::new);
        let folder = tempfile::tempdir()?;
        let options = RunOptions::once(7, folder.path());
        let call = Call { options: &options, progress: &(), stop, default_runs: 1 };
        let made = occasions("earlier", &[0, 1], u32::to_string, call, |&run| {
            let seed = Seed::new(u64::from(run));
            let task = earlier_task(problem()?.as_ref(), "same", N_META_OBS, seed, stop)?;
            let target: Arc<dyn Problem> = problem()?;
            Ok(task.map(|task| RunSetting {
                configuration: "tried".to_owned(),
                run,
                domain: Domain::Space(target.space().clone()),
                target,
                tasks: vec![task],
                tables: Vec::new(),
                seed: Seed::new(7).child(Purpose::RUN, u64::from(run)),
            }))
        })?;
        let declaration = Declaration {
            name: "tried",
            title: "tried",
            y_label: "regret",
            metric: Metric::Regret,
            n_queries: 4,
            clusters: Clusters::Units,
            arms: [("gp-ucb", Rule::GpUcb), ("placebo", Rule::Placebo)]
                .map(|(name, rule)| Arm { name, rule })
                .into(),
            weighing: vec!["placebo"],
            naming: Naming::Tasks,
        };
        measure(&declaration, &made, call)
    }

    #[test]
    fn arms_of_a_run_begin_alike_and_runs_repeat_themselves() {
        let stop = AtomicBool::new(false);
        let (first, mut second) = (try_out(&stop).unwrap(), try_out(&stop).unwrap());
        assert_eq!(first.concluded.ended, Ended::Complete);
        assert_eq!(first.rows.len(), 2 * 2 * (N_INITIAL + 4));
        for (row, same) in first.rows.iter().zip(&mut second.rows) {
            same.ask_seconds = row.ask_seconds;
            assert_eq!(row, same);
        }
        let initial = |arm: &str, run: u32| {
            let of_arm = first.rows.iter().filter(move |row| row.arm == arm && row.run == run);
            let initial = of_arm.filter(|row| row.iteration <= 0);
            initial.map(|row| row.parameters.clone()).collect::<Vec<_>>()
        };
        assert_eq!(initial("gp-ucb", 0).len(), N_INITIAL);
        assert_eq!(initial("gp-ucb", 0), initial("placebo", 0));
        assert_ne!(initial("gp-ucb", 0), initial("gp-ucb", 1));
        assert_eq!(first.weights.len(), 2 * 4);
    }

    #[test]
    fn what_was_stopped_says_so() {
        let stopped = try_out(&AtomicBool::new(true)).unwrap();
        assert_eq!(stopped.concluded.ended, Ended::Interrupted);
        assert!(stopped.concluded.summary.interrupted && stopped.rows.is_empty());
    }

    #[test]
    fn ranks_are_those_at_the_last_query() {
        let row = |iteration, task: &str, weight| TaskWeightRow {
            experiment: "e".into(),
            arm: "a".into(),
            run: 0,
            iteration,
            task: task.into(),
            weight,
            gap_bound: None,
            meta_share: 1.0,
        };
        let rows = vec![
            row(1, "p", 0.7),
            row(1, "q", 0.1),
            row(1, "r", 0.1),
            row(1, "s", 0.1),
            row(2, "p", 0.2),
            row(2, "q", 0.5),
            row(2, "r", 0.05),
            row(2, "s", 0.25),
        ];
        assert_eq!(Naming::Tasks.apply(rows.clone()), rows);
        let ranked = Naming::Ranks.apply(rows);
        let found: Vec<(i64, &str, f64)> =
            ranked.iter().map(|row| (row.iteration, row.task.as_str(), row.weight)).collect();
        assert_eq!(
            found,
            [
                (1, "heaviest", 0.1),
                (1, "second", 0.1),
                (1, "third", 0.7),
                (2, "heaviest", 0.5),
                (2, "second", 0.25),
                (2, "third", 0.2),
            ]
        );
    }
}
