//! Entries with alternative notations: a number or a list, or a number or a small table.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A length scale, or the distribution of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthscaleEntry {
    /// The same length scale for every feature.
    Fixed(f64),
    /// A random length scale: ln ℓ ~ N(ln median, spread²).
    Mixture {
        /// The median.
        median: f64,
        /// Standard deviation of ln ℓ.
        spread: f64,
    },
}

/// One number or a list of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberOrList {
    /// One number.
    Number(f64),
    /// A list of numbers.
    List(Vec<f64>),
}

/// A word, one number or a list of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum WordOrNumbers {
    /// A word.
    Word(String),
    /// One number.
    Number(f64),
    /// A list of numbers.
    List(Vec<f64>),
}

/// A value in any of the notations, before the target type restricts them.
///
/// Serde's own errors for untagged enums name neither the intended form nor the mistake in it.
enum UntypedValue {
    Word(String),
    Number(f64),
    List(Vec<f64>),
    Pair(f64, f64),
}

/// Deserializes an [`UntypedValue`].
///
/// `expecting` completes the message "expected ..". `keys` are the keys of a table with two
/// numbers.
struct UntypedValueVisitor {
    expecting: &'static str,
    keys: Option<[&'static str; 2]>,
}

impl<'de> Visitor<'de> for UntypedValueVisitor {
    type Value = UntypedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<UntypedValue, E> {
        Ok(UntypedValue::Word(word.to_owned()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<UntypedValue, E> {
        Ok(UntypedValue::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "a number for which a whole one was written")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<UntypedValue, E> {
        Ok(UntypedValue::Number(number as f64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UntypedValue, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(UntypedValue::List(numbers))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<UntypedValue, A::Error> {
        let mut numbers = [None; 2];
        let keys = self.keys.unwrap_or_default();
        while let Some(Key(key)) = map.next_key()? {
            let Some(index) = keys.iter().position(|known| *known == key) else {
                return Err(A::Error::custom(format!("expected {}", self.expecting)));
            };
            numbers[index] = Some(map.next_value()?);
        }
        match numbers {
            [Some(first), Some(second)] => Ok(UntypedValue::Pair(first, second)),
            _ => Err(A::Error::custom(format!("expected {}", self.expecting))),
        }
    }
}

#[derive(Deserialize)]
struct Key(String);

macro_rules! loose {
    ($name:ty, $expecting:literal, $keys:expr, { $($form:pat => $value:expr),+ $(,)? }) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = UntypedValueVisitor { expecting: $expecting, keys: $keys };
                match deserializer.deserialize_any(visitor)? {
                    $($form => Ok($value),)+
                    _ => Err(D::Error::custom(concat!("expected ", $expecting))),
                }
            }
        }
    };
}

loose!(LengthscaleEntry, "a number, or { median = .., spread = .. }", Some(["median", "spread"]), {
    UntypedValue::Number(number) => Self::Fixed(number),
    UntypedValue::Pair(median, spread) => Self::Mixture { median, spread },
});
loose!(NumberOrList, "a number, or a list of numbers", None, {
    UntypedValue::Number(number) => Self::Number(number),
    UntypedValue::List(list) => Self::List(list),
});
loose!(WordOrNumbers, "a text in \"quotes\", a number, or a list of numbers", None, {
    UntypedValue::Word(word) => Self::Word(word),
    UntypedValue::Number(number) => Self::Number(number),
    UntypedValue::List(list) => Self::List(list),
});
