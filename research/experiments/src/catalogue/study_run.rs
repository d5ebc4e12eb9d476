//! A study of one party on a problem with a known answer, from its first to its last trial, by the code that studies of users run.

use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use fedbo_problems::Problem;
use fedbo_report::Row;
use fedbo_runner::{Ended, RowBuilder};
use fedbo_space::Direction;
use fedbo_storage::{Told, Trial};
use fedbo_strategies::Strategy;
use fedbo_streams::{Purpose, Seed};
use fedbo_study::{Definition, NullObserver, RunOptions, StrategySpec, Study};

use super::jobs::JobResult;

/// The number that seeds a study of this run, drawn from the experiment's seed.
pub(super) fn run_number(seed: Seed, run: u32) -> u64 {
    u64::from(seed.stream(Purpose::Run, u64::from(run), 0).bits())
}

/// The study of a problem, with the initial design that studies have by default.
pub(super) fn definition_of(
    problem: &dyn Problem,
    strategy: StrategySpec,
    seed: u64,
) -> Definition {
    let mut definition = Definition::new(problem.name());
    for parameter in problem.space().parameters() {
        definition = definition.parameter(parameter.name(), parameter.to_spec());
    }
    let definition = definition.seed(seed).strategy(strategy);
    match problem.direction() {
        Direction::Minimize => definition.minimize(),
        Direction::Maximize => definition,
    }
}

/// The rows of a study after `n_trials` trials, one after the other. Where the definition names no strategy of ours, `own` proposes.
///
/// # Errors
/// If the study cannot go on.
pub(super) fn run_study(
    problem: &dyn Problem,
    definition: &Definition,
    own: Option<impl Strategy + Clone + Sync + 'static>,
    n_trials: u64,
    mut rows: RowBuilder,
    stop: &AtomicBool,
) -> JobResult {
    let study = study_with(definition, own)?;
    if !run_until(&study, problem, n_trials, stop)? {
        return Ok((Vec::new(), Ended::Interrupted));
    }
    let rows = study.trials()?.iter().map(|trial| row_of(problem, trial, &mut rows)).collect();
    Ok((rows, Ended::Complete))
}

/// The same, with the regret of the trial that has the best posterior mean after each trial: the choice of `fedbo best` where values have
/// noise. The first trial, which no model knows, is that choice itself.
///
/// # Errors
/// If the study cannot go on.
pub(super) fn run_study_by_mean(
    problem: &dyn Problem,
    definition: &Definition,
    own: Option<impl Strategy + Clone + Sync + 'static>,
    n_trials: u64,
    mut rows: RowBuilder,
    stop: &AtomicBool,
) -> JobResult {
    let study = study_with(definition, own)?;
    let mut found = Vec::new();
    for n in 1..=n_trials {
        if !run_until(&study, problem, n, stop)? {
            return Ok((Vec::new(), Ended::Interrupted));
        }
        let trial = study.trials()?.pop().context("a study without its last trial")?;
        let mut row = row_of(problem, &trial, &mut rows);
        if let (Some(insight), Some(optimum)) = (study.insight()?, problem.optimum()) {
            let truth = problem.noiseless(&insight.best_by_mean.point);
            let gap = |truth: f64| {
                let direction = problem.direction();
                direction.to_maximize(optimum) - direction.to_maximize(truth)
            };
            row.regret = truth.map(gap);
        }
        found.push(row);
    }
    Ok((found, Ended::Complete))
}

fn study_with(
    definition: &Definition,
    own: Option<impl Strategy + Clone + Sync + 'static>,
) -> anyhow::Result<Study> {
    let study = Study::in_memory(definition)?;
    match own {
        Some(own) => Ok(study.with_strategy(own)?),
        None => Ok(study),
    }
}

/// Returns false if it was stopped before the study had so many trials.
fn run_until(
    study: &Study,
    problem: &dyn Problem,
    n_trials: u64,
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    let report = study.run(problem, &RunOptions::sequential(n_trials), &NullObserver, stop)?;
    Ok(report.ended != fedbo_study::Ended::Stopped)
}

fn row_of(problem: &dyn Problem, trial: &Trial, rows: &mut RowBuilder) -> Row {
    let ended = match trial.told() {
        Some(Told::Failed { message, .. }) => Err(message.clone()),
        _ => Ok(trial.value()),
    };
    let truth = problem.noiseless(&trial.point);
    rows.next(&trial.point, trial.source.clone(), ended, truth, trial.ask_seconds)
}
