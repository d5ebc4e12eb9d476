//! `fedbo tune`: runs one party's study until it has all its trials.

use std::collections::BTreeSet;
use std::time::Duration;

use fedbo_objective::{CommandObjective, FailuresMax, NumberNames};
use fedbo_storage::{Address, StorageError, Told, Trial, TrialState};
use fedbo_study::{
    Ended, JOBS_MAX, Patience, RunOptions, RunReport, StrategySpec, StudyError, StudyFile,
    time_limit,
};
use serde::Serialize;

use super::best::transfer;
use super::found::Found;
use crate::study_display::StudyDisplay;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::text::one_line;
use fedbo_console::text::{self, counted, whole};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::old_studies::{self, OldStudiesRecord};
use fedbo_documents::study_ref::{OpenStudy, StudyRef, persistence_hint};
use fedbo_documents::trial_record::{SCHEMA_VERSION, TrialRecord, tell_arguments, tell_usage};

/// Duration of a trial's lease. A worker that does not renew it in time loses the trial.
const LEASE: Duration = Duration::from_secs(60);

/// Tune one party's study with the command in its file
///
/// Evaluates trials until the study has the number of trials set in its file. If the command is
/// interrupted or killed, or the disk is full, all finished trials are kept, and the same command
/// continues. Several runs may work on one study at the same time.
#[derive(clap::Args, Clone)]
pub(crate) struct Tune {
    /// The study's file, for instance examples/train.toml
    file: String,
    /// Number of concurrent trials [default: the file's jobs]
    #[arg(long, short, value_name = "N", value_parser = parse_jobs)]
    jobs: Option<usize>,
    /// Total number of trials, including those of earlier runs [default: the file's trials]
    #[arg(long, value_name = "N", value_parser = parse_trials)]
    trials: Option<u64>,
    /// End the run after N consecutive failed trials; 0: never [default: the file's failures_max,
    /// else 5 before the first value]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    failures_max: Option<u64>,
    /// Start no further trial after this many seconds [default: the file's timeout_s, else no
    /// limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse_time_limit)]
    timeout_s: Option<f64>,
    /// End the run after N consecutive trials without a new best; 0: never [default: the file's
    /// patience, else never]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    patience: Option<u64>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Summary of a run.
#[derive(Serialize)]
struct RunSummary<'a> {
    schema_version: u32,
    study: &'a str,
    storage: &'a str,
    /// `complete`, `exhausted`, `stopped`, `interrupted`, `failures`, `timeout` or `patience`.
    ended: &'static str,
    trials_wanted: u64,
    /// Number of trials finished by this run.
    told_by_this_run: usize,
    trials: Counts,
    /// Trained epochs, if the study stops trials early.
    epochs: Option<Epochs>,
    best: Option<TrialRecord<'a>>,
    /// Nondominated feasible trials, if there are several objectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<TrialRecord<'a>>>,
    /// Number of trials that meet all constraints, if there are constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    feasible: Option<usize>,
    /// Weights of old studies in the next query, if the study learns from old studies.
    old_studies: Option<OldStudiesRecord<'a>>,
}

/// Number of trials by state.
#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    complete: u64,
    failed: u64,
    /// Failed trials that are retried as separate trials. They are not counted elsewhere.
    retried: u64,
    /// Trials stopped early.
    stopped: u64,
    running: u64,
    waiting: u64,
}

impl Counts {
    fn of(trials: &[Trial]) -> Self {
        let mut counts = Self::default();
        let retries = trials.iter().filter(|trial| !trial.is_discarded());
        let retried: BTreeSet<u64> = retries.filter_map(Trial::retry_of).collect();
        for trial in trials {
            if retried.contains(&trial.number) {
                counts.retried += 1;
                continue;
            }
            match &trial.state {
                TrialState::Told(Told::Value(_) | Told::Numbers(_)) => counts.complete += 1,
                TrialState::Told(Told::Failed { .. }) => counts.failed += 1,
                TrialState::Told(Told::Stopped { .. }) => counts.stopped += 1,
                TrialState::Told(Told::Discarded) => {}
                TrialState::Running(_) => counts.running += 1,
                TrialState::Waiting => counts.waiting += 1,
            }
        }
        counts
    }

    fn told(self) -> u64 {
        self.complete + self.failed + self.stopped
    }

    /// Formats `37 of 60 trials told`, or only the first number if the study has more trials than
    /// requested.
    fn of_wanted(self, n_trials: u64) -> String {
        match self.told() {
            told if told <= n_trials => format!("{told} of {} told", counted(n_trials, "trial")),
            told => format!("{} told", counted(told, "trial")),
        }
    }
}

/// Epochs for which the finished trials were trained.
#[derive(Clone, Copy, Serialize)]
struct Epochs {
    /// Sum of the last reported epochs of these trials.
    trained: u64,
    /// Number of epochs if all of these trials had been trained to the end.
    whole: u64,
}

impl Epochs {
    /// Counts the epochs, or returns `None` for a study without early stopping.
    fn of(trials: &[Trial], opened: &OpenStudy) -> Option<Self> {
        let spec = opened.study.definition().early_stopping.as_ref()?;
        let told = trials.iter().filter(|trial| trial.told().is_some());
        let mut epochs = Self { trained: 0, whole: 0 };
        for trial in told {
            let last = trial.last_report();
            epochs.trained += last.map_or(0, |last| u64::from(last.epoch));
            epochs.whole += u64::from(spec.epochs);
        }
        Some(epochs)
    }
}

impl Tune {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let reference = StudyRef::new(&self.file, None);
        let file = reference.file()?;
        let n_trials = self.n_trials(&file)?;
        let Some(command) = &file.command else {
            let (path, word) = (&self.file, reference.word());
            let usage = tell_usage(&file.definition);
            return Err(BadInput(format!(
                "{path} names no command; add [objective] with command = [\"program\", \"argument\", ..], or evaluate by \
                 hand with fedbo ask {word} and fedbo tell {word} TRIAL {usage}"
            ))
            .into());
        };
        let stop = interrupt::stop_flag(
            "stopping: running trials are released (once more to exit at once)",
        );
        let objective = CommandObjective::new(command, &file.space, stop.clone())?
            .with_stop_grace(file.stop_grace)
            .with_numbers(
                NumberNames::new(file.definition.number_names())
                    .with_missing_allowed(file.missing_allowed),
            );
        let options = RunOptions {
            n_trials,
            jobs: self.jobs.unwrap_or(file.jobs),
            lease: LEASE,
            failures_max: match self.failures_max {
                None => file.failures_max,
                given => FailuresMax::from_key(given),
            },
            timeout: self.timeout_s.and_then(time_limit).or(file.timeout),
            patience: self.patience(&file),
        };
        let in_memory = file.storage == Address::Memory;
        let opened = reference.create(file)?;
        let before = opened.study.trials()?;
        if !console::is_quiet() {
            console::note(&self.beginning(&opened, &before, &options));
            print_old_studies(&opened, !before.is_empty());
            if let Some(file) = opened.file.as_ref().filter(|_| in_memory) {
                let keep = persistence_hint(file);
                console::note(&format!(
                    "trials are kept in memory and lost at the end; to keep them and continue later, {keep}"
                ));
            }
        }
        let display = StudyDisplay::new(&opened.study, n_trials, &before);
        let ran = opened.study.run(&objective, &options, &display, &stop);
        display.finish();
        match ran {
            Ok(report) => self.conclude(&opened, &report, &options, in_memory),
            Err(error) => self.explain(error, display.unstored(), &opened),
        }
    }

    fn patience(&self, file: &StudyFile) -> Option<Patience> {
        let n_trials = self.patience.or(file.patience).filter(|n| *n > 0)?;
        Some(Patience { n_trials, improvement_min: file.improvement_min })
    }

    fn n_trials(&self, file: &StudyFile) -> Result<u64, BadInput> {
        let Some(n_trials) = self.trials else {
            return Ok(file.n_trials);
        };
        let max = StrategySpec::TRIALS_MAX;
        if (1..=max).contains(&n_trials) {
            return Ok(n_trials);
        }
        Err(BadInput(format!("--trials {n_trials}: expected a number from 1 to {max}")))
    }

    /// Formats the line that announces this run.
    fn beginning(&self, opened: &OpenStudy, before: &[Trial], options: &RunOptions) -> String {
        let (name, n_trials) = (text::shown(opened.name()), options.n_trials);
        let at_once = match options.jobs {
            1 => String::new(),
            jobs => format!(", {jobs} at once"),
        };
        let place = &opened.storage;
        let definition = opened.study.definition();
        let mut strategy = definition.strategy.name().to_owned();
        if let Some(spec) = &definition.early_stopping {
            let (rule, epochs) = (spec.rule.name(), spec.epochs);
            strategy += &format!(", stopped early by {rule} within {epochs} epochs");
        }
        if before.is_empty() {
            let trials = counted(n_trials, "trial");
            return format!("{name}: a new study in {place}: {trials} by {strategy}{at_once}");
        }
        let counts = Counts::of(before);
        if counts.told() >= n_trials && counts.waiting + counts.running == 0 {
            if opened.n_trials().is_some_and(|wanted| n_trials < wanted) {
                let told = counts.of_wanted(n_trials);
                return format!(
                    "{name}: {told} in {place}, and --trials {n_trials} is the limit: there is nothing left to do"
                );
            }
            return format!("{name}: complete in {place}, there is nothing left to do");
        }
        let mut text = format!("{name}: continues in {place}: {}", counts.of_wanted(n_trials));
        if counts.failed > 0 {
            text += &format!(" ({} failed)", counts.failed);
        }
        if counts.stopped > 0 {
            text += &format!(", {} of them stopped early", counts.stopped);
        }
        match counts.waiting {
            0 => {}
            1 => text += ", 1 waits",
            n => text += &format!(", {n} wait"),
        }
        let (mut cut_off, mut by_hand, mut elsewhere) = (0, 0, 0);
        for trial in before {
            match &trial.state {
                TrialState::Running(holding) if holding.worker.is_gone() => cut_off += 1,
                TrialState::Running(holding) if holding.until_ms.is_none() => by_hand += 1,
                TrialState::Running(_) => elsewhere += 1,
                _ => {}
            }
        }
        for (n, where_it_stands) in [
            (cut_off, "cut off and tried again"),
            (by_hand, "asked for manually"),
            (elsewhere, "being evaluated by others"),
        ] {
            if n > 0 {
                text += &format!(", {n} {where_it_stands}");
            }
        }
        text + &at_once
    }

    fn conclude(
        &self,
        opened: &OpenStudy,
        report: &RunReport,
        options: &RunOptions,
        in_memory: bool,
    ) -> anyhow::Result<Exit> {
        let n_trials = options.n_trials;
        let trials = opened.study.trials()?;
        let counts = Counts::of(&trials);
        let epochs = Epochs::of(&trials, opened);
        let definition = opened.study.definition();
        let found = Found::of(definition, &trials);
        let transfer = transfer(opened);
        let transfer = opened.study.definition().meta.as_ref().zip(transfer.as_ref());
        if self.json {
            let closing = RunSummary {
                schema_version: SCHEMA_VERSION,
                study: opened.name(),
                storage: &opened.storage,
                ended: match report.ended {
                    Ended::Complete => "complete",
                    Ended::Exhausted => "exhausted",
                    Ended::StudyStopped => "stopped",
                    Ended::Stopped => "interrupted",
                    Ended::Failing => "failures",
                    Ended::TimedOut => "timeout",
                    Ended::OutOfPatience => "patience",
                },
                trials_wanted: n_trials,
                told_by_this_run: report.n_told,
                trials: counts,
                epochs,
                best: found.best.map(|best| TrialRecord::new(definition, best)),
                front: found.front_records(definition),
                feasible: found.n_feasible,
                old_studies: transfer.map(|(meta, step)| {
                    OldStudiesRecord::new(meta, step, opened.study.direction())
                }),
            };
            console::result(&serde_json::to_string_pretty(&closing)?)?;
        } else if counts.complete > 0 {
            found.print(definition, None)?;
            console::result(&format!("\n{}", numbers_line(counts, epochs, n_trials, opened)))?;
            if let Some((meta, step)) = transfer {
                console::result(&old_studies::trust(meta, step))?;
            }
        }
        if report.ended == Ended::Stopped {
            let kept = counted(counts.told(), "finished trial");
            let way = match in_memory {
                true => "they were in memory and are lost".to_owned(),
                false => format!("continue with: {}", self.again(opened)),
            };
            console::note(&format!("interrupted after {kept}; {way}"));
            return Ok(Exit::Interrupted);
        }
        if report.ended == Ended::Failing {
            console::note(&self.failing(opened, report, &trials, in_memory));
            return Ok(Exit::NoTrial);
        }
        if let Some(note) = self.limit_note(opened, report, options, in_memory) {
            console::note(&note);
        }
        if counts.told() > 0 && counts.complete == 0 {
            let last = last_failure(&trials);
            let way = match in_memory {
                true => String::new(),
                false => {
                    let word = &opened.word;
                    format!("; all reasons: fedbo trials {word}; once fixed: fedbo retry {word}")
                }
            };
            if counts.stopped > 0 {
                console::note(&format!(
                    "error: no trial has a value: {} stopped early, {} failed{way}",
                    counts.stopped, counts.failed
                ));
                return Ok(Exit::NoTrial);
            }
            console::note(&format!(
                "error: all {} failed, the last one because {last}{way}",
                counted(counts.failed, "trial")
            ));
            return Ok(Exit::NoTrial);
        }
        self.print_remaining_work(opened, report, &trials);
        if !console::is_quiet() && !self.json && !in_memory {
            let word = &opened.word;
            let found = match definition.objectives.is_empty() {
                true => "which parameters matter",
                false => "the front",
            };
            console::note(&format!(
                "\nfedbo best {word}    {found}\nfedbo plot {word}    pictures\nfedbo trials {word}  all trials"
            ));
            if report.ended == Ended::Complete {
                console::note(&self.continuation_hint(opened));
            }
        }
        Ok(Exit::Done)
    }

    /// Explains that a run ended after consecutive failures, with the remedy.
    fn failing(
        &self,
        opened: &OpenStudy,
        report: &RunReport,
        trials: &[Trial],
        in_memory: bool,
    ) -> String {
        let n = report.n_failed_in_a_row;
        let last = last_failure(trials);
        let without = match Counts::of(trials).complete {
            0 => ", and the study has no value yet",
            _ => "",
        };
        let mut text = format!(
            "error: {} in a row failed{without}: the run was ended\nthe last one failed because {last}",
            counted(n, "trial")
        );
        if let (Some(trial), Some(command)) =
            (last_failed(trials), opened.file.as_ref().and_then(|file| file.command.as_ref()))
        {
            text += &format!("\nits command was: {}", command_line(&command.argv, trial));
        }
        text += &match in_memory {
            true => "\nfix the command and run the same command line again".to_owned(),
            false => format!(
                "\nfix the command, then retry the failed points and continue with\n  fedbo retry {} && {}",
                opened.word,
                self.again(opened)
            ),
        };
        text + "\n(failures_max in [study] is the number of failures in a row that ends a run; 0: no limit)"
    }

    /// Describes the limit that ended a run, and how to continue.
    fn limit_note(
        &self,
        opened: &OpenStudy,
        report: &RunReport,
        options: &RunOptions,
        in_memory: bool,
    ) -> Option<String> {
        if let Some(stop) = &report.stop {
            let (by, at) = (text::shown(&stop.by), text::timestamp(stop.at_ms));
            return Some(format!("stopped by {by} at {at}; continue with: {}", self.again(opened)));
        }
        let what = match (report.ended, options.timeout, options.patience) {
            (Ended::TimedOut, Some(time), _) => {
                let way = match in_memory {
                    true => String::new(),
                    false => format!("; continue for as long again with: {}", self.again(opened)),
                };
                format!("the time limit of {} s is reached{way}", time.as_secs_f64())
            }
            (Ended::OutOfPatience, _, Some(patience)) => {
                let Patience { n_trials, improvement_min } = patience;
                let progress = match opened.study.definition().objectives.is_empty() {
                    true => "new best",
                    false => "trial on the front",
                };
                let by = match improvement_min > 0.0 {
                    true => format!(" by more than {improvement_min:?}"),
                    false => String::new(),
                };
                let more = Self { patience: Some(0), ..self.clone() };
                let way = match in_memory {
                    true => String::new(),
                    false => format!("; continue without it: {}", more.again(opened)),
                };
                format!(
                    "the last {} brought no {progress}{by}, the patience limit{way}",
                    counted(n_trials, "trial")
                )
            }
            _ => return None,
        };
        Some(what)
    }

    fn print_remaining_work(&self, opened: &OpenStudy, report: &RunReport, trials: &[Trial]) {
        if report.ended == Ended::Exhausted {
            console::note("every point of the space was tried: the study ends here");
        }
        let by_hand = |trial: &&Trial| match &trial.state {
            TrialState::Running(holding) => holding.until_ms.is_none(),
            _ => false,
        };
        let held: Vec<u64> = trials.iter().filter(by_hand).map(|t| t.number).collect();
        if !held.is_empty() {
            let (numbers, word) = (text::numbers(&held), &opened.word);
            let usage = tell_usage(opened.study.definition());
            console::note(&format!(
                "asked for manually and not told yet: {numbers}; fedbo tell {word} TRIAL {usage}, or fedbo release {word} TRIAL"
            ));
        }
    }

    /// Returns a hint on how to get more trials.
    fn continuation_hint(&self, opened: &OpenStudy) -> String {
        match (self.trials, opened.n_trials()) {
            (None, _) => {
                "to continue, raise trials in the file and run the same command again".to_owned()
            }
            (Some(limit), Some(wanted)) if limit < wanted => format!(
                "--trials {limit} was the limit: without it, the same command continues to the file's {}",
                counted(wanted, "trial")
            ),
            (Some(limit), _) => {
                format!("to continue, run the same command with more than --trials {limit}")
            }
        }
    }

    /// Returns the command line that continues the study.
    fn again(&self, opened: &OpenStudy) -> String {
        let mut text = format!("fedbo tune {}", opened.word);
        if let Some(jobs) = self.jobs {
            text += &format!(" --jobs {jobs}");
        }
        if let Some(trials) = self.trials {
            text += &format!(" --trials {trials}");
        }
        if let Some(failures_max) = self.failures_max {
            text += &format!(" --failures-max {failures_max}");
        }
        if let Some(seconds) = self.timeout_s {
            text += &format!(" --timeout-s {seconds}");
        }
        if let Some(patience) = self.patience {
            text += &format!(" --patience {patience}");
        }
        text
    }

    /// Prints an error. If writes failed, also prints which results were kept and how to continue.
    fn explain(
        &self,
        error: StudyError,
        unstored: Vec<(u64, Told)>,
        opened: &OpenStudy,
    ) -> anyhow::Result<Exit> {
        if is_gone(&error) {
            console::note(&format!("error: {error}{}", lost(&unstored)));
            return Ok(Exit::Output);
        }
        let exit = match &error {
            StudyError::Unstored { .. } | StudyError::Storage(StorageError::Write { .. }) => {
                Exit::Output
            }
            _ if unstored.is_empty() => return Err(error.into()),
            _ => Exit::Output,
        };
        let mut text = format!(
            "error: {error}\nall trials told before are kept; once it can be written again, "
        );
        if !unstored.is_empty() {
            text += "save the others with\n";
            for (number, told) in unstored {
                let outcome = match told {
                    Told::Value(_) | Told::Numbers(_) => {
                        tell_arguments(opened.study.definition(), told.numbers())
                    }
                    Told::Failed { message, .. } => {
                        format!("--failed {}", text::quoted(&one_line(&message)))
                    }
                    // The trial's reports are stored, and the rule decides again when the trial is
                    // retrained.
                    Told::Stopped { .. } | Told::Discarded => continue,
                };
                text += &format!("  fedbo tell {} {number} {outcome}\n", opened.word);
            }
            text += "and ";
        }
        text += &format!("continue with\n  {}", self.again(opened));
        console::note(&text);
        Ok(exit)
    }
}

/// Prints the trials read from the study's old studies. If an existing study continues, also prints
/// later changes of the old studies.
fn print_old_studies(opened: &OpenStudy, continues: bool) {
    let definition = opened.study.definition();
    if let Some(archive) = &definition.archive {
        console::note(&old_studies::archived(&archive.archive));
    }
    if let Some(meta) = &definition.meta {
        console::note(&old_studies::beginning(meta, definition.direction));
    }
    let file = opened.file.as_ref().filter(|_| continues);
    for news in file.into_iter().flat_map(|file| file.old_study_changes(definition)) {
        console::note(&format!(
            "{news}; this study continues with the data read at its start (a study with another name would read them again)"
        ));
    }
}

/// Returns true if the storage's file is no longer at its path. The state of its content is then
/// unknown.
fn is_gone(error: &StudyError) -> bool {
    matches!(
        error,
        StudyError::Storage(StorageError::Gone { .. })
            | StudyError::Unstored { cause: StorageError::Gone { .. }, .. }
    )
}

/// Lists trials with outcomes that could not be stored, so that a user can save them.
fn lost(unstored: &[(u64, Told)]) -> String {
    let mut text = String::new();
    if !unstored.is_empty() {
        text += "\nnot stored anywhere:";
    }
    for (number, told) in unstored {
        text += &match told {
            Told::Value(value) => format!("\n  trial {number}: {value:?}"),
            Told::Numbers(numbers) => format!("\n  trial {number}: {numbers:?}"),
            Told::Failed { message, .. } => {
                format!("\n  trial {number} failed: {}", one_line(message))
            }
            Told::Discarded => continue,
            Told::Stopped { epoch, because, .. } => {
                let because = one_line(because);
                format!("\n  trial {number} stopped at epoch {epoch}: {because}")
            }
        };
    }
    text
}

fn numbers_line(
    counts: Counts,
    epochs: Option<Epochs>,
    n_trials: u64,
    opened: &OpenStudy,
) -> String {
    let mut text = counts.of_wanted(n_trials);
    if counts.failed > 0 {
        text += &format!(", {} of them failed", counts.failed);
    }
    if counts.retried > 0 {
        text += &format!("; plus {} that were retried", counted(counts.retried, "failure"));
    }
    if let Some(Epochs { trained, whole }) = epochs {
        let stopped = counts.stopped;
        text += &format!(", {stopped} of them stopped early: {trained} epochs of {whole}");
    }
    text + &format!("; stored in {}", opened.storage)
}

/// Returns the trial that failed last.
fn last_failed(trials: &[Trial]) -> Option<&Trial> {
    let failed = |trial: &&Trial| matches!(trial.told(), Some(Told::Failed { .. }));
    let failed = trials.iter().filter(failed);
    failed.max_by_key(|trial| trial.told_seq)
}

/// Returns a trial's command, quoted for a shell.
fn command_line(argv: &[String], trial: &Trial) -> String {
    let word = |argument: &String| {
        let mut word = argument.clone();
        for (name, value) in trial.point.iter() {
            word = word.replace(&format!("{{{name}}}"), &value.to_string());
        }
        text::quoted(&word)
    };
    one_line(&argv.iter().map(word).collect::<Vec<_>>().join(" "))
}

fn last_failure(trials: &[Trial]) -> String {
    match last_failed(trials).and_then(Trial::told) {
        Some(Told::Failed { message, .. }) => one_line(message),
        _ => "nothing was told".to_owned(),
    }
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=JOBS_MAX) => Ok(jobs),
        _ => Err(format!("expected a number from 1 to {JOBS_MAX}")),
    }
}

fn parse_trials(text: &str) -> Result<u64, String> {
    let expected = "expected a whole number of at least 1";
    text.parse().map_err(|_| expected.to_owned())
}

fn parse_time_limit(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| time_limit(*seconds).is_some());
    seconds.ok_or_else(|| "expected a number of seconds above 0".to_owned())
}
