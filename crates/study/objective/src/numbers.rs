//! The named numbers of a trial that has more than a single value.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The entries of a JSON object, in order. Names can repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberEntries(pub Vec<(String, Value)>);

impl NumberEntries {
    /// Parses a line that a program printed; `None` if it is not an object.
    ///
    /// Python's json module writes NaN and Infinity, which are not valid JSON. They are treated as
    /// null, as are numbers outside the floating-point range.
    pub fn printed(line: &str) -> Option<Self> {
        serde_json::from_str(line).or_else(|_| serde_json::from_str(&without_infinities(line))).ok()
    }
}

/// Replaces numbers that are not finite with null. Strings are unchanged.
fn without_infinities(line: &str) -> String {
    let mut found = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.') => {
                let is_outside =
                    |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.');
                rest.find(is_outside).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, others) = rest.split_at(length);
        let is_number = matches!(token, "NaN" | "Infinity" | "-Infinity")
            || first.is_ascii_digit()
            || first == '-';
        match is_number && token.parse::<f64>().is_ok_and(|number| !number.is_finite()) {
            true => found.push_str("null"),
            false => found.push_str(token),
        }
        rest = others;
    }
    found
}

impl<'de> Deserialize<'de> for NumberEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = NumberEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NumberEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(NumberEntries(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// The names of a trial's numbers, in order: objectives, then the numbers that constraints bound.
///
/// A single number is named `value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberNames(Vec<String>);

/// Error returned if an object does not contain a trial's numbers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NumbersError {
    /// A number is missing.
    #[error("{name:?} is missing")]
    Missing {
        /// Name of the number.
        name: String,
    },
    /// A number is unknown to the study.
    #[error("{name:?} is not a number of this study")]
    Unknown {
        /// Name of the number.
        name: String,
    },
    /// A number appears twice.
    #[error("{name:?} is given twice")]
    Twice {
        /// Name of the number.
        name: String,
    },
    /// An entry is not a number.
    #[error("{name:?} is {found}, expected a number")]
    NoNumber {
        /// Name of the number.
        name: String,
        /// The value found.
        found: String,
    },
    /// A number is NaN or infinite.
    #[error("{name:?} is not a finite number")]
    NotFinite {
        /// Name of the number.
        name: String,
    },
}

impl NumberNames {
    /// Creates the names. There must be at least one.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Returns the number of names.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns an example of an object with these names: `{"error": .., "size_mb": ..}`.
    pub fn example(&self) -> String {
        let entries: Vec<String> = self.iter().map(|name| format!("{name:?}: ..")).collect();
        format!("{{{}}}", entries.join(", "))
    }

    /// Reads the numbers of an object with exactly these names, in the order of the names.
    ///
    /// `null` represents a number that is not finite, which JSON does not support.
    ///
    /// # Errors
    /// Returns the first unknown or repeated entry, otherwise the first entry that is missing, not
    /// a number, or not finite.
    pub fn read(&self, entries: &NumberEntries) -> Result<Vec<f64>, NumbersError> {
        let NumberEntries(entries) = entries;
        for (place, (key, _)) in entries.iter().enumerate() {
            if !self.iter().any(|name| name == key) {
                return Err(NumbersError::Unknown { name: key.clone() });
            }
            if entries[..place].iter().any(|(other, _)| other == key) {
                return Err(NumbersError::Twice { name: key.clone() });
            }
        }
        let number = |name: &str| {
            let found = entries.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            let name = name.to_owned();
            match found {
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

    /// Reads the numbers of named entries, in the order of the names.
    ///
    /// # Errors
    /// Same as [`NumberNames::read`].
    pub fn of_entries(&self, entries: &[(String, f64)]) -> Result<Vec<f64>, NumbersError> {
        let entries = entries.iter().map(|(name, number)| (name.clone(), Value::from(*number)));
        self.read(&NumberEntries(entries.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_an_object_are_read_by_name_and_none_may_repeat() {
        let names = NumberNames::new(["value", "NaN_rate"]);
        let read = |line: &str| names.read(&NumberEntries::printed(line).unwrap());
        let (value, rate) = ("value".to_owned(), "NaN_rate".to_owned());
        assert_eq!(read(r#"{"NaN_rate": 0.5, "value": -1e-3}"#), Ok(vec![-1e-3, 0.5]));
        for not_finite in ["NaN", "-Infinity", "Infinity", "1e999", "-1e999", "null"] {
            let line = format!(r#"{{"NaN_rate": {not_finite}, "value": 1}}"#);
            assert_eq!(read(&line), Err(NumbersError::NotFinite { name: rate.clone() }), "{line}");
        }
        assert_eq!(
            read(r#"{"value": 1, "value": 2, "NaN_rate": 1}"#),
            Err(NumbersError::Twice { name: value.clone() })
        );
        let text = r#"a "NaN" \\"#.to_owned();
        let line = format!(r#"{{"value": {}, "NaN_rate": NaN}}"#, Value::from(text.clone()));
        let found = Value::from(text).to_string();
        assert_eq!(read(&line), Err(NumbersError::NoNumber { name: value, found }));
        for junk in ["", "1", "[1]", "{", r#"{"value": 1"#, r#"{"value": "1}"#, "{NaN: 1}", "é"] {
            assert_eq!(NumberEntries::printed(junk), None, "{junk}");
        }
    }
}
