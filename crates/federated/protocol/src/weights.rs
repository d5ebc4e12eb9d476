//! The numbers of a message, shared between clones.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use zeroize::Zeroizing;

/// Numbers that all clones share (copy-on-write). When all agents run in one process, each can hold
/// every other agent's message without a copy. The memory is overwritten when the last clone is
/// dropped (INV-16).
#[derive(Clone, Default, PartialEq)]
pub struct Weights(Arc<Zeroizing<Vec<f64>>>);

impl Weights {
    /// Returns the numbers as an owned vector, which the caller is responsible for clearing.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<f64> {
        std::mem::take(&mut *self)
    }
}

impl fmt::Debug for Weights {
    /// Prints only the number of weights, so that weights stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} weights", self.len())
    }
}

impl Deref for Weights {
    type Target = Vec<f64>;

    fn deref(&self) -> &Vec<f64> {
        &self.0
    }
}

impl DerefMut for Weights {
    fn deref_mut(&mut self) -> &mut Vec<f64> {
        &mut *Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<f64>> for Weights {
    fn from(numbers: Vec<f64>) -> Self {
        Self(Arc::new(Zeroizing::new(numbers)))
    }
}

impl From<&[f64]> for Weights {
    fn from(numbers: &[f64]) -> Self {
        numbers.to_vec().into()
    }
}

impl From<&Vec<f64>> for Weights {
    fn from(numbers: &Vec<f64>) -> Self {
        numbers.clone().into()
    }
}

impl<const N: usize> From<&[f64; N]> for Weights {
    fn from(numbers: &[f64; N]) -> Self {
        numbers.to_vec().into()
    }
}

impl From<&Self> for Weights {
    fn from(shared: &Self) -> Self {
        shared.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_numbers_until_one_is_changed() {
        let first = Weights::from(vec![1.0, 2.0]);
        let mut second = Weights::from(&first);
        assert!(std::ptr::eq(first.as_ptr(), second.as_ptr()));
        second[0] = 3.0;
        assert_eq!(
            (first[0].to_bits(), second[0].to_bits()),
            (1.0_f64.to_bits(), 3.0_f64.to_bits())
        );
        assert_eq!(first.clone().into_vec(), [1.0, 2.0]);
        assert_eq!(format!("{first:?}"), "2 weights");
    }
}
