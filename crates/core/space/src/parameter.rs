//! One parameter of a search space: its declaration and its name.

use serde::{Deserialize, Serialize};

use crate::checked::refused;
use crate::condition::{OneOf, WhenSpec};
use crate::kind::whole;
use crate::stepped::Refused;
use crate::{Kind, SpaceError, Value};

/// A parameter declaration as written in a file: plain data that has not been checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// `float`, `int` or `categorical`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Lower bound, inclusive (float and int).
    pub low: Option<f64>,
    /// Upper bound, inclusive (float and int).
    pub high: Option<f64>,
    /// True if the scale is logarithmic (float and int). False by default.
    pub log: Option<bool>,
    /// Distance between neighbouring values, which are then low + k·step up to high (float and int,
    /// on a linear scale).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// The numbers of a set, in any order (float and int, instead of low, high and step).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<f64>>,
    /// The choices: strings, numbers and booleans (categorical).
    pub choices: Option<Vec<Value>>,
    /// True if the choices are in an order, so that neighbours are similar (categorical). False by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<bool>,
    /// The condition under which the parameter exists: a value or a list of values for each parent.
    /// All entries must hold. Without conditions the parameter always exists.
    #[serde(default, skip_serializing_if = "WhenSpec::is_empty")]
    pub when: WhenSpec,
}

impl ParameterSpec {
    /// Declares a real number in [low, high].
    pub fn float(low: f64, high: f64) -> Self {
        Self::range("float", low, high, None)
    }

    /// Declares a real number in [low, high] on a logarithmic scale.
    pub fn log_float(low: f64, high: f64) -> Self {
        Self::range("float", low, high, Some(true))
    }

    /// Declares an integer in low..=high (within ±2^53).
    pub fn int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), None)
    }

    /// Declares an integer in low..=high (low ≥ 1) on a logarithmic scale.
    pub fn log_int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), Some(true))
    }

    /// Declares a choice among strings, numbers or booleans.
    pub fn categorical<V: Into<Value>>(choices: impl IntoIterator<Item = V>) -> Self {
        Self {
            kind: "categorical".to_owned(),
            low: None,
            high: None,
            log: None,
            step: None,
            values: None,
            choices: Some(choices.into_iter().map(Into::into).collect()),
            ordered: None,
            when: WhenSpec::new(),
        }
    }

    /// Declares a choice among strings, numbers or booleans in an order. The model assumes that
    /// neighbouring choices are similar.
    pub fn ordered<V: Into<Value>>(choices: impl IntoIterator<Item = V>) -> Self {
        Self { ordered: Some(true), ..Self::categorical(choices) }
    }

    /// Declares one of several real numbers, given in any order.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Space};
    ///
    /// let rate = ParameterSpec::float_values([1e-4, 3e-4, 1e-2]).with_log();
    /// let batch = ParameterSpec::int_values([16, 32, 128]).with_log();
    /// let space = Space::from_specs([("rate", &rate), ("batch", &batch)])?;
    /// assert_eq!(space.n_points(), Some(3 * 3));
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    pub fn float_values(values: impl IntoIterator<Item = f64>) -> Self {
        Self::of_values("float", values.into_iter().collect())
    }

    /// Declares one of several integers (within ±2^53), given in any order.
    pub fn int_values(values: impl IntoIterator<Item = i64>) -> Self {
        Self::of_values("int", values.into_iter().map(whole).collect())
    }

    /// Changes the scale to a logarithmic one. All numbers must be above 0.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = Some(true);
        self
    }

    /// Restricts the range to values that are `step` apart, from low to high, both included.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Space};
    ///
    /// let dropout = ParameterSpec::float(0.0, 0.5).with_step(0.05);
    /// let width = ParameterSpec::int(16, 128).with_step(16.0);
    /// let space = Space::from_specs([("dropout", &dropout), ("width", &width)])?;
    /// assert_eq!(space.n_points(), Some(11 * 8));
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    #[must_use]
    pub fn with_step(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }

    /// Adds a condition: the parameter exists only if `parent` has this value, or one of a list of
    /// values ([`OneOf::Any`]). With several conditions, all must hold. A parent that does not exist
    /// itself meets no condition.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Space};
    ///
    /// let booster = ParameterSpec::categorical(["gbtree", "dart"]);
    /// let rate_drop = ParameterSpec::float(0.0, 0.5).when("booster", "dart");
    /// let space = Space::from_specs([("booster", &booster), ("rate_drop", &rate_drop)])?;
    /// assert!(space.decode(&[0.0, 0.4]).get("rate_drop").is_none());
    /// assert!(space.decode(&[1.0, 0.4]).get("rate_drop").is_some());
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    #[must_use]
    pub fn when(mut self, parent: impl Into<String>, values: impl Into<OneOf>) -> Self {
        self.when.insert(parent.into(), values.into());
        self
    }

    pub(crate) fn range(kind: &str, low: f64, high: f64, log: Option<bool>) -> Self {
        Self {
            kind: kind.to_owned(),
            low: Some(low),
            high: Some(high),
            log,
            step: None,
            values: None,
            choices: None,
            ordered: None,
            when: WhenSpec::new(),
        }
    }

    pub(crate) fn of_values(kind: &str, values: Vec<f64>) -> Self {
        Self { low: None, high: None, values: Some(values), ..Self::range(kind, 0.0, 0.0, None) }
    }
}

/// A named parameter with a checked range.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    name: String,
    kind: Kind,
    when: WhenSpec,
}

impl Parameter {
    /// Returns the declaration of this parameter. A linear scale is omitted.
    pub fn to_spec(&self) -> ParameterSpec {
        ParameterSpec { when: self.when.clone(), ..self.kind.to_spec() }
    }

    /// Creates a parameter from a declaration, which is checked first.
    ///
    /// # Errors
    /// [`SpaceError`], which names the parameter, the key, the value and the expected values.
    pub fn from_spec(name: &str, spec: &ParameterSpec) -> Result<Self, SpaceError> {
        let kind = match checked_name(name) {
            Ok(()) => Kind::from_spec(spec),
            Err(refused) => Err(refused),
        };
        match kind {
            Ok(kind) => Ok(Self { name: name.to_owned(), kind, when: spec.when.clone() }),
            Err((key, found, expected)) => Err(SpaceError::Parameter {
                name: name.to_owned(),
                key: key.to_owned(),
                found,
                expected,
            }),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The range.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The condition under which the parameter exists, as declared. [`crate::Space::new`] checks it.
    pub fn when(&self) -> &WhenSpec {
        &self.when
    }

    /// Describes the condition: `booster = dart and depth is one of 2, 3`. `None` for a parameter that
    /// always exists.
    pub fn condition(&self) -> Option<String> {
        (!self.when.is_empty()).then(|| crate::condition::in_words(&self.when))
    }

    /// Returns the number of unit-cube coordinates: 0 for a single value, otherwise 1, or the number
    /// of choices if there are more than two without an order.
    pub fn n_coordinates(&self) -> usize {
        self.kind.n_coordinates()
    }

    /// Parses a value of this parameter.
    ///
    /// # Errors
    /// If the string is not a value of this parameter.
    pub fn parse(&self, text: &str) -> Result<Value, SpaceError> {
        let text = text.trim();
        let float = || text.parse().map(Value::Float).ok();
        let value = match self.kind.numbers() {
            Some(numbers) if numbers.is_whole => text.parse().map(Value::Int).ok().or_else(float),
            Some(_) => float(),
            None => self.kind.choice(text),
        };
        let value = value.ok_or_else(|| self.outside(text))?;
        self.normalize(&value)
    }

    /// Converts a value to the type of this parameter: integers for an integer range, floats for a
    /// float range, choices as declared. On a grid, a value that differs from a grid value only by
    /// rounding errors becomes that grid value.
    pub(crate) fn normalize(&self, value: &Value) -> Result<Value, SpaceError> {
        let meant = match (self.kind.n_values(), value) {
            (Some(_), _) => self.kind.index_of(value).and_then(|index| self.kind.value(index)),
            (None, Value::Int(number)) => Some(Value::Float(whole(*number))),
            (None, _) => Some(value.clone()),
        };
        let meant = meant.ok_or_else(|| self.not_one_of_these(value))?;
        self.encode(&meant, &mut Vec::new())?;
        Ok(meant)
    }

    /// Returns the error for a value that is out of range or has the wrong type. If choices have
    /// the same text but a different type, the error names the types.
    fn not_one_of_these(&self, value: &Value) -> SpaceError {
        let found = value.to_string();
        let choices = self.kind.choices();
        if choices.iter().all(|choice| choice.to_string() != found) {
            return self.outside(&found);
        }
        let typed = |value: &Value| match value {
            Value::Choice(text) => format!("the text {text:?}"),
            Value::Bool(_) => format!("the boolean {value}"),
            Value::Int(_) | Value::Float(_) => format!("the number {value}"),
        };
        let choices: Vec<String> = choices.iter().map(typed).collect();
        SpaceError::Value {
            name: self.name.clone(),
            found: typed(value),
            range: format!("one of {}", choices.join(", ")),
        }
    }

    fn outside(&self, found: &str) -> SpaceError {
        SpaceError::Value {
            name: self.name.clone(),
            found: found.to_owned(),
            range: self.kind.to_string(),
        }
    }

    /// Appends the coordinates of a value to `unit`.
    pub(crate) fn encode(&self, value: &Value, unit: &mut Vec<f64>) -> Result<(), SpaceError> {
        self.kind.encode(value, unit).ok_or_else(|| self.not_one_of_these(value))
    }
}

fn checked_name(name: &str) -> Result<(), Refused> {
    let is_bad = |c: char| {
        c.is_control() || (c.is_whitespace() && c != ' ') || matches!(c, '{' | '}' | ',' | '"')
    };
    if name.is_empty() || name.trim() != name || name.chars().any(is_bad) {
        let expected =
            "a name without braces, commas, double quotes, line breaks, or blanks at its ends";
        return refused("name", format!("{name:?}"), expected);
    }
    Ok(())
}
