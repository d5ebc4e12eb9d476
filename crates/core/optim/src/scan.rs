//! Maximisation over a finite domain by evaluating every point.

use crate::{Function, OptimError, Points};
use std::cmp::Ordering;

/// A finite domain, evaluated and ranked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Values of all points, in domain order (n).
    pub values: Vec<f64>,
    /// Indices of the points with a finite value, best first, with ties in index order. Never
    /// empty.
    pub order: Vec<usize>,
}

impl Scan {
    /// Returns the index of the best point.
    pub fn best(&self) -> usize {
        self.order[0]
    }
}

/// Evaluates a finite domain (n×d) in one batch and ranks it.
///
/// # Errors
/// [`OptimError::EmptyDomain`] if there are no points, [`OptimError::NoFiniteValue`] if no value is
/// finite.
///
/// # Panics
/// If the dimension of the domain differs from the dimension of the function, or `values` does not
/// return one value per point.
pub fn scan<F: Function + ?Sized>(function: &F, domain: &Points) -> Result<Scan, OptimError> {
    let dim = function.dim();
    assert_eq!(
        domain.dim(),
        dim,
        "points of dimension {} for a function of dimension {dim}",
        domain.dim()
    );
    let values = function.values(domain);
    assert_eq!(values.len(), domain.len(), "{} values for {} points", values.len(), domain.len());
    let order = rank(&values)?;
    Ok(Scan { values, order })
}

/// Returns the index of the largest finite value, or the first such index if several tie. Gives the
/// same result as the first index of [`rank`], without sorting.
///
/// # Errors
/// Same as [`rank`].
pub fn best(values: &[f64]) -> Result<usize, OptimError> {
    if values.is_empty() {
        return Err(OptimError::EmptyDomain);
    }
    let finite = (0..values.len()).filter(|index| values[*index].is_finite());
    finite
        .reduce(|best, index| if values[index] > values[best] { index } else { best })
        .ok_or(OptimError::NoFiniteValue { n_evaluated: values.len() })
}

/// Returns the indices of the finite values, largest first. Ties are in index order.
///
/// # Errors
/// [`OptimError::EmptyDomain`] if there are no values, [`OptimError::NoFiniteValue`] if none is
/// finite.
pub fn rank(values: &[f64]) -> Result<Vec<usize>, OptimError> {
    if values.is_empty() {
        return Err(OptimError::EmptyDomain);
    }
    let mut order: Vec<usize> = (0..values.len()).filter(|&i| values[i].is_finite()).collect();
    if order.is_empty() {
        return Err(OptimError::NoFiniteValue { n_evaluated: values.len() });
    }
    order.sort_unstable_by(|&a, &b| {
        values[b].partial_cmp(&values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
    });
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cosines, HalfNan};
    use proptest::prelude::*;

    #[test]
    fn ranking_skips_what_is_not_finite_and_gives_ties_to_the_first() {
        let values =
            [1.0, f64::NAN, 3.0, f64::INFINITY, 1.0, -2.0, 3.0, f64::NEG_INFINITY, 0.0, -0.0];
        assert_eq!(rank(&values), Ok(vec![2, 6, 0, 4, 8, 9, 5]));
        assert_eq!(best(&values), Ok(2));
        assert_eq!(best(&[f64::NAN, -1.0, 0.0, -0.0]), Ok(2));
        assert!(best(&[f64::NAN]).is_err() && best(&[]).is_err());
    }

    #[test]
    fn a_domain_without_points_or_without_finite_values_is_an_error() {
        let function = HalfNan { inner: Cosines::draw(2, 0.2, 1), cut: -1.0 };
        assert_eq!(scan(&function, &Points::new(2)), Err(OptimError::EmptyDomain));
        let domain = Points::from_rows(2, [[0.1, 0.2], [0.3, 0.4]]);
        assert_eq!(scan(&function, &domain), Err(OptimError::NoFiniteValue { n_evaluated: 2 }));
    }

    proptest! {
        #[test]
        fn the_best_point_of_a_scan_has_the_largest_finite_value(seed in any::<u32>(), n in 1_usize..50) {
            let function = HalfNan { inner: Cosines::draw(3, 0.2, seed), cut: 0.6 };
            let domain = crate::sobol(3, n, seed);
            let largest = function.values(&domain).into_iter().filter(|v| v.is_finite()).reduce(f64::max);
            match (scan(&function, &domain), largest) {
                (Ok(scan), Some(largest)) => prop_assert!(scan.values[scan.best()] >= largest),
                (Err(error), None) => prop_assert_eq!(error, OptimError::NoFiniteValue { n_evaluated: n }),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
