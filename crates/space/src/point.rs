//! A point of a search space: one value for each parameter, in the space's order.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Value of an `int` parameter.
    Int(i64),
    /// Value of a `float` parameter.
    Float(f64),
    /// Value of a `categorical` parameter: the name of the choice.
    Choice(String),
}

impl Value {
    /// The value as a number; `None` for a choice. Integers beyond 2^53 lose their last digits.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounds of int parameters are checked to lie within ±2^53"
    )]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Choice(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Shortest decimal text that reads back to the same value; a choice as its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Choice(name) => f.write_str(name),
        }
    }
}

/// One value for each parameter of a [`crate::Space`], in its order, with the names beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    entries: Vec<(String, Value)>,
}

impl Point {
    /// A point from its named values, in the space's order.
    pub fn new(entries: Vec<(String, Value)>) -> Self {
        Self { entries }
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// The value of the parameter called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter()
            .find_map(|(known, value)| (known == name).then_some(value))
    }
}

impl Point {
    /// The value of a float or int parameter: for objectives, which know their own space.
    ///
    /// # Panics
    /// If there is no such parameter, or it is categorical.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name).and_then(Value::as_f64) {
            Some(value) => value,
            None => panic!("the point has no number called {name:?}"),
        }
    }

    /// The choice of a categorical parameter.
    ///
    /// # Panics
    /// If there is no such parameter, or it is none of names.
    pub fn choice(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Choice(choice)) => choice,
            _ => panic!("the point has no choice called {name:?}"),
        }
    }
}

impl Serialize for Point {
    /// A JSON object, one key a parameter.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Point {
    /// A JSON object; its keys keep their order. Whether it is a point of some space is for [`crate::Space::encode`] to say.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Point;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with one value a parameter")
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
