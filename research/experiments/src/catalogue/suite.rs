//! Strategies of studies on the suite: black-box functions with known minima, in two halves, one
//! for choosing settings and the other for reporting results.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use fedbo_optim::Points;
use fedbo_report::{
    Clusters, FigureSpec, Metric, PanelBy, RankingRequest, SummaryRequest, TaskGroup,
};
use fedbo_research_problems::{Problem, SuiteEntry, SuiteHalf, suite, suite_high};
use fedbo_runner::{Ended, RowBuilder, RowLabels};
use fedbo_space::Direction;
use fedbo_strategies::{
    Domain, LogEi, LogEiOptions, LogEiSettings, Observation, OutputOption, Proposal, Source,
    Strategy, StrategyError, Surrogate, SurrogateSettings,
};
use fedbo_streams::{Seed, Stream};
use fedbo_study::{Definition, StrategySpec};

use super::jobs::{Job, JobResult, columns_of};
use super::peers::{self, Peer};
use super::study_run::{definition_of, run_number, run_study, run_study_by_mean};
use super::{Call, ExperimentResult};

/// The configuration that reports the trial with the best observed value.
const BY_VALUE: &str = "by value";
/// The configuration that reports the trial with the best posterior mean.
const BY_MEAN: &str = "by mean";
/// The arm with which the others are compared.
const CONTROL: &str = "log-ei";

/// The functions of a comparison, and its trials.
struct Comparison {
    /// Name of the experiment.
    name: &'static str,
    entries: Vec<SuiteEntry>,
    /// Number of trials of a study, including the initial design.
    n_trials: u64,
    /// Numbers of trials after which arms are compared, in addition to the end.
    checkpoints: [i64; 2],
    /// True if runs are judged [`BY_VALUE`] and [`BY_MEAN`] instead of by halves, with additional
    /// arms against noise.
    by_mean: bool,
}

impl Comparison {
    fn of(name: &'static str, entries: Vec<SuiteEntry>) -> Self {
        Self { name, entries, n_trials: 100, checkpoints: [25, 50], by_mean: false }
    }
}

/// An arm: one of fedbo's strategies, or a peer that the interpreter can run.
#[derive(Clone)]
struct Arm {
    name: String,
    strategy: StrategySpec,
    proposes: Proposes,
}

/// The source of the trials after the initial design.
#[derive(Clone)]
enum Proposes {
    /// A strategy, by its name in a study.
    Named,
    /// [`Replicating`].
    Replicating,
    /// A sampler of another package, in this Python interpreter.
    Peer { name: String, python: String },
}

/// Returns fedbo's strategies, followed by the peers if the environment specifies an interpreter.
///
/// # Errors
/// If the interpreter cannot be started.
fn arms(by_mean: bool) -> anyhow::Result<Vec<Arm>> {
    let ours = [
        (CONTROL, StrategySpec::log_ei()),
        ("ts", StrategySpec::ts()),
        ("gp-ucb", StrategySpec::gp_ucb()),
        ("sobol", StrategySpec::sobol()),
        ("random", StrategySpec::random()),
    ];
    let arm = |name: String, strategy, proposes| Arm { name, strategy, proposes };
    let mut arms: Vec<Arm> =
        ours.map(|(name, strategy)| arm(name.into(), strategy, Proposes::Named)).into();
    if by_mean {
        let plain = LogEiOptions { augmented: false, ..LogEiOptions::default() };
        arms.push(arm("log-ei, plain".into(), StrategySpec::LogEi(plain), Proposes::Named));
        arms.push(arm("log-ei, replicates".into(), StrategySpec::own(), Proposes::Replicating));
    }
    if let Some((python, names)) = peers::from_environment()? {
        arms.extend(names.into_iter().map(|name| {
            let peer = Proposes::Peer { name: name.clone(), python: python.clone() };
            arm(name, StrategySpec::own(), peer)
        }));
    }
    Ok(arms)
}

impl Arm {
    /// Runs this arm on the function instance `number`, and returns its rows.
    fn work(
        &self,
        entry: &SuiteEntry,
        number: u64,
        n_trials: u64,
        unit: &RowLabels,
        stop: &AtomicBool,
    ) -> JobResult {
        let function = entry.instance(number);
        let mut definition = definition_of(&function, self.strategy, number);
        if entry.is_noisy() {
            definition = definition.noisy();
        }
        // Iterations count all trials, because initial designs differ in size.
        let rows = RowBuilder::new(unit.clone(), function.direction(), 0, function.optimum())
            .with_regret_of_best_observed();
        match &self.proposes {
            Proposes::Named => {
                judged(&function, &definition, None::<Peer>, n_trials, rows, unit, stop)
            }
            Proposes::Replicating => {
                let own = Replicating::new(&function, definition.n_initial, Seed::new(number))?;
                judged(&function, &definition, Some(own), n_trials, rows, unit, stop)
            }
            Proposes::Peer { name, python } => {
                let command = peers::command(python, name);
                let peer = Peer::start(command, function.space(), number, entry.is_noisy())?;
                judged(&function, &definition, Some(peer), n_trials, rows, unit, stop)
            }
        }
    }
}

/// Returns the rows of a study and, if it is judged by values, also those by posterior means.
fn judged(
    function: &dyn Problem,
    definition: &Definition,
    own: Option<impl Strategy + Clone + Sync + 'static>,
    n_trials: u64,
    rows: RowBuilder,
    unit: &RowLabels,
    stop: &AtomicBool,
) -> JobResult {
    if unit.experiment == BY_VALUE {
        run_study_by_mean(function, definition, own, n_trials, rows, BY_MEAN, stop)
    } else {
        run_study(function, definition, own, n_trials, rows, stop)
    }
}

/// `log-ei` for a noisy objective. After the initial design, every fourth trial repeats the point
/// with the best posterior mean.
#[derive(Clone)]
struct Replicating {
    inner: LogEi,
    n_initial: usize,
    n_told: usize,
}

impl Replicating {
    fn new(function: &dyn Problem, n_initial: usize, seed: Seed) -> anyhow::Result<Self> {
        let space = function.space();
        let outputs =
            SurrogateSettings::for_space(space, true).with_outputs(OutputOption::default());
        let settings = LogEiSettings {
            surrogate: outputs,
            augmented: true,
            ..LogEiSettings::for_study(space.dim(), true)
        };
        let inner = LogEi::new(Domain::Space(space.clone()), settings, seed)?;
        Ok(Self { inner, n_initial, n_told: 0 })
    }
}

impl Strategy for Replicating {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let is_turn = self.n_told > self.n_initial && (self.n_told - self.n_initial) % 4 == 3;
        let Some(surrogate) = self.surrogate().filter(|_| is_turn) else {
            return self.inner.ask(pending, stream);
        };
        let mean = |unit: &[f64]| surrogate.posterior().mean(unit);
        let best = surrogate.inputs().rows().max_by(|a, b| mean(a).total_cmp(&mean(b)));
        match best {
            Some(unit) => Ok(Proposal { unit: unit.to_vec(), source: Source::Own }),
            None => self.inner.ask(pending, stream),
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.inner.tell(observed)?;
        self.n_told += observed.len();
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.inner.surrogate()
    }
}

/// Runs both halves.
pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    run_of(&Comparison::of("suite", suite()), call)
}

/// Runs only the half for choosing settings.
pub(super) fn run_choosing(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let half: Vec<SuiteEntry> =
        suite().into_iter().filter(|entry| entry.half() == SuiteHalf::Choosing).collect();
    run_of(&Comparison::of("suite-choosing", half), call)
}

/// Runs functions of 20 and 50 parameters, with 500 trials each.
pub(super) fn run_high(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let comparison = Comparison {
        n_trials: 500,
        checkpoints: [100, 200],
        ..Comparison::of("suite-high", suite_high())
    };
    run_of(&comparison, call)
}

/// Runs functions with noisy values, judged by the trial with the best value and by the trial with
/// the best posterior mean.
pub(super) fn run_noisy(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let noisy: Vec<SuiteEntry> = suite().into_iter().filter(SuiteEntry::is_noisy).collect();
    let comparison = Comparison { by_mean: true, ..Comparison::of("suite-noisy", noisy) };
    run_of(&comparison, call)
}

fn run_of(comparison: &Comparison, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let Comparison { name, entries, n_trials, checkpoints, by_mean } = comparison;
    let runs = call.runs();
    let arms = arms(*by_mean)?;
    // The names of parameters are the same for all seeds.
    let examples: Vec<_> = entries.iter().map(|entry| entry.instance(0)).collect();
    let columns = columns_of(examples.iter().map(Problem::space));
    let writer = call.writer(&columns)?;
    let seed = call.seed();
    let failures = Mutex::new(Vec::new());
    let mut jobs = Vec::new();
    for entry in entries {
        for run in 0..runs {
            for arm in &arms {
                let unit = RowLabels::new(
                    if *by_mean { BY_VALUE } else { entry.half().name() },
                    arm.name.clone(),
                    entry.name(),
                    run,
                );
                // All arms of a run have the same instance, noise and initial design.
                let number = run_number(seed, run);
                let failures = &failures;
                let job = Job::new(unit, move |unit, stop| {
                    match arm.work(entry, number, *n_trials, unit, stop) {
                        // A failure of another package's sampler does not discard the other runs.
                        Err(error) if matches!(arm.proposes, Proposes::Peer { .. }) => {
                            let RowLabels { arm, agent, run, .. } = unit;
                            let failure = format!("{arm} on {agent}, run {run}: {error:#}");
                            failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                            Ok((Vec::new(), Ended::Complete))
                        }
                        worked => worked,
                    }
                });
                jobs.push(job.in_columns(&columns));
            }
        }
    }
    let (rows, ended) = call.play(name, &jobs, writer)?;
    let figure = FigureSpec {
        title: "Functions of the suite".into(),
        x_label: "trials".into(),
        y_label: "log10 of simple regret".into(),
        panel_by: PanelBy::Experiment,
        shared_y: true,
        ..FigureSpec::default()
    };
    let request = SummaryRequest {
        checkpoints: (*checkpoints).into(),
        clusters: Clusters::Agents,
        figure: Some(figure),
        ..SummaryRequest::new(*name, call.options.seed, Direction::Minimize, Metric::LogRegret)
    };
    let pairs_of = |_: &str| {
        let others = arms.iter().filter(|arm| arm.name != CONTROL);
        others.map(|arm| (arm.name.clone(), CONTROL.to_owned())).collect()
    };
    let mut concluded = call.conclude(&rows, ended, request, pairs_of)?;
    let ranking = RankingRequest {
        control: CONTROL.to_owned(),
        checkpoints: (*checkpoints).into(),
        groups: entries.iter().map(|entry| (entry.name(), groups_of(entry))).collect(),
    };
    concluded.summary.rank(&rows, &ranking);
    concluded.summary.write(&call.options.out)?;
    let tables = concluded.summary.configurations.iter().filter_map(|part| {
        let tables = part.ranking.as_ref()?.tables(part.metric);
        let kind = if *by_mean { "Judged" } else { "Half" };
        Some(format!("{kind}: {}\n\n{tables}\n", part.experiment))
    });
    let mut notes: Vec<String> = tables.collect();
    let mut failures =
        std::mem::take(&mut *failures.lock().unwrap_or_else(PoisonError::into_inner));
    failures.sort_unstable();
    if !failures.is_empty() {
        let failures = failures.join("\n  ");
        notes.push(format!("Failed runs of samplers, which are in no table:\n  {failures}\n"));
    }
    Ok(ExperimentResult { notes, ..concluded })
}

/// Returns the groups of a function: its dimension and its family. Dimensions have two digits, so
/// that they sort correctly.
fn groups_of(entry: &SuiteEntry) -> Vec<TaskGroup> {
    let group = |by: &str, name: String| TaskGroup { by: by.to_owned(), name };
    vec![
        group("dimensions", format!("{:2}", entry.dim())),
        group("family", entry.family().name().to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::RunOptions;
    use super::*;
    use fedbo_report::{RESULTS_FILE, Row, Summary, read_results};

    fn functions(names: &[&str]) -> Vec<SuiteEntry> {
        let entries: Vec<SuiteEntry> =
            suite().into_iter().filter(|entry| names.contains(&entry.name().as_str())).collect();
        assert_eq!(entries.len(), names.len());
        entries
    }

    fn run_some(comparison: &Comparison, threads: usize, out: &Path) -> ExperimentResult {
        let options = RunOptions::once(3, out);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let stop = AtomicBool::new(false);
        pool.install(|| {
            run_of(
                comparison,
                Call { options: &options, progress: &(), stop: &stop, default_runs: 1 },
            )
        })
        .unwrap()
    }

    fn rows_of(folder: &Path) -> Vec<Row> {
        let rows = read_results(&folder.join(RESULTS_FILE)).unwrap();
        rows.into_iter().map(|row| Row { ask_seconds: 0.0, ..row }).collect()
    }

    /// For functions of both halves, of one half and of a mixed space, arms share their initial
    /// designs, models beat random search on smooth functions, and the number of threads has no
    /// effect.
    #[test]
    fn arms_are_compared_in_each_half_and_by_group() {
        const NAMES: [&str; 4] =
            ["sphere-2d", "sphere-3d", "ellipsoid-3d", "category-ellipsoid-3d"];
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let comparison = Comparison::of("suite", functions(&NAMES));
        let finding = run_some(&comparison, 1, folders[0].path());
        run_some(&comparison, 2, folders[1].path());
        assert_eq!(finding.ended, Ended::Complete);
        assert_eq!(Summary::read(folders[0].path()).unwrap(), finding.summary);
        let [rows, again] = [0, 1].map(|i| rows_of(folders[i].path()));
        assert_eq!(rows, again);
        assert_eq!(rows.len(), NAMES.len() * 5 * 100);

        let design = |arm: &str| -> Vec<&Row> {
            let of_arm = rows.iter().filter(|row| row.arm == arm && row.agent == "sphere-3d");
            of_arm.filter(|row| row.source == "initial").collect()
        };
        let points = |arm: &str| -> Vec<_> {
            design(arm).into_iter().map(|row| row.parameters.clone()).collect()
        };
        assert_eq!(points("log-ei").len(), 6); // two for each dimension
        assert_eq!((points("ts"), points("gp-ucb")), (points("log-ei"), points("log-ei")));

        let halves: Vec<&str> =
            finding.summary.configurations.iter().map(|part| part.experiment.as_str()).collect();
        assert_eq!(halves, ["choosing", "reporting"]);
        for part in &finding.summary.configurations {
            let ranking = part.ranking.as_ref().unwrap();
            let at_the_end = ranking
                .ranks
                .iter()
                .find(|ranks| ranks.group.is_none() && ranks.iteration.is_none());
            let rank = |arm: &str| {
                let mut arms = at_the_end.unwrap().arms.iter();
                arms.find(|(name, _)| name == arm).unwrap().1
            };
            assert!(rank("log-ei") < rank("random") && rank("ts") < rank("sobol"), "{ranking:?}");
            let group = ranking.ranks.iter().find_map(|ranks| ranks.group.as_ref());
            assert_eq!(group.unwrap().by, "dimensions");
        }
        assert!(finding.notes[0].contains("family: smooth"), "{}", finding.notes[0]);
    }

    /// Both ways of judging use the same trials. When judging by mean, the chosen trial is the
    /// study's own choice. Replicates start with the fourth trial after the design. Until then the
    /// arm equals `log-ei`.
    #[test]
    fn noisy_functions_are_judged_by_value_and_by_mean() {
        const N_TRIALS: usize = 16;
        let folder = tempfile::tempdir().unwrap();
        let entries = functions(&["noisy-peaks-2d"]);
        let function = entries[0].instance(run_number(Seed::new(3), 0));
        let comparison = Comparison {
            n_trials: N_TRIALS as u64,
            checkpoints: [10, 12],
            by_mean: true,
            ..Comparison::of("suite-noisy", entries)
        };
        let finding = run_some(&comparison, 2, folder.path());
        assert!(finding.notes.iter().any(|note| note.starts_with("Judged: by mean")));
        let rows = rows_of(folder.path());
        let of = |judged: &str, arm: &str| -> Vec<&Row> {
            rows.iter().filter(|row| row.experiment == judged && row.arm == arm).collect()
        };
        let points = |rows: &[&Row]| -> Vec<_> {
            rows.iter().map(|row| (row.parameters.clone(), row.value)).collect()
        };
        const ARMS: [&str; 7] =
            ["log-ei", "ts", "gp-ucb", "sobol", "random", "log-ei, plain", "log-ei, replicates"];
        for arm in ARMS {
            assert_eq!(of(BY_VALUE, arm).len(), N_TRIALS);
            assert_eq!(points(&of(BY_VALUE, arm)), points(&of(BY_MEAN, arm)));
        }
        // Run the same study outside the experiment.
        let number = run_number(Seed::new(3), 0);
        let definition = definition_of(&function, StrategySpec::random(), number).noisy();
        let study = fedbo_study::Study::in_memory(&definition).unwrap();
        let options = fedbo_study::RunOptions::sequential(N_TRIALS as u64);
        let stop = AtomicBool::new(false);
        study.run(&function, &options, &fedbo_study::NullObserver, &stop).unwrap();
        let best = study.insight().unwrap().unwrap().best_by_mean;
        let gap = function.noiseless(&best.point).unwrap() - function.optimum().unwrap();
        assert!((of(BY_MEAN, "random")[N_TRIALS - 1].regret.unwrap() - gap).abs() < 1e-12);

        let (alone, replicated) = (of(BY_VALUE, "log-ei"), of(BY_VALUE, "log-ei, replicates"));
        let n_same = definition.n_initial + 3;
        assert_eq!(points(&alone[..n_same]), points(&replicated[..n_same]));
        let repeated = &replicated[n_same].parameters;
        assert!(replicated[..n_same].iter().any(|row| row.parameters == *repeated));
        assert!(alone[..n_same].iter().all(|row| row.parameters != alone[n_same].parameters));
    }
}
