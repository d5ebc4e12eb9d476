//! `fedbo ask`: returns the next trials, for evaluation by a person or a user's program.

use std::io::IsTerminal;

use fedbo_space::{Point, Space, SpaceError};
use fedbo_storage::{Trial, TrialState, Worker};
use fedbo_strategies::StrategyError;
use fedbo_study::{AskOutcome, StudyError};
use serde::Serialize;

use fedbo_console as console;
use fedbo_console::text;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::own_point::entry;
use fedbo_documents::study_ref::{OpenStudy, StudyRef};
use fedbo_documents::trial_record::tell_usage;

/// Ask for the next trials, to evaluate them yourself
///
/// Prints one line per trial with its number and its parameters as name=value. The trial is yours
/// until you tell its outcome (fedbo tell) or release it (fedbo release). A study that is not
/// stored yet is created from its file. fedbo stop does not affect fedbo ask; it only ends current
/// runs of the study.
#[derive(clap::Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    study: StudyRef,
    /// Number of trials
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    count: u64,
    /// Value that the trials must have, for example humidity=40. The model chooses the other values.
    /// Repeat it for further parameters. Waiting trials continue to wait
    #[arg(long, value_name = "NAME=VALUE")]
    given: Vec<String>,
    /// Print a JSON object per line instead: trial, parameters, source
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AskedRecord<'a> {
    trial: u64,
    parameters: &'a Point,
    source: &'a str,
}

impl Ask {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        // Check before anything is created.
        if let Some(space) = self.study.space_of_file()? {
            self.given(&space)?;
        }
        let opened = self.study.stored_or_new()?;
        let given = self.given(opened.study.space())?;
        for n_asked in 0..self.count {
            let worker = Worker::by_hand();
            let limit = opened.n_trials();
            let trial = match opened.study.ask_given_as(&worker, None, limit, &given) {
                Ok(AskOutcome::Trial(trial)) => trial,
                Ok(AskOutcome::Full { open }) => {
                    return ended(&full(&opened, &open), n_asked, self.count);
                }
                Err(StudyError::Strategy(error @ StrategyError::Exhausted { .. })) => {
                    let why = match self.given.is_empty() {
                        true => format!("{error}: the study ends here"),
                        false => {
                            "all points with these given values are used up; give other values"
                                .to_owned()
                        }
                    };
                    return ended(&why, n_asked, self.count);
                }
                Err(error) => return Err(error.into()),
            };
            let printed = self.print(&trial);
            if !matches!(printed, Ok(true)) {
                // Nobody has seen the trial.
                opened.study.release_trial(trial.number)?;
                return printed.map(|_| Exit::Done);
            }
        }
        if !self.json && std::io::stdout().is_terminal() {
            let word = &opened.word;
            if opened.study.definition().early_stopping.is_some() {
                console::remark(&format!(
                    "after each epoch ask whether to continue with: fedbo report {word} TRIAL EPOCH VALUE"
                ));
            }
            let usage = tell_usage(opened.study.definition());
            console::remark(&format!(
                "tell the outcome with: fedbo tell {word} TRIAL {usage} (or --failed REASON)"
            ));
        }
        Ok(Exit::Done)
    }

    /// Returns the given values after checking that they fit the space.
    fn given(&self, space: &Space) -> anyhow::Result<Point> {
        let mut values = Vec::with_capacity(self.given.len());
        for text in &self.given {
            let (name, value) = entry(space, text)?;
            let parameter = space.parameter(name).and_then(|parameter| parameter.parse(value));
            values.push((name.to_owned(), parameter.map_err(|error| refused(&error))?));
        }
        let given = Point::new(values);
        space.with_given(&given).map_err(|error| refused(&error))?;
        Ok(given)
    }

    /// Prints the trial. Returns false if the reader has closed the pipe.
    fn print(&self, trial: &Trial) -> anyhow::Result<bool> {
        let line = if self.json {
            serde_json::to_string(&AskedRecord {
                trial: trial.number,
                parameters: &trial.point,
                source: &trial.source,
            })?
        } else {
            format!("{} {}", trial.number, text::exact_point(&trial.point))
        };
        Ok(console::data(&line)?)
    }
}

fn refused(error: &SpaceError) -> anyhow::Error {
    let error = match error {
        SpaceError::Duplicate { name } => format!("{name} is given twice"),
        other => other.to_string(),
    };
    BadInput(format!("--given: {error}")).into()
}

/// Reports that there are no further trials. Returns an error if no trial was asked for at all.
fn ended(why: &str, n_asked: u64, count: u64) -> anyhow::Result<Exit> {
    if n_asked == 0 {
        return Err(BadInput(why.to_owned()).into());
    }
    console::note(&format!("only {n_asked} of {count}: {why}"));
    Ok(Exit::Done)
}

/// Returns a message that explains why there are no further trials, and the remedy.
fn full(opened: &OpenStudy, open: &[Trial]) -> String {
    let (name, word) = (opened.name(), &opened.word);
    let n_trials = opened.n_trials().unwrap_or_default();
    let mut text = format!(
        "study {name:?} has all its {}; raise trials in the file to ask for more",
        text::counted(n_trials, "trial")
    );
    let numbers = |by_hand: bool| -> Vec<u64> {
        let of_these = open.iter().filter(|trial| match &trial.state {
            TrialState::Running(holding) => holding.until_ms.is_none() == by_hand,
            _ => false,
        });
        of_these.map(|trial| trial.number).collect()
    };
    let (by_hand, running) = (numbers(true), numbers(false));
    if !by_hand.is_empty() {
        let numbers = text::numbers(&by_hand);
        let usage = tell_usage(opened.study.definition());
        text += &format!(
            "; asked for manually and not told yet: {numbers} (fedbo tell {word} TRIAL {usage}, or fedbo release {word} TRIAL)"
        );
    }
    if !running.is_empty() {
        text += &format!("; being evaluated: {}", text::numbers(&running));
    }
    text
}
