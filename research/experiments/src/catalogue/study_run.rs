//! A single-party study on a problem with a known optimum, run entirely by the same code as users'
//! studies.

use std::sync::atomic::AtomicBool;

use fedbo_report::Row;
use fedbo_research_problems::Problem;
use fedbo_runner::{Ended, RowBuilder};
use fedbo_space::Direction;
use fedbo_storage::{Told, Trial};
use fedbo_strategies::Strategy;
use fedbo_streams::{Purpose, Seed};
use fedbo_study::{Definition, NullObserver, RunOptions, StrategySpec, Study};

use super::jobs::JobResult;

/// Returns the study's seed in this run, drawn from the experiment's seed.
pub(super) fn run_number(seed: Seed, run: u32) -> u64 {
    u64::from(seed.stream(Purpose::RUN, u64::from(run), 0).bits())
}

/// Returns the study of a problem, with the default initial design of studies.
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

/// Runs `n_trials` sequential trials of a study and returns their rows. If given, `own` proposes
/// instead of one of fedbo's strategies.
///
/// # Errors
/// If the study cannot continue.
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

/// Returns the rows of [`run_study`], and a second copy in the configuration `by_mean`. In the
/// copy, the regret after each trial is that of the trial with the best posterior mean under a
/// model that is newly fitted to all values so far.
///
/// # Errors
/// If the study cannot continue.
pub(super) fn run_study_by_mean(
    problem: &dyn Problem,
    definition: &Definition,
    own: Option<impl Strategy + Clone + Sync + 'static>,
    n_trials: u64,
    mut rows: RowBuilder,
    by_mean: &str,
    stop: &AtomicBool,
) -> JobResult {
    let study = study_with(definition, own)?;
    let (mut by_value, mut others) = (Vec::new(), Vec::new());
    for n in 1..=n_trials {
        if !run_until(&study, problem, n, stop)? {
            return Ok((Vec::new(), Ended::Interrupted));
        }
        let trials = study.trials()?;
        let Some(trial) = trials.get(by_value.len()) else { break };
        let row = row_of(problem, trial, &mut rows);
        // No model can be fitted to a single value, and its trial is the only choice.
        let regret = match study.insight()? {
            Some(insight) => {
                let truth = problem.noiseless(&insight.best_by_mean.point);
                truth.and_then(|truth| rows.regret_at(truth))
            }
            None => row.regret,
        };
        others.push(Row { experiment: by_mean.to_owned(), regret, ..row.clone() });
        by_value.push(row);
    }
    by_value.extend(others);
    Ok((by_value, Ended::Complete))
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

/// Runs the study until it has this number of trials. Returns false if stopped. A study with an
/// exhausted space has fewer trials.
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
