//! Log marginal likelihood of a Gaussian process and its gradient.

use fedbo_optim::Points;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{Columns, GpError, Kernel, lanes};

/// ln p(y | X) and its gradient in the logarithms of the hyperparameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// ln p(y | X) = −½ yᵀα − Σ_i ln L_ii − n/2 ln 2π.
    pub value: f64,
    /// ∂/∂ln ℓ_1 … ∂/∂ln ℓ_d, ∂/∂ln a², ∂/∂ln σ²: d + 2 numbers.
    pub gradient: Vec<f64>,
    /// Jitter that the factorization needed.
    pub jitter: f64,
}

/// The evidence of a kernel and a noise variance σ² (Rasmussen & Williams 2006, eqs. (5.8) and (5.9)).
///
/// ∂/∂θ = ½ tr((α αᵀ − K⁻¹) ∂K/∂θ),   α = K⁻¹ y,   K = k(X, X) + σ² I
///
/// Cost O(n³ + n² d).
///
/// # Errors
/// If K has no Cholesky factor.
pub fn evidence(
    kernel: &Kernel,
    noise_variance: f64,
    inputs: &Points,
    y: &[f64],
) -> Result<Evidence, GpError> {
    assert_eq!(
        inputs.len(),
        y.len(),
        "{} inputs and {} outputs",
        inputs.len(),
        y.len()
    );
    let n = y.len();
    let columns = Columns::new(inputs);
    let mut gram = PackedLower::zeros(n);
    let mut slopes = PackedLower::zeros(n);
    fill(kernel, inputs, &columns, &mut gram, &mut slopes);
    let mut covariance = gram.clone();
    for i in 0..n {
        covariance.row_mut(i)[i] += noise_variance;
    }
    let factor = SpdFactor::new(&covariance)?;
    let mut alpha = y.to_vec();
    factor.solve(&mut alpha);
    let fit = lanes::wide_dot(y, &alpha);
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers of observations are far below 2^53"
    )]
    let constant = 0.5 * n as f64 * std::f64::consts::TAU.ln();
    let value = -0.5 * fit - 0.5 * factor.log_determinant() - constant;
    let terms = Terms {
        kernel,
        noise_variance,
        inputs,
        columns: &columns,
        gram: &gram,
        slopes: &slopes,
        alpha: &alpha,
    };
    let gradient = traces(&terms, &factor.inverse());
    Ok(Evidence {
        value,
        gradient,
        jitter: factor.jitter(),
    })
}

lanes::vectorized! {
    /// k(X, X) and a² g(r), lower triangles.
    fn fill(kernel: &Kernel, inputs: &Points, columns: &Columns, gram: &mut PackedLower, slopes: &mut PackedLower) {
        let (mut values, mut row_slopes) = (vec![0.0; columns.padded_len()], vec![0.0; columns.padded_len()]);
        for i in 0..inputs.len() {
            kernel.row_with_slopes(inputs.row(i), columns, &mut values, &mut row_slopes);
            gram.row_mut(i).copy_from_slice(&values[..=i]);
            slopes.row_mut(i).copy_from_slice(&row_slopes[..=i]);
        }
    }
}

/// What the traces of the gradient are made of.
struct Terms<'a> {
    kernel: &'a Kernel,
    noise_variance: f64,
    inputs: &'a Points,
    columns: &'a Columns,
    gram: &'a PackedLower,
    slopes: &'a PackedLower,
    alpha: &'a [f64],
}

lanes::vectorized! {
    /// ½ tr((α αᵀ − K⁻¹) ∂K/∂θ) for every θ; off-diagonal entries count twice, which cancels the factor ½.
    fn traces(terms: &Terms<'_>, inverse: &PackedLower) -> Vec<f64> {
        let dim = terms.kernel.dim();
        let mut gradient = vec![0.0; dim + 2];
        let mut weights = vec![0.0; terms.columns.padded_len()];
        for i in 0..terms.alpha.len() {
            let (k, slopes) = (terms.gram.row(i), terms.slopes.row(i));
            for ((w, alpha), inverse) in weights.iter_mut().zip(terms.alpha).zip(inverse.row(i)) {
                *w = terms.alpha[i] * alpha - inverse;
            }
            gradient[dim] += lanes::dot(&weights[..i], &k[..i]) + 0.5 * weights[i] * k[i];
            gradient[dim + 1] += 0.5 * weights[i] * terms.noise_variance;
            for (w, slope) in weights[..i].iter_mut().zip(slopes) {
                *w *= slope;
            }
            for (axis, lengthscale) in terms.kernel.lengthscales().iter().enumerate() {
                let x = terms.inputs.row(i)[axis];
                let moment = moment_of_squares(&weights[..i], x, &terms.columns.coordinate(axis)[..i]);
                gradient[axis] += moment / (lengthscale * lengthscale);
            }
        }
        gradient
    }
}

/// Σ_i w_i (x − z_i)².
#[inline(always)]
fn moment_of_squares(w: &[f64], x: f64, z: &[f64]) -> f64 {
    let mut sums = [0.0; lanes::LANES];
    let (blocks_w, blocks_z) = (w.chunks_exact(lanes::LANES), z.chunks_exact(lanes::LANES));
    let tail: f64 = blocks_w
        .remainder()
        .iter()
        .zip(blocks_z.remainder())
        .map(|(w, z)| w * (x - z) * (x - z))
        .sum();
    for (w, z) in blocks_w.zip(blocks_z) {
        for lane in 0..lanes::LANES {
            sums[lane] += w[lane] * (x - z[lane]) * (x - z[lane]);
        }
    }
    lanes::fold(sums) + tail
}
