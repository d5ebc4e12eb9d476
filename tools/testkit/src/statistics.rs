//! Statistical checks that return `Ok`, or `Err` with the figures.

use crate::dense::Matrix;

/// Tests whether samples follow N(0, 1), by Kolmogorov and Smirnov's test.
///
/// # Errors
/// If the p-value is below `level`.
///
/// # Panics
/// If the sample is empty.
pub fn check_standard_normal(samples: &[f64], level: f64) -> Result<(), String> {
    assert!(!samples.is_empty());
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = count(sorted.len());
    let distance = sorted
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let (cdf, below) = (normal_cdf(*x), count(i) / n);
            (cdf - below).max(below + 1.0 / n - cdf)
        })
        .fold(0.0, f64::max);
    // Stephens' finite-sample form of Kolmogorov's distribution.
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    let p = (1..=100_i32)
        .map(|k| {
            let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
            sign * (-2.0 * (f64::from(k) * lambda).powi(2)).exp()
        })
        .sum::<f64>();
    let p = if lambda < 0.2 { 1.0 } else { p.clamp(0.0, 1.0) };
    if p >= level {
        Ok(())
    } else {
        Err(format!(
            "Kolmogorov-Smirnov distance {distance:.5} of {n} samples: p = {p:.3e} below {level:e}"
        ))
    }
}

/// Performs a two-sided chi-square test.
///
/// # Errors
/// If the probability of either tail beyond `statistic` is below `level`/2.
pub fn check_chi_squared(statistic: f64, degrees: f64, level: f64) -> Result<(), String> {
    let below = gamma_p(0.5 * degrees, 0.5 * statistic);
    if below.min(1.0 - below) >= 0.5 * level {
        Ok(())
    } else {
        Err(format!(
            "chi-square {statistic:.3} with {degrees} degrees: P(below) = {below:.3e}, level {level:e}"
        ))
    }
}

/// Compares the mean and covariance of Gaussian samples with the expected values, entry by entry.
///
/// Tolerances: `n_errors` √(C_ii/n) for the mean, and `n_errors` √((C_ii C_jj + C_ij²)/n) for the
/// covariance about the true mean.
///
/// # Errors
/// If an entry exceeds its tolerance. At 5 standard errors, a single entry exceeds it by chance
/// with probability 6e-7.
///
/// # Panics
/// If the shapes differ, or there are no samples.
pub fn check_mean_and_covariance(
    samples: &[Vec<f64>],
    mean: &[f64],
    covariance: &Matrix,
    n_errors: f64,
) -> Result<(), String> {
    assert!(!samples.is_empty() && samples.iter().all(|s| s.len() == mean.len()));
    let n = count(samples.len());
    for i in 0..mean.len() {
        let found = samples.iter().map(|s| s[i]).sum::<f64>() / n;
        let error = (covariance.at(i, i) / n).sqrt();
        if !within(found - mean[i], n_errors * error) {
            return Err(format!("mean {i}: {found}, expected {} ± {error}", mean[i]));
        }
        for j in 0..=i {
            let products = samples.iter().map(|s| (s[i] - mean[i]) * (s[j] - mean[j]));
            let found = products.sum::<f64>() / n;
            let expected = covariance.at(i, j);
            let error =
                ((covariance.at(i, i) * covariance.at(j, j) + expected * expected) / n).sqrt();
            if !within(found - expected, n_errors * error) {
                return Err(format!(
                    "covariance ({i}, {j}): {found}, expected {expected} ± {error}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns true if a difference is within the tolerance; false for NaN.
fn within(difference: f64, tolerance: f64) -> bool {
    difference.abs() <= tolerance
}

/// Checks the distribution N(mean, C) of samples: Σ (x−m)ᵀC⁻¹(x−m) is chi-square distributed, and
/// the projections on `direction` are normal.
///
/// Each of the two tests fails for a correct sampler with probability `level`.
///
/// # Errors
/// If one of the tests fails.
pub fn check_gaussian_law(
    samples: &[Vec<f64>],
    mean: &[f64],
    covariance: &Matrix,
    direction: &[f64],
    level: f64,
) -> Result<(), String> {
    let precision = covariance.inverse();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let spread = dot(direction, &covariance.times_vector(direction)).sqrt();
    let mut total = 0.0;
    let mut projections = Vec::with_capacity(samples.len());
    for sample in samples {
        let deviation: Vec<f64> = sample.iter().zip(mean).map(|(x, m)| x - m).collect();
        total += dot(&deviation, &precision.times_vector(&deviation));
        projections.push(dot(direction, &deviation) / spread);
    }
    check_chi_squared(total, count(samples.len() * mean.len()), level)?;
    check_standard_normal(&projections, level)
}

/// Returns P(N(0, 1) ≤ x).
pub fn normal_cdf(x: f64) -> f64 {
    let tail = 0.5 * (1.0 - gamma_p(0.5, 0.5 * x * x));
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Returns the regularized lower incomplete gamma function P(a, x), to about 1e-12 (Press et al.
/// 2007, section 6.2).
fn gamma_p(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / a, 1.0 / a, a);
        while term > 1e-16 * sum {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return (front * sum).min(1.0);
    }
    // Lentz's method for the continued fraction of the upper function.
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let (mut h, mut i) = (d, 0.0);
    loop {
        i += 1.0;
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-15 || i > 1e6 {
            return (1.0 - front * h).max(0.0);
        }
    }
}

/// Computes ln Γ(a) for a > 0, by Stirling's series for a ≥ 10 and by recurrence for smaller a.
fn ln_gamma(a: f64) -> f64 {
    let (mut a, mut shift) = (a, 0.0);
    while a < 10.0 {
        shift += a.ln();
        a += 1.0;
    }
    let series = 1.0 / (12.0 * a) - 1.0 / (360.0 * a.powi(3)) + 1.0 / (1260.0 * a.powi(5))
        - 1.0 / (1680.0 * a.powi(7))
        + 1.0 / (1188.0 * a.powi(9));
    (a - 0.5) * a.ln() - a + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[expect(clippy::cast_precision_loss, reason = "sample sizes are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_stream;

    /// Table values: Φ(1.96), Φ(−3), and the 95 % quantiles of chi-square with 1, 10 and 1000
    /// degrees of freedom.
    #[test]
    fn distribution_functions_agree_with_tables() {
        assert!((normal_cdf(1.96) - 0.975_002_104_851_780).abs() < 1e-12);
        assert!((normal_cdf(-3.0) - 1.349_898_031_630_095e-3).abs() < 1e-14);
        for (quantile, degrees) in
            [(3.841_458_821, 1.0), (18.307_038_05, 10.0), (1_074.679_449, 1000.0)]
        {
            assert!((gamma_p(0.5 * degrees, 0.5 * quantile) - 0.95).abs() < 1e-8, "{degrees}");
        }
    }

    /// The p-values of correct samples are uniform: at level 0.5, about half of 400 samples pass.
    #[test]
    fn the_levels_are_what_they_say() {
        let mut stream = test_stream(1);
        let (mut ks, mut chi) = (0.0, 0.0);
        for _ in 0..400 {
            let z = stream.normals(200);
            ks += f64::from(u8::from(check_standard_normal(&z, 0.5).is_ok()));
            let square: f64 = z.iter().map(|v| v * v).sum();
            chi += f64::from(u8::from(check_chi_squared(square, 200.0, 0.5).is_ok()));
        }
        assert!((140.0..260.0).contains(&ks) && (150.0..250.0).contains(&chi), "{ks} {chi}");
    }

    #[test]
    fn wrong_laws_are_found() {
        let mut stream = test_stream(2);
        let z = stream.normals(2000);
        assert!(check_standard_normal(&z, 1e-6).is_ok());
        let wide: Vec<f64> = z.iter().map(|v| 1.5 * v).collect();
        let moved: Vec<f64> = z.iter().map(|v| v + 0.2).collect();
        assert!(check_standard_normal(&wide, 1e-6).is_err());
        assert!(check_standard_normal(&moved, 1e-6).is_err());
        let pairs: Vec<Vec<f64>> = z.chunks_exact(2).map(|p| vec![p[0], p[0] + p[1]]).collect();
        let right = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 2.0]]);
        let wrong = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 3.0]]);
        let zero = [0.0, 0.0];
        assert!(check_mean_and_covariance(&pairs, &zero, &right, 5.0).is_ok());
        assert!(check_mean_and_covariance(&pairs, &zero, &wrong, 5.0).is_err());
        assert!(check_gaussian_law(&pairs, &zero, &right, &[1.0, -2.0], 1e-6).is_ok());
        assert!(check_gaussian_law(&pairs, &zero, &wrong, &[1.0, -2.0], 1e-6).is_err());
    }
}
