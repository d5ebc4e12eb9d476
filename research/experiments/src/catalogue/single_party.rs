//! One party alone: the strategies of a study on functions with known optima, compared with random
//! and Sobol search.

use std::collections::BTreeMap;

use fedbo_research_problems::{Function, MixedSurface, Problem, TestFunction};
use fedbo_space::Direction;
use fedbo_strategies::{GpUcbOptions, UcbMultiplier};
use fedbo_streams::Seed;
use fedbo_study::StrategySpec;

use super::jobs::{Job, columns_of};
use super::markdown::MarkdownTable;
use super::peers::Peer;
use super::study_run::{definition_of, run_number, run_study};
use super::{Call, ExperimentResult};
use fedbo_report::{FigureSpec, Metric, PanelBy, Row, Scale, SummaryRequest, quantile};
use fedbo_runner::{RowBuilder, RowLabels};

/// Number of evaluations per run, and size of the initial design (as in the peers' measurements).
const N_TRIALS: u64 = 50;
const N_INITIAL: usize = 10;

/// B and δ for the arm with β_t from the regret bound.
const NORM_BOUND: f64 = 2.0;
const FAILURE_PROB: f64 = 0.1;

fn arms() -> [(&'static str, StrategySpec); 6] {
    let theory = StrategySpec::GpUcb(GpUcbOptions {
        ucb_multiplier: UcbMultiplier::Theorem1 {
            norm_bound: NORM_BOUND,
            failure_prob: FAILURE_PROB,
        },
        ..GpUcbOptions::default()
    });
    [
        ("log-ei", StrategySpec::log_ei()),
        ("ts", StrategySpec::ts()),
        ("gp-ucb", StrategySpec::gp_ucb()),
        ("gp-ucb theory", theory),
        ("sobol", StrategySpec::sobol()),
        ("random", StrategySpec::random()),
    ]
}

fn problems() -> anyhow::Result<Vec<(&'static str, Box<dyn Problem>)>> {
    let function = |function| TestFunction::new(function, 0.0, Seed::new(0)).map(Box::new);
    Ok(vec![
        ("branin", function(Function::Branin)?),
        ("hartmann6", function(Function::Hartmann6)?),
        ("ackley5", function(Function::Ackley { dim: 5 })?),
        ("rosenbrock2", function(Function::Rosenbrock { dim: 2 })?),
        ("mixed", Box::new(MixedSurface::new())),
    ])
}

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let problems = problems()?;
    let columns = columns_of(problems.iter().map(|(_, problem)| problem.space()));
    let writer = call.writer(&columns)?;
    let seed = call.seed();
    let mut jobs = Vec::new();
    for (name, problem) in &problems {
        for run in 0..runs {
            for (arm, strategy) in arms() {
                let unit = RowLabels::new(*name, arm, "study", run);
                let job = Job::new(unit, move |unit, stop| {
                    let definition =
                        definition_of(problem.as_ref(), strategy, run_number(seed, run));
                    let definition = definition.initial(N_INITIAL);
                    let problem = problem.as_ref();
                    let rows = RowBuilder::new(
                        unit.clone(),
                        problem.direction(),
                        N_INITIAL,
                        problem.optimum(),
                    );
                    run_study(problem, &definition, None::<Peer>, N_TRIALS, rows, stop)
                });
                jobs.push(job.in_columns(&columns));
            }
        }
    }
    let (rows, ended) = call.play("single-party", &jobs, writer)?;
    let figure = FigureSpec {
        title: "One party alone, 10 initial points, no noise".into(),
        x_label: "queries after the initial points".into(),
        y_label: "simple regret".into(),
        scale: Scale::Log,
        panel_by: PanelBy::Experiment,
        ..FigureSpec::default()
    };
    let request = SummaryRequest {
        checkpoints: vec![10, 20],
        figure: Some(figure),
        ..call.summary_request("single-party", Direction::Minimize, Metric::Regret)
    };
    let pairs_of = |_: &str| {
        ["log-ei", "ts", "gp-ucb"]
            .iter()
            .flat_map(|arm| ["sobol", "random"].map(|control| ((*arm).into(), control.into())))
            .collect()
    };
    let concluded = call.conclude(&rows, ended, request, pairs_of)?;
    Ok(ExperimentResult { notes: vec![median_table(&rows)], ..concluded })
}

/// Formats medians and quartiles over runs. Regrets differ by orders of magnitude, so the worst run
/// would dominate a mean.
fn median_table(rows: &[Row]) -> String {
    let mut last: BTreeMap<(&str, &str, u32), &Row> = BTreeMap::new();
    for row in rows {
        let key = (row.experiment.as_str(), row.arm.as_str(), row.run);
        let latest = last.entry(key).or_insert(row);
        if row.iteration > latest.iteration {
            *latest = row;
        }
    }
    let mut problems: Vec<&str> = Vec::new();
    for row in rows {
        if !problems.contains(&row.experiment.as_str()) {
            problems.push(&row.experiment);
        }
    }
    let title = format!("Simple regret after {N_TRIALS} evaluations: median [quartiles] over runs");
    let mut table = MarkdownTable::new(title, "strategy", &problems);
    for (arm, _) in arms() {
        let cells = problems.iter().map(|problem| {
            let mut regrets: Vec<f64> = last
                .iter()
                .filter(|((experiment, name, _), _)| experiment == problem && *name == arm)
                .filter_map(|(_, row)| row.regret)
                .collect();
            regrets.sort_by(f64::total_cmp);
            let at = |share| quantile(&regrets, share).unwrap_or(f64::NAN);
            match regrets.as_slice() {
                [] => "–".to_owned(),
                _ => format!("{:.2e} [{:.1e}, {:.1e}]", at(0.5), at(0.25), at(0.75)),
            }
        });
        table.row(arm, cells);
    }
    table.into_text()
}
