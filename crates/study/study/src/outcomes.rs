//! Constraints and multiple objectives: the numbers of a trial, and the selection of the best
//! trials.

use fedbo_space::{Direction, Parameter, ParameterSpec, SpaceError};
use fedbo_storage::{Told, Trial, TrialState};
use fedbo_strategies::{Outcomes, non_dominated};
use serde::{Deserialize, Serialize};

use crate::{Definition, EXPORT_COLUMNS, StudyError};

/// Maximum number of objectives per study.
pub(crate) const OBJECTIVES_MAX: usize = 4;

/// The name of the value in a study with one objective.
const VALUE: &str = "value";

/// One of multiple objectives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedObjective {
    /// The name of the number in a trial.
    pub name: String,
    /// The direction of optimization.
    pub direction: Direction,
}

/// A bound on an additional number of each trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// The name of the number in a trial.
    pub name: String,
    /// Upper bound, inclusive. A constraint has either `at_most` or `at_least`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower bound, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Constraint {
    /// Returns the distance of a number from the bound. It is at least 0 if the number satisfies
    /// the bound.
    ///
    /// A difference that overflows is clamped to the largest finite number.
    pub fn slack(&self, number: f64) -> f64 {
        let slack = match (self.at_most, self.at_least) {
            (Some(bound), _) => bound - number,
            (None, Some(bound)) => number - bound,
            (None, None) => 0.0,
        };
        slack.clamp(f64::MIN, f64::MAX)
    }

    /// Formats the bound: `latency_ms at most 50`.
    pub fn in_words(&self) -> String {
        let name = &self.name;
        match (self.at_most, self.at_least) {
            (Some(bound), _) => format!("{name} at most {bound}"),
            (None, Some(bound)) => format!("{name} at least {bound}"),
            (None, None) => name.clone(),
        }
    }
}

/// An invalid objective or constraint.
pub(crate) struct BadOutcome {
    /// The location in a file.
    pub(crate) at: Vec<String>,
    /// The problem, with the key, the value and a remedy.
    pub(crate) message: String,
}

/// Returns the table in a study file that declares additional numbers for trials.
pub(crate) fn outcomes_table(
    objectives: &[NamedObjective],
    constraints: &[Constraint],
) -> Option<&'static str> {
    match (objectives, constraints) {
        ([], []) => None,
        ([_, ..], _) => Some("[[objectives]]"),
        ([], _) => Some("[[constraints]]"),
    }
}

impl Definition {
    /// Adds one of multiple objectives. The first call replaces the single objective.
    #[must_use]
    pub fn objective(mut self, name: impl Into<String>, direction: Direction) -> Self {
        if self.objectives.is_empty() {
            self.direction = direction;
        }
        self.objectives.push(NamedObjective { name: name.into(), direction });
        self
    }

    /// Adds a constraint: this number of a trial must be at most `bound`.
    #[must_use]
    pub fn at_most(mut self, name: impl Into<String>, bound: f64) -> Self {
        let name = name.into();
        self.constraints.push(Constraint { name, at_most: Some(bound), at_least: None });
        self
    }

    /// Adds a constraint: this number of a trial must be at least `bound`.
    #[must_use]
    pub fn at_least(mut self, name: impl Into<String>, bound: f64) -> Self {
        let name = name.into();
        self.constraints.push(Constraint { name, at_most: None, at_least: Some(bound) });
        self
    }

    /// Returns the names of a trial's numbers in order: objectives, then constraints. A single
    /// objective is named `value`.
    pub fn number_names(&self) -> Vec<&str> {
        let objectives = self.objectives.iter().map(|each| each.name.as_str());
        let single = self.objectives.is_empty().then_some(VALUE);
        let constraints = self.constraints.iter().map(|each| each.name.as_str());
        single.into_iter().chain(objectives).chain(constraints).collect()
    }

    /// Returns the names of the numbers except `value`: the additional columns of this study's
    /// trials.
    pub fn column_names(&self) -> Vec<&str> {
        self.number_names().into_iter().filter(|name| *name != VALUE).collect()
    }

    /// Returns the directions of the objectives, in order.
    pub fn directions(&self) -> Vec<Direction> {
        match self.objectives.as_slice() {
            [] => vec![self.direction],
            several => several.iter().map(|each| each.direction).collect(),
        }
    }

    /// Returns the counts of objectives and constraints.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes {
            n_objectives: self.objectives.len().max(1),
            n_constraints: self.constraints.len(),
        }
    }

    /// Returns the table in a study file that declares additional numbers for trials; `None` if
    /// trials only have a value.
    pub fn outcomes_table(&self) -> Option<&'static str> {
        outcomes_table(&self.objectives, &self.constraints)
    }

    /// Returns a trial's objectives, each to be maximized. An objective that was not measured is
    /// NaN. Empty if the trial has no numbers.
    pub fn objectives_of(&self, trial: &Trial) -> Vec<f64> {
        let numbers = trial.numbers().iter().zip(self.directions());
        numbers.map(|(number, direction)| direction.to_maximize(*number)).collect()
    }

    /// Returns true if a trial has numbers and all of its objectives were measured.
    pub fn has_objectives(&self, trial: &Trial) -> bool {
        let objectives = self.objectives_of(trial);
        !objectives.is_empty() && objectives.iter().all(|objective| !objective.is_nan())
    }

    /// Returns a trial's numbers other than its value, in the form that strategies use: the further
    /// objectives, each to be maximized, then the slacks. A number that was not measured is NaN.
    ///
    /// # Errors
    /// Fails if the trial has a different count of numbers than the definition, which means that
    /// the storage is damaged.
    pub(crate) fn further(&self, trial: &Trial) -> Result<Vec<f64>, StudyError> {
        if self.outcomes_table().is_none() || trial.numbers().is_empty() {
            return Ok(Vec::new());
        }
        self.check_numbers(trial.numbers())?;
        let objectives = self.objectives_of(trial).into_iter().skip(1);
        Ok(objectives.chain(self.slacks_of(trial)).collect())
    }

    /// Returns the slacks of a trial's constraints, NaN for a number that was not measured; empty
    /// if the trial has no numbers.
    pub fn slacks_of(&self, trial: &Trial) -> Vec<f64> {
        let numbers = trial.numbers().iter().skip(self.outcomes().n_objectives);
        numbers.zip(&self.constraints).map(|(number, each)| each.slack(*number)).collect()
    }

    /// Returns the study and its trials as if one objective were the only one, without constraints.
    pub(crate) fn of_objective(
        &self,
        objective: usize,
        mut trials: Vec<Trial>,
    ) -> (Self, Vec<Trial>) {
        for trial in &mut trials {
            if let Some(number) = trial.numbers().get(objective).copied() {
                trial.state = TrialState::Told(Told::Value(number));
            }
        }
        let direction = self.directions()[objective];
        let alone =
            Self { direction, objectives: Vec::new(), constraints: Vec::new(), ..self.clone() };
        (alone, trials)
    }

    /// Returns a trial's total constraint violation: the sum over constraints, in their own units.
    /// It is 0 if the trial is feasible, and `None` if the trial has no numbers or a constraint's
    /// number was not measured.
    pub fn violation(&self, trial: &Trial) -> Option<f64> {
        if trial.numbers().is_empty() {
            return None;
        }
        if trial.numbers().len() != self.number_names().len() {
            return Some(f64::MAX); // the storage is damaged, so no bound is known to be satisfied
        }
        let slacks = self.slacks_of(trial);
        if slacks.iter().any(|slack| slack.is_nan()) {
            return None;
        }
        let missed = slacks.into_iter().map(|slack| (-slack).max(0.0));
        Some(missed.sum::<f64>().min(f64::MAX))
    }

    /// Returns true if a trial is known to satisfy all constraints.
    pub fn is_feasible(&self, trial: &Trial) -> bool {
        self.violation(trial) == Some(0.0)
    }

    /// Returns true if all numbers of a trial's constraints were measured and one violates its
    /// constraint.
    pub fn is_infeasible(&self, trial: &Trial) -> bool {
        self.violation(trial).is_some_and(|violation| violation > 0.0)
    }

    /// Returns the feasible trials that no other trial dominates. Of equal trials, only the
    /// earliest is returned. With one objective, returns only the best trial. A trial that lacks an
    /// objective or a constraint's number is not among them.
    pub fn best_trials<'a>(&self, trials: &'a [Trial]) -> Vec<&'a Trial> {
        let feasible: Vec<&Trial> = trials
            .iter()
            .filter(|each| self.is_feasible(each) && self.has_objectives(each))
            .collect();
        if self.objectives.is_empty() {
            // The first of the best trials, in linear time.
            let is_better = |a: &Trial, b: &Trial| match (a.value(), b.value()) {
                (Some(a), Some(b)) => self.direction.is_better(a, b),
                _ => false,
            };
            let best = feasible.into_iter().reduce(|a, b| if is_better(b, a) { b } else { a });
            return best.into_iter().collect();
        }
        let points: Vec<_> = feasible.iter().map(|trial| self.objectives_of(trial)).collect();
        non_dominated(&points).into_iter().map(|index| feasible[index]).collect()
    }

    /// Returns the trial with the smallest total constraint violation and its violation; the
    /// earliest of equals. `None` while no trial has all of its numbers.
    pub fn least_violation<'a>(&self, trials: &'a [Trial]) -> Option<(&'a Trial, f64)> {
        let mut least: Option<(&Trial, f64)> = None;
        for trial in trials {
            if let Some(violation) = self.violation(trial)
                && self.has_objectives(trial)
                && least.is_none_or(|(_, other)| violation < other)
            {
                least = Some((trial, violation));
            }
        }
        least
    }

    /// Checks that these numbers are valid for a trial. Of several numbers, some may be missing
    /// (NaN).
    pub(crate) fn check_numbers(&self, numbers: &[f64]) -> Result<(), StudyError> {
        let (names, found) = (self.number_names(), numbers.len());
        let is_bad = |number: &&f64| !(number.is_finite() || names.len() > 1 && number.is_nan());
        if let Some(value) = numbers.iter().find(is_bad) {
            return Err(StudyError::NotFinite { value: *value });
        }
        if found != names.len() {
            return Err(StudyError::WrongNumbers { expected: names.join(", "), found });
        }
        match numbers.iter().all(|number| number.is_nan()) {
            true => Err(StudyError::NothingMeasured { names: names.join(", ") }),
            false => Ok(()),
        }
    }

    /// Validates the objectives and constraints.
    pub(crate) fn check_outcomes(&self) -> Result<(), BadOutcome> {
        let bad = |at: &[&str], message: String| {
            let at = at.iter().map(|step| (*step).to_owned()).collect();
            Err(BadOutcome { at, message })
        };
        let n = self.objectives.len();
        if n == 1 || n > OBJECTIVES_MAX {
            let entries = if n == 1 { "one entry".to_owned() } else { format!("{n} entries") };
            let message = format!(
                "objectives has {entries}, expected 2 to {OBJECTIVES_MAX}; a single objective is study.direction"
            );
            return bad(&["objectives"], message);
        }
        let objectives = (0_usize..).zip(&self.objectives);
        let objectives = objectives.map(|(i, each)| ("objectives", i, each.name.as_str()));
        let constraints = (0_usize..).zip(&self.constraints);
        let constraints = constraints.map(|(i, each)| ("constraints", i, each.name.as_str()));
        let mut seen: Vec<(String, &str)> = Vec::new();
        for (table, index, name) in objectives.chain(constraints) {
            let key = format!("{table}[{index}]");
            let place = index.to_string();
            let bad_name = |what: String| {
                bad(&[table, &place, "name"], format!("{key}.name = {name:?}{what}"))
            };
            let checked = Parameter::from_spec(name, &ParameterSpec::float(0.0, 1.0));
            if let Err(SpaceError::Parameter { expected, .. }) = checked {
                return bad_name(format!(", expected {expected}"));
            }
            if name.contains(' ') {
                return bad_name(", expected a name without blanks".to_owned());
            }
            if name.contains('=') {
                return bad_name(" has a =, which ends a name in --outcome NAME=NUMBER".to_owned());
            }
            if ["best", "report"].contains(&name) || name.starts_with("parameter.") {
                return bad_name(" is a name in exports; choose another name".to_owned());
            }
            if name == VALUE {
                return bad_name(
                    " is the name of the single objective; choose another name".to_owned(),
                );
            }
            if EXPORT_COLUMNS.contains(&name) || name == "direction" {
                return bad_name(
                    " is a column of tables of trials; choose another name".to_owned(),
                );
            }
            if self.space.iter().any(|parameter| parameter.name == name) {
                return bad_name(" is the name of a parameter too; choose another name".to_owned());
            }
            if let Some((other, _)) = seen.iter().find(|(_, other)| *other == name) {
                return bad_name(format!(" is the name of {other} too; choose another name"));
            }
            seen.push((key, name));
        }
        for (index, constraint) in self.constraints.iter().enumerate() {
            let (key, place) = (format!("constraints[{index}]"), index.to_string());
            let name = &constraint.name;
            let (at, bound) = match (constraint.at_most, constraint.at_least) {
                (Some(bound), None) => ("at_most", bound),
                (None, Some(bound)) => ("at_least", bound),
                (Some(_), Some(_)) => {
                    let message = format!("{key} ({name}) has both at_most and at_least; keep one");
                    return bad(&["constraints", &place], message);
                }
                (None, None) => {
                    let message =
                        format!("{key} ({name}) has no bound; add at_most = .. or at_least = ..");
                    return bad(&["constraints", &place], message);
                }
            };
            if !bound.is_finite() {
                let message = format!("{key}.{at} = {bound}, expected a finite number");
                return bad(&["constraints", &place, at], message);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::Point;

    use super::*;

    fn trial(number: u64, numbers: &[f64]) -> Trial {
        Trial {
            number,
            point: Point::new(Vec::new()),
            source: "own".to_owned(),
            state: TrialState::Told(match numbers {
                [] => Told::Failed { kind: "exit".to_owned(), message: String::new() },
                some => Told::with_numbers(some.to_vec()),
            }),
            attempts: 1,
            asked_at_ms: 0,
            started_at_ms: None,
            told_at_ms: None,
            told_seq: Some(number + 1),
            ask_seconds: 0.0,
            reports: Vec::new(),
        }
    }

    fn numbers_of(best: Vec<&Trial>) -> Vec<u64> {
        best.into_iter().map(|trial| trial.number).collect()
    }

    #[test]
    fn the_best_trial_meets_the_constraints_and_without_one_the_nearest_is_known() {
        let definition =
            Definition::new("c").minimize().at_most("ms", 50.0).at_least("accuracy", 0.9);
        assert_eq!(definition.number_names(), ["value", "ms", "accuracy"]);
        let mut trials = vec![
            trial(0, &[1.0, 51.0, 0.95]),
            trial(1, &[]),
            trial(2, &[2.0, 50.0, 0.85]),
            trial(3, &[2.0, 60.0, 0.5]),
        ];
        assert_eq!(numbers_of(definition.best_trials(&trials)), [0_u64; 0]);
        let (nearest, by) = definition.least_violation(&trials).unwrap();
        assert_eq!((nearest.number, by), (2, 0.9 - 0.85));
        assert_eq!(definition.slacks_of(&trials[0]), [-1.0, 0.95 - 0.9]);
        trials.extend([trial(4, &[9.0, 50.0, 0.9]), trial(5, &[9.0, 1.0, 1.0])]);
        assert_eq!(numbers_of(definition.best_trials(&trials)), [4]);
        assert_eq!(definition.violation(&trials[1]), None);
    }

    #[test]
    fn of_several_objectives_the_feasible_trials_that_none_dominates_are_best() {
        let definition = Definition::new("f")
            .objective("error", Direction::Minimize)
            .objective("speed", Direction::Maximize)
            .at_most("ms", 5.0);
        assert_eq!(definition.direction, Direction::Minimize);
        assert_eq!(definition.column_names(), ["error", "speed", "ms"]);
        let trials = [
            trial(0, &[0.5, 10.0, 1.0]),
            trial(1, &[0.1, 20.0, 6.0]),
            trial(2, &[0.6, 9.0, 1.0]),
            trial(3, &[0.4, 8.0, 5.0]),
            trial(4, &[0.5, 10.0, 1.0]),
        ];
        assert_eq!(definition.objectives_of(&trials[0]), [-0.5, 10.0]);
        assert_eq!(numbers_of(definition.best_trials(&trials)), [0, 3]);
    }

    #[test]
    fn a_trial_that_lacks_a_number_is_not_best() {
        let nan = f64::NAN;
        let one = Definition::new("c").minimize().at_most("ms", 50.0).at_least("accuracy", 0.9);
        let mut trials = vec![
            trial(0, &[nan, 40.0, 0.95]),
            trial(1, &[1.0, nan, 0.95]),
            trial(2, &[1.0, 99.0, nan]),
        ];
        assert_eq!(numbers_of(one.best_trials(&trials)), [0_u64; 0]);
        assert_eq!(one.least_violation(&trials), None);
        assert!(one.is_feasible(&trials[0]) && !one.has_objectives(&trials[0]));
        assert!(!one.is_feasible(&trials[1]) && !one.is_infeasible(&trials[1]));
        assert_eq!(one.violation(&trials[2]), None);
        trials.extend([trial(3, &[9.0, 60.0, 0.9]), trial(4, &[9.5, 50.0, 0.9])]);
        assert_eq!(one.least_violation(&trials[..4]).unwrap().0.number, 3);
        assert_eq!(numbers_of(one.best_trials(&trials)), [4]);

        let two = Definition::new("f")
            .objective("error", Direction::Minimize)
            .objective("speed", Direction::Maximize);
        let trials = [trial(0, &[0.1, nan]), trial(1, &[nan, 99.0]), trial(2, &[0.5, 1.0])];
        assert_eq!(numbers_of(two.best_trials(&trials)), [2]);
        let further = two.further(&trials[1]).unwrap();
        assert_eq!((further, trials[1].value()), (vec![99.0], None));
        assert_eq!(two.check_numbers(trials[0].numbers()), Ok(()));
        assert_eq!(
            two.check_numbers(&[nan, nan]),
            Err(StudyError::NothingMeasured { names: "error, speed".to_owned() })
        );
        let infinite = two.check_numbers(&[nan, f64::INFINITY]);
        assert_eq!(infinite, Err(StudyError::NotFinite { value: f64::INFINITY }));
        let single = Definition::new("s").check_numbers(&[nan]);
        assert!(matches!(single, Err(StudyError::NotFinite { .. })));
    }

    #[test]
    fn a_slack_is_finite() {
        let definition = Definition::new("c").at_most("a", f64::MAX);
        let slack = definition.constraints[0].slack(-f64::MAX);
        assert_eq!(slack.to_bits(), f64::MAX.to_bits());
        assert_eq!(definition.constraints[0].in_words(), format!("a at most {}", f64::MAX));
    }
}
