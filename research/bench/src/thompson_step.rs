//! One Thompson query with given hyperparameters: condition on t observations, draw a function and
//! maximise it on `[0,1]^d`.

use anyhow::Result;
use fedbo_gp::{Family, Kernel, PathwiseSample, Posterior, Prior};
use fedbo_optim::{MultiStart, Points};
use fedbo_streams::{Purpose, Seed, Stream};
use serde_json::{Value, json};

use crate::data;
use crate::measure::{Limits, add_mean, columns, count, measure};

/// Returns the kernel of the peers' model: zero mean, squared exponential, ℓ = 0.2 √d, a² = 1.
pub(crate) fn kernel(dim: usize) -> Result<Kernel> {
    let lengthscale = 0.2 * count(dim).sqrt();
    Ok(Kernel::isotropic(Family::SquaredExponential, dim, lengthscale, 1.0)?)
}

/// σ² of the peers' model.
pub(crate) const NOISE_VARIANCE: f64 = 0.01;

/// Draws a function from a posterior and maximises it. Returns the maximum.
pub(crate) fn query(posterior: &Posterior, stream: &mut Stream) -> Result<f64> {
    let dim = posterior.inputs().dim();
    let sample = PathwiseSample::draw(posterior, Prior::default(), 1.0, stream)?;
    let maxima = MultiStart::for_dim(dim).maximize(&sample, stream.bits(), &Points::new(dim))?;
    Ok(maxima.best().value)
}

/// Returns one row per dimension and number of observations.
pub(crate) fn rows(dims: &[usize], sizes: &[usize], limits: &Limits) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for &dim in dims {
        let kernel = kernel(dim)?;
        for &t in sizes {
            let (inputs, y) = data::load(&format!("thompson_d{dim}.csv"), t)?;
            let (timing, values) = measure(
                limits,
                |draw| Ok(Seed::new(1).stream(Purpose::TEST, draw, 0)),
                |stream| {
                    let (inputs, y) = (inputs.clone(), y.clone());
                    let posterior = Posterior::new(kernel.clone(), NOISE_VARIANCE, inputs, y)?;
                    query(&posterior, stream)
                },
            )?;
            let mut row = columns(json!({ "peer": "fedbo", "D": dim, "t": t }));
            row.extend(timing.columns());
            add_mean(&mut row, &values);
            rows.push(Value::Object(row));
        }
    }
    Ok(rows)
}
