//! The fraction of vectors that are clipped, given the distribution of their norm.

/// Returns P(χ²_k > x), the upper tail of the chi-squared distribution with k > 0 degrees of
/// freedom. k need not be an integer. The result is accurate to about 1e-12.
///
/// Computes the regularized incomplete gamma function Q(k/2, x/2) by a series or a continued
/// fraction (Press et al. 2007, section 6.2).
///
/// # Panics
/// If k is not a finite number above 0, or x is not a number.
#[must_use]
pub fn chi_squared_tail(degrees: f64, x: f64) -> f64 {
    assert!(degrees.is_finite() && degrees > 0.0, "{degrees} degrees of freedom");
    assert!(!x.is_nan(), "the tail is beyond a number");
    if x <= 0.0 {
        return 1.0;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let (a, x) = (0.5 * degrees, 0.5 * x);
    let front = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / a, 1.0 / a, a);
        while term > 1e-17 * sum {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return (1.0 - front * sum).max(0.0);
    }
    // Lentz's method.
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let (mut value, mut i) = (d, 0.0);
    loop {
        i += 1.0;
        let numerator = -i * (i - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        value *= d * c;
        if (d * c - 1.0).abs() < 1e-15 || i > 1e6 {
            return (front * value).min(1.0);
        }
    }
}

/// Returns the fraction of vectors that are clipped to norm S/√P if ‖ω‖² is chi-squared with
/// `degrees` degrees of freedom: P(‖ω‖ > S/√P).
///
/// Before any data, a draw ω ~ N(0, I) has M degrees of freedom. Data determine some directions, so
/// a draw given data has about M minus the number of these directions, in which outputs of size 1
/// add little to the norm. The fractions published in the paper correspond to 36 to 37 degrees for
/// M = 50, and to 87 to 88 for M = 100 (DP-FTS-DE, captions of Figs. 4 and 8).
///
/// # Panics
/// If a number is not above 0.
#[must_use]
pub fn clipped_share(degrees: f64, max_norm: f64, n_regions: u32) -> f64 {
    assert!(max_norm > 0.0 && n_regions > 0, "S = {max_norm}, P = {n_regions}");
    chi_squared_tail(degrees, max_norm * max_norm / f64::from(n_regions))
}

/// Returns the default S for vectors that are posterior draws: 1.1 √(P M), so that vectors are
/// clipped to norm 1.1 √M.
///
/// A draw of M numbers with variance 1 has a norm of about √M, regardless of the data. Among draws
/// from the prior, 28 % are clipped with M = 10, 15 % with M = 50, and 7.5 % with M = 100.
#[must_use]
pub fn default_max_norm(n_regions: u32, n_features: u32) -> f64 {
    1.1 * (f64::from(n_regions) * f64::from(n_features)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For 2 m degrees, Q(m, x/2) is the finite sum e^(−x/2) Σ_{j<m} (x/2)^j/j!. For 1 degree, it
    /// is twice the normal tail.
    #[test]
    fn the_tail_is_that_of_chi_squared() {
        for m in [1_u32, 2, 5, 25, 50, 100, 200] {
            for factor in [0.01, 0.3, 0.9, 1.0, 1.21, 2.0, 5.0] {
                let x = factor * 2.0 * f64::from(m);
                let mut term = (-0.5 * x).exp();
                let mut sum = term;
                for j in 1..m {
                    term *= 0.5 * x / f64::from(j);
                    sum += term;
                }
                let found = chi_squared_tail(2.0 * f64::from(m), x);
                assert!((found - sum).abs() < 1e-12, "{m} {x}: {found} {sum}");
            }
        }
        let normal = |u: f64| libm::erfc(u * std::f64::consts::FRAC_1_SQRT_2);
        for u in [0.1, 1.0, 1.96, 4.0] {
            assert!((chi_squared_tail(1.0, u * u) - normal(u)).abs() < 1e-13, "{u}");
        }
        assert!((chi_squared_tail(10.0, 0.0) - 1.0).abs() < 1e-15);
        assert!(chi_squared_tail(10.0, f64::INFINITY) < 1e-300);
        // With 100,000 features, half of the distribution lies above the median, k (1 − 2/(9k))³.
        let k = 1e5_f64;
        let median = k * (1.0 - 2.0 / (9.0 * k)).powi(3);
        assert!((chi_squared_tail(k, median) - 0.5).abs() < 1e-4);
    }

    /// Finds the degrees of freedom that give a published fraction.
    fn degrees_of(share: f64, max_norm: f64, n_regions: u32) -> f64 {
        let (mut low, mut high) = (1.0, 1000.0);
        while high - low > 1e-9 {
            let middle = 0.5 * (low + high);
            if clipped_share(middle, max_norm, n_regions) < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Uses the four published fractions (captions of Figs. 4 and 8). With draws from the prior,
    /// far more vectors would be clipped. Both pairs of S and P for one M give the same degrees of
    /// freedom, 12 to 14 below M, as if the data determined that many directions.
    #[test]
    fn the_published_shares_are_those_of_fewer_degrees_than_features() {
        for (n_features, max_norm, n_regions, published, by_prior, expected) in [
            (50.0, 8.0, 1, 0.0031, 0.0881, 36.34),
            (50.0, 11.0, 2, 0.0080, 0.1469, 36.71),
            (100.0, 11.0, 1, 0.0109, 0.0751, 87.80),
            (100.0, 22.0, 4, 0.0102, 0.0751, 87.45),
        ] {
            let prior = clipped_share(n_features, max_norm, n_regions);
            assert!((prior - by_prior).abs() < 1e-4, "{prior}");
            let degrees = degrees_of(published, max_norm, n_regions);
            assert!((degrees - expected).abs() < 0.01, "{degrees}");
        }
    }

    /// The default gives the paper's S = 11 for M = 50, P = 2, and S = 22 for M = 100, P = 4.
    #[test]
    fn the_default_norm_is_the_papers_and_clips_few_draws() {
        assert!((default_max_norm(2, 50) - 11.0).abs() < 1e-12);
        assert!((default_max_norm(4, 100) - 22.0).abs() < 1e-12);
        for (n_features, expected) in [(10, 0.278), (50, 0.147), (100, 0.075), (200, 0.023)] {
            let share = clipped_share(f64::from(n_features), default_max_norm(4, n_features), 4);
            assert!((share - expected).abs() < 1e-3, "{n_features}: {share}");
        }
    }

    #[test]
    fn more_is_clipped_with_more_features_more_regions_and_a_smaller_norm() {
        let share = clipped_share;
        assert!(share(60.0, 8.0, 1) > share(50.0, 8.0, 1));
        assert!(share(50.0, 8.0, 2) > share(50.0, 8.0, 1));
        assert!(share(50.0, 7.0, 1) > share(50.0, 8.0, 1));
    }
}
