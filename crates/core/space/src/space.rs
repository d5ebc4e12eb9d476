//! A search space and its two maps, [`Space::decode`] and [`Space::encode`].

use std::collections::BTreeSet;
use std::sync::Arc;

use fedbo_error_class::{Class, Classified};

use crate::condition::{self, Condition};
use crate::rules::{MixtureSpec, RuleSpec, Rules};
use crate::{Kind, Parameter, ParameterSpec, Point, Value};

/// A reason for rejecting a space or a value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// The space has no parameters.
    #[error("the search space is empty: add at least one [space.NAME] table")]
    Empty,
    /// Each parameter has a single value.
    #[error(
        "every parameter of the search space has a single value, so that there is nothing to search: give at least one of \
         them more values"
    )]
    Fixed,
    /// Two parameters share a name.
    #[error("parameter {name:?} is declared twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A declaration is not valid.
    #[error("space.{name}: {key} = {found}, expected {expected}")]
    Parameter {
        /// The parameter.
        name: String,
        /// The key within its table.
        key: String,
        /// The value that was found.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// A value is outside the range of its parameter, or has the wrong type.
    #[error("parameter {name} = {found}, expected {range}")]
    Value {
        /// The parameter.
        name: String,
        /// The value.
        found: String,
        /// A description of the parameter's range.
        range: String,
    },
    /// A point lacks a parameter of the space.
    #[error("the point lacks parameter {name}")]
    Missing {
        /// The missing parameter.
        name: String,
    },
    /// A point has a value for a parameter that does not exist at this point.
    #[error("parameter {name} = {found}, but it exists only when {condition}; leave it out")]
    Absent {
        /// The parameter.
        name: String,
        /// The value.
        found: String,
        /// The condition under which the parameter exists.
        condition: String,
    },
    /// A rule or a mixture is not valid, or no point satisfies all of them.
    #[error("{message}")]
    Rules {
        /// The rule, the reason and the way out.
        message: String,
    },
    /// A point breaks a rule.
    #[error("the point breaks the rule {rule} (the sum is {sum})")]
    Broken {
        /// The rule.
        rule: String,
        /// Its sum at the point.
        sum: f64,
    },
    /// A value is given for a parameter, but not for one that decides whether the parameter exists.
    #[error(
        "parameter {name} = {found} can be given only together with {parent}, because {name} exists only when {condition}"
    )]
    Undecided {
        /// The parameter.
        name: String,
        /// The value.
        found: String,
        /// The condition under which the parameter exists.
        condition: String,
        /// The parameter without a given value.
        parent: String,
    },
    /// A point names a parameter that the space does not have.
    #[error("there is no parameter {name}; the space has {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The parameters of the space, separated by commas.
        known: String,
    },
}

impl Classified for SpaceError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// A search space: an ordered list of named parameters, presented to optimizers as the unit cube
/// `[0,1]^d`.
///
/// A parameter with a condition exists at some points only. Coordinates of parameters that do not
/// exist have no effect on the decoded point.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    pub(crate) parameters: Vec<Parameter>,
    /// The conditions of each parameter.
    pub(crate) conditions: Vec<Vec<Condition>>,
    /// Indices of the parameters, parents before children.
    pub(crate) order: Vec<usize>,
    pub(crate) rules: Option<Arc<Rules>>,
    /// The given value of each parameter; see [`Space::with_given`].
    pub(crate) given: Vec<Option<Value>>,
}

impl Space {
    /// Creates a space from its parameters.
    ///
    /// # Errors
    /// If there are no parameters, a name occurs twice, a condition is not valid, or each parameter has
    /// a single value.
    pub fn new(parameters: Vec<Parameter>) -> Result<Self, SpaceError> {
        if parameters.is_empty() {
            return Err(SpaceError::Empty);
        }
        let mut seen = BTreeSet::new();
        for parameter in &parameters {
            if !seen.insert(parameter.name()) {
                return Err(SpaceError::Duplicate { name: parameter.name().to_owned() });
            }
        }
        let (conditions, order) = condition::checked(&parameters)?;
        let given = vec![None; parameters.len()];
        let space = Self { parameters, conditions, order, rules: None, given };
        match space.dim() {
            0 => Err(SpaceError::Fixed),
            _ => Ok(space),
        }
    }

    /// Adds linear rules and mixtures. Every decoded point satisfies them: coordinates of other points
    /// decode to a nearby one that does.
    ///
    /// ```
    /// use fedbo_space::{MixtureSpec, ParameterSpec, Space};
    ///
    /// let share = ParameterSpec::float(0.0, 1.0);
    /// let mixture = MixtureSpec {
    ///     name: None,
    ///     parameters: vec!["water".into(), "oil".into()],
    ///     total: None,
    /// };
    /// let space = Space::from_specs([("water", &share), ("oil", &share)])?;
    /// let space = space.with_rules(&[], &[mixture])?;
    /// let point = space.decode(&[0.9, 0.9]);
    /// assert!((point.number("water") - 0.5).abs() < 1e-12);
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    ///
    /// # Errors
    /// If a rule is not valid, or no point satisfies all rules.
    pub fn with_rules(
        mut self,
        rules: &[RuleSpec],
        mixtures: &[MixtureSpec],
    ) -> Result<Self, SpaceError> {
        self.rules = Rules::checked(&self.parameters, rules, mixtures)?.map(Arc::new);
        Ok(self.counted())
    }

    /// Returns true if the space has rules or mixtures.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Creates a space from declarations, in their order.
    ///
    /// # Errors
    /// If a declaration is not valid. The error describes the first invalid one.
    pub fn from_specs<'a>(
        specs: impl IntoIterator<Item = (&'a str, &'a ParameterSpec)>,
    ) -> Result<Self, SpaceError> {
        let parameters = specs
            .into_iter()
            .map(|(name, spec)| Parameter::from_spec(name, spec))
            .collect::<Result<_, _>>()?;
        Self::new(parameters)
    }

    /// The parameters in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the dimension d of the unit cube.
    pub fn dim(&self) -> usize {
        self.parameters.iter().map(Parameter::n_coordinates).sum()
    }

    /// Returns the point at unit-cube coordinates `unit` (length d). Coordinates outside `[0,1]`
    /// are clamped.
    ///
    /// # Panics
    /// If the length of `unit` is not d.
    pub fn decode(&self, unit: &[f64]) -> Point {
        self.point_of(unit, Kind::decode)
    }

    fn point_of(&self, unit: &[f64], value_at: impl Fn(&Kind, &[f64]) -> Value) -> Point {
        assert_eq!(
            unit.len(),
            self.dim(),
            "{} coordinates for a space of dimension {}",
            unit.len(),
            self.dim()
        );
        let own = self.coordinates(unit);
        let value_of = |index: usize| match &self.given[index] {
            Some(value) => value.clone(),
            None => value_at(self.parameters[index].kind(), own[index]),
        };
        if !self.has_conditions() && self.rules.is_none() {
            let of = |(index, parameter): (usize, &Parameter)| {
                (parameter.name().to_owned(), value_of(index))
            };
            return Point::new(self.parameters.iter().enumerate().map(of).collect());
        }
        let mut values: Vec<Option<Value>> = vec![None; self.parameters.len()];
        let mut indices = vec![None; self.parameters.len()];
        let (always, conditional): (Vec<usize>, Vec<usize>) =
            self.order.iter().partition(|index| self.conditions[**index].is_empty());
        for index in always {
            values[index] = Some(value_of(index));
        }
        // Parameters in rules have no conditions, but others can depend on them.
        if let Some(rules) = &self.rules {
            rules.repair(&self.parameters, &mut values);
        }
        for (index, value) in values.iter().enumerate() {
            let value = value.as_ref();
            indices[index] = value.and_then(|v| self.parameters[index].kind().index_of(v));
        }
        for index in conditional {
            if self.exists(index, &indices) {
                let value = value_of(index);
                indices[index] = self.parameters[index].kind().index_of(&value);
                values[index] = Some(value);
            }
        }
        let names = self.parameters.iter().map(|parameter| parameter.name().to_owned());
        let entries = names.zip(values).filter_map(|(name, value)| Some((name, value?)));
        Point::new(entries.collect())
    }

    /// Returns the coordinates of each parameter.
    fn coordinates<'a>(&self, unit: &'a [f64]) -> Vec<&'a [f64]> {
        let mut rest = unit;
        let own = self.parameters.iter().map(|parameter| {
            let (own, others) = rest.split_at(parameter.n_coordinates());
            rest = others;
            own
        });
        own.collect()
    }

    /// Returns true if all conditions of a parameter hold. `indices` contains the index of the value
    /// of each parent that exists.
    pub(crate) fn exists(&self, index: usize, indices: &[Option<u64>]) -> bool {
        let holds = |condition: &Condition| {
            indices[condition.parent]
                .is_some_and(|value| condition.values.binary_search(&value).is_ok())
        };
        self.conditions[index].iter().all(holds)
    }

    /// Returns true for each parameter that exists at a point, according to the values of its parents
    /// there. Values of parameters that do not exist have no effect.
    pub fn existing(&self, point: &Point) -> Vec<bool> {
        let mut exist = vec![true; self.parameters.len()];
        if !self.has_conditions() {
            return exist;
        }
        let mut indices = vec![None; self.parameters.len()];
        for &index in &self.order {
            exist[index] = self.exists(index, &indices);
            if exist[index] {
                let parameter = &self.parameters[index];
                let value = point.get(parameter.name());
                indices[index] = value.and_then(|value| parameter.kind().index_of(value));
            }
        }
        exist
    }

    /// Returns true if a parameter has a condition, so that points differ in their parameters.
    pub fn has_conditions(&self) -> bool {
        self.conditions.iter().any(|conditions| !conditions.is_empty())
    }

    /// Returns the unit-cube coordinates of a point (length d). A parameter that does not exist at
    /// the point is in the middle of its coordinate, or has no choice.
    ///
    /// # Errors
    /// If a parameter is missing, does not exist at this point, or has a value out of range.
    pub fn encode(&self, point: &Point) -> Result<Vec<f64>, SpaceError> {
        let mut unit = Vec::with_capacity(self.dim());
        for (parameter, exists) in self.parameters.iter().zip(self.existing(point)) {
            match Self::given(point, parameter, exists)? {
                Some(value) => parameter.encode(value, &mut unit)?,
                None => parameter.kind().encode_absent(&mut unit),
            }
        }
        Ok(unit)
    }

    /// Replaces a parameter's coordinates in `unit` (length d) by those of a value.
    ///
    /// # Errors
    /// If the space has no such parameter, or the value is out of its range.
    ///
    /// # Panics
    /// If `unit` is shorter than d.
    pub fn set(&self, unit: &mut [f64], name: &str, value: &Value) -> Result<(), SpaceError> {
        let parameter = self.parameter(name)?;
        let mut own = Vec::with_capacity(parameter.n_coordinates());
        parameter.encode(value, &mut own)?;
        let before = self.parameters.iter().take_while(|each| each.name() != name);
        let from: usize = before.map(Parameter::n_coordinates).sum();
        unit[from..from + own.len()].copy_from_slice(&own);
        Ok(())
    }

    /// Returns a parameter's value at a point; `None` if the parameter does not exist there.
    fn given<'a>(
        point: &'a Point,
        parameter: &Parameter,
        exists: bool,
    ) -> Result<Option<&'a Value>, SpaceError> {
        let name = || parameter.name().to_owned();
        match (point.get(parameter.name()), exists) {
            (Some(value), true) => Ok(Some(value)),
            (None, false) => Ok(None),
            (None, true) => Err(SpaceError::Missing { name: name() }),
            (Some(value), false) => {
                let condition = condition::in_words(parameter.when());
                Err(SpaceError::Absent { name: name(), found: value.to_string(), condition })
            }
        }
    }

    /// Converts a user's point to the space's order and types: `3` becomes `3.0` for a float, and
    /// `3.0` becomes `3` for an integer. The values are otherwise unchanged.
    ///
    /// # Errors
    /// If a parameter is missing, unknown or given twice, does not exist at this point, or has a
    /// value out of range, or the point breaks a rule.
    pub fn normalize(&self, point: &Point) -> Result<Point, SpaceError> {
        let mut seen: Vec<&str> = Vec::new();
        for (name, _) in point.iter() {
            if seen.contains(&name) {
                let name = name.to_owned();
                return Err(SpaceError::Duplicate { name });
            }
            self.parameter(name)?;
            seen.push(name);
        }
        let mut entries = Vec::with_capacity(self.parameters.len());
        for (parameter, exists) in self.parameters.iter().zip(self.existing(point)) {
            if let Some(value) = Self::given(point, parameter, exists)? {
                entries.push((parameter.name().to_owned(), parameter.normalize(value)?));
            }
        }
        let point = Point::new(entries);
        match self.rules.as_ref().and_then(|rules| rules.broken(&self.parameters, &point)) {
            Some((rule, sum)) => Err(SpaceError::Broken { rule, sum }),
            None => Ok(point),
        }
    }

    /// Returns points of the space in canonical coordinates: the given coordinates (each of length
    /// d), with those of parameters in rules replaced by a sample that satisfies the rules.
    pub fn spread(&self, units: &[Vec<f64>], bits: u32) -> Vec<Vec<f64>> {
        let Some(rules) = &self.rules else {
            return units.iter().map(|unit| self.draw(unit)).collect();
        };
        let drawn = rules.sample(&self.parameters, units.len(), bits);
        let with = |(unit, values): (&Vec<f64>, Vec<(usize, Value)>)| {
            let unit = self.draw(unit);
            let mut parts: Vec<Vec<f64>> =
                self.coordinates(&unit).into_iter().map(<[f64]>::to_vec).collect();
            for (index, value) in values {
                let mut own = Vec::new();
                if self.parameters[index].kind().encode(&value, &mut own).is_some() {
                    parts[index] = own;
                }
            }
            self.snap(&parts.concat())
        };
        units.iter().zip(drawn).map(with).collect()
    }

    /// Returns the parameter called `name`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn parameter(&self, name: &str) -> Result<&Parameter, SpaceError> {
        let found = self.parameters.iter().find(|each| each.name() == name);
        found.ok_or_else(|| SpaceError::Unknown {
            name: name.to_owned(),
            known: self.parameters.iter().map(Parameter::name).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns the canonical coordinates of the point at `unit`: integers at the middle of their
    /// cell, choices one-hot.
    ///
    /// Coordinates that decode to the same point have the same snapped form.
    pub fn snap(&self, unit: &[f64]) -> Vec<f64> {
        self.own_coordinates(&self.decode(unit))
    }

    /// Returns the canonical coordinates of the point for uniformly distributed `unit` (length d),
    /// as for an initial design. Like [`Self::snap`], except that each number of a set has an equal
    /// share, also if it is far from the others ([`Kind::draw`]).
    ///
    /// # Panics
    /// If the length of `unit` is not d.
    pub fn draw(&self, unit: &[f64]) -> Vec<f64> {
        self.own_coordinates(&self.point_of(unit, Kind::draw))
    }

    fn own_coordinates(&self, point: &Point) -> Vec<f64> {
        self.encode(point)
            .unwrap_or_else(|error| unreachable!("a decoded point is in its space: {error}"))
    }
}
