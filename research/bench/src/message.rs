//! Maximisation of another agent's message: the cost of a federated step, excluding the objective.

use anyhow::Result;
use fedbo_gp::{
    FeatureDescription, FeatureMap, LengthscaleLaw, WeightPosterior, WeightSpaceSample,
};
use fedbo_optim::{MultiStart, Points};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value, json};

use crate::measure::{Limits, add_mean, columns, measure, quantile, rounded};

/// Draws a shared feature map of squared-exponential features with ℓ = 0.2.
pub(crate) fn feature_map(n_features: usize, dim: usize) -> Result<FeatureMap> {
    let description = FeatureDescription::random(n_features, dim, LengthscaleLaw::Fixed(0.2));
    let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    Ok(FeatureMap::draw(&description, &mut stream)?)
}

/// Returns observations of a sum of `3 d` cosines at `n` random points, with noise of standard
/// deviation 0.1.
pub(crate) fn smooth(n: usize, dim: usize) -> (Points, Vec<f64>) {
    let mut stream = Seed::new(2).stream(Purpose::PROBLEM, 0, 0);
    let waves: Vec<Vec<f64>> = (0..3 * dim).map(|_| stream.normals(dim + 1)).collect();
    let (mut inputs, mut y) = (Points::new(dim), Vec::with_capacity(n));
    for _ in 0..n {
        let x: Vec<f64> = (0..dim).map(|_| stream.uniform()).collect();
        let value: f64 = waves
            .iter()
            .map(|wave| {
                let angle: f64 = wave.iter().zip(&x).map(|(s, x)| 2.0 * s * x).sum();
                (angle + wave[dim]).cos()
            })
            .sum();
        inputs.push(&x);
        y.push(value + 0.1 * stream.normal());
    }
    (inputs, y)
}

/// Returns one row with M = 100 features, d = 2, and messages of an agent with 50 observations.
///
/// `gap_*` is the improvement that a search of the authors' size, with 10,000 points and 50
/// refinements, makes over the measured search.
pub(crate) fn rows(limits: &Limits) -> Result<Vec<Value>> {
    let (n_features, dim, t) = (100, 2, 50);
    let map = feature_map(n_features, dim)?;
    let (inputs, y) = smooth(t, dim);
    let posterior = WeightPosterior::new(&map, 0.01, &inputs, &y)?;
    let message = |draw: u64| {
        let mut stream = Seed::new(1).stream(fedbo_protocol::WEIGHT_SAMPLE, draw, 0);
        let weights = posterior.sample(1.0, &mut stream);
        Ok((WeightSpaceSample::new(&map, &weights)?, stream.bits()))
    };
    let search = MultiStart::for_dim(dim);
    let (timing, values) = measure(limits, message, |(sample, seed)| {
        let maxima = search.maximize(sample, *seed, &Points::new(dim))?;
        Ok(maxima.best().value)
    })?;
    let heavy = MultiStart {
        n_starts: 10_000,
        n_refine: 50,
        candidate_iterations: 0,
        local: search.local,
        n_candidates: 0,
    };
    let mut gaps = Vec::new();
    for (draw, value) in (0..).zip(&values) {
        let (sample, seed) = message(draw)?;
        let best = heavy.maximize(&sample, seed, &Points::new(dim))?;
        gaps.push((best.best().value - value).max(0.0));
    }
    let mut row = columns(json!({ "peer": "fedbo", "M": n_features, "D": dim, "t": t }));
    row.extend(timing.columns());
    add_mean(&mut row, &values);
    row.insert("gap_median".into(), rounded(quantile(&gaps, 0.5), 6));
    row.insert("gap_max".into(), rounded(quantile(&gaps, 1.0), 6));
    Ok(vec![Value::Object(row)])
}
