//! Targets with their earlier tasks: what all arms of a run have in common.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_problems::Problem;
use fedbo_strategies::meta::MetaTask;
use fedbo_strategies::{Domain, Strategy as _};
use fedbo_streams::{Purpose, Seed};

use super::super::Call;
use super::OneParty;
use super::arms::gp_ucb;
use fedbo_runner::RowLabels;
use fedbo_runner::{Decoder, Ended};

/// Initial points of a target and of an earlier task.
pub(super) const N_INITIAL: usize = 5;
/// Observations of an earlier task, initial points among them (N_i).
pub(super) const N_META_OBS: usize = 50;

/// The setting that all arms of a run have in common.
pub(super) struct RunSetting {
    /// Configuration: the `experiment` column.
    pub(super) configuration: String,
    /// Repetition.
    pub(super) run: u32,
    /// The problem that is tuned.
    pub(super) target: Arc<dyn Problem>,
    /// The domain of queries: the target's space, or some points of it.
    pub(super) domain: Domain,
    /// The observations of earlier tasks.
    pub(super) tasks: Vec<MetaTask>,
    /// Their outputs at every point of a finite domain; empty elsewhere.
    pub(super) tables: Vec<Vec<f64>>,
    /// Root of the run's randomness: initial points, strategies.
    pub(super) seed: Seed,
}

/// The occasions of an experiment.
pub(super) struct RunSettings {
    /// Those that are complete.
    pub(super) made: Vec<RunSetting>,
    /// [`Ended::Complete`] if all of them are.
    pub(super) ended: Ended,
}

impl From<Vec<RunSetting>> for RunSettings {
    fn from(made: Vec<RunSetting>) -> Self {
        let ended = Ended::Complete;
        Self { made, ended }
    }
}

/// Returns so many trials of GP-UCB on a problem that it tunes alone, as an earlier task; `None` if it was stopped.
///
/// # Errors
/// If it cannot go on.
pub(super) fn earlier_task(
    problem: &dyn Problem,
    name: &str,
    n_observations: usize,
    seed: Seed,
    stop: &AtomicBool,
) -> anyhow::Result<Option<MetaTask>> {
    let unit = RowLabels::new("", "", "", 0);
    let domain = Domain::Space(problem.space().clone());
    let initial = initial_points(&domain, &seed);
    let mut strategy = gp_ucb(domain, seed)?;
    let n_queries = (n_observations - initial.len()) as u64;
    let (_, ended) =
        party(problem, &unit, &initial, n_queries, seed, |party| party.run(&mut strategy, stop))?;
    let Some(surrogate) = strategy.surrogate().filter(|_| ended == Ended::Complete) else {
        return Ok(None);
    };
    Ok(Some(MetaTask {
        name: name.to_owned(),
        inputs: surrogate.inputs().clone(),
        outputs: surrogate.outputs().to_vec(),
    }))
}

/// Makes occasions in parallel; those that were stopped are left out.
///
/// # Errors
/// If one cannot be made.
pub(super) fn occasions<T: Sync>(
    stage: &str,
    items: &[T],
    note: impl Fn(&T) -> String + Sync,
    call: Call<'_>,
    make: impl Fn(&T) -> anyhow::Result<Option<RunSetting>> + Sync,
) -> anyhow::Result<RunSettings> {
    let made = call.prepare(stage, items, note, make)?;
    let made: Vec<RunSetting> = made.into_iter().flatten().collect();
    let ended = match made.len() == items.len() {
        true => Ended::Complete,
        false => Ended::Interrupted,
    };
    Ok(RunSettings { made, ended })
}

/// Uniformly random points, the same for equal seeds; no point of a finite domain twice.
pub(super) fn initial_points(domain: &Domain, seed: &Seed) -> Vec<Vec<f64>> {
    let mut stream = seed.stream(Purpose::InitialDesign, 0, 0);
    if let Some(points) = domain.points() {
        let mut order: Vec<usize> = (0..points.len()).collect();
        stream.shuffle(&mut order);
        let first = order.into_iter().take(N_INITIAL);
        return first.map(|index| points.row(index).to_vec()).collect();
    }
    (0..N_INITIAL).map(|_| domain.random(&mut stream)).collect()
}

/// A party that tunes `problem`, handed to `run`.
pub(super) fn party<T>(
    problem: &dyn Problem,
    unit: &RowLabels,
    initial: &[Vec<f64>],
    n_queries: u64,
    seed: Seed,
    run: impl FnOnce(OneParty<'_>) -> T,
) -> T {
    let space = problem.space().clone();
    let decoder: Decoder = Arc::new(move |unit: &[f64]| space.decode(unit));
    run(OneParty {
        unit,
        objective: problem,
        decoder: &decoder,
        direction: problem.direction(),
        initial,
        n_queries,
        optimum: problem.optimum(),
        // No problem here is noisy; without a known optimum there is no regret to compute.
        truth: &|point| problem.optimum().and_then(|_| problem.noiseless(point)),
        dim: problem.space().dim(),
        seed,
    })
}
