//! Transformations of inputs and outputs that make simple functions hard, but keep the position of
//! the minimum.
//!
//! Oscillation, asymmetry and conditioning are those of Hansen, Finck, Ros and Auger (2009),
//! "Real-parameter black-box optimization benchmarking 2009: noiseless functions definitions",
//! INRIA research report RR-6829, section 0.2.

use fedbo_streams::Stream;

/// Returns the relative position of coordinate i among d, from 0 for the first to 1 for the last:
/// i/(d − 1), or 0 for d = 1.
pub(super) fn place(index: usize, dim: usize) -> f64 {
    if dim > 1 { index as f64 / (dim - 1) as f64 } else { 0.0 }
}

/// Returns entry i of the diagonal matrix Λ^α: α^(i/(2(d − 1))). This matrix gives a quadratic form
/// the condition number α.
pub(super) fn conditioning(alpha: f64, index: usize, dim: usize) -> f64 {
    alpha.powf(0.5 * place(index, dim))
}

/// Computes T_osz(x) = sign(x) exp(x̂ + 0.049 (sin c₁x̂ + sin c₂x̂)), x̂ = ln |x|: waves around the
/// identity that differ on both sides of 0. (c₁, c₂) = (10, 7.9) for x > 0, else (5.5, 3.1).
pub(super) fn oscillation(x: f64) -> f64 {
    if x.abs() <= 0.0 {
        return 0.0;
    }
    let log = x.abs().ln();
    let (first, second) = if x > 0.0 { (10.0, 7.9) } else { (5.5, 3.1) };
    x.signum() * (log + 0.049 * ((first * log).sin() + (second * log).sin())).exp()
}

/// Computes T_asy for coordinate i: x^(1 + β i/(d − 1) √x) for x > 0, else x.
pub(super) fn asymmetry(x: f64, beta: f64, index: usize, dim: usize) -> f64 {
    if x > 0.0 { x.powf(1.0 + beta * place(index, dim) * x.sqrt()) } else { x }
}

/// Maps gaps g ≥ 0 with typical value 1 monotonically onto more decades:
///
/// (10^(k u) − 1) / (10^k − 1),   u = 2g/(1 + g),   k = decades
///
/// The map takes 0 to 0, 1 to 1 and the largest gaps to at most 10^k + 1. Near the minimum it is
/// linear, with slope 2k ln 10/(10^k − 1). Values therefore span about k decades more.
pub(super) fn widened(gap: f64, decades: f64) -> f64 {
    let rate = decades * std::f64::consts::LN_10;
    (rate * 2.0 * gap / (1.0 + gap)).exp_m1() / rate.exp_m1()
}

/// A square matrix in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rotation {
    rows: Vec<Vec<f64>>,
}

impl Rotation {
    /// Draws a rotation or reflection from the uniform distribution over orthogonal matrices, by
    /// applying Gram-Schmidt twice to standard normal rows.
    pub(super) fn draw(dim: usize, stream: &mut Stream) -> Self {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(dim);
        while rows.len() < dim {
            let mut row = stream.normals(dim);
            for _ in 0..2 {
                for earlier in &rows {
                    let along = dot(&row, earlier);
                    row.iter_mut().zip(earlier).for_each(|(v, e)| *v -= along * e);
                }
            }
            let length = dot(&row, &row).sqrt();
            // A row in the span of the earlier ones has probability 0, but a row close to the span
            // would lose digits.
            if length > 1e-6 {
                row.iter_mut().for_each(|v| *v /= length);
                rows.push(row);
            }
        }
        Self { rows }
    }

    /// Returns the identity matrix.
    pub(super) fn identity(dim: usize) -> Self {
        let row = |i| (0..dim).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
        Self { rows: (0..dim).map(row).collect() }
    }

    /// Returns the product with a vector.
    pub(super) fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| dot(row, vector)).collect()
    }
}

/// Returns the inner product of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    #[test]
    fn rotations_are_orthogonal_and_have_no_preferred_direction() {
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        for dim in [1, 2, 3, 5, 10] {
            let rotation = Rotation::draw(dim, &mut stream);
            for i in 0..dim {
                for j in 0..dim {
                    let expected = if i == j { 1.0 } else { 0.0 };
                    let found = dot(&rotation.rows[i], &rotation.rows[j]);
                    assert!((found - expected).abs() < 1e-12, "{dim}: {i}, {j}: {found}");
                }
            }
        }
        // An entry of a uniform rotation in d dimensions has mean 0 and variance 1/d. The tolerance
        // is five standard errors of 4,000 draws.
        let entries: Vec<f64> =
            (0..4_000).map(|_| Rotation::draw(3, &mut stream).rows[0][1]).collect();
        let mean = entries.iter().sum::<f64>() / 4_000.0;
        let square = dot(&entries, &entries) / 4_000.0;
        assert!(mean.abs() < 5.0 * (1.0 / 3.0 / 4_000.0_f64).sqrt(), "{mean}");
        assert!((square - 1.0 / 3.0).abs() < 5.0 * (0.1 / 4_000.0_f64).sqrt(), "{square}");
    }

    /// The ratios of consecutive squared entries of Λ^α multiply to α.
    #[test]
    fn conditioning_spans_its_number() {
        for dim in [2, 3, 10] {
            for alpha in [10.0, 1e6] {
                let span =
                    (conditioning(alpha, dim - 1, dim) / conditioning(alpha, 0, dim)).powi(2);
                assert!((span / alpha - 1.0).abs() < 1e-12, "{dim}, {alpha}: {span}");
            }
        }
        assert!((conditioning(1e6, 0, 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn input_transformations_keep_zero_the_sign_and_the_order() {
        let maps: [fn(f64) -> f64; 2] = [oscillation, |x| asymmetry(x, 0.5, 2, 3)];
        for map in maps {
            assert!(map(0.0).abs() <= 0.0);
            let mut before = f64::NEG_INFINITY;
            for step in -500..=500 {
                let x = f64::from(step) / 50.0;
                let image = map(x);
                assert!(image > before, "{x}: {image} after {before}");
                assert!(image * x >= 0.0);
                before = image;
            }
        }
        // At |x| = 1 the logarithm is 0, so both sides are unchanged. Elsewhere they differ.
        assert!((oscillation(1.0) - 1.0).abs() < 1e-12 && (oscillation(-1.0) + 1.0).abs() < 1e-12);
        assert!((oscillation(3.0) + oscillation(-3.0)).abs() > 0.01);
        assert!((asymmetry(3.0, 0.5, 0, 3) - 3.0).abs() < 1e-12, "the first coordinate stays");
        assert!((asymmetry(4.0, 0.5, 2, 3) - 16.0).abs() < 1e-12, "4^(1 + 0.5 · 2)");
    }

    #[test]
    fn widening_keeps_zero_one_and_the_order_and_adds_its_decades() {
        for decades in [3.0, 5.0] {
            assert!(widened(0.0, decades).abs() <= 0.0);
            assert!((widened(1.0, decades) - 1.0).abs() < 1e-12);
            let values: Vec<f64> =
                (0..100).map(|i| widened(f64::from(i) / 20.0, decades)).collect();
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
            let top = widened(1e12, decades) / (10_f64.powf(decades) + 1.0);
            assert!((top - 1.0).abs() < 1e-6, "{top}");
            let slope = widened(1e-9, decades) / 1e-9;
            let expected = 2.0 * decades * 10_f64.ln() / (10_f64.powf(decades) - 1.0);
            assert!((slope / expected - 1.0).abs() < 1e-6, "{slope} {expected}");
        }
    }
}
