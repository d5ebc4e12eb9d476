//! Python bindings for studies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use fedbo_documents::corrections::check_not_federated;
use fedbo_documents::export::{ExportFormat, export};
use fedbo_documents::pictures::{self, StudyPicture};
use fedbo_objective::FailuresMax;
use fedbo_storage::{Address, Mode};
use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::{Ended, Patience, RunOptions, StudyError, StudyFile, time_limit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::picture::Picture;
use crate::{convert, errors};

/// A study. Methods release the GIL while they compute or wait.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Study {
    study: fedbo_study::Study,
    address: Address,
    /// The study's file, if the study was opened from one.
    file: Option<StudyFile>,
    /// Id of the process that opened the study. A forked child must not use the database
    /// connection.
    process: u32,
    /// Unique number of an in-memory study within this process.
    in_memory: Option<u64>,
}

impl Study {
    fn new(study: fedbo_study::Study, address: Address, file: Option<StudyFile>) -> Self {
        static N_IN_MEMORY: AtomicU64 = AtomicU64::new(0);
        let is_in_memory = matches!(address, Address::Memory);
        let in_memory = is_in_memory.then(|| N_IN_MEMORY.fetch_add(1, Ordering::Relaxed));
        Self { study, address, file, process: std::process::id(), in_memory }
    }

    fn of_file(py: Python<'_>, file: StudyFile) -> PyResult<Self> {
        let study = py.detach(|| file.open()).map_err(errors::study)?;
        let address = file.storage.clone();
        Ok(Self::new(study, address, Some(file)))
    }

    /// Calls a function with the study, without holding the GIL. Fails in a fork of the process
    /// that opened the study.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&fedbo_study::Study) -> Result<R, StudyError> + Send,
    ) -> PyResult<R> {
        if self.process != std::process::id() {
            let name = &self.study.definition().name;
            return Err(errors::other(format!(
                "study {name:?} was opened by process {}, and this one is a fork of it; open it again here, or send it by pickle",
                self.process
            )));
        }
        py.detach(|| act(&self.study)).map_err(errors::study)
    }
}

#[pymethods]
impl Study {
    /// Creates or resumes the study defined by a text in the format of a `study.toml`. Error
    /// messages refer to the text as `label`.
    #[staticmethod]
    fn from_text(py: Python<'_>, label: PathBuf, text: &str) -> PyResult<Self> {
        let file = StudyFile::from_text(&label, text).map_err(errors::arguments)?;
        Self::of_file(py, file)
    }

    /// Creates or resumes the study defined by a file. The file's command is ignored.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = StudyFile::load_without_command(&path).map_err(|e| errors::definition(&e))?;
        Self::of_file(py, file)
    }

    /// Opens a stored study. `name` is needed only if the storage has several studies.
    #[staticmethod]
    #[pyo3(signature = (address, name = None))]
    fn load(py: Python<'_>, address: &str, name: Option<&str>) -> PyResult<Self> {
        let address: Address = address.parse().map_err(|e| errors::storage(&e))?;
        let address = address.relative_to(Path::new("."));
        let loaded = py.detach(|| {
            let storage = fedbo_storage::open(&address, Mode::Existing)?;
            fedbo_study::Study::load(storage, name)
        });
        let study = loaded.map_err(errors::study)?;
        Ok(Self::new(study, address, None))
    }

    /// Stores trials as a new study, defined by a text in the format of a `study.toml`. If the
    /// study exists, only missing trials are added.
    #[staticmethod]
    fn import_trials(
        py: Python<'_>,
        label: PathBuf,
        text: &str,
        trials: Vec<(Bound<'_, PyDict>, Vec<f64>)>,
    ) -> PyResult<Self> {
        let file = StudyFile::from_text(&label, text).map_err(errors::arguments)?;
        let points =
            trials.into_iter().map(|(params, numbers)| Ok((convert::point(&params)?, numbers)));
        let points = points.collect::<PyResult<Vec<_>>>()?;
        let address = file.storage.clone();
        let imported = py.detach(|| {
            let storage = fedbo_storage::open(&address, Mode::Create)?;
            fedbo_study::Study::import(storage, &file.definition, &points)
        });
        let (study, _) = imported.map_err(errors::study)?;
        Ok(Self::new(study, address, None))
    }

    /// Name of the study.
    #[getter]
    fn name(&self) -> &str {
        &self.study.definition().name
    }

    /// `minimize` or `maximize`.
    #[getter]
    fn direction(&self) -> &'static str {
        match self.study.direction() {
            fedbo_space::Direction::Minimize => "minimize",
            fedbo_space::Direction::Maximize => "maximize",
        }
    }

    /// Names of a trial's outcomes: first objectives, then constraints. A single objective is named
    /// `value`.
    #[getter]
    fn number_names(&self) -> Vec<&str> {
        self.study.definition().number_names()
    }

    /// Names and directions of the objectives, if there are several.
    #[getter]
    fn objectives(&self) -> Vec<(&str, String)> {
        let objectives = self.study.definition().objectives.iter();
        objectives.map(|each| (each.name.as_str(), each.direction.to_string())).collect()
    }

    /// Names of the constraints, each with its upper and lower bound.
    #[getter]
    fn constraints(&self) -> Vec<(&str, Option<f64>, Option<f64>)> {
        let constraints = self.study.definition().constraints.iter();
        constraints.map(|each| (each.name.as_str(), each.at_most, each.at_least)).collect()
    }

    /// Seed of all random numbers.
    #[getter]
    fn seed(&self) -> u64 {
        self.study.definition().seed
    }

    /// True if repeated evaluations of a point give different values.
    #[getter]
    fn noisy(&self) -> bool {
        self.study.definition().noisy
    }

    /// Name of the strategy.
    #[getter]
    fn strategy(&self) -> &'static str {
        self.study.definition().strategy.name()
    }

    /// Address of the storage, without its password.
    #[getter]
    fn storage(&self) -> String {
        self.address.to_string()
    }

    /// Number of epochs of a complete training, if trials are stopped early.
    #[getter]
    fn epochs(&self) -> Option<u32> {
        self.study.definition().early_stopping.as_ref().map(|spec| spec.epochs)
    }

    /// The parameters as dicts.
    #[getter]
    fn space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::space(py, self.study.space())
    }

    /// Number of trials and number of jobs in the study's file, or `None` without a file.
    #[getter]
    fn run_options(&self) -> Option<(u64, usize)> {
        self.file.as_ref().map(|file| (file.n_trials, file.jobs))
    }

    /// Returns an id that distinguishes this study from others. It remains the same if the storage
    /// is moved, but changes if the study is recreated under the same name. A stored study has no
    /// id before its first trial.
    fn identity(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let name = &self.study.definition().name;
        if let Some(number) = self.in_memory {
            return Ok(Some(format!("{name} in memory {number}")));
        }
        let trials = self.with(py, fedbo_study::Study::trials)?;
        // The tag `fedbo.began` of an export has the same time.
        Ok(trials.first().map(|first| format!("{name} since {}", first.asked_at_ms)))
    }

    /// Asks for the next trial, or for one with the given values of some parameters.
    #[pyo3(signature = (given = None))]
    fn ask<'py>(
        &self,
        py: Python<'py>,
        given: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let trial = match given.map(convert::point).transpose()? {
            None => self.with(py, fedbo_study::Study::ask)?,
            Some(given) => self.with(py, |study| study.ask_given(&given))?,
        };
        convert::trial(py, self.study.definition(), &trial)
    }

    /// Tells the value of a trial.
    fn tell(&self, py: Python<'_>, number: u64, value: f64) -> PyResult<()> {
        self.with(py, |study| study.tell(number, value)).map(drop)
    }

    /// Tells the outcomes of a trial in the order of `number_names`.
    fn tell_numbers(&self, py: Python<'_>, number: u64, numbers: Vec<f64>) -> PyResult<()> {
        self.with(py, |study| study.tell_numbers(number, numbers)).map(drop)
    }

    /// Tells that a trial failed.
    fn tell_failed(
        &self,
        py: Python<'_>,
        number: u64,
        message: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let message = convert::lossy(message)?;
        self.with(py, |study| study.tell_failed(number, &message)).map(drop)
    }

    /// Replaces the outcomes of a finished trial, in the order of `number_names`. Returns False if
    /// nothing changed.
    fn correct(&self, py: Python<'_>, number: u64, numbers: Vec<f64>) -> PyResult<bool> {
        check_not_federated(&self.address).map_err(errors::other)?;
        self.with(py, |study| study.correct_numbers(number, numbers))
    }

    /// Discards a finished trial. Returns False if it is already discarded.
    fn discard(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        check_not_federated(&self.address).map_err(errors::other)?;
        self.with(py, |study| study.discard(number))
    }

    /// Reports the value of a trial after an epoch. If this stops the trial, returns the reason.
    fn report(
        &self,
        py: Python<'_>,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> PyResult<Option<String>> {
        Ok(match self.with(py, |study| study.report(number, epoch, value))? {
            Verdict::Continue => None,
            Verdict::Stop { because } => Some(because),
        })
    }

    /// Releases a trial that was asked for. The next caller of `ask` gets it.
    fn release(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.with(py, |study| study.release_trial(number))
    }

    /// Adds a point to the queue.
    fn enqueue<'py>(
        &self,
        py: Python<'py>,
        params: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let point = convert::point(params)?;
        convert::trial(py, self.study.definition(), &self.with(py, |study| study.enqueue(&point))?)
    }

    /// Enqueues the point of a failed trial again.
    fn retry<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyDict>> {
        convert::trial(py, self.study.definition(), &self.with(py, |study| study.retry(number))?)
    }

    /// Returns all trials in the order in which they were asked for.
    fn trials<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let trials = self.with(py, fedbo_study::Study::trials)?;
        let trials: PyResult<Vec<_>> =
            trials.iter().map(|t| convert::trial(py, self.study.definition(), t)).collect();
        PyList::new(py, trials?)
    }

    /// Returns the feasible trial with the best value.
    fn best<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let best = self.with(py, fedbo_study::Study::best)?;
        best.map(|trial| convert::trial(py, self.study.definition(), &trial)).transpose()
    }

    /// Returns the feasible trials that no other trial dominates.
    fn best_trials<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let definition = self.study.definition();
        let trials = self.with(py, fedbo_study::Study::best_trials)?;
        let trials: PyResult<Vec<_>> =
            trials.iter().map(|trial| convert::trial(py, definition, trial)).collect();
        PyList::new(py, trials?)
    }

    /// Returns the results of a model fitted to all trials, for the objective with this index.
    /// Returns `None` if there are fewer than two values.
    #[pyo3(signature = (objective = 0))]
    fn insight<'py>(
        &self,
        py: Python<'py>,
        objective: usize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        if objective >= self.study.definition().outcomes().n_objectives {
            return Err(errors::other(format!("there is no objective {objective}")));
        }
        let Some(insight) = self.with(py, |study| study.insight_of(objective))? else {
            return Ok(None);
        };
        let found = PyDict::new(py);
        let importance = insight.importance.iter();
        let importance: Vec<_> =
            importance.map(|each| (&each.name, each.variance_share, each.relevance)).collect();
        found.set_item("importance", importance)?;
        found.set_item(
            "best_by_mean",
            convert::trial(py, self.study.definition(), &insight.best_by_mean)?,
        )?;
        found.set_item("probability_feasible", insight.probability_feasible)?;
        found.set_item("mean", insight.mean)?;
        found.set_item("std", insight.std)?;
        found.set_item("noise_std", insight.noise_std)?;
        let transform = insight.output_transform.map(|transform| transform.to_string());
        found.set_item("output_transform", transform)?;
        found.set_item("n_values", insight.n_values)?;
        Ok(Some(found))
    }

    /// Draws `history`, `slices`, `importance`, `learning_curves`, `transfer` or `pareto`.
    fn picture(&self, py: Python<'_>, name: &str) -> PyResult<Picture> {
        let picture = match name {
            "history" => StudyPicture::History,
            "slices" => StudyPicture::Slices,
            "importance" => StudyPicture::Importance,
            "learning_curves" => StudyPicture::LearningCurves,
            "transfer" => StudyPicture::Transfer,
            "pareto" => StudyPicture::Pareto,
            _ => return Err(errors::other(format!("there is no picture {name:?} of a study"))),
        };
        self.with(py, |_| Ok(()))?; // fails in a fork
        let drawn = py.detach(|| pictures::draw(&self.study, picture));
        Ok(Picture::new(drawn.map_err(errors::picture)?))
    }

    /// Writes all trials to `path` in the format `csv`, `json` or `tensorboard`. Returns the paths
    /// of the written files.
    fn export(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<Vec<PathBuf>> {
        let format = match format {
            "csv" => ExportFormat::Csv,
            "json" => ExportFormat::Json,
            "tensorboard" => ExportFormat::TensorBoard,
            _ => return Err(errors::other(format!("there is no export format {format:?}"))),
        };
        self.with(py, |_| Ok(()))?; // fails in a fork
        let written = py.detach(|| export(&self.study, &self.address, format, &path));
        written.map_err(errors::export)
    }

    /// Evaluates trials until the study has `n_trials`. `evaluate` starts a call, which may end
    /// after `evaluate` returns.
    #[expect(clippy::too_many_arguments, reason = "the options of a run, by name")]
    #[pyo3(signature = (evaluate, on_told, on_warning, *, n_trials, jobs, timeout, failures_max, patience, improvement_min))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        evaluate: &Bound<'py, PyAny>,
        on_told: &Bound<'py, PyAny>,
        on_warning: &Bound<'py, PyAny>,
        n_trials: u64,
        jobs: usize,
        timeout: Option<f64>,
        failures_max: Option<u64>,
        patience: Option<u64>,
        improvement_min: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |_| Ok(()))?; // fails in a fork
        let options = RunOptions {
            jobs,
            timeout: timeout.and_then(time_limit),
            failures_max: FailuresMax::from_key(failures_max),
            patience: patience
                .filter(|n| *n > 0)
                .map(|n_trials| Patience { n_trials, improvement_min }),
            ..RunOptions::sequential(n_trials)
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (events, received) = mpsc::channel();
        let objective = PythonObjective::new(events.clone(), Arc::clone(&stop));
        let observer = PythonObserver::of_study(events, self.study.definition());
        let functions = Functions { evaluate, on_told, on_warning };
        let study = &self.study;
        let flag = &stop;
        let work = move || study.run(&objective, &options, &observer, flag);
        let report = serve(py, &functions, &stop, received, work)?.map_err(errors::study)?;
        let result = PyDict::new(py);
        result.set_item("told", report.n_told)?;
        result.set_item("failed", report.n_failed)?;
        result.set_item("stopped", report.n_stopped)?;
        result.set_item("open", report.n_open)?;
        result.set_item(
            "ended",
            match report.ended {
                Ended::Complete => "complete",
                Ended::Exhausted => "exhausted",
                Ended::Stopped | Ended::StudyStopped => "stopped",
                Ended::Failing => "failing",
                Ended::TimedOut => "timeout",
                Ended::OutOfPatience => "patience",
            },
        )?;
        result.set_item("stopped_by", report.stop.map(|stop| stop.by))?;
        Ok(result)
    }
}
