//! A variational autoencoder of digits: a short code for each image, and an image for each code.

use fedbo_streams::{Purpose, Seed};

use fedbo_problems::digits::{Digit, N_PIXELS};
use fedbo_problems::neural::{Adam, Perceptron, Sizes};

/// Number of passes over the training images.
const N_EPOCHS: u64 = 120;
/// Number of images per step.
const BATCH_SIZE: usize = 32;
/// Learning rate of the first epoch. The rate falls linearly to 0.
const LEARNING_RATE: f64 = 5e-3;
/// Number of hidden units in the encoder and in the decoder.
const N_HIDDEN: usize = 96;

/// Encoder and decoder (Kingma & Welling 2014), both perceptrons. The code z of an image x has
/// `n_code` numbers, which are normal with means m and variances s². The encoder's outputs are m
/// and ln s². Pixels are σ(y), where y are the decoder's outputs at z.
#[derive(Clone, Debug)]
pub(super) struct Autoencoder {
    n_code: usize,
    encoder: Perceptron,
    decoder: Perceptron,
}

/// Gradients with respect to the parameters of encoder and decoder.
struct Gradients {
    encoder: Vec<f64>,
    decoder: Vec<f64>,
}

impl Autoencoder {
    /// Creates random networks for codes of `n_code` numbers.
    fn random(n_code: usize, seed: Seed) -> Self {
        let network = |inputs, outputs, index| {
            let sizes = Sizes { inputs, hidden: N_HIDDEN, outputs };
            Perceptron::random(sizes, &mut seed.stream(Purpose::PROBLEM, index, 0))
        };
        Self {
            n_code,
            encoder: network(N_PIXELS, 2 * n_code, 0),
            decoder: network(n_code, N_PIXELS, 1),
        }
    }

    /// Trains an autoencoder: minimizes the images' mean loss with Adam on mini-batches. See
    /// [`Self::add_slopes`].
    pub(super) fn trained(n_code: usize, images: &[Digit], seed: Seed) -> Self {
        let mut model = Self::random(n_code, seed);
        let n_parameters = [&model.encoder, &model.decoder].map(|part| part.parameters.len());
        let mut adams = n_parameters.map(Adam::new);
        let [encoder, decoder] = n_parameters.map(|n| vec![0.0; n]);
        let mut gradients = Gradients { encoder, decoder };
        let mut order: Vec<usize> = (0..images.len()).collect();
        for epoch in 1..=N_EPOCHS {
            let rate = LEARNING_RATE * (1.0 - (epoch - 1) as f64 / N_EPOCHS as f64);
            seed.stream(Purpose::PROBLEM, 2, epoch).shuffle(&mut order);
            let mut stream = seed.stream(Purpose::PROBLEM, 3, epoch);
            for batch in order.chunks(BATCH_SIZE) {
                gradients.encoder.fill(0.0);
                gradients.decoder.fill(0.0);
                for &index in batch {
                    let noise = stream.normals(n_code);
                    let share = 1.0 / batch.len() as f64;
                    model.add_slopes(&images[index].pixels, &noise, share, &mut gradients);
                }
                let [encoder, decoder] = &mut adams;
                encoder.step(&mut model.encoder.parameters, &gradients.encoder, rate);
                decoder.step(&mut model.decoder.parameters, &gradients.decoder, rate);
            }
        }
        model
    }

    /// Returns the mean m of an image's code.
    pub(super) fn code(&self, pixels: &[f64; N_PIXELS]) -> Vec<f64> {
        let mut outputs = self.encoder.activations(pixels).outputs;
        outputs.truncate(self.n_code);
        outputs
    }

    /// Returns the image of a code, with pixels in `[0, 1]`.
    pub(super) fn image(&self, code: &[f64]) -> [f64; N_PIXELS] {
        let outputs = self.decoder.activations(code).outputs;
        std::array::from_fn(|pixel| logistic(outputs[pixel]))
    }

    /// Adds `share` times the gradient of an image's loss. `noise` e contains `n_code` standard
    /// normal numbers:
    ///
    /// L = Σ_i (ln(1 + exp(y_i)) − x_i y_i) + ½ Σ_j (m_j² + s_j² − 1 − ln s_j²),   y decoded from z = m + s e
    ///
    /// The first sum is −Σ_i (x_i ln σ(y_i) + (1 − x_i) ln(1 − σ(y_i))), so ∂L/∂y = σ(y) − x. With
    /// ℓ = ln s²,
    /// ∂L/∂m = ∂L/∂z + m,   ∂L/∂ℓ = ½ s e ∂L/∂z + ½ (s² − 1).
    fn add_slopes(
        &self,
        pixels: &[f64; N_PIXELS],
        noise: &[f64],
        share: f64,
        gradients: &mut Gradients,
    ) {
        let encoded = self.encoder.activations(pixels);
        let (means, logs) = encoded.outputs.split_at(self.n_code);
        let stds: Vec<f64> = logs.iter().map(|log| (0.5 * log).exp()).collect();
        let spreads = stds.iter().zip(noise).map(|(s, e)| s * e);
        let code: Vec<f64> = means.iter().zip(spreads).map(|(m, spread)| m + spread).collect();
        let decoded = self.decoder.activations(&code);
        let excesses = decoded.outputs.iter().zip(pixels);
        let excesses: Vec<f64> = excesses.map(|(y, x)| share * (logistic(*y) - x)).collect();
        let decoder = &mut gradients.decoder;
        let code_slopes = self.decoder.add_slopes(&code, &decoded, &excesses, decoder);
        let mut slopes = vec![0.0; 2 * self.n_code];
        for j in 0..self.n_code {
            slopes[j] = code_slopes[j] + share * means[j];
            slopes[self.n_code + j] =
                0.5 * (stds[j] * noise[j] * code_slopes[j] + share * (stds[j] * stds[j] - 1.0));
        }
        self.encoder.add_slopes(pixels, &encoded, &slopes, &mut gradients.encoder);
    }
}

/// Returns σ(y) = 1/(1 + exp(−y)).
fn logistic(y: f64) -> f64 {
    1.0 / (1.0 + (-y).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedbo_problems::digits::digits;

    /// Compares the gradient with central differences of the loss, which is written with
    /// probabilities. The steps are 1e-5, and every 41st parameter is checked.
    #[test]
    fn slopes_are_those_of_the_loss() {
        let images = &digits()[..2];
        let noises = [[0.7, -1.3], [-0.2, 0.9]];
        let model = Autoencoder::random(2, Seed::new(6));
        let loss = |model: &Autoencoder| -> f64 {
            let losses = images.iter().zip(noises).map(|(image, noise)| {
                let outputs = model.encoder.activations(&image.pixels).outputs;
                let stds = [outputs[2], outputs[3]].map(|log| log.exp().sqrt());
                let code = [0, 1].map(|j| outputs[j] + stds[j] * noise[j]);
                let pixels = image.pixels.iter().zip(model.image(&code));
                let misses = pixels.map(|(x, p)| -x * p.ln() - (1.0 - x) * (1.0 - p).ln());
                let squares = [0, 1].map(|j| outputs[j] * outputs[j] + stds[j] * stds[j]);
                let logs = stds.map(|s| 2.0 * s.ln());
                misses.sum::<f64>() + 0.5 * (squares[0] + squares[1] - 2.0 - logs[0] - logs[1])
            });
            losses.sum()
        };
        let mut gradients = Gradients {
            encoder: vec![0.0; model.encoder.parameters.len()],
            decoder: vec![0.0; model.decoder.parameters.len()],
        };
        for (image, noise) in images.iter().zip(noises) {
            model.add_slopes(&image.pixels, &noise, 0.5, &mut gradients);
        }
        let mut n_large = 0;
        for (is_encoder, gradient) in [(true, &gradients.encoder), (false, &gradients.decoder)] {
            for k in (0..gradient.len()).step_by(41) {
                let near = |change: f64| {
                    let mut near = model.clone();
                    let part = if is_encoder { &mut near.encoder } else { &mut near.decoder };
                    part.parameters[k] += change;
                    loss(&near)
                };
                let expected = 0.5 * (near(1e-5) - near(-1e-5)) / 2e-5;
                let found = gradient[k];
                assert!((found - expected).abs() < 1e-6, "{k}: {found} {expected}");
                n_large += usize::from(expected.abs() > 1e-2);
            }
        }
        assert!(n_large > 30, "{n_large}");
    }
}
