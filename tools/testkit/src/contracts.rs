//! Contracts that every implementation of a trait or concept must satisfy.

use fedbo_gp::{Columns, Kernel};

use crate::dense::{self, Matrix};
use crate::{test_stream, uniform_points};

/// Checks the contract of a kernel.
///
/// - k(x, z) equals the textbook formula and is symmetric.
/// - k(x, x) = a² ≥ |k(x, z)|.
/// - `row` and `gram` agree with `value`; `row` pads with zeros.
/// - Covariance matrices of random points have no eigenvalue below 0 beyond rounding errors.
///
/// # Panics
/// If the kernel violates the contract. The message describes the violation.
pub fn kernel_contract(kernel: &Kernel) {
    let (n, a) = (37, kernel.outputscale());
    let points = uniform_points(n, kernel.dim(), &mut test_stream(0));
    let columns = Columns::new(&points);
    assert_eq!((columns.len(), columns.is_empty()), (n, false));
    let gram = kernel.gram(&points);
    for (i, x) in points.rows().enumerate() {
        let row = kernel.row(x, &columns);
        assert_eq!(row.len(), columns.padded_len());
        assert!(row[n..].iter().all(|v| v.to_bits() == 0), "padding of row {i} is not 0");
        for (j, z) in points.rows().enumerate() {
            let value = kernel.value(x, z);
            let close = |other: f64, what: &str| {
                let error = (value - other).abs();
                assert!(error <= 1e-13 * a, "{what} ({i}, {j}): {value} and {other}");
            };
            close(kernel.value(z, x), "symmetry");
            close(row[j], "row");
            close(gram.row(i.max(j))[i.min(j)], "gram");
            close(dense::kernel_value(kernel, x, z), "formula");
            assert!(value.abs() <= a * (1.0 + 1e-15), "|k| above a² at ({i}, {j})");
        }
        assert!((kernel.value(x, x) / a - 1.0).abs() < 1e-15, "k(x, x) is not a² at {i}");
    }
    let smallest = Matrix::from_fn(n, n, |i, j| gram.row(i.max(j))[i.min(j)]).eigenvalues()[0];
    assert!(smallest >= -1e-13 * a * 37.0, "eigenvalue {smallest}");
}
