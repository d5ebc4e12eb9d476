//! The values that a trial reports during training.

/// The values of a trial after epochs 1, 2, …, n (larger is better). Never empty, and all values
/// are finite.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurve {
    values: Vec<f64>,
}

impl LearningCurve {
    /// Creates a curve from one value per epoch, starting with the first epoch.
    ///
    /// # Panics
    /// If there is no value, or a value is not finite.
    pub fn new(values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a learning curve without a value");
        assert!(
            values.iter().all(|value| value.is_finite()),
            "a learning curve with a value that is not finite"
        );
        Self { values }
    }

    /// Creates a curve from values at ascending epochs, which need not include every epoch. The
    /// curve is linear between two reports and constant before the first one. Returns `None` if
    /// there are no reports.
    ///
    /// # Panics
    /// If the epochs do not ascend from 1, or a value is not finite.
    pub fn from_reports(reports: &[(u32, f64)]) -> Option<Self> {
        let (&(first, value), rest) = reports.split_first()?;
        assert!(first >= 1, "epochs are counted from 1");
        let mut values = vec![value; first as usize];
        let mut before = (first, value);
        for &(epoch, value) in rest {
            assert!(epoch > before.0, "epochs must ascend");
            let width = f64::from(epoch - before.0);
            for step in 1..=epoch - before.0 {
                let share = f64::from(step) / width;
                values.push(before.1 + share * (value - before.1));
            }
            // Use the reported value exactly, without rounding.
            if let Some(last) = values.last_mut() {
                *last = value;
            }
            before = (epoch, value);
        }
        Some(Self::new(values))
    }

    /// Returns the number of epochs n.
    pub fn n_epochs(&self) -> usize {
        self.values.len()
    }

    /// Returns the values. Epoch n has index n − 1.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the value after an epoch, counted from 1, or `None` beyond the end of the curve.
    pub fn at(&self, epoch: usize) -> Option<f64> {
        self.values.get(epoch.checked_sub(1)?).copied()
    }

    /// Returns the last value.
    pub fn last(&self) -> f64 {
        self.values[self.values.len() - 1]
    }

    /// Returns the curve up to an epoch, counted from 1, or the whole curve if it is shorter.
    ///
    /// # Panics
    /// If `epoch` is 0.
    #[must_use]
    pub fn until(&self, epoch: usize) -> Self {
        Self::new(self.values[..epoch.min(self.values.len())].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_bridged_by_lines() {
        let curve = LearningCurve::from_reports(&[(2, 1.0), (3, 3.0), (6, 0.0)]);
        let curve = curve.expect("some reports");
        assert_eq!(curve.values(), [1.0, 1.0, 3.0, 2.0, 1.0, 0.0]);
        assert_eq!((curve.at(0), curve.at(3), curve.at(7)), (None, Some(3.0), None));
        assert_eq!(curve.until(3).values(), [1.0, 1.0, 3.0]);
        assert_eq!(LearningCurve::from_reports(&[]), None);
    }
}
