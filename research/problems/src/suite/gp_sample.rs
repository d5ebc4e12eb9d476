//! A function drawn from a Gaussian process over blocks of a few coordinates, with its minimum.

use std::f64::consts::TAU;

use fedbo_optim::{LbfgsbOptions, maximize_in_box, sobol};
use fedbo_streams::Stream;

use super::BOX;
use super::transform::dot;

/// Number of random features per block.
const N_FEATURES: usize = 200;
/// Number of points in the search for a block's minimum, and number of best points to refine.
const N_SEARCHED: usize = 4096;
const N_REFINED: usize = 24;

/// The smoothness of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Smoothness {
    /// The squared exponential kernel.
    Smooth,
    /// Matérn's kernel with ν = 3/2.
    Rough,
}

/// A sum of GP draws, each over a block of at most three coordinates (two if rough), minus its
/// minimum.
///
/// g(x) = Σ_b √(2/M) Σ_m w_m cos(ω_m·x_b + φ_m),   w ~ N(0, 1),   φ ~ U(0, 2π)
///
/// ω follows the spectral density of the kernel: N(0, ℓ⁻² I), or for Matérn's kernel the t
/// distribution with 2ν degrees of freedom (Rahimi and Recht 2007). Blocks are disjoint, so the
/// minimum is the sum of the blocks' minima, which a dense search can find. Interactions of only a
/// few coordinates are common in tuning.
#[derive(Clone, Debug)]
pub(super) struct GpSample {
    blocks: Vec<Block>,
    minimum: f64,
}

#[derive(Clone, Debug)]
struct Block {
    coordinates: Vec<usize>,
    frequencies: Vec<Vec<f64>>,
    phases: Vec<f64>,
    weights: Vec<f64>,
}

impl GpSample {
    /// Draws a function in `dim` coordinates. Returns it with its minimizer.
    pub(super) fn draw(
        dim: usize,
        smoothness: Smoothness,
        stream: &mut Stream,
    ) -> (Self, Vec<f64>) {
        let (size_max, lengthscale) = match smoothness {
            Smoothness::Smooth => (3, 2.0),
            Smoothness::Rough => (2, 2.5),
        };
        let mut order: Vec<usize> = (0..dim).collect();
        stream.shuffle(&mut order);
        let n_blocks = dim.div_ceil(size_max);
        let mut blocks = Vec::with_capacity(n_blocks);
        let (mut minimiser, mut minimum) = (vec![0.0; dim], 0.0);
        for index in 0..n_blocks {
            // Sizes differ by at most one.
            let coordinates = order[index * dim / n_blocks..(index + 1) * dim / n_blocks].to_vec();
            let block = Block::draw(coordinates, smoothness, lengthscale, stream);
            let (x, value) = block.minimum(stream.bits());
            for (coordinate, x) in block.coordinates.iter().zip(x) {
                minimiser[*coordinate] = x;
            }
            minimum += value;
            blocks.push(block);
        }
        (Self { blocks, minimum }, minimiser)
    }

    /// Returns the value minus the minimum.
    pub(super) fn gap(&self, x: &[f64]) -> f64 {
        let value: f64 = self
            .blocks
            .iter()
            .map(|block| {
                let own: Vec<f64> = block.coordinates.iter().map(|i| x[*i]).collect();
                block.value(&own)
            })
            .sum();
        value - self.minimum
    }
}

impl Block {
    fn draw(
        coordinates: Vec<usize>,
        smoothness: Smoothness,
        lengthscale: f64,
        stream: &mut Stream,
    ) -> Self {
        let frequency = |stream: &mut Stream| {
            let heaviness = match smoothness {
                Smoothness::Smooth => 1.0,
                Smoothness::Rough => (3.0 / stream.chi_squared(3.0)).sqrt(),
            };
            let normals = stream.normals(coordinates.len());
            normals.into_iter().map(|z| z * heaviness / lengthscale).collect()
        };
        let frequencies = (0..N_FEATURES).map(|_| frequency(stream)).collect();
        let phases = (0..N_FEATURES).map(|_| TAU * stream.uniform()).collect();
        let scale = (2.0 / N_FEATURES as f64).sqrt();
        let weights = stream.normals(N_FEATURES).into_iter().map(|w| scale * w).collect();
        Self { coordinates, frequencies, phases, weights }
    }

    fn value(&self, x: &[f64]) -> f64 {
        let angles = self.frequencies.iter().zip(&self.phases);
        let terms = angles.zip(&self.weights);
        terms.map(|((omega, phase), weight)| weight * (dot(omega, x) + phase).cos()).sum()
    }

    /// Returns −g and computes its gradient.
    fn negated(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        for ((omega, phase), weight) in self.frequencies.iter().zip(&self.phases).zip(&self.weights)
        {
            let (sin, cos) = (dot(omega, x) + phase).sin_cos();
            value -= weight * cos;
            gradient.iter_mut().zip(omega).for_each(|(g, omega)| *g += weight * sin * omega);
        }
        value
    }

    /// Returns the minimum over the box and its minimizer. The best points of a dense Sobol
    /// sequence are refined by L-BFGS.
    fn minimum(&self, seed: u32) -> (Vec<f64>, f64) {
        let dim = self.coordinates.len();
        let points = sobol(dim, N_SEARCHED, seed);
        let mut seen: Vec<(f64, Vec<f64>)> = points
            .rows()
            .map(|unit| {
                let x: Vec<f64> = unit.iter().map(|u| BOX[0] + (BOX[1] - BOX[0]) * u).collect();
                (self.value(&x), x)
            })
            .collect();
        seen.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (lower, upper) = (vec![BOX[0]; dim], vec![BOX[1]; dim]);
        let options = LbfgsbOptions {
            max_iterations: 200,
            gradient_tolerance: 1e-12,
            value_tolerance: 1e-16,
        };
        let mut best = seen[0].clone();
        for (_, start) in &seen[..N_REFINED] {
            let ended = maximize_in_box(
                |x, gradient| self.negated(x, gradient),
                &lower,
                &upper,
                start,
                &options,
            );
            // A sum of cosines has a finite value and gradient everywhere, so the search never
            // fails.
            let Ok(end) = ended else { continue };
            let value = self.value(&end.x);
            if value < best.0 {
                best = (value, end.x);
            }
        }
        (best.1, best.0)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    /// Over draws, g has mean 0 and variance 1 for each block, and the kernel's correlation at one
    /// length scale: e^(−1/2) for the squared exponential and (1 + √3) e^(−√3) for Matérn's. The
    /// tolerance is five standard errors of 400 draws.
    #[test]
    fn draws_have_the_kernels_covariance() {
        let n = 400_u32;
        for (smoothness, lengthscale, expected) in [
            (Smoothness::Smooth, 2.0, (-0.5_f64).exp()),
            (Smoothness::Rough, 2.5, (1.0 + 3_f64.sqrt()) * (-(3_f64.sqrt())).exp()),
        ] {
            let mut stream = Seed::new(3).stream(Purpose::TEST, 0, 0);
            let (mut variance, mut covariance) = (0.0, 0.0);
            for _ in 0..n {
                let block = Block::draw(vec![0, 1], smoothness, lengthscale, &mut stream);
                let (here, there) =
                    (block.value(&[1.0, -1.0]), block.value(&[1.0 + lengthscale, -1.0]));
                variance += here * here / f64::from(n);
                covariance += here * there / f64::from(n);
            }
            let error = 5.0 * (2.0 / f64::from(n)).sqrt();
            assert!((variance - 1.0).abs() < error, "{smoothness:?}: {variance}");
            assert!((covariance - expected).abs() < error, "{smoothness:?}: {covariance}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let block = Block::draw(vec![0, 1, 2], Smoothness::Smooth, 2.0, &mut stream);
        let x = [0.3, -2.0, 1.7];
        let mut gradient = [0.0; 3];
        block.negated(&x, &mut gradient);
        for (i, found) in gradient.iter().enumerate() {
            let step = |h: f64| {
                let mut x = x;
                x[i] += h;
                block.value(&x)
            };
            let expected = -(step(1e-5) - step(-1e-5)) / 2e-5;
            assert!((found - expected).abs() < 1e-8, "{i}: {found} {expected}");
        }
    }
}
