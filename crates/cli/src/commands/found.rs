//! Prints the best trials of a study.

use fedbo_storage::Trial;
use fedbo_study::{Constraint, Definition, Insight};

use super::trials::number_columns;
use fedbo_console as console;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{counted, number, value};
use fedbo_documents::trial_record::{TrialRecord, numbers_in_words};

/// The best trials of a study so far.
pub(super) struct Found<'a> {
    /// Best feasible trial, if the study has one objective and a feasible trial.
    pub(super) best: Option<&'a Trial>,
    /// Nondominated feasible trials (the front), if the study has several objectives.
    front: Option<Vec<&'a Trial>>,
    /// Number of feasible trials, if the study has constraints.
    pub(super) n_feasible: Option<usize>,
    /// Number of trials with a value.
    n_values: usize,
    /// Trial with the smallest constraint violation and that violation, if none is feasible.
    nearest: Option<(&'a Trial, f64)>,
}

impl<'a> Found<'a> {
    pub(super) fn of(definition: &Definition, trials: &'a [Trial]) -> Self {
        let best = definition.best_trials(trials);
        let has_feasible = !best.is_empty();
        let (best, front) = match definition.objectives.is_empty() {
            true => (best.first().copied(), None),
            false => (None, Some(best)),
        };
        let feasible = || {
            trials
                .iter()
                .filter(|trial| definition.is_feasible(trial) && trial.value().is_some())
                .count()
        };
        Self {
            best,
            front,
            n_feasible: (!definition.constraints.is_empty()).then(feasible),
            n_values: trials.iter().filter(|trial| trial.value().is_some()).count(),
            nearest: match has_feasible {
                true => None,
                false => definition.least_violation(trials),
            },
        }
    }

    /// Returns true if no trial has a value.
    pub(super) fn is_nothing(&self) -> bool {
        self.n_values == 0
    }

    /// Returns the front as JSON records.
    pub(super) fn front_records(&self, definition: &Definition) -> Option<Vec<TrialRecord<'a>>> {
        let front = self.front.as_ref()?;
        Some(front.iter().map(|trial| TrialRecord::new(definition, trial)).collect())
    }

    /// Returns the trial with the smallest constraint violation as a JSON record, and that
    /// violation.
    pub(super) fn nearest_record(&self, definition: &Definition) -> Option<(TrialRecord<'a>, f64)> {
        self.nearest.map(|(trial, violation)| (TrialRecord::new(definition, trial), violation))
    }

    /// Prints the best trial with its exact parameters and their importance, the front, or the
    /// trial with the smallest constraint violation.
    pub(super) fn print(
        &self,
        definition: &Definition,
        insight: Option<&Insight>,
    ) -> anyhow::Result<()> {
        if let Some(n_feasible) = self.n_feasible {
            let bounds: Vec<String> =
                definition.constraints.iter().map(Constraint::in_words).collect();
            let n = counted(self.n_values as u64, "trial");
            let bounds = bounds.join(", ");
            console::result(&format!("feasible: {n_feasible} of {n} with a value ({bounds})\n"))?;
        }
        if let Some((nearest, violation)) = self.nearest {
            let numbers = numbers_in_words(definition, nearest.numbers());
            console::result(&format!(
                "no trial meets all constraints; the nearest is trial {}, which misses them by {} in all: {numbers}\n\n",
                nearest.number,
                number(violation)
            ))?;
            return print_parameters(nearest, insight);
        }
        if let Some(front) = &self.front {
            let n = counted(front.len() as u64, "trial");
            console::result(&format!(
                "{n} on the front: no other feasible one dominates them\n\n"
            ))?;
            return print_front(definition, front);
        }
        let Some(best) = self.best else {
            return Ok(());
        };
        if let Some(value) = best.value() {
            let numbers = definition.column_names().into_iter().zip(best.numbers().iter().skip(1));
            let further: String =
                numbers.map(|(name, value)| format!(", {name} {value:?}")).collect();
            let line = format!("best value {value:?}{further} (trial {})\n\n", best.number);
            console::result(&line)?;
        }
        print_parameters(best, insight)
    }
}

/// Prints the trials of a front, one per line, sorted by the first objective.
fn print_front(definition: &Definition, front: &[&Trial]) -> anyhow::Result<()> {
    let mut trials: Vec<Trial> = front.iter().map(|trial| (*trial).clone()).collect();
    let first = |trial: &Trial| definition.objectives_of(trial).first().copied().unwrap_or(0.0);
    trials.sort_by(|a, b| first(b).total_cmp(&first(a)));
    let numbers = trials.iter().map(|trial| trial.number.to_string()).collect();
    let mut columns = vec![Column::numbers("trial", numbers, 0)];
    columns.extend(number_columns(definition, &trials));
    columns.extend(definition.space.iter().map(|parameter| {
        let name = parameter.name.as_str();
        let cell = |trial: &Trial| trial.point.get(name).map_or_else(String::new, value);
        Column {
            is_number: parameter.spec.choices.is_none(),
            ..Column::numbers(name, trials.iter().map(cell).collect(), 1)
        }
    }));
    let (table, left_out) = table::fit(columns, console::width());
    console::table(&table, None)?;
    if !left_out.is_empty() {
        console::remark(&format!("no room for {} (--json has everything)", left_out.join(", ")));
    }
    Ok(())
}

/// Prints the exact parameters of a trial and their importance.
fn print_parameters(best: &Trial, insight: Option<&Insight>) -> anyhow::Result<()> {
    let names = best.point.iter().map(|(name, _)| name.to_owned());
    let values = best.point.iter().map(|(_, value)| value.to_string());
    let mut columns = vec![
        Column::words("parameter", names.collect(), 0),
        Column::words("value", values.collect(), 0),
    ];
    if let Some(insight) = insight {
        let share = |of: fn(&fedbo_study::ParameterImportance) -> f64| {
            let of_each = best.point.iter().map(|(name, _)| {
                let found = insight.importance.iter().find(|each| each.name == name);
                found.map_or_else(String::new, |each| format!("{:.2}", of(each)))
            });
            of_each.collect()
        };
        columns.push(Column::numbers("share", share(|each| each.variance_share), 1));
        columns.push(Column::numbers("relevance", share(|each| each.relevance), 2));
    }
    let (table, _) = table::fit(columns, console::width());
    console::table(&table, None)?;
    Ok(())
}
