//! The outcomes of a trial as arguments of a command.

use fedbo_objective::{NumberNames, NumbersError};
use fedbo_study::{Definition, Study, StudyError};

use fedbo_console::BadInput;
use fedbo_console::text::{self, counted};
use fedbo_documents::trial_record::tell_usage;

/// The value of a trial and its further outcomes.
#[derive(clap::Args)]
pub(super) struct OutcomeArgs {
    /// Value of the trial
    #[arg(allow_hyphen_values = true, value_parser = parse_value)]
    pub(super) value: Option<f64>,
    /// Additional outcome of the trial, for a study with constraints or several objectives; repeat
    /// it for each outcome. An outcome that was not measured is nan
    #[arg(long = "outcome", value_name = "NAME=NUMBER", value_parser = parse_outcome)]
    pub(super) outcomes: Vec<(String, f64)>,
}

impl OutcomeArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.value.is_none() && self.outcomes.is_empty()
    }

    /// Returns the outcomes in the order of the study's definition. `command` is the command up to
    /// the trial, for messages, and `instead` is the way out for a number that is not finite. Of
    /// several numbers, some may be missing (NaN).
    pub(super) fn numbers(
        &self,
        definition: &Definition,
        command: &str,
        instead: &str,
    ) -> Result<Vec<f64>, BadInput> {
        let value = self.value.map(|value| ("value".to_owned(), value));
        let entries: Vec<_> = value.into_iter().chain(self.outcomes.iter().cloned()).collect();
        let names = definition.number_names();
        let is_bad = |number: f64| !(number.is_finite() || names.len() > 1 && number.is_nan());
        if let Some((name, number)) = entries.iter().find(|(_, number)| is_bad(*number)) {
            let what = match name.as_str() {
                "value" => "the value".to_owned(),
                name => format!("{name} ="),
            };
            return Err(BadInput(format!("{what} {number} is not a finite number; {instead}")));
        }
        if entries.len() == names.len() && entries.iter().all(|(_, number)| number.is_nan()) {
            let names = names.join(", ");
            return Err(BadInput(format!("none of {names} was measured; {instead}")));
        }
        NumberNames::new(names).of_entries(&entries).map_err(|error| {
            BadInput(format!("{error}: {command} {}{}", tell_usage(definition), absent(&error)))
        })
    }
}

/// Returns a hint for a number that was left out.
fn absent(error: &NumbersError) -> &'static str {
    match error {
        NumbersError::Missing { .. } => " (nan if it was not measured)",
        _ => "",
    }
}

/// Describes the study's best trial or front after a change, preceded by a semicolon. Empty while
/// there is none.
pub(super) fn best_after(study: &Study) -> Result<String, StudyError> {
    let best = study.best_trials()?;
    Ok(match (study.definition().objectives.is_empty(), best.as_slice()) {
        (_, []) => String::new(),
        (true, [best, ..]) => {
            let value = best.value().map_or_else(String::new, text::number);
            format!("; best {value} (trial {})", best.number)
        }
        (false, front) => format!("; {} on the front", counted(front.len() as u64, "trial")),
    })
}

fn parse_outcome(text: &str) -> Result<(String, f64), String> {
    let expected = || "expected NAME=NUMBER, for instance latency_ms=40".to_owned();
    let (name, number) = text.rsplit_once('=').ok_or_else(expected)?;
    let number = number.trim().parse().map_err(|_| expected())?;
    Ok((name.trim().to_owned(), number))
}

fn parse_value(text: &str) -> Result<f64, String> {
    let expected = "expected a number; for a trial without one, fedbo tell --failed REASON";
    text.trim().parse().map_err(|_| expected.to_owned())
}
