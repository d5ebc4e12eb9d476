//! The numbers that a trial has by name, where it has more than a value.

use serde_json::{Map, Value};

/// The names of a trial's numbers in their order: objectives, then what constraints bound. A single one is called `value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberNames(Vec<String>);

/// The reason why an object has not the numbers of a trial.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NumbersError {
    /// One is missing.
    #[error("{name:?} is missing")]
    Missing {
        /// Its name.
        name: String,
    },
    /// One is too many.
    #[error("{name:?} is no number of this study")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// One is there twice.
    #[error("{name:?} is given twice")]
    Twice {
        /// Its name.
        name: String,
    },
    /// One is of another type.
    #[error("{name:?} is {found}, expected a number")]
    NoNumber {
        /// Its name.
        name: String,
        /// The value that stands there.
        found: String,
    },
    /// One is NaN or infinite.
    #[error("{name:?} is not a finite number")]
    NotFinite {
        /// Its name.
        name: String,
    },
}

impl NumberNames {
    /// These names, at least one.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Number of them.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The names in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The object that has them, as an example: `{"error": .., "size_mb": ..}`.
    pub fn example(&self) -> String {
        let entries: Vec<String> = self.iter().map(|name| format!("{name:?}: ..")).collect();
        format!("{{{}}}", entries.join(", "))
    }

    /// The numbers of an object that has exactly these, in their order. `null` stands for a number that is not finite, which JSON does
    /// not have.
    ///
    /// # Errors
    /// The first entry that is missing, unknown, no number, or not finite.
    pub fn read(&self, object: &Map<String, Value>) -> Result<Vec<f64>, NumbersError> {
        if let Some(name) = object.keys().find(|key| !self.iter().any(|name| name == *key)) {
            return Err(NumbersError::Unknown { name: name.clone() });
        }
        let number = |name: &str| {
            let name = name.to_owned();
            match object.get(&name) {
                None => Err(NumbersError::Missing { name }),
                Some(Value::Null) => Err(NumbersError::NotFinite { name }),
                Some(Value::Number(number)) => match number.as_f64().filter(|n| n.is_finite()) {
                    Some(number) => Ok(number),
                    None => Err(NumbersError::NotFinite { name }),
                },
                Some(other) => Err(NumbersError::NoNumber { name, found: other.to_string() }),
            }
        };
        self.iter().map(number).collect()
    }

    /// The numbers of entries by name, in their order.
    ///
    /// # Errors
    /// The first entry that is missing, unknown, there twice, or not finite.
    pub fn of_entries(&self, entries: &[(String, f64)]) -> Result<Vec<f64>, NumbersError> {
        let mut object = Map::new();
        for (name, number) in entries {
            if object.insert(name.clone(), Value::from(*number)).is_some() {
                return Err(NumbersError::Twice { name: name.clone() });
            }
        }
        self.read(&object)
    }
}
