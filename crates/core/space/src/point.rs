//! A point of a search space: one value per parameter, in the order of the space.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The value of a parameter: a number, a boolean or a string in JSON and TOML.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A value of an `int` parameter, or an integer choice.
    Int(i64),
    /// A value of a `float` parameter, or a real-valued choice.
    Float(f64),
    /// A boolean choice.
    Bool(bool),
    /// A string choice.
    Choice(String),
}

impl Value {
    /// Returns the value as a number; `None` for a string or a boolean. Integers beyond 2^53 lose
    /// their last digits.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounds of int parameters are checked to lie within ±2^53"
    )]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Bool(_) | Self::Choice(_) => None,
        }
    }

    /// Returns true if both are the same value: equal numbers (of either type), booleans or
    /// strings.
    pub(crate) fn means(&self, other: &Self) -> bool {
        match (self.as_f64(), other.as_f64()) {
            #[expect(
                clippy::float_cmp,
                reason = "a choice is named, not computed: only the same number means it"
            )]
            (Some(own), Some(others)) => own == others,
            _ => self == other,
        }
    }

    /// Returns true if a string, in any notation, parses to this number or boolean. Always false
    /// for a string value.
    pub(crate) fn reads(&self, text: &str) -> bool {
        match self {
            Self::Int(_) | Self::Float(_) => {
                let number = text.parse().map(Self::Float);
                number.is_ok_and(|number| self.means(&number))
            }
            Self::Bool(value) => text.eq_ignore_ascii_case(&value.to_string()),
            Self::Choice(_) => false,
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from!(i32 => Int, i64 => Int, f64 => Float, bool => Bool, &str => Choice, String => Choice);

impl fmt::Display for Value {
    /// Writes the shortest decimal that parses back to the same number, `true` or `false`, or the
    /// string unchanged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Choice(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    /// Reads a number with a decimal point or an exponent as a float, and any other number as an
    /// integer.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, true or false")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Int(value))
            }

            #[expect(
                clippy::cast_precision_loss,
                reason = "beyond the integers a number is the nearest float"
            )]
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Float(value))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Choice(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(Value::Choice(value))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

/// One named value for each parameter of a [`crate::Space`], in the order of the space.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    entries: Vec<(String, Value)>,
}

impl Point {
    /// Creates a point from its named values, in the order of the space.
    pub fn new(entries: Vec<(String, Value)>) -> Self {
        Self { entries }
    }

    /// Iterates over names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of the parameter called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }
}

impl Point {
    /// Returns the value of a float or int parameter, or of a numeric choice. Intended for
    /// objectives, which know their search space.
    ///
    /// # Panics
    /// If the parameter does not exist, or its value is not a number.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name).and_then(Value::as_f64) {
            Some(value) => value,
            None => panic!("the point has no number called {name:?}"),
        }
    }

    /// Returns the choice of a categorical parameter with string choices.
    ///
    /// # Panics
    /// If the parameter does not exist, or its value is not a string.
    pub fn choice(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Choice(choice)) => choice,
            _ => panic!("the point has no choice called {name:?}"),
        }
    }

    /// Returns the choice of a categorical parameter with boolean choices.
    ///
    /// # Panics
    /// If the parameter does not exist, or its value is not a boolean.
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Bool(flag)) => *flag,
            _ => panic!("the point has no boolean called {name:?}"),
        }
    }
}

impl Serialize for Point {
    /// Writes a JSON object with one key per parameter.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Point {
    /// Reads a JSON object and keeps the order of its keys. Use [`crate::Space::encode`] to check
    /// that the result is a point of a space.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Point;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with one value per parameter")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Point, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0).min(1024));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Point::new(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
