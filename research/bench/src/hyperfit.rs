//! One maximum-likelihood fit of d + 2 hyperparameters from one start, without restarts.

use anyhow::Result;
use clap::ValueEnum;
use fedbo_gp::{Family, FitCriterion, FitOptions, Hyperparameters, Kernel, fit};
use fedbo_optim::Points;
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value, json};

use crate::data;
use crate::measure::{Limits, columns, count, measure, rounded};

/// Kernel names of the peers' scripts.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum KernelName {
    /// Squared exponential
    Se,
    /// Matérn-5/2
    M52,
}

impl KernelName {
    fn parts(self) -> (&'static str, Family, &'static str) {
        match self {
            Self::Se => ("se", Family::SquaredExponential, "hyperfit_d3.csv"),
            Self::M52 => ("m52", Family::Matern52, "hyperfit_m52_d3.csv"),
        }
    }
}

/// Returns one row per kernel and number of observations.
pub(crate) fn rows(kernels: &[KernelName], sizes: &[usize], limits: &Limits) -> Result<Vec<Value>> {
    let options = FitOptions {
        criterion: FitCriterion::MaximumLikelihood,
        n_restarts: 0,
        ..FitOptions::default()
    };
    let mut rows = Vec::new();
    for kernel in kernels {
        let (name, family, file) = kernel.parts();
        for &t in sizes {
            let (inputs, y) = data::load(file, t)?;
            let start = Hyperparameters {
                kernel: Kernel::isotropic(family, inputs.dim(), 1.0, 1.0)?,
                noise_variance: 0.1,
            };
            let (timing, mut found) = measure(
                limits,
                |draw| Ok(Seed::new(1).stream(Purpose::HYPERPARAMETER_FIT, draw, 0)),
                |stream| Ok(fit(&start, &inputs, &y, &options, stream)?),
            )?;
            let fitted = found.swap_remove(found.len() - 1);
            let Hyperparameters { kernel, noise_variance } = fitted.hyperparameters;
            let lml = log_marginal_likelihood(&kernel, noise_variance, &inputs, &y);
            let lengthscales: Vec<Value> =
                kernel.lengthscales().iter().map(|l| rounded(*l, 5)).collect();
            let mut row = columns(json!({ "peer": "fedbo", "kernel": name, "t": t }));
            row.extend(timing.columns());
            row.extend(columns(json!({
                "lml": rounded(lml, 5),
                "lengthscale": lengthscales,
                "signal": rounded(kernel.outputscale(), 5),
                "noise": rounded(noise_variance, 7),
                "evaluations": fitted.n_evaluations,
            })));
            rows.push(Value::Object(row));
        }
    }
    Ok(rows)
}

/// Recomputes ln p(y | X) with a plain Cholesky factorization, instead of relying on the fit's own
/// result.
///
/// −½ ‖L⁻¹y‖² − Σ_i ln L_ii − n/2 ln 2π,   L Lᵀ = k(X, X) + σ² I
fn log_marginal_likelihood(
    kernel: &Kernel,
    noise_variance: f64,
    inputs: &Points,
    y: &[f64],
) -> f64 {
    let n = y.len();
    let mut lower: Vec<Vec<f64>> = Vec::with_capacity(n);
    let mut value = -0.5 * count(n) * std::f64::consts::TAU.ln();
    let mut whitened: Vec<f64> = Vec::with_capacity(n);
    for i in 0..n {
        let mut row: Vec<f64> = Vec::with_capacity(i + 1);
        for (j, above) in lower.iter().enumerate() {
            let known: f64 = row.iter().zip(above).map(|(a, b)| a * b).sum();
            row.push((kernel.value(inputs.row(i), inputs.row(j)) - known) / above[j]);
        }
        let known: f64 = row.iter().map(|a| a * a).sum();
        let pivot = (kernel.value(inputs.row(i), inputs.row(i)) + noise_variance - known).sqrt();
        let known: f64 = row.iter().zip(&whitened).map(|(a, b)| a * b).sum();
        whitened.push((y[i] - known) / pivot);
        value -= 0.5 * whitened[i].powi(2) + pivot.ln();
        row.push(pivot);
        lower.push(row);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated by hand from K = [[2, 1/e^½], [1/e^½, 2]], for two points one length scale apart
    /// and a² = σ² = 1.
    #[test]
    fn the_likelihood_of_two_points_is_what_it_is_by_hand() {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.5, 1.0).unwrap();
        let inputs = Points::from_rows(1, [[0.25], [0.75]]);
        let y = [1.0, -2.0];
        let c = (-0.5_f64).exp();
        let determinant = 4.0 - c * c;
        let quadratic = (2.0 * 1.0 + 2.0 * 4.0 - 2.0 * c * -2.0) / determinant;
        let expected = -0.5 * quadratic - 0.5 * determinant.ln() - std::f64::consts::TAU.ln();
        let found = log_marginal_likelihood(&kernel, 1.0, &inputs, &y);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}
