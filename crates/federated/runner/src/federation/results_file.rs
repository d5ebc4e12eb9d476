//! The results file, while a run writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedbo_objective::{FailureCounter, Outcome};
use fedbo_protocol::UpdateRejected;
use fedbo_report::{
    ResultsWriter, Row, SUMMARY_FILE, StagedResults, Summary, TEAM_REGRET_FILE, TeamRegret,
    TeamRun, check_folder, write_whole,
};

use super::LEDGER_FILE;
use super::arm_rows::ArmRowBuilders;
use super::replay::PendingRows;
use super::run::{ExistingResults, FailingAgent, RunOptions, RunProgress};
use super::run_error::RunError;
use super::settings_record::SettingsRecord;
use crate::session::{Observer, TrialRecord};
use fedbo_federation::{Arm, Federation};

/// The files of a resumed run that has not yet reached all rows of the earlier run.
struct Staging {
    /// The new file, with the rows in order.
    new: StagedResults,
    /// The old file, opened once there are rows that it does not contain. Those rows are appended,
    /// so that they are kept if this run ends early.
    old: Option<ResultsWriter>,
    /// Files that were marked or removed when rows were added, with their previous contents. The
    /// summary of a private run is not included, because the added rounds might have released more
    /// than it states.
    outdated: Vec<(PathBuf, Vec<u8>)>,
}

/// The results file and its rows.
pub(super) struct ResultsFile {
    writer: ResultsWriter,
    rows: Vec<Row>,
    /// Rows of an earlier run that this run has not reached yet.
    pub(super) recorded: Option<PendingRows>,
    staging: Option<Staging>,
    folder: PathBuf,
    parameters: Vec<String>,
    /// True once rows have been added to those of an earlier run.
    is_extended: bool,
    /// f* − f(x) of each query of agents with a known optimum, by arm, run and round.
    instants: BTreeMap<(&'static str, u32), Vec<Vec<f64>>>,
    /// The first agent with too many consecutive failures.
    pub(super) failing: Option<FailingAgent>,
}

impl ResultsFile {
    /// Returns the recorded results that the run resumes from. Returns `None` if the run does not
    /// resume, or if there are no trials yet.
    pub(super) fn recorded(
        federation: &Federation,
        options: &RunOptions,
        arms: &[Arm],
    ) -> Result<Option<PendingRows>, RunError> {
        let folder = &options.out;
        check_folder(folder, options.existing != ExistingResults::Refuse)?;
        if options.existing != ExistingResults::Resume {
            return Ok(None);
        }
        let recorded = PendingRows::read(folder, federation, arms, options.runs)?;
        let recorded = recorded.filter(|recorded| recorded.len() > 0);
        if recorded.is_some() {
            let record = SettingsRecord::of(federation, options.runs.is_some())?;
            record.compare(folder, federation)?;
        }
        Ok(recorded)
    }

    pub(super) fn open(
        federation: &Federation,
        options: &RunOptions,
        recorded: Option<PendingRows>,
    ) -> Result<Self, RunError> {
        let folder = options.out.clone();
        let parameters: Vec<String> = federation
            .space
            .parameters()
            .iter()
            .map(|parameter| parameter.name().to_owned())
            .collect();
        let (writer, staging) = if recorded.is_some() {
            let (new, writer) = StagedResults::create(&folder, &parameters)?;
            (writer, Some(Staging { new, old: None, outdated: Vec::new() }))
        } else {
            // With `Resume`, the folder has no rows at this point, at most a header.
            let overwrite = options.existing != ExistingResults::Refuse;
            let writer = ResultsWriter::create(&folder, &parameters, overwrite)?;
            SettingsRecord::of(federation, options.runs.is_some())?.write(&folder)?;
            (writer, None)
        };
        Ok(Self {
            writer,
            rows: Vec::new(),
            recorded,
            staging,
            folder,
            parameters,
            is_extended: false,
            instants: BTreeMap::new(),
            failing: None,
        })
    }

    /// Writes rows. `further` contains the indices of the rows that are not part of an earlier run.
    fn write(&mut self, rows: Vec<Row>, further: &[usize]) -> Result<(), RunError> {
        if let Some(staging) = &mut self.staging
            && !further.is_empty()
        {
            let old = match &mut staging.old {
                Some(old) => old,
                none => none.insert(ResultsWriter::append_to(&self.folder, &self.parameters)?),
            };
            further.iter().try_for_each(|index| old.append(&rows[*index]))?;
            old.commit()?;
        }
        let mut marked = Ok(());
        if self.recorded.is_some() && !further.is_empty() && !self.is_extended {
            if let Some(staging) = &mut self.staging {
                let is_private = self.folder.join(LEDGER_FILE).exists();
                let names = [SUMMARY_FILE, TEAM_REGRET_FILE].into_iter().skip(is_private.into());
                let paths = names.map(|name| self.folder.join(name));
                let found = paths.map(|path| (std::fs::read(&path), path));
                let found = found.filter_map(|(bytes, path)| Some((path, bytes.ok()?)));
                staging.outdated = found.collect();
            }
            marked = Summary::mark_outdated(&self.folder);
            self.is_extended = true;
        }
        rows.iter().try_for_each(|row| self.writer.append(row))?;
        self.writer.commit()?;
        // The new file replaces the old one once it contains all of its rows.
        if self.recorded.as_ref().is_some_and(|rows| rows.len() == 0)
            && let Some(staging) = self.staging.take()
        {
            staging.new.promote(&mut self.writer)?;
        }
        self.rows.extend(rows);
        Ok(marked?)
    }

    /// Returns true if a row belongs to the earlier run. In this case, the row gets the recorded
    /// duration and failure reason.
    ///
    /// # Errors
    /// If the earlier run cannot be resumed. The added rows are then removed, and the files next to
    /// the results are restored, except for the summary of a private run.
    fn settle(&mut self, row: &mut Row) -> Result<bool, RunError> {
        let Some(recorded) = &mut self.recorded else {
            return Ok(false);
        };
        let settled = recorded.settle(row);
        if settled.is_err()
            && let Some(staging) = &mut self.staging
            && let Some(old) = staging.old.take()
        {
            old.take_back()?;
            staging.outdated.iter().try_for_each(|(path, bytes)| write_whole(path, bytes))?;
        }
        settled
    }

    /// Records the regret of a query.
    fn regret(&mut self, arm: Arm, run: u32, round: u64, regret: f64) {
        let rounds = self.instants.entry((arm.name(), run)).or_default();
        let Some(index) = round.checked_sub(1).and_then(|r| usize::try_from(r).ok()) else {
            return; // an initial point
        };
        if rounds.len() <= index {
            rounds.resize(index + 1, Vec::new());
        }
        rounds[index].push(regret);
    }

    /// Returns the agents' regret as a team, by arm and run. Empty while a run is being replayed.
    pub(super) fn team_runs(&self, experiment: &str) -> Vec<TeamRun> {
        if self.staging.is_some() {
            return Vec::new();
        }
        let arms = self.instants.iter();
        arms.filter_map(|((arm, run), rounds)| {
            Some(TeamRun {
                experiment: experiment.to_owned(),
                arm: (*arm).to_owned(),
                run: *run,
                regret: TeamRegret::of(rounds)?,
            })
        })
        .collect()
    }

    /// Closes the file and returns all rows in the folder. If the replay was interrupted, these are
    /// the old rows and the added ones.
    pub(super) fn close(self, folder: &Path) -> Result<Vec<Row>, RunError> {
        if self.staging.is_some() {
            let path = folder.join(fedbo_report::RESULTS_FILE);
            return Ok(fedbo_report::read_results(&path)?);
        }
        Ok(self.rows)
    }
}

/// Writes the trials of an arm to the results file.
pub(super) struct ArmWriter<'a> {
    pub(super) federation: &'a Federation,
    pub(super) arm: Arm,
    pub(super) row_builders: ArmRowBuilders<'a>,
    /// The agents that make queries, in order.
    pub(super) tuning: Vec<u32>,
    /// One counter per agent.
    pub(super) failures: Vec<FailureCounter>,
    pub(super) results_file: &'a mut ResultsFile,
    pub(super) progress: &'a dyn RunProgress,
}

impl Observer for ArmWriter<'_> {
    fn trial_ended(&self, record: &TrialRecord) {
        if let Ok(place) = self.tuning.binary_search(&record.agent) {
            self.progress.trial_ended(place, &record.outcome);
        }
    }

    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        let (mut rows, mut further) = (Vec::with_capacity(records.len()), Vec::new());
        for record in records {
            let agent = &self.federation.agents[record.agent as usize];
            let truth = agent.objective.truth(&record.point);
            if let (Some(truth), Some(optimum)) = (truth, agent.objective.optimum()) {
                let regret = self.federation.direction.to_maximize(optimum - truth);
                let run = self.federation.run.unwrap_or(0);
                self.results_file.regret(self.arm, run, record.trial.round, regret);
            }
            let mut row = self.row_builders.row(record);
            let is_replayed = self.results_file.settle(&mut row)?;
            if !is_replayed {
                further.push(rows.len());
            }
            self.watch(record.agent as usize, &record.outcome, is_replayed);
            rows.push(row);
        }
        if let Some(first) = rows.first() {
            self.progress.wave_ended(first.iteration, &rows);
        }
        Ok(self.results_file.write(rows, &further)?)
    }

    fn halts(&self) -> bool {
        self.results_file.failing.is_some()
    }

    fn refused(&self, rejected: &UpdateRejected) {
        self.progress.refused(rejected);
    }
}

impl ArmWriter<'_> {
    /// Counts an agent's failures. Failures from an earlier run do not count, because the command
    /// might have been repaired before the run was resumed.
    fn watch(&mut self, index: usize, outcome: &Outcome, is_replayed: bool) {
        let failures_of_agent = &mut self.failures[index];
        let Outcome::Failed(failure) = outcome else {
            return failures_of_agent.succeeded();
        };
        if is_replayed {
            return;
        }
        failures_of_agent.failed();
        if failures_of_agent.holds() && self.results_file.failing.is_none() {
            self.results_file.failing = Some(FailingAgent {
                agent: self.federation.agents[index].name.clone(),
                arm: self.arm,
                n_consecutive: failures_of_agent.n_consecutive(),
                last: failure.to_string(),
            });
        }
    }
}
