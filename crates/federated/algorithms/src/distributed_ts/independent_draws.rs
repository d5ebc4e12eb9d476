//! The query rule in the authors' code, which does not draw a function.

use fedbo_gp::Posterior;
use fedbo_strategies::{Candidates, Domain, Points, StrategyError};
use fedbo_streams::Stream;

/// The query rule in the authors' code, for comparison with their figures. Each candidate on a grid
/// gets an independent value, drawn from the marginal posterior at that point. The candidate with
/// the largest value is queried.
///
/// Neighbouring candidates then differ by independent noise, so the values are not a function
/// sample, and the rule explores far more than Algorithm 1. Only candidates within a radius around
/// the agent's last point are considered. The paper does not mention this radius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndependentDraws {
    /// Number of grid points per dimension, including both ends. At least 2.
    pub n_per_dim: usize,
    /// Maximum Euclidean distance of a query from the agent's last point, in the unit cube. Above
    /// 0.
    pub radius: f64,
}

/// Maximum number of candidates in a grid.
const N_CANDIDATES_MAX: usize = 1_000_000;

impl IndependentDraws {
    /// # Errors
    /// If a setting is out of range.
    pub(super) fn validate(&self) -> Result<(), StrategyError> {
        StrategyError::ensure(
            self.n_per_dim >= 2,
            "points of the grid in each dimension",
            self.n_per_dim,
            "at least 2",
        )?;
        StrategyError::ensure(
            self.radius.is_finite() && self.radius > 0.0,
            "radius",
            self.radius,
            "a finite number above 0",
        )?;
        Ok(())
    }

    /// Returns the candidates with their drawn values. In a finite domain, the candidates are its
    /// points instead of the grid. If no candidate is within the radius, for example because the
    /// grid is coarse, all candidates are used.
    ///
    /// # Errors
    /// If the grid would be too large.
    pub(super) fn candidates(
        &self,
        posterior: &Posterior,
        domain: &Domain,
        place: Option<&[f64]>,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        let all = match domain.points() {
            Some(points) => points.clone(),
            None => self.grid(domain.dim())?,
        };
        let is_near = |unit: &[f64]| {
            place.is_none_or(|place| {
                let squares = unit.iter().zip(place).map(|(a, b)| (a - b) * (a - b));
                squares.sum::<f64>().sqrt() <= self.radius + 1e-12
            })
        };
        let mut near = Points::new(all.dim());
        all.rows().filter(|unit| is_near(unit)).for_each(|unit| near.push(unit));
        let candidates = if near.is_empty() { all } else { near };
        let values: Vec<f64> = candidates
            .rows()
            .map(|unit| {
                let (mean, variance) = posterior.mean_variance(unit);
                mean + variance.sqrt() * stream.normal()
            })
            .collect();
        Candidates::ranked(&values, &candidates)
    }

    /// Returns all points whose coordinates are multiples of 1/(n − 1).
    fn grid(&self, dim: usize) -> Result<Points, StrategyError> {
        let n = self.n_per_dim;
        let n_points = (0..dim).try_fold(1_usize, |product, _| product.checked_mul(n));
        let Some(n_points) = n_points.filter(|n_points| *n_points <= N_CANDIDATES_MAX) else {
            return Err(StrategyError::setting(
                "points of the grid in each dimension",
                n,
                "so few that the grid has at most 1,000,000 points",
            ));
        };
        #[expect(clippy::cast_precision_loss, reason = "a grid has at most a million points")]
        let coordinate = |index: usize| (index % n) as f64 / (n - 1) as f64;
        let mut points = Points::new(dim);
        for index in 0..n_points {
            let mut rest = index;
            let unit: Vec<f64> = (0..dim)
                .map(|_| {
                    let value = coordinate(rest);
                    rest /= n;
                    value
                })
                .collect();
            points.push(&unit);
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel};
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    fn draws(n_per_dim: usize, radius: f64) -> IndependentDraws {
        IndependentDraws { n_per_dim, radius }
    }

    /// With almost no variance, the candidate with the best mean within the radius is chosen, and
    /// never one outside.
    #[test]
    fn queries_stay_within_the_radius_of_the_last_point() {
        let kernel = Kernel::isotropic(Family::Matern52, 2, 0.5, 1.0).unwrap();
        let inputs = Points::from_flat(2, vec![0.1, 0.1, 0.9, 0.9]);
        let posterior = Posterior::new(kernel, 1e-4, inputs, vec![0.0, 5.0]).unwrap();
        let points = draws(11, 0.2).grid(2).unwrap();
        let domain = Domain::Finite(std::sync::Arc::new(points));
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        for _ in 0..50 {
            let candidates = draws(11, 0.2)
                .candidates(&posterior, &domain, Some(&[0.3, 0.3]), &mut stream)
                .unwrap();
            let best = candidates.first(|_| true).unwrap();
            let distance = ((best[0] - 0.3).powi(2) + (best[1] - 0.3).powi(2)).sqrt();
            assert!(distance <= 0.2 + 1e-9, "{best:?}");
        }
    }

    /// The values of neighbouring candidates are independent. They differ by about the marginal
    /// standard deviation, whereas the values of a function would be nearly equal.
    #[test]
    fn no_function_is_drawn() {
        let kernel = Kernel::isotropic(Family::Matern52, 1, 0.5, 1.0).unwrap();
        let posterior = Posterior::new(kernel, 0.1, Points::new(1), Vec::new()).unwrap();
        let grid = draws(1001, 1.0).grid(1).unwrap();
        let domain = Domain::Finite(std::sync::Arc::new(grid));
        let mut stream = Seed::new(2).stream(Purpose::TEST, 0, 0);
        let mut places = Vec::new();
        for _ in 0..200 {
            let candidates = draws(1001, 1.0)
                .candidates(&posterior, &domain, Some(&[0.5]), &mut stream)
                .unwrap();
            places.push(candidates.first(|_| true).unwrap()[0]);
        }
        // The maximizer is uniformly distributed, so its variance is 1/12. A function with this
        // length scale would have its maximum at one of the ends.
        let mean = places.iter().sum::<f64>() / 200.0;
        let inner = places.iter().filter(|x| (0.05..0.95).contains(*x)).count();
        assert!((mean - 0.5).abs() < 0.09, "{mean}");
        assert!(inner > 165, "{inner} of 200 are inside");
    }

    #[test]
    fn impossible_settings_are_refused() {
        for bad in [draws(1, 0.1), draws(5, 0.0), draws(5, f64::NAN)] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        assert!(draws(1001, 0.1).grid(3).is_err());
    }
}
