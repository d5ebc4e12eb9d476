//! Growth of a query's cost with the number of observations t, and of a message's cost with the
//! number of features M.

use anyhow::Result;
use fedbo_gp::{Posterior, WeightPosterior, WeightSpaceSample};
use fedbo_optim::{MultiStart, Points};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value, json};

use crate::measure::{Limits, Timing, columns, measure, rounded};
use crate::message::{feature_map, smooth};
use crate::thompson_step::{NOISE_VARIANCE, kernel, query};

/// Dimension of the agent's own queries.
const OWN_DIM: usize = 3;
/// Dimension of the messages, and number of observations in their models.
const MESSAGE_DIM: usize = 2;
const MESSAGE_T: usize = 50;

/// Returns one row per operation and size, then one row per operation with its growth exponent.
pub(crate) fn rows(largest: usize, limits: &Limits) -> Result<Vec<Value>> {
    let ladder = [10, 20, 50, 100, 200, 500, 1000, 2000];
    let sizes: Vec<usize> = ladder.into_iter().filter(|n| *n <= largest).collect();
    let mut curves = vec![
        Curve::new("own query, last observation appended", "t"),
        Curve::new("own query, from scratch", "t"),
        Curve::new("append of one observation", "t"),
        Curve::new("conditioning from scratch", "t"),
        Curve::new("append of seven observations", "t"),
    ];
    for &t in &sizes {
        for (curve, timing) in curves.iter_mut().zip(own(t, limits)?) {
            curve.push(t, &timing);
        }
    }
    let mut messages =
        vec![Curve::new("message drawn, t = 50", "M"), Curve::new("message maximised", "M")];
    for &n_features in sizes.iter().filter(|n| **n >= 50) {
        for (curve, timing) in messages.iter_mut().zip(message(n_features, limits)?) {
            curve.push(n_features, &timing);
        }
    }
    curves.append(&mut messages);
    Ok(curves.iter().flat_map(Curve::rows).collect())
}

/// Times the operations on t observations, in this order:
///
/// - a query after appending the last observation
/// - a query from scratch
/// - the append only
/// - conditioning from scratch only
/// - appending seven observations at once, as for a peer and its neighbours
fn own(t: usize, limits: &Limits) -> Result<[Timing; 5]> {
    let kernel = kernel(OWN_DIM)?;
    let (inputs, y) = smooth(t, OWN_DIM);
    let mut before = Points::new(OWN_DIM);
    inputs.rows().take(t - 1).for_each(|x| before.push(x));
    let condition = |inputs: &Points, y: &[f64]| {
        let (inputs, y) = (inputs.clone(), y.to_vec());
        Posterior::new(kernel.clone(), NOISE_VARIANCE, inputs, y)
    };
    let shorter = condition(&before, &y[..t - 1])?;
    let stream = |draw| Seed::new(1).stream(Purpose::TEST, draw, 0);
    let last = (inputs.row(t - 1), y[t - 1]);

    let (appended, _) = measure(
        limits,
        |draw| Ok((shorter.clone(), stream(draw))),
        |(posterior, stream)| {
            posterior.append(last.0, last.1)?;
            query(posterior, stream)
        },
    )?;
    let (from_scratch, _) =
        measure(limits, |draw| Ok(stream(draw)), |stream| query(&condition(&inputs, &y)?, stream))?;
    let (append, _) = measure(
        limits,
        |_| Ok(shorter.clone()),
        |posterior| Ok(posterior.append(last.0, last.1)?),
    )?;
    let (conditioning, _) =
        measure(limits, |_| Ok(()), |()| Ok(condition(&inputs, &y)?.alpha()[0]))?;
    let n_before = t.saturating_sub(7);
    let share = |range: std::ops::Range<usize>| {
        let mut points = Points::new(OWN_DIM);
        range.clone().for_each(|i| points.push(inputs.row(i)));
        (points, y[range].to_vec())
    };
    let (known, values) = share(0..n_before);
    let known = condition(&known, &values)?;
    let (new, values) = share(n_before..t);
    let (of_neighbours, _) = measure(
        limits,
        |_| Ok(known.clone()),
        |posterior| Ok(posterior.clone().extended(&new, &values)?.alpha()[0]),
    )?;
    Ok([appended, from_scratch, append, conditioning, of_neighbours])
}

/// Times drawing a message with M features from scratch, and maximising it.
fn message(n_features: usize, limits: &Limits) -> Result<[Timing; 2]> {
    let map = feature_map(n_features, MESSAGE_DIM)?;
    let (inputs, y) = smooth(MESSAGE_T, MESSAGE_DIM);
    let stream = |draw| Seed::new(1).stream(fedbo_protocol::WEIGHT_SAMPLE, draw, 0);
    let (drawn, weights) = measure(
        limits,
        |draw| Ok(stream(draw)),
        |stream| {
            let posterior = WeightPosterior::new(&map, NOISE_VARIANCE, &inputs, &y)?;
            Ok(posterior.sample(1.0, stream))
        },
    )?;
    let search = MultiStart::for_dim(MESSAGE_DIM);
    let (maximised, _) = measure(
        limits,
        |draw| {
            let index = usize::try_from(draw)? % weights.len();
            let sample = WeightSpaceSample::new(&map, &weights[index])?;
            Ok((sample, stream(draw).bits()))
        },
        |(sample, seed)| {
            let maxima = search.maximize(sample, *seed, &Points::new(MESSAGE_DIM))?;
            Ok(maxima.best().value)
        },
    )?;
    Ok([drawn, maximised])
}

/// Times of one operation at growing sizes.
struct Curve {
    what: &'static str,
    /// Symbol of the size: t or M.
    size: &'static str,
    points: Vec<(u32, f64)>,
    rows: Vec<Value>,
}

impl Curve {
    fn new(what: &'static str, size: &'static str) -> Self {
        Self { what, size, points: Vec::new(), rows: Vec::new() }
    }

    fn push(&mut self, size: usize, timing: &Timing) {
        let mut row = columns(json!({ "peer": "fedbo", "what": self.what }));
        row.insert(self.size.into(), json!(size));
        row.extend(timing.columns());
        self.rows.push(Value::Object(row));
        let size = u32::try_from(size).expect("the ladder ends at 2000");
        self.points.push((size, timing.median()));
    }

    fn rows(&self) -> Vec<Value> {
        let mut rows = self.rows.clone();
        if let Some(exponent) = exponent(&self.points) {
            rows.push(json!({
                "peer": "fedbo", "what": self.what, "exponent_in": self.size, "exponent": rounded(exponent, 2),
            }));
        }
        rows
    }
}

/// Returns the least-squares slope of ln(cost) in ln(size) over the upper decade of sizes.
///
/// Returns `None` if the decade has fewer than two sizes.
pub(crate) fn exponent(points: &[(u32, f64)]) -> Option<f64> {
    let largest = points.iter().map(|(size, _)| *size).max()?;
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(size, _)| *size >= largest / 10)
        .map(|(size, seconds)| (f64::from(*size).ln(), seconds.ln()))
        .collect();
    let n = crate::measure::count(logs.len());
    let (mean_x, mean_y) =
        (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let spread: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let product: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    (spread > 0.0).then(|| product / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_is_that_of_the_upper_decade() {
        // The cost is cubic above 100 and constant below.
        let points: Vec<(u32, f64)> =
            [10, 50, 100, 200, 500, 1000].map(|n| (n, f64::from(n.max(100)).powi(3))).to_vec();
        let found = exponent(&points).unwrap();
        assert!((found - 3.0).abs() < 1e-9, "{found}");
        assert!(exponent(&points[..1]).is_none());
    }
}
