//! Targets with their earlier tasks, shared by all arms of a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_research_problems::Problem;
use fedbo_strategies::meta::MetaTask;
use fedbo_strategies::{Domain, Strategy as _};
use fedbo_streams::{Purpose, Seed};

use super::super::Call;
use super::OneParty;
use super::arms::gp_ucb;
use fedbo_runner::RowLabels;
use fedbo_runner::{Decoder, Ended};

/// Number of initial points of a target and of an earlier task.
pub(super) const N_INITIAL: usize = 5;
/// N_i, the number of observations of an earlier task, including initial points.
pub(super) const N_META_OBS: usize = 50;

/// The setting shared by all arms of a run.
pub(super) struct RunSetting {
    /// Value of the `experiment` column.
    pub(super) configuration: String,
    /// Repetition.
    pub(super) run: u32,
    /// The problem to tune.
    pub(super) target: Arc<dyn Problem>,
    /// The domain of queries: the target's space, or a subset of its points.
    pub(super) domain: Domain,
    /// The observations of earlier tasks.
    pub(super) tasks: Vec<MetaTask>,
    /// Outputs of the earlier tasks at every point of a finite domain; otherwise empty.
    pub(super) tables: Vec<Vec<f64>>,
    /// Root of the run's randomness, for initial points and strategies.
    pub(super) seed: Seed,
}

/// The run settings of an experiment.
pub(super) struct RunSettings {
    /// The completed settings.
    pub(super) made: Vec<RunSetting>,
    /// [`Ended::Complete`] if all are complete.
    pub(super) ended: Ended,
}

impl From<Vec<RunSetting>> for RunSettings {
    fn from(made: Vec<RunSetting>) -> Self {
        let ended = Ended::Complete;
        Self { made, ended }
    }
}

/// Returns `n_observations` trials of GP-UCB on a single problem as an earlier task, or `None` if
/// stopped.
///
/// # Errors
/// If the strategy cannot continue.
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

/// Creates run settings in parallel. Settings for which creation was stopped are omitted.
///
/// # Errors
/// If one cannot be created.
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

/// Returns uniformly random points, the same for equal seeds, without repetition in a finite
/// domain.
pub(super) fn initial_points(domain: &Domain, seed: &Seed) -> Vec<Vec<f64>> {
    let mut stream = seed.stream(Purpose::INITIAL_DESIGN, 0, 0);
    if let Some(points) = domain.points() {
        let mut order: Vec<usize> = (0..points.len()).collect();
        stream.shuffle(&mut order);
        let first = order.into_iter().take(N_INITIAL);
        return first.map(|index| points.row(index).to_vec()).collect();
    }
    (0..N_INITIAL).map(|_| domain.random(&mut stream)).collect()
}

/// Calls `run` with a party that tunes `problem`.
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
        // No problem here is noisy. Without a known optimum no regret can be computed.
        truth: &|point| problem.optimum().and_then(|_| problem.noiseless(point)),
        dim: problem.space().dim(),
        seed,
    })
}
