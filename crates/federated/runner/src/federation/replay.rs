//! Replay of an interrupted run, in which recorded values replace evaluations.
//!
//! A run is determined by its file and the values of its objectives. Replaying the values therefore
//! restores every agent's state. Each replayed query is compared with the recorded one.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_objective::{Failure, Objective, Outcome, TrialId};
use fedbo_space::Point;

use super::run_error::RunError;
use fedbo_federation::{Arm, Federation};
use fedbo_report::{RESULTS_FILE, ReportError, Row, read_results};

/// Rows of an interrupted run that the current run has not reached yet.
pub(super) struct PendingRows {
    path: PathBuf,
    rows: HashMap<Place, Row>,
}

/// Arm, run, agent and iteration.
type Place = (String, u32, String, i64);

impl PendingRows {
    /// Reads the rows in a folder and checks that they belong to this federation and these arms.
    /// Returns `None` if the folder has no results.
    pub(super) fn read(
        folder: &Path,
        federation: &Federation,
        arms: &[Arm],
        runs: Option<u32>,
    ) -> Result<Option<Self>, RunError> {
        let path = folder.join(RESULTS_FILE);
        if !drop_unfinished_line(&path)? {
            return Ok(None);
        }
        let rows = read_results(&path)?;
        let mut recorded = Self { path, rows: HashMap::with_capacity(rows.len()) };
        let parameters: Vec<&str> =
            federation.space.parameters().iter().map(|parameter| parameter.name()).collect();
        let first = 1 - i64::try_from(federation.n_initial).unwrap_or(i64::MAX);
        let last = i64::try_from(federation.rounds).unwrap_or(i64::MAX);
        for row in rows {
            let refuse = |message: String| Err(recorded.refuse(message));
            if row.experiment != federation.name {
                return refuse(format!(
                    "it holds {:?}, the file has {:?}",
                    row.experiment, federation.name
                ));
            }
            if !arms.iter().any(|arm| arm.name() == row.arm) {
                return refuse(format!(
                    "it holds the arm {}, which this command does not run; give the --arms and --runs that it was started with",
                    row.arm
                ));
            }
            if !federation.agents.iter().any(|agent| agent.name == row.agent) {
                return refuse(format!("the file has no agent {:?}", row.agent));
            }
            if !row.parameters.iter().map(|(name, _)| name).eq(&parameters) {
                return refuse("its parameters are not those of the file".to_owned());
            }
            let n_runs = runs.unwrap_or(1);
            if row.run >= n_runs {
                return refuse(format!(
                    "it holds run {}, and this command runs 0 to {}; give --runs with at least as many as before",
                    row.run,
                    n_runs - 1
                ));
            }
            if !(first..=last).contains(&row.iteration) {
                return refuse(format!(
                    "it holds iteration {}, and the file asks for {first} to {last}",
                    row.iteration
                ));
            }
            let key = (row.arm.clone(), row.run, row.agent.clone(), row.iteration);
            let label = format!("{} {} {}", row.arm, row.agent, row.iteration);
            if recorded.rows.insert(key, row).is_some() {
                return Err(recorded.refuse(format!("it holds the trial {label} twice")));
            }
        }
        Ok(Some(recorded))
    }

    /// Returns the number of remaining rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of remaining rows for an arm in a run.
    pub(super) fn n_of(&self, arm: Arm, run: u32) -> usize {
        let of_arm = |place: &&Place| place.0 == arm.name() && place.1 == run;
        self.rows.keys().filter(of_arm).count()
    }

    /// Returns the last iteration among the remaining rows of an arm.
    pub(super) fn last_iteration(&self, arm: Arm) -> Option<i64> {
        let of_arm = self.rows.keys().filter(|key| key.0 == arm.name());
        of_arm.map(|key| key.3).max()
    }

    /// Returns an agent's recorded values in a run, by trial index; `None` for failed trials.
    pub(super) fn values(
        &self,
        arm: Arm,
        run: u32,
        agent: &str,
        n_initial: usize,
    ) -> HashMap<u64, Option<f64>> {
        let shift = i64::try_from(n_initial).unwrap_or(i64::MAX) - 1;
        let is_its = |place: &Place| place.0 == arm.name() && place.1 == run && place.2 == agent;
        self.rows
            .iter()
            .filter(|(place, _)| is_its(place))
            .filter_map(|((_, _, _, iteration), row)| {
                let trial = u64::try_from(iteration + shift).ok()?;
                Some((trial, row.value))
            })
            .collect()
    }

    /// Copies the recorded duration and failure reason of a trial into its replayed row. Returns
    /// false if the trial was not recorded.
    ///
    /// # Errors
    /// If the recorded trial differs.
    pub(super) fn settle(&mut self, row: &mut Row) -> Result<bool, RunError> {
        let key = (row.arm.clone(), row.run, row.agent.clone(), row.iteration);
        let Some(old) = self.rows.remove(&key) else {
            return Ok(false);
        };
        if !old.existing().eq(row.existing()) || old.source != row.source {
            let shown = |row: &Row| {
                let values: Vec<String> =
                    row.existing().map(|(name, value)| format!("{name} = {value}")).collect();
                format!("{} ({})", values.join(", "), row.source)
            };
            return Err(self.refuse(format!(
                "agent {:?} queried {} at iteration {} of arm {}, but this file leads to {}; seed, \
                 space, agents or options have changed",
                old.agent,
                shown(&old),
                old.iteration,
                old.arm,
                shown(row)
            )));
        }
        row.ask_seconds = old.ask_seconds;
        row.status = old.status;
        Ok(true)
    }

    fn refuse(&self, message: String) -> RunError {
        RunError::AnotherRun { path: self.path.clone(), message }
    }
}

/// Removes an incomplete last line, which a crash of the machine can leave behind. Returns false if
/// no line remains.
fn drop_unfinished_line(path: &Path) -> Result<bool, ReportError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => {
            let path = path.to_owned();
            return Err(ReportError::Read { path, cause });
        }
    };
    let (mut quoted, mut end) = (false, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => end = at + 1,
            _ => {}
        }
    }
    if end < bytes.len() {
        let cut = std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(end as u64));
        cut.map_err(|cause| ReportError::Write { path: path.to_owned(), cause })?;
    }
    Ok(end > 0)
}

/// An objective that returns recorded values for recorded trials.
pub(super) struct RecordedObjective {
    inner: Arc<dyn Objective>,
    values: HashMap<u64, Option<f64>>,
}

impl RecordedObjective {
    pub(super) fn new(inner: Arc<dyn Objective>, values: HashMap<u64, Option<f64>>) -> Self {
        Self { inner, values }
    }
}

impl Objective for RecordedObjective {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        match self.values.get(&trial.trial) {
            Some(Some(value)) => Outcome::Value(*value),
            Some(None) => {
                Outcome::Failed(Failure::Lost { message: "recorded as failed".to_owned() })
            }
            None => self.inner.evaluate(point, trial),
        }
    }
}
