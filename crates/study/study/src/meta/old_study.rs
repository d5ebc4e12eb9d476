//! An old study, as stored with the new one.

use std::fmt;

use fedbo_space::{Direction, Point, Value};
use serde::{Deserialize, Serialize};

use super::MetaError;

/// The trials of an old study that a new one learns from, as points of the new study's space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OldStudy {
    /// Name of the old study, for reports.
    pub name: String,
    /// Location of the old study as written in the new study's file, without a password; `None` if
    /// a program supplied the trials.
    pub source: Option<String>,
    /// Names of the parameters, in the order of `rows`.
    pub parameters: Vec<String>,
    /// One entry per trial, in completion order: the parameters' values (`None` for parameters that do
    /// not exist at the point), and the trial's value in the user's sign.
    pub rows: Vec<(Vec<Option<Value>>, f64)>,
    /// True if equal points can have different values.
    pub noisy: bool,
    /// Assumptions made to convert the old study to the new space, each in a few words.
    pub assumptions: Vec<String>,
    /// The unused trials of the old study.
    pub left_out: Vec<LeftOut>,
}

/// Unused trials that share a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Number of trials.
    pub n_trials: usize,
    /// The reason, which completes the phrase "3 …".
    pub why: String,
}

impl LeftOut {
    /// Returns the entries with a count above 0.
    pub(crate) fn of_counts<const N: usize>(counts: [(usize, &str); N]) -> Vec<Self> {
        let some = counts.into_iter().filter(|(n_trials, _)| *n_trials > 0);
        some.map(|(n_trials, why)| Self { n_trials, why: why.to_owned() }).collect()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.n_trials, self.why)
    }
}

impl OldStudy {
    /// Creates an old study from trials in memory: points of the new study's space, and their
    /// values in the user's own sign.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Point, Value};
    /// use fedbo_study::{Definition, OldStudy, Study};
    ///
    /// let at = |x: f64| Point::new(vec![("x".to_owned(), Value::Float(x))]);
    /// let last_year = (0..9).map(|i| f64::from(i) / 4.0 - 1.0).map(|x| (at(x), (x - 0.5).powi(2)));
    /// let definition = Definition::new("this-year")
    ///     .parameter("x", ParameterSpec::float(-1.0, 1.0))
    ///     .minimize()
    ///     .learn_from(OldStudy::new("last-year", last_year)?);
    /// let study = Study::in_memory(&definition)?;
    /// study.optimize(3, |point| Ok((point.number("x") - 0.45).powi(2)))?;
    /// let first = &study.trials()?[0];
    /// assert!((first.point.number("x") - 0.5).abs() < 0.2, "the first query asks the old study");
    /// let history = study.transfer_history()?.expect("it learns from an old study");
    /// assert_eq!(history.len(), 4, "before the first trial, and after each");
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if there are no trials. The definition's validation checks that the points are in the
    /// space.
    pub fn new(
        name: impl Into<String>,
        trials: impl IntoIterator<Item = (Point, f64)>,
    ) -> Result<Self, MetaError> {
        let name = name.into();
        let trials: Vec<(Point, f64)> = trials.into_iter().collect();
        let mut parameters: Vec<String> = Vec::new();
        for (name, _) in trials.iter().flat_map(|(point, _)| point.iter()) {
            if !parameters.iter().any(|known| known == name) {
                parameters.push(name.to_owned());
            }
        }
        let row = |(point, value): &(Point, f64)| {
            let values = parameters.iter().map(|name| point.get(name).cloned());
            (values.collect(), *value)
        };
        let rows: Vec<_> = trials.iter().map(row).collect();
        if rows.is_empty() {
            return Err(MetaError::NoTrial { source_text: name, why: "none was given".to_owned() });
        }
        Ok(Self {
            name,
            source: None,
            parameters,
            rows,
            noisy: false,
            assumptions: Vec::new(),
            left_out: Vec::new(),
        })
    }

    /// Creates an old study that has not been read, with only its location.
    pub(crate) fn without_trials(source: &str) -> Self {
        Self {
            name: String::new(),
            source: Some(source.to_owned()),
            parameters: Vec::new(),
            rows: Vec::new(),
            noisy: false,
            assumptions: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Returns the location of the old study, or its name if a program supplied the trials.
    pub fn place(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }

    /// Returns the number of used trials.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if no trial is used, which does not occur in a valid definition.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the used trials: points of the new space, and values in the user's sign.
    pub fn trials(&self) -> impl Iterator<Item = (Point, f64)> + '_ {
        self.rows.iter().map(|(values, value)| {
            let entries = self.parameters.iter().cloned().zip(values.iter().cloned());
            let exist = entries.filter_map(|(name, value)| Some((name, value?)));
            (Point::new(exist.collect()), *value)
        })
    }

    /// Returns the best value of the used trials.
    pub fn best(&self, direction: Direction) -> Option<f64> {
        let values = self.rows.iter().map(|(_, value)| *value);
        values.reduce(|best, value| match direction.is_better(value, best) {
            true => value,
            false => best,
        })
    }

    /// Returns true if both studies have the same content, regardless of their names.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        let named = Self { name: other.name.clone(), ..self.clone() };
        named == *other
    }

    /// Returns the number of unused trials.
    pub fn n_left_out(&self) -> usize {
        self.left_out.iter().map(|each| each.n_trials).sum()
    }
}
