//! Draws from a normal distribution between two bounds.

use fedbo_streams::Stream;

/// Draws from N(mean, std²) truncated to [lower, upper], by rejection (Robert 1995). The proposal
/// is uniform on narrow intervals, normal on wide ones around the mean, and a shifted exponential
/// in a tail.
///
/// Returns `lower` unless it is below `upper`. An infinite `std` gives the uniform distribution.
pub(super) fn truncated_normal(
    mean: f64,
    std: f64,
    (lower, upper): (f64, f64),
    stream: &mut Stream,
) -> f64 {
    let width = upper - lower;
    if width.is_nan() || width <= 0.0 {
        return lower;
    }
    let (a, b) = ((lower - mean) / std, (upper - mean) / std);
    if !(a.is_finite() && b.is_finite()) || (b - a) * (1.0 + a.abs().max(b.abs())) < 1e-6 {
        return lower + width * stream.uniform();
    }
    // The lower tail mirrors the upper one.
    if b < 0.0 {
        return upper.min(mean - std * beyond(-b, -a, stream)).max(lower);
    }
    if a > 0.0 {
        return lower.max(mean + std * beyond(a, b, stream)).min(upper);
    }
    if b - a < 2.5 {
        loop {
            let x = a + (b - a) * stream.uniform();
            if stream.uniform() < (-0.5 * x * x).exp() {
                return (mean + std * x).clamp(lower, upper);
            }
        }
    }
    loop {
        let x = stream.normal();
        if (a..=b).contains(&x) {
            return (mean + std * x).clamp(lower, upper);
        }
    }
}

/// Draws from the standard normal distribution truncated to [a, b], a ≥ 0.
fn beyond(a: f64, b: f64, stream: &mut Stream) -> f64 {
    let rate = 0.5 * (a + (a * a + 4.0).sqrt());
    if (b - a) * rate < 1.0 {
        loop {
            let x = a + (b - a) * stream.uniform();
            if stream.uniform() < (0.5 * (a - x) * (a + x)).exp() {
                return x;
            }
        }
    }
    loop {
        let x = a - (1.0 - stream.uniform()).ln() / rate;
        if x <= b && stream.uniform() < (-0.5 * (x - rate).powi(2)).exp() {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::statistics::normal_cdf;
    use fedbo_testkit::test_stream;

    use super::*;

    /// The share of draws below a point is (Φ(x) − Φ(a))/(Φ(b) − Φ(a)) within five standard errors,
    /// in every branch.
    #[test]
    fn draws_follow_the_truncated_law() {
        let mut stream = test_stream(91);
        let n = 20_000_u32;
        for (mean, std, lower, upper) in [
            (0.0, 1.0, -0.5, 1.0),
            (0.3, 0.5, -3.0, 1.0),
            (-1.0, 0.5, 0.0, 0.2),
            (-1.0, 0.5, 0.0, 3.0),
            (2.0, 0.4, 0.0, 1.0),
            (2.0, 4.0, 0.0, 1.0),
        ] {
            let cdf = |x: f64| normal_cdf((x - mean) / std);
            let draws: Vec<f64> =
                (0..n).map(|_| truncated_normal(mean, std, (lower, upper), &mut stream)).collect();
            assert!(draws.iter().all(|x| (lower..=upper).contains(x)));
            for share in [0.1, 0.3, 0.6, 0.9] {
                let x = lower + share * (upper - lower);
                let expected = (cdf(x) - cdf(lower)) / (cdf(upper) - cdf(lower));
                let below = draws.iter().map(|v| u32::from(*v < x)).sum::<u32>();
                let found = f64::from(below) / f64::from(n);
                let error = (expected * (1.0 - expected) / f64::from(n)).sqrt();
                assert!(
                    (found - expected).abs() < 5.0 * error + 1e-9,
                    "N({mean}, {std}²) in [{lower}, {upper}] below {x}: {found}, {expected}"
                );
            }
        }
    }

    #[test]
    fn degenerate_intervals_are_answered() {
        let mut stream = test_stream(92);
        let far = truncated_normal(0.0, 1e-9, (1.0, 2.0), &mut stream);
        assert!((1.0..1.001).contains(&far), "{far}");
        let flat = truncated_normal(0.0, f64::INFINITY, (1.0, 2.0), &mut stream);
        assert!((1.0..2.0).contains(&flat), "{flat}");
    }
}
