//! Python bindings for federations in one process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use fedbo_federation::{ALGORITHMS, Arm, PrivacyPlan};
use fedbo_ledger::Statement;
use fedbo_objective::{FailuresMax, Objective};
use fedbo_problems::BuiltInProblems;
use fedbo_protocol::UpdateRejected;
use fedbo_report::{RESULTS_FILE, Row, closing_table, read_results};
use fedbo_runner::federation::{
    ExistingResults, RunError, RunOptions, RunProgress, RunReport, default_arms, run_federation,
};
use fedbo_space::{Direction, Space};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::{convert, errors};

/// Width of the closing table in columns.
const TABLE_WIDTH: u16 = 120;

/// A federation. The objectives of its agents are passed to `simulate`.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Federation {
    federation: fedbo_federation::Federation,
}

/// Sends the progress of a run to Python.
struct Progress {
    observer: PythonObserver,
    space: Arc<Space>,
    stop: Arc<AtomicBool>,
}

impl RunProgress for Progress {
    fn charging(&self, plan: &PrivacyPlan, _spent: &Statement) {
        if let Some(warning) = plan.paid_claim().and_then(|claim| claim.warning()) {
            self.observer.warn(warning);
        }
    }

    fn wave_ended(&self, _iteration: i64, rows: &[Row]) {
        let (rows, space) = (rows.to_vec(), Arc::clone(&self.space));
        let told = self.observer.tell(move |py| {
            let wave = PyDict::new(py);
            wave.set_item("rows", rows_of(py, &rows, &space)?)?;
            Ok(wave)
        });
        if told.is_break() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn refused(&self, rejected: &UpdateRejected) {
        self.observer.warn(rejected.to_string());
    }
}

fn rows_of<'py>(py: Python<'py>, rows: &[Row], space: &Space) -> PyResult<Bound<'py, PyList>> {
    let rows: PyResult<Vec<_>> = rows.iter().map(|row| convert::row(py, row, space)).collect();
    PyList::new(py, rows?)
}

#[pymethods]
impl Federation {
    /// Parses a federation from a string in the format of `federation.toml`. Its agents have names
    /// but no objectives.
    #[staticmethod]
    fn from_text(py: Python<'_>, text: &str) -> PyResult<Self> {
        let read = py.detach(|| fedbo_federation::Federation::from_text(text, ALGORITHMS));
        Ok(Self { federation: read.map_err(errors::arguments)? })
    }

    /// Reads a `federation.toml`. Its agents may have commands or built-in problems as objectives.
    #[staticmethod]
    #[pyo3(signature = (path, seed = None))]
    fn from_file(py: Python<'_>, path: PathBuf, seed: Option<u64>) -> PyResult<Self> {
        let problems = &BuiltInProblems;
        let read =
            py.detach(|| fedbo_federation::Federation::load_for_program(&path, seed, problems));
        Ok(Self { federation: read.map_err(|e| errors::definition(&e))? })
    }

    /// Returns the name of the table in a `federation.toml` that has the options of an algorithm,
    /// or `None` if the algorithm does not exist.
    #[staticmethod]
    fn table_of(algorithm: &str) -> Option<&'static str> {
        let found = ALGORITHMS.iter().find(|each| each.name == algorithm)?;
        found.tables.first().copied()
    }

    /// Name of the federation.
    #[getter]
    fn name(&self) -> &str {
        &self.federation.name
    }

    /// `minimize` or `maximize`.
    #[getter]
    fn direction(&self) -> &'static str {
        match self.federation.direction {
            Direction::Minimize => "minimize",
            Direction::Maximize => "maximize",
        }
    }

    /// Name of the algorithm.
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.federation.algorithm.name
    }

    /// Number of queries of each agent after its initial points.
    #[getter]
    fn rounds(&self) -> u64 {
        self.federation.rounds
    }

    /// Number of initial points of each agent.
    #[getter]
    fn initial(&self) -> usize {
        self.federation.n_initial
    }

    /// Seed of all random numbers.
    #[getter]
    fn seed(&self) -> u64 {
        self.federation.seed
    }

    /// The parameters as dicts.
    #[getter]
    fn space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::space(py, &self.federation.space)
    }

    /// Pairs of an agent's name and True if the file defines its objective.
    #[getter]
    fn agents(&self) -> Vec<(String, bool)> {
        let elsewhere = |of: &_| matches!(of, fedbo_federation::AgentObjective::Elsewhere);
        let agents = self.federation.agents.iter();
        agents.map(|agent| (agent.name.clone(), !elsewhere(&agent.objective))).collect()
    }

    /// Names of the agents that only share previous trials and make no queries.
    #[getter]
    fn contributors(&self) -> Vec<String> {
        let is_tuning = |name: &str| self.federation.tuning().any(|(_, each)| each.name == name);
        let names = self.federation.agents.iter().map(|agent| agent.name.clone());
        names.filter(|name| !is_tuning(name)).collect()
    }

    /// Returns a copy of the federation with previous trials of an agent, given as points and
    /// values.
    fn with_observations(
        &self,
        agent: &str,
        trials: Vec<(Bound<'_, PyDict>, f64)>,
    ) -> PyResult<Self> {
        let trials: PyResult<Vec<_>> =
            trials.iter().map(|(params, value)| Ok((convert::point(params)?, *value))).collect();
        let federation = self.federation.clone().with_observations(agent, trials?);
        Ok(Self { federation: federation.map_err(errors::input)? })
    }

    /// Returns a copy of the federation with previous trials of an agent, read from a study or a
    /// table. `place` has the format of the key `observations` in a file.
    fn with_observations_of(&self, py: Python<'_>, agent: &str, place: &str) -> PyResult<Self> {
        let (federation, folder) = (&self.federation, std::path::Path::new(""));
        let refused = |why: String| errors::input(format!("observations of {agent:?}: {why}"));
        let read = py.detach(|| {
            let source = fedbo_study::OldSource::parse(place, folder);
            let source = source.map_err(|expected| format!("{place:?}, expected {expected}"))?;
            let read = source.observations(&federation.space, federation.direction);
            read.map_err(|why| format!("{}: {why}", source.text()))
        });
        let trials: Vec<_> = read.map_err(refused)?.trials().collect();
        let federation = federation.clone().with_observations(agent, trials);
        Ok(Self { federation: federation.map_err(errors::input)? })
    }

    /// Arms that can be compared: the algorithm and its controls.
    #[getter]
    fn arms(&self) -> Vec<&'static str> {
        self.federation.arms().into_iter().map(Arm::name).collect()
    }

    /// Returns the arms that a run has by default.
    #[pyo3(signature = (runs = None))]
    fn default_arms(&self, runs: Option<u32>) -> Vec<&'static str> {
        default_arms(&self.federation, runs).into_iter().map(Arm::name).collect()
    }

    /// True if the algorithm charges its releases to a privacy budget.
    #[getter]
    fn is_charged(&self) -> bool {
        self.federation.privacy().is_some()
    }

    /// Runs arms like `fedbo run`, with results in the folder `out`. `evaluate` starts the
    /// evaluations of the agents named in `functions`. `on_told` is called with the rows of each
    /// wave of trials; the run ends if it returns True.
    #[expect(clippy::too_many_arguments, reason = "the options of a run, by name")]
    #[pyo3(signature = (evaluate, on_told, on_warning, *, functions, arms, runs, out, overwrite, resume, spend_again, threads, failures_max))]
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        evaluate: &Bound<'py, PyAny>,
        on_told: &Bound<'py, PyAny>,
        on_warning: &Bound<'py, PyAny>,
        functions: Vec<String>,
        arms: Vec<String>,
        runs: Option<u32>,
        out: PathBuf,
        overwrite: bool,
        resume: bool,
        spend_again: bool,
        threads: Option<usize>,
        failures_max: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arms: Result<Vec<Arm>, _> = arms.iter().map(|arm| arm.parse()).collect();
        let arms = arms.map_err(errors::input)?;
        let options = RunOptions {
            arms: if arms.is_empty() { default_arms(&self.federation, runs) } else { arms },
            runs,
            out: out.clone(),
            existing: match (overwrite, resume) {
                (true, _) => ExistingResults::Overwrite,
                (false, true) => ExistingResults::Resume,
                (false, false) => ExistingResults::Refuse,
            },
            spend_again,
            threads,
            failures_max: FailuresMax::from_key(failures_max),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (events, received) = mpsc::channel();
        let objective: Arc<dyn Objective> =
            Arc::new(PythonObjective::new(events.clone(), Arc::clone(&stop)));
        let mut federation = self.federation.clone();
        for agent in &functions {
            let given = federation.with_objective(agent, Arc::clone(&objective));
            federation = given.map_err(errors::input)?;
        }
        drop(objective); // so that no sender of events outlives the run
        let space = Arc::new(self.federation.space.clone());
        let observer = PythonObserver::new(events);
        let progress = Progress { observer, space: Arc::clone(&space), stop: Arc::clone(&stop) };
        let functions = Functions { evaluate, on_told, on_warning };
        let flag = Arc::clone(&stop);
        let work = move || -> Result<(RunReport, Vec<Row>), Box<RunError>> {
            let report = run_federation(&federation, &options, &progress, &flag)?;
            let rows = read_results(&options.out.join(RESULTS_FILE)).map_err(RunError::from)?;
            Ok((report, rows))
        };
        let ran = serve(py, &functions, &stop, received, work)?;
        let (report, rows) = ran.map_err(|error| errors::federation(*error))?;
        let result = PyDict::new(py);
        result.set_item("rows", rows_of(py, &rows, &space)?)?;
        let summary = serde_json::to_string(&report.summary).map_err(errors::other)?;
        result.set_item("summary", summary)?;
        result.set_item("table", closing_table(&report.summary, Some(TABLE_WIDTH)))?;
        result.set_item("complete", report.ended == fedbo_runner::Ended::Complete)?;
        let failing = report.failing.map(|failing| {
            let fedbo_runner::federation::FailingAgent { agent, arm, n_consecutive, last } =
                failing;
            (agent, arm.name(), n_consecutive, last)
        });
        result.set_item("failing", failing)?;
        let spent = report.statement.map(|statement| statement.claim.to_string());
        result.set_item("spent", spent)?;
        Ok(result)
    }
}
