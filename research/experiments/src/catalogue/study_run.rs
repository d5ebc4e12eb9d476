//! A study of one party on a problem with a known answer, from its first to its last trial, by the code that studies of users run.

use std::sync::atomic::AtomicBool;

use fedbo_problems::Problem;
use fedbo_runner::{Ended, RowBuilder};
use fedbo_space::Direction;
use fedbo_storage::Told;
use fedbo_streams::{Purpose, Seed};
use fedbo_study::{Definition, NullObserver, RunOptions, StrategySpec, Study};

use super::jobs::JobResult;
use super::peers::Peer;

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

/// The rows of a study after `n_trials` trials, one after the other. Where the definition names no strategy of ours, a
/// peer proposes.
///
/// # Errors
/// If the study cannot go on.
pub(super) fn run_study(
    problem: &dyn Problem,
    definition: &Definition,
    peer: Option<Peer>,
    n_trials: u64,
    mut rows: RowBuilder,
    stop: &AtomicBool,
) -> JobResult {
    let mut study = Study::in_memory(definition)?;
    if let Some(peer) = peer {
        study = study.with_strategy(peer)?;
    }
    let report = study.run(problem, &RunOptions::sequential(n_trials), &NullObserver, stop)?;
    if report.ended == fedbo_study::Ended::Stopped {
        return Ok((Vec::new(), Ended::Interrupted));
    }
    let row = |trial: fedbo_storage::Trial| {
        let ended = match trial.told() {
            Some(Told::Failed { message, .. }) => Err(message.clone()),
            _ => Ok(trial.value()),
        };
        let truth = problem.noiseless(&trial.point);
        rows.next(&trial.point, trial.source, ended, truth, trial.ask_seconds)
    };
    Ok((study.trials()?.into_iter().map(row).collect(), Ended::Complete))
}
