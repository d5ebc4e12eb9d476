//! A party's trials, in a storage that users can inspect.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_federation::Federation;
use fedbo_objective::Outcome;
use fedbo_protocol::Trial;
use fedbo_space::{Direction, Point, Space};
use fedbo_storage::{
    AddOutcome, Mode, NewTrial, SqliteStorage, Storage, StudyKey, TellAuthority, Told, TrialState,
    Worker,
};
use fedbo_strategies::{OutputOption, SampleSearch, Source, TsOptions};
use fedbo_study::{Definition, StrategySpec, Study, StudyError};

use crate::TrialsError;

/// File name of the storage in a home.
pub const TRIALS_FILE: &str = "trials.db";

/// Trials of one study. The caller holds the lock of the study, so no other process evaluates them.
pub struct Trials {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    study: StudyKey,
    space: Space,
    worker: Worker,
    /// The trials that were stored when the file was opened, by number.
    stored: Vec<fedbo_storage::Trial>,
}

impl fmt::Debug for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trials {{ {} }}", self.path.display())
    }
}

/// Result of [`Trials::begin`].
pub enum TrialStatus {
    /// The trial already has a result.
    Told(Told),
    /// The trial must be evaluated now.
    Begun,
}

impl Trials {
    /// Opens the trials of a study in a home, or creates them.
    ///
    /// # Errors
    /// If the trials cannot be read or written, or belong to a different study.
    pub fn open(home: &Path, federation: &Federation) -> Result<Self, TrialsError> {
        let path = home.join(TRIALS_FILE);
        let storage: Arc<dyn Storage> = Arc::new(SqliteStorage::open(&path, Mode::Create)?);
        let definition = definition(federation);
        Study::open(Arc::clone(&storage), &definition)?;
        let mut studies = storage.studies()?.into_iter();
        let study = studies.find(|study| study.name == definition.name);
        let Some(study) = study else {
            return Err(TrialsError::Strange { path, number: 0 });
        };
        Ok(Self {
            study: study.key,
            stored: storage.trials(study.key)?,
            space: federation.space.clone(),
            worker: Worker::of_this_process(),
            storage,
            path,
        })
    }

    /// Returns true if a trial already had a result when the trials were opened.
    pub fn was_finished(&self, number: u64) -> bool {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let stored = self.stored.get(at);
        stored.is_some_and(|trial| trial.told().is_some())
    }

    /// Returns true if a trial was already stored when the trials were opened.
    pub fn was_started(&self, number: u64) -> bool {
        number < self.stored.len() as u64
    }

    /// Stores a trial as running, unless it already has a result. A trial whose process ended
    /// during the evaluation is started again.
    pub fn begin(
        &self,
        trial: &Trial,
        point: &Point,
        ask_seconds: f64,
    ) -> Result<TrialStatus, TrialsError> {
        let at = usize::try_from(trial.index).unwrap_or(usize::MAX);
        if let Some(stored) = self.stored.get(at) {
            return self.begin_again(stored, point);
        }
        let unit = self.space.encode(point).map_err(StudyError::from)?;
        let new = NewTrial {
            ask_seconds,
            holder: Some((self.worker.clone(), None)),
            number: Some(trial.index),
            ..NewTrial::new(
                unit.iter().flat_map(|v| (v + 0.0).to_le_bytes()).collect(),
                point.clone(),
                trial.source.to_string(),
            )
        };
        match self.storage.add(self.study, &new)? {
            AddOutcome::Trial(_) => Ok(TrialStatus::Begun),
            AddOutcome::Overtaken | AddOutcome::Full | AddOutcome::Duplicate { .. } => {
                Err(self.contradiction(trial.index))
            }
        }
    }

    fn begin_again(
        &self,
        stored: &fedbo_storage::Trial,
        point: &Point,
    ) -> Result<TrialStatus, TrialsError> {
        let number = stored.number;
        if stored.point != *point {
            return Err(self.contradiction(number));
        }
        if let TrialState::Told(told) = &stored.state {
            return Ok(TrialStatus::Told(told.clone()));
        }
        if self.storage.claim(self.study, &self.worker, None)?.is_none() {
            // A trial that killed its process too often is marked as failed instead of being
            // started again.
            let mut now = self.storage.trials(self.study)?.into_iter();
            match now.find(|trial| trial.number == number).map(|trial| trial.state) {
                Some(TrialState::Told(told)) => return Ok(TrialStatus::Told(told)),
                // The holder seems alive, but this process has the study's lock, so the holder is
                // gone.
                Some(TrialState::Running(holding)) => {
                    let holder = TellAuthority::Worker(&holding.worker.id);
                    self.storage.release_trial(self.study, number, holder)?;
                    self.storage.claim(self.study, &self.worker, None)?;
                }
                Some(TrialState::Waiting) | None => {}
            }
        }
        Ok(TrialStatus::Begun)
    }

    fn contradiction(&self, number: u64) -> TrialsError {
        TrialsError::Strange { path: self.path.clone(), number }
    }

    /// Stores the result of a trial. The result is durable when this returns.
    pub fn tell(&self, number: u64, told: &Told) -> Result<(), TrialsError> {
        let teller = TellAuthority::Worker(&self.worker.id);
        self.storage.finish(self.study, number, teller, told)?;
        Ok(())
    }

    /// Returns an interrupted trial to the waiting state.
    pub fn release_trial(&self, number: u64) -> Result<(), TrialsError> {
        let teller = TellAuthority::Worker(&self.worker.id);
        self.storage.release_trial(self.study, number, teller)?;
        Ok(())
    }
}

/// Converts a trial's outcome to the result to store, or returns `None` if the trial was
/// interrupted.
pub(crate) fn told(outcome: &Outcome) -> Option<Told> {
    match outcome {
        Outcome::Value(value) => Some(Told::Value(*value)),
        Outcome::Numbers(numbers) => Some(Told::with_numbers(numbers.clone())),
        // A trial of a federation has one value, which cannot be missing.
        Outcome::Measured(_) => None,
        Outcome::Failed(failure) => {
            Some(Told::Failed { kind: failure.kind().to_owned(), message: failure.to_string() })
        }
        Outcome::Interrupted => None,
    }
}

/// Summary of a study's trials.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialsSummary {
    /// Number of trials with a result.
    pub n_told: u64,
    /// Best value.
    pub best: Option<f64>,
    /// Trust in the other parties, in percent, at the newest query that they influenced. Negative
    /// if their negated functions are trusted.
    pub trust_percent: Option<i8>,
}

/// Summarizes the trials of the named study. The summary is empty if nothing is stored.
///
/// # Errors
/// If the trials cannot be read.
pub fn look(home: &Path, study: &str, direction: Direction) -> Result<TrialsSummary, TrialsError> {
    let path = home.join(TRIALS_FILE);
    // A process killed during creation leaves an empty file.
    if !std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(TrialsSummary::default());
    }
    let storage = SqliteStorage::open(&path, Mode::Existing)?;
    let mut studies = storage.studies()?.into_iter();
    let Some(found) = studies.find(|found| found.name == study) else {
        return Ok(TrialsSummary::default());
    };
    let trials = storage.trials(found.key)?;
    let n_told = trials.iter().filter(|trial| trial.told().is_some()).count();
    let values = trials.iter().filter_map(fedbo_storage::Trial::value);
    let best = values.reduce(|best, value| match direction.is_better(value, best) {
        true => value,
        false => best,
    });
    let mut sources = trials.iter().rev().map(fedbo_storage::Trial::origin);
    let trust_percent = sources.find_map(Source::trust_percent_of);
    Ok(TrialsSummary { n_told: n_told as u64, best, trust_percent })
}

/// Returns the study definition to store with the trials, for tools that display them.
///
/// The federation's algorithm chooses the queries, so the definition names the closest strategy for
/// a single-party study, Thompson sampling as published. The seed is omitted. Existing homes
/// contain this definition, and their agents cannot continue with a different one.
fn definition(federation: &Federation) -> Definition {
    let parameters = federation.space.parameters().iter();
    let mut definition = parameters
        .fold(Definition::new(&federation.name), |definition, parameter| {
            definition.parameter(parameter.name(), parameter.to_spec())
        });
    if federation.direction == Direction::Minimize {
        definition = definition.minimize();
    }
    let strategy = StrategySpec::Ts(TsOptions {
        output_transform: OutputOption::YeoJohnson,
        search: SampleSearch::Global,
        ..TsOptions::default()
    });
    definition.strategy(strategy).initial(federation.n_initial).noisy() // equal points may occur
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The home has trials from before strategies had the current options.
    #[test]
    fn a_home_of_an_earlier_program_goes_on() {
        let text = "[federation]\nname = \"labs\"\nalgorithm = \"fts\"\ndirection = \"minimize\"\nrounds = 3\n\
                    [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
                    [[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let federation = Federation::thaw(text).unwrap();
        let home = tempfile::tempdir().unwrap();
        let stored = serde_json::to_string(&definition(&federation)).unwrap();
        let options = r#","output_transform":"yeo-johnson","search":"global""#;
        assert!(stored.contains(options), "{stored}");
        let storage = SqliteStorage::open(&home.path().join(TRIALS_FILE), Mode::Create).unwrap();
        storage.create("labs", &stored.replace(options, "")).unwrap();
        assert_eq!(Trials::open(home.path(), &federation).unwrap().stored, []);
    }

    #[test]
    fn a_file_that_a_kill_left_empty_holds_no_trials() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(TRIALS_FILE), "").unwrap();
        let found = look(home.path(), "labs", Direction::Minimize).unwrap();
        assert_eq!(found, TrialsSummary::default());
    }
}
