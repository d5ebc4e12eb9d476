//! A search space and its two maps, [`Space::decode`] and [`Space::encode`].

use std::collections::BTreeSet;

use fedbo_error_class::{Class, Classified};

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
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
}

impl Space {
    /// Creates a space from its parameters.
    ///
    /// # Errors
    /// If there are no parameters, a name occurs twice, or each parameter has a single value.
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
        let space = Self { parameters };
        match space.dim() {
            0 => Err(SpaceError::Fixed),
            _ => Ok(space),
        }
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

    /// Returns the number of distinct points; `None` if a parameter is a float without a step.
    /// Saturates at `u64::MAX`.
    pub fn n_points(&self) -> Option<u64> {
        self.parameters.iter().try_fold(1_u64, |n, parameter| {
            let n_values = parameter.kind().n_values()?;
            Some(n.saturating_mul(n_values))
        })
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
        let mut rest = unit;
        let mut entries = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let (own, others) = rest.split_at(parameter.n_coordinates());
            entries.push((parameter.name().to_owned(), value_at(parameter.kind(), own)));
            rest = others;
        }
        Point::new(entries)
    }

    /// Returns the unit-cube coordinates of a point (length d).
    ///
    /// # Errors
    /// If a parameter is missing or its value is out of range.
    pub fn encode(&self, point: &Point) -> Result<Vec<f64>, SpaceError> {
        let mut unit = Vec::with_capacity(self.dim());
        for parameter in &self.parameters {
            let value = point
                .get(parameter.name())
                .ok_or_else(|| SpaceError::Missing { name: parameter.name().to_owned() })?;
            parameter.encode(value, &mut unit)?;
        }
        Ok(unit)
    }

    /// Converts a user's point to the space's order and types: `3` becomes `3.0` for a float, and
    /// `3.0` becomes `3` for an integer. The values are otherwise unchanged.
    ///
    /// # Errors
    /// If a parameter is missing, unknown or given twice, or a value is out of range.
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
        let entries = self.parameters.iter().map(|parameter| {
            let name = parameter.name().to_owned();
            match point.get(parameter.name()) {
                Some(value) => Ok((name, parameter.normalize(value)?)),
                None => Err(SpaceError::Missing { name }),
            }
        });
        Ok(Point::new(entries.collect::<Result<_, _>>()?))
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
