//! Options of early-stopping rules, and their conversion to rules.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::{BosSettings, StoppingRule};
use crate::StrategyError;

/// Maximum number of epochs of a training run.
pub const EPOCHS_MAX: u32 = 1_000_000;

/// Options of an early-stopping rule.
pub trait StoppingOptions {
    /// Creates the rule for training runs of `epochs` epochs.
    ///
    /// # Errors
    /// If an option is out of range.
    fn make(&self, epochs: u32) -> Result<StoppingMethod, OptionError>;

    /// Returns the minimum number of epochs per training run for this rule.
    fn epochs_min(&self) -> u32 {
        2
    }

    /// Returns true if the rule needs a model over points and epochs. The strategy must then
    /// provide one: see [`crate::StrategyOptions::epoch_bound`].
    fn needs_epoch_model(&self) -> bool {
        false
    }
}

/// The method that decides which trials are stopped.
#[derive(Debug)]
pub enum StoppingMethod {
    /// A rule that uses only learning curves.
    Curves(Box<dyn StoppingRule>),
    /// A rule that is solved for each trial after its first epochs: [`super::BoBos`].
    Solved(BosSettings),
}

/// An option outside its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The key.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// A description of the accepted values.
    pub expected: String,
}

impl From<StrategyError> for OptionError {
    /// # Panics
    /// If the error is not about a setting.
    fn from(error: StrategyError) -> Self {
        match error {
            StrategyError::Setting { name, value, expected } => {
                Self { key: name, value, expected: expected.to_owned() }
            }
            other => unreachable!("only settings are checked here: {other}"),
        }
    }
}

/// Checks that an epoch is before the last one.
pub(super) fn below(key: &'static str, value: u32, epochs: u32) -> Result<(), OptionError> {
    if value < epochs {
        return Ok(());
    }
    Err(OptionError {
        key,
        value: value.to_string(),
        expected: format!("a whole number below epochs = {epochs}"),
    })
}

/// Deserializes an integer from `LEAST` to [`EPOCHS_MAX`].
///
/// # Errors
/// If the value is not such an integer.
pub fn whole<'de, const LEAST: u32, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<u32, D::Error> {
    struct Whole<const LEAST: u32>;

    impl<const LEAST: u32> Visitor<'_> for Whole<LEAST> {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {LEAST} to {EPOCHS_MAX}")
        }

        fn visit_i64<E: Error>(self, found: i64) -> Result<u32, E> {
            match u32::try_from(found) {
                Ok(number) if (LEAST..=EPOCHS_MAX).contains(&number) => Ok(number),
                _ => Err(E::invalid_value(Unexpected::Signed(found), &self)),
            }
        }

        fn visit_u64<E: Error>(self, found: u64) -> Result<u32, E> {
            self.visit_i64(i64::try_from(found).unwrap_or(i64::MAX))
        }
    }

    deserializer.deserialize_any(Whole::<LEAST>)
}

/// Deserializes a finite number above 0.
///
/// # Errors
/// If the value is not a finite number above 0, or is too small for full precision.
pub(super) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    match number.is_normal() && number > 0.0 {
        true => Ok(number),
        false => Err(D::Error::custom("expected a finite number above 0")),
    }
}
