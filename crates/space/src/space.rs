//! A search space and its two maps, [`Space::decode`] and [`Space::encode`].

use crate::{Parameter, ParameterSpec, Point};

/// Why a space or a value is not valid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// The space has no parameter at all.
    #[error("the search space is empty: add at least one [space.NAME] table")]
    Empty,
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
        /// What stands there.
        found: String,
        /// What would be accepted.
        expected: String,
    },
    /// A value lies outside its parameter's range, or is of the wrong type.
    #[error("parameter {name}: the value {found} is not in its range")]
    Value {
        /// The parameter.
        name: String,
        /// The value.
        found: String,
    },
    /// A point does not name exactly the parameters of the space.
    #[error("the point lacks parameter {name}")]
    Missing {
        /// The missing parameter.
        name: String,
    },
}

/// A search space: an ordered list of named parameters, seen by optimizers as the unit cube `[0,1]^d`.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
}

impl Space {
    /// A space from its parameters.
    ///
    /// # Errors
    /// If there is none, or a name occurs twice.
    pub fn new(parameters: Vec<Parameter>) -> Result<Self, SpaceError> {
        if parameters.is_empty() {
            return Err(SpaceError::Empty);
        }
        for (index, parameter) in parameters.iter().enumerate() {
            if parameters[..index]
                .iter()
                .any(|other| other.name() == parameter.name())
            {
                return Err(SpaceError::Duplicate {
                    name: parameter.name().to_owned(),
                });
            }
        }
        Ok(Self { parameters })
    }

    /// A space from declarations, in their order.
    ///
    /// # Errors
    /// The first declaration that is not valid.
    pub fn from_specs<'a>(
        specs: impl IntoIterator<Item = (&'a str, &'a ParameterSpec)>,
    ) -> Result<Self, SpaceError> {
        let parameters = specs
            .into_iter()
            .map(|(name, spec)| Parameter::from_spec(name, spec))
            .collect::<Result<_, _>>()?;
        Self::new(parameters)
    }

    /// Its parameters in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Dimension d of the unit cube.
    pub fn dim(&self) -> usize {
        self.parameters.iter().map(Parameter::n_coordinates).sum()
    }

    /// Point at unit-cube coordinates `unit` (length d). Coordinates outside `[0,1]` are clamped.
    ///
    /// # Panics
    /// If `unit` has another length.
    pub fn decode(&self, unit: &[f64]) -> Point {
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
            entries.push((parameter.name().to_owned(), parameter.decode(own)));
            rest = others;
        }
        Point::new(entries)
    }

    /// Unit-cube coordinates of a point (length d).
    ///
    /// # Errors
    /// If a parameter is missing or its value is out of range.
    pub fn encode(&self, point: &Point) -> Result<Vec<f64>, SpaceError> {
        let mut unit = Vec::with_capacity(self.dim());
        for parameter in &self.parameters {
            let value = point
                .get(parameter.name())
                .ok_or_else(|| SpaceError::Missing {
                    name: parameter.name().to_owned(),
                })?;
            parameter.encode(value, &mut unit)?;
        }
        Ok(unit)
    }

    /// The coordinates that stand for what `unit` decodes to: integers at the middle of their cell, choices one-hot.
    ///
    /// Two coordinates that mean the same trial have the same snapped form.
    pub fn snap(&self, unit: &[f64]) -> Vec<f64> {
        let point = self.decode(unit);
        self.encode(&point)
            .unwrap_or_else(|error| unreachable!("a decoded point is in its space: {error}"))
    }
}
