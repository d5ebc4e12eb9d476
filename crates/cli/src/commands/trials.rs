//! `fedbo trials`: all trials of a study.

use std::collections::BTreeMap;

use fedbo_storage::{Told, Trial, TrialState};
use fedbo_study::Definition;

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{self, counted};
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::{TrialsDocument, holder, last_value};

/// List all trials of a study
///
/// Can be used while the study runs. On a terminal, columns that do not fit are omitted; `fedbo
/// export` writes everything.
#[derive(clap::Args)]
pub(crate) struct Trials {
    #[command(flatten)]
    study: StudyRef,
    /// Print a JSON object with all details
    #[arg(long)]
    json: bool,
}

impl Trials {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        let trials = opened.study.trials()?;
        if self.json {
            let corrections = opened.study.corrections()?;
            let document =
                TrialsDocument::new(&opened.study, &opened.storage, &trials, &corrections);
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        if trials.is_empty() {
            let (name, storage) = (opened.name(), &opened.storage);
            console::note(&format!("study {name:?} in {storage} has no trials yet"));
            return Ok(Exit::Done);
        }
        let (table, left_out) = table::fit(columns(&opened, &trials), console::width());
        let definition = opened.study.definition();
        let best = match definition.objectives.is_empty() {
            true => definition.best_trials(&trials).first().map(|best| best.number),
            false => None,
        };
        let best = best.and_then(|best| trials.iter().position(|t| t.number == best));
        console::table(&table, best)?;
        let n_discarded = trials.iter().filter(|trial| trial.is_discarded()).count() as u64;
        let n_ended = trials.iter().filter(|trial| trial.told().is_some()).count() as u64;
        let n_told = n_ended - n_discarded;
        let n_all = counted(trials.len() as u64, "trial");
        let mut text = format!("{n_all}, {n_told} told");
        if n_discarded > 0 {
            text += &format!(", {n_discarded} discarded");
        }
        if let Some(n_trials) = opened.n_trials() {
            text += &format!(", {n_trials} wanted");
        }
        if !left_out.is_empty() {
            text += &format!("; no room for {} (--json has everything)", left_out.join(", "));
        }
        console::remark(&text);
        Ok(Exit::Done)
    }
}

fn columns(opened: &fedbo_documents::study_ref::OpenStudy, trials: &[Trial]) -> Vec<Column> {
    let each = |text: &dyn Fn(&Trial) -> String| trials.iter().map(text).collect();
    let value = |trial: &Trial| last_value(trial).map_or_else(String::new, text::number);
    let epochs = |trial: &Trial| {
        let last = trial.last_report();
        last.map_or_else(String::new, |last| last.epoch.to_string())
    };
    let seconds = |trial: &Trial| {
        let seconds = trial.evaluate_seconds();
        seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"))
    };
    let definition = opened.study.definition();
    let retried: BTreeMap<u64, u64> = trials
        .iter()
        .filter(|trial| !trial.is_discarded())
        .filter_map(|trial| Some((trial.retry_of()?, trial.number)))
        .collect();
    let mut columns = vec![
        Column::numbers("trial", each(&|trial| trial.number.to_string()), 0),
        Column::words("state", each(&|trial| state(definition, trial, &retried)), 0),
    ];
    if definition.objectives.is_empty() {
        columns.push(Column::numbers("value", each(&value), 0));
    }
    columns.extend(number_columns(definition, trials));
    if trials.iter().any(|trial| !trial.reports.is_empty()) {
        columns.push(Column::numbers("epochs", each(&epochs), 0));
    }
    columns.extend(opened.study.space().parameters().iter().map(|parameter| {
        let name = parameter.name();
        let cell = |trial: &Trial| trial.point.get(name).map_or_else(String::new, text::value);
        Column {
            is_number: parameter.kind().numbers().is_some(),
            ..Column::numbers(name, each(&cell), 1)
        }
    }));
    columns.push(Column::numbers("seconds", each(&seconds), 2));
    columns.push(Column::words("source", each(&|trial| trial.source.clone()), 3));
    columns
}

/// Returns a column for each named outcome of the trials.
pub(super) fn number_columns(definition: &Definition, trials: &[Trial]) -> Vec<Column> {
    let n_unnamed = definition.number_names().len() - definition.column_names().len();
    let columns = definition.column_names().into_iter().enumerate().map(|(index, name)| {
        let cell = |trial: &Trial| {
            let number = trial.numbers().get(n_unnamed + index).filter(|number| !number.is_nan());
            number.map_or_else(String::new, |number| text::number(*number))
        };
        Column::numbers(name, trials.iter().map(cell).collect(), 0)
    });
    columns.collect()
}

/// Describes the state of a trial briefly. `retried` maps failed trials to the trials that retry
/// them.
fn state(definition: &Definition, trial: &Trial, retried: &BTreeMap<u64, u64>) -> String {
    match &trial.state {
        TrialState::Told(_) if definition.is_infeasible(trial) => "infeasible".to_owned(),
        TrialState::Told(Told::Failed { kind, .. }) => match retried.get(&trial.number) {
            Some(by) => format!("failed: {kind}; retried as {by}"),
            None => format!("failed: {kind}"),
        },
        TrialState::Running(holding) if holding.worker.is_gone() => "cut off".to_owned(),
        TrialState::Running(_) => match holder(trial) {
            Some(holder) => format!("running ({holder})"),
            None => "running".to_owned(),
        },
        other => other.word().to_owned(),
    }
}
