//! A perceptron of two dense layers with rectified units between them.

use std::ops::Range;

use fedbo_streams::Stream;

/// The number of inputs n, hidden units h and outputs m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// n
    pub inputs: usize,
    /// h
    pub hidden: usize,
    /// m
    pub outputs: usize,
}

impl Sizes {
    /// Returns the ranges of W₁ (n×h), b₁ (h), W₂ (h×m) and b₂ (m) among the parameters.
    fn parts(self) -> [Range<usize>; 4] {
        let Self { inputs, hidden, outputs } = self;
        let lengths = [inputs * hidden, hidden, hidden * outputs, outputs];
        let mut end = 0;
        lengths.map(|length| {
            let start = end;
            end += length;
            start..end
        })
    }
}

/// A network y = W₂ᵀh + b₂,   h = max(W₁ᵀx + b₁, 0).
#[derive(Clone, Debug, PartialEq)]
pub struct Perceptron {
    sizes: Sizes,
    /// W₁, b₁, W₂, b₂, concatenated; matrices are stored row by row.
    pub parameters: Vec<f64>,
}

/// The activations of a network's units for one input.
#[derive(Clone, Debug, PartialEq)]
pub struct Activations {
    /// h
    hidden: Vec<f64>,
    /// y
    pub outputs: Vec<f64>,
}

impl Perceptron {
    /// Creates a network with random weights and zero biases. The weights have mean 0 and variance
    /// 2/n in the first layer and 1/h in the second. Hidden units and outputs are then about as
    /// large as the inputs (He et al. 2015).
    pub fn random(sizes: Sizes, stream: &mut Stream) -> Self {
        let [first, _, second, second_biases] = sizes.parts();
        let mut parameters = vec![0.0; second_biases.end];
        let spreads = [
            (first, (2.0 / sizes.inputs as f64).sqrt()),
            (second, (1.0 / sizes.hidden as f64).sqrt()),
        ];
        for (part, spread) in spreads {
            for weight in &mut parameters[part] {
                *weight = spread * stream.normal();
            }
        }
        Self { sizes, parameters }
    }

    /// Returns the activations for x (n).
    pub fn activations(&self, inputs: &[f64]) -> Activations {
        let [first, first_biases, second, second_biases] = self.sizes.parts();
        let p = &self.parameters;
        let mut hidden = affine(inputs, &p[first], &p[first_biases]);
        for unit in &mut hidden {
            *unit = unit.max(0.0);
        }
        let outputs = affine(&hidden, &p[second], &p[second_biases]);
        Activations { hidden, outputs }
    }

    /// Adds the gradient of a loss L with respect to the parameters to `gradient`, given its
    /// gradient ∂L/∂y (m) at the activations of x. Returns the gradient ∂L/∂x (n):
    ///
    /// ∂L/∂W₂ = h (∂L/∂y)ᵀ,   ∂L/∂h = W₂ ∂L/∂y where h > 0,   and the same for the first layer.
    pub fn add_slopes(
        &self,
        inputs: &[f64],
        at: &Activations,
        output_slopes: &[f64],
        gradient: &mut [f64],
    ) -> Vec<f64> {
        let hidden_slopes = self.add_parameter_slopes(inputs, at, output_slopes, gradient);
        let [first, ..] = self.sizes.parts();
        rows_times(&self.parameters[first], &hidden_slopes)
    }

    /// Same as [`Perceptron::add_slopes`] without the gradient with respect to x, which saves a
    /// third of the work. Returns the gradient with respect to W₁ᵀx + b₁ (h).
    pub fn add_parameter_slopes(
        &self,
        inputs: &[f64],
        at: &Activations,
        output_slopes: &[f64],
        gradient: &mut [f64],
    ) -> Vec<f64> {
        let [first, first_biases, second, second_biases] = self.sizes.parts();
        add_outer(&mut gradient[second.clone()], &at.hidden, output_slopes);
        add(&mut gradient[second_biases], output_slopes);
        let mut hidden_slopes = rows_times(&self.parameters[second], output_slopes);
        for (slope, unit) in hidden_slopes.iter_mut().zip(&at.hidden) {
            if *unit <= 0.0 {
                *slope = 0.0;
            }
        }
        add_outer(&mut gradient[first], inputs, &hidden_slopes);
        add(&mut gradient[first_biases], &hidden_slopes);
        hidden_slopes
    }

    /// Adds the gradient of the penalty (λ/2)(‖W₁‖² + ‖W₂‖²) to `gradient`: λ times the weights,
    /// and 0 for biases.
    pub fn add_penalty_slopes(&self, l2: f64, gradient: &mut [f64]) {
        let [first, _, second, _] = self.sizes.parts();
        for part in [first, second] {
            add_scaled(&mut gradient[part.clone()], l2, &self.parameters[part]);
        }
    }
}

/// Returns Wᵀx + b, with W n×m row by row. Skips zeros in x, since half of an image and half of the
/// hidden units are zero.
fn affine(x: &[f64], weights: &[f64], biases: &[f64]) -> Vec<f64> {
    let mut sums = biases.to_vec();
    for (x, row) in x.iter().zip(weights.chunks_exact(biases.len())) {
        if *x != 0.0 {
            add_scaled(&mut sums, *x, row);
        }
    }
    sums
}

/// Returns W s, with W n×m row by row.
fn rows_times(weights: &[f64], s: &[f64]) -> Vec<f64> {
    let rows = weights.chunks_exact(s.len());
    rows.map(|row| dot(row, s)).collect()
}

/// Computes sums ← sums + x sᵀ, with the sums n×m row by row.
fn add_outer(sums: &mut [f64], x: &[f64], s: &[f64]) {
    for (x, row) in x.iter().zip(sums.chunks_exact_mut(s.len())) {
        if *x != 0.0 {
            add_scaled(row, *x, s);
        }
    }
}

fn add(sums: &mut [f64], values: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

fn add_scaled(sums: &mut [f64], x: f64, row: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += x * value;
    }
}

/// Returns Σ a_i b_i, computed in four parallel sums.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_fours, a_rest) = a.as_chunks::<4>();
    let (b_fours, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a_fours.iter().zip(b_fours) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    const SIZES: Sizes = Sizes { inputs: 3, hidden: 7, outputs: 5 };

    fn stream(index: u64) -> Stream {
        Seed::new(31).stream(Purpose::TEST, index, 0)
    }

    fn network() -> Perceptron {
        let mut network = Perceptron::random(SIZES, &mut stream(0));
        for (parameter, noise) in network.parameters.iter_mut().zip(stream(1).normals(68)) {
            *parameter += 0.3 * noise; // makes biases nonzero
        }
        network
    }

    /// Compares with explicit sums over indices.
    #[test]
    fn outputs_are_those_of_the_definition() {
        let network = network();
        assert_eq!(network.parameters.len(), 3 * 7 + 7 + 7 * 5 + 5);
        let p = &network.parameters;
        let x = [0.5, 0.0, -1.2];
        let found = network.activations(&x);
        let hidden: Vec<f64> = (0..7)
            .map(|u| (0..3).fold(p[21 + u], |sum, i| sum + x[i] * p[7 * i + u]).max(0.0))
            .collect();
        for (k, found) in found.outputs.iter().enumerate() {
            let expected = (0..7).fold(p[63 + k], |sum, u| sum + hidden[u] * p[28 + 5 * u + k]);
            assert!((found - expected).abs() < 1e-12);
        }
        let n_off = hidden.iter().filter(|unit| **unit <= 0.0).count();
        assert!((1..6).contains(&n_off), "{n_off}");
    }

    /// Compares the gradient of L = Σ_k c_k y_k + y_k²/2 with central differences with steps of
    /// 1e-6 and an error of about 1e-9. The gradient is added to the existing values.
    #[test]
    fn slopes_agree_with_differences() {
        let (network, weights) = (network(), [0.3, -1.0, 0.7, 0.1, 2.0]);
        let loss = |network: &Perceptron, x: &[f64]| -> f64 {
            let outputs = network.activations(x).outputs;
            let terms = outputs.iter().zip(weights).map(|(y, c)| c * y + y * y / 2.0);
            terms.sum()
        };
        for x in [[0.5, 0.0, -1.2], [1.5, 0.4, 0.9]] {
            let at = network.activations(&x);
            let slopes: Vec<f64> = at.outputs.iter().zip(weights).map(|(y, c)| c + y).collect();
            let mut gradient = vec![10.0; network.parameters.len()];
            let input_slopes = network.add_slopes(&x, &at, &slopes, &mut gradient);
            for (k, found) in gradient.iter().enumerate() {
                let near = |change: f64| {
                    let mut near = network.clone();
                    near.parameters[k] += change;
                    loss(&near, &x)
                };
                let expected = 10.0 + (near(1e-6) - near(-1e-6)) / 2e-6;
                assert!((found - expected).abs() < 1e-7, "{k}: {found} {expected}");
            }
            for (i, found) in input_slopes.iter().enumerate() {
                let near = |change: f64| {
                    let mut near = x;
                    near[i] += change;
                    loss(&network, &near)
                };
                let expected = (near(1e-6) - near(-1e-6)) / 2e-6;
                assert!((found - expected).abs() < 1e-7, "{i}: {found} {expected}");
            }
        }
    }

    /// For standard normal inputs, W₁ᵀx has variance 2. The mean square of h is half of this
    /// variance, 1, and the mean square of y is also 1. Over 400 inputs, 4000 units and 400
    /// outputs, both have standard deviations of about 0.07.
    #[test]
    fn a_random_network_keeps_the_size_of_its_inputs() {
        let sizes = Sizes { inputs: 400, hidden: 4000, outputs: 400 };
        let network = Perceptron::random(sizes, &mut stream(2));
        let at = network.activations(&stream(3).normals(400));
        let mean_square = |values: &[f64]| -> f64 {
            values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64
        };
        assert!((mean_square(&at.hidden) - 1.0).abs() < 0.25);
        assert!((mean_square(&at.outputs) - 1.0).abs() < 0.25);
    }
}
