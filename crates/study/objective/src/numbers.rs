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
    /// Python's json module writes NaN and Infinity, which are not valid JSON. NaN is treated as
    /// null. Infinities and numbers outside the floating-point range are not finite either.
    pub fn printed(line: &str) -> Option<Self> {
        serde_json::from_str(line).or_else(|_| serde_json::from_str(&without_infinities(line))).ok()
    }
}

/// Replaces NaN with null, and other numbers that are not finite with the text [`INFINITE`].
/// Strings are unchanged.
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
        match token.parse::<f64>() {
            Ok(number) if is_number && number.is_nan() => found.push_str("null"),
            Ok(number) if is_number && number.is_infinite() => {
                found.push_str(&Value::from(INFINITE).to_string());
            }
            _ => found.push_str(token),
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
pub struct NumberNames {
    names: Vec<String>,
    /// True if an object may lack some of the numbers.
    missing_allowed: bool,
}

/// Replaces an infinity in an object that a program printed. It begins with NUL, which JSON texts do
/// not contain by accident.
const INFINITE: &str = "\0infinite";

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
        Self { names: names.into_iter().map(str::to_owned).collect(), missing_allowed: false }
    }

    /// Allows objects that lack some of the numbers, or have null or NaN in their place.
    #[must_use]
    pub fn with_missing_allowed(self, missing_allowed: bool) -> Self {
        Self { missing_allowed, ..self }
    }

    /// Returns the number of names.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns an example of an object with these names: `{"error": .., "size_mb": ..}`.
    pub fn example(&self) -> String {
        let entries: Vec<String> = self.iter().map(|name| format!("{name:?}: ..")).collect();
        format!("{{{}}}", entries.join(", "))
    }

    /// Reads the numbers of an object with exactly these names, in the order of the names.
    ///
    /// `null` represents NaN, which JSON does not support. If missing numbers are allowed, `None`
    /// is returned for null or an absent name, provided that there is another number.
    ///
    /// # Errors
    /// Returns the first unknown or repeated entry, otherwise the first entry that is missing, not
    /// a number, or not finite.
    pub fn read_measured(&self, entries: &NumberEntries) -> Result<Vec<Option<f64>>, NumbersError> {
        let NumberEntries(entries) = entries;
        self.check_names(entries)?;
        let number = |name: &str| match self.number(entries, name) {
            Err(NumbersError::Missing { .. }) if self.missing_allowed => Ok(None),
            Err(NumbersError::NotFinite { .. })
                if self.missing_allowed && is_null(entries, name) =>
            {
                Ok(None)
            }
            number => number.map(Some),
        };
        let numbers = self.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        match (numbers.iter().any(Option::is_some), self.iter().next()) {
            (false, Some(name)) => self.number(entries, name).map(|number| vec![Some(number)]),
            _ => Ok(numbers),
        }
    }

    /// Reads the numbers of an object with exactly these names, in the order of the names. None may
    /// be missing.
    ///
    /// # Errors
    /// Same as [`NumberNames::read_measured`].
    pub fn read(&self, entries: &NumberEntries) -> Result<Vec<f64>, NumbersError> {
        let NumberEntries(entries) = entries;
        self.check_names(entries)?;
        self.iter().map(|name| self.number(entries, name)).collect()
    }

    fn check_names(&self, entries: &[(String, Value)]) -> Result<(), NumbersError> {
        for (place, (key, _)) in entries.iter().enumerate() {
            if !self.iter().any(|name| name == key) {
                return Err(NumbersError::Unknown { name: key.clone() });
            }
            if entries[..place].iter().any(|(other, _)| other == key) {
                return Err(NumbersError::Twice { name: key.clone() });
            }
        }
        Ok(())
    }

    /// Returns the number with this name.
    fn number(&self, entries: &[(String, Value)], name: &str) -> Result<f64, NumbersError> {
        let found = entries.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let name = name.to_owned();
        match found {
            None => Err(NumbersError::Missing { name }),
            Some(Value::Null) => Err(NumbersError::NotFinite { name }),
            Some(Value::String(text)) if text == INFINITE => Err(NumbersError::NotFinite { name }),
            Some(Value::Number(number)) => match number.as_f64().filter(|n| n.is_finite()) {
                Some(number) => Ok(number),
                None => Err(NumbersError::NotFinite { name }),
            },
            Some(other) => Err(NumbersError::NoNumber { name, found: other.to_string() }),
        }
    }

    /// Reads the numbers of named entries, in the order of the names. A number can be NaN if it was
    /// not measured and there is another one.
    ///
    /// # Errors
    /// Same as [`NumberNames::read_measured`]. An absent name is an error.
    pub fn of_entries(&self, entries: &[(String, f64)]) -> Result<Vec<f64>, NumbersError> {
        let infinite = entries.iter().find(|(_, number)| number.is_infinite());
        if let Some((name, _)) = infinite {
            return Err(NumbersError::NotFinite { name: name.clone() });
        }
        let as_values = entries.iter().map(|(name, number)| (name.clone(), Value::from(*number)));
        let as_values = NumberEntries(as_values.collect());
        if let Some(name) = self.iter().find(|name| !entries.iter().any(|(key, _)| key == name)) {
            self.check_names(&as_values.0)?;
            return Err(NumbersError::Missing { name: name.to_owned() });
        }
        let numbers = self.clone().with_missing_allowed(true).read_measured(&as_values)?;
        Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
    }
}

fn is_null(entries: &[(String, Value)], name: &str) -> bool {
    entries.iter().any(|(key, value)| key == name && value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_missing_where_this_is_allowed() {
        let names = NumberNames::new(["value", "ms", "mb"]).with_missing_allowed(true);
        let read = |line: &str| names.read_measured(&NumberEntries::printed(line).unwrap());
        assert_eq!(read(r#"{"value": 1, "ms": NaN, "mb": null}"#), Ok(vec![Some(1.0), None, None]));
        assert_eq!(read(r#"{"mb": 2}"#), Ok(vec![None, None, Some(2.0)]));
        let (value, ms) = ("value".to_owned(), "ms".to_owned());
        for infinite in ["Infinity", "-Infinity", "1e999"] {
            let line = format!(r#"{{"value": 1, "ms": {infinite}}}"#);
            assert_eq!(read(&line), Err(NumbersError::NotFinite { name: ms.clone() }));
        }
        assert_eq!(read("{}"), Err(NumbersError::Missing { name: value.clone() }));
        let nothing = Err(NumbersError::NotFinite { name: value });
        assert_eq!(read(r#"{"value": NaN, "ms": NaN, "mb": NaN}"#), nothing);
        assert!(matches!(read(r#"{"mb": 2, "kb": 1}"#), Err(NumbersError::Unknown { .. })));

        let entries = |ms: f64| [("value".to_owned(), 1.0), ("ms".to_owned(), ms)];
        let typed = NumberNames::new(["value", "ms"]);
        let found = typed.of_entries(&entries(f64::NAN)).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-12 && found[1].is_nan(), "{found:?}");
        let refused = typed.of_entries(&entries(f64::INFINITY));
        assert_eq!(refused, Err(NumbersError::NotFinite { name: ms.clone() }));
        assert_eq!(typed.of_entries(&entries(0.5)[..1]), Err(NumbersError::Missing { name: ms }));
    }

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
