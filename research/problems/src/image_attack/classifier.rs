//! The attacked model: a perceptron that tells digits apart.

use fedbo_streams::{Purpose, Seed};

use crate::digits::{Digit, N_DIGITS, N_PIXELS};
use crate::neural::{Adam, Perceptron, Sizes};

/// Passes over the training images.
const N_EPOCHS: u64 = 60;
/// Images of a step.
const BATCH_SIZE: usize = 32;
/// Learning rate of the first epoch; it falls linearly to 0.
const LEARNING_RATE: f64 = 3e-3;
/// Standard deviation of the noise on each pixel in training.
const PIXEL_NOISE: f64 = 0.2;
/// Size of the network.
const SIZES: Sizes = Sizes { inputs: N_PIXELS, hidden: 128, outputs: N_DIGITS };

/// A classifier of digits: p_k = exp(y_k)/Σ_j exp(y_j) with the outputs y of a perceptron.
#[derive(Clone, Debug)]
pub(super) struct Classifier(Perceptron);

impl Classifier {
    /// Trained to lower the mean of −ln p of the images' digits, by Adam on mini-batches, with normal noise on all pixels: so it
    /// knows more images that it has not seen.
    pub(super) fn trained(images: &[Digit], seed: Seed) -> Self {
        let mut model = Self(Perceptron::random(SIZES, &mut seed.stream(Purpose::Problem, 0, 0)));
        let mut adam = Adam::new(model.0.parameters.len());
        let mut gradient = vec![0.0; model.0.parameters.len()];
        let mut order: Vec<usize> = (0..images.len()).collect();
        for epoch in 1..=N_EPOCHS {
            let rate = LEARNING_RATE * (1.0 - (epoch - 1) as f64 / N_EPOCHS as f64);
            let mut stream = seed.stream(Purpose::Problem, 1, epoch);
            stream.shuffle(&mut order);
            for batch in order.chunks(BATCH_SIZE) {
                gradient.fill(0.0);
                for &index in batch {
                    let Digit { mut pixels, digit } = images[index];
                    for pixel in &mut pixels {
                        *pixel += PIXEL_NOISE * stream.normal();
                    }
                    let noisy = Digit { pixels, digit };
                    model.add_slopes(&noisy, 1.0 / batch.len() as f64, &mut gradient);
                }
                adam.step(&mut model.0.parameters, &gradient, rate);
            }
        }
        model
    }

    /// The probabilities of digits 0 to 9.
    pub(super) fn probabilities(&self, pixels: &[f64; N_PIXELS]) -> [f64; N_DIGITS] {
        softmax(&self.0.activations(pixels).outputs)
    }

    /// Adds `share` times the slopes of −ln p of an image's digit: ∂(−ln p)/∂y = p − e.
    fn add_slopes(&self, image: &Digit, share: f64, gradient: &mut [f64]) {
        let at = self.0.activations(&image.pixels);
        let mut slopes = softmax(&at.outputs);
        slopes[image.digit] -= 1.0;
        let slopes = slopes.map(|slope| share * slope);
        self.0.add_slopes(&image.pixels, &at, &slopes, gradient);
    }
}

/// exp(y_k)/Σ_j exp(y_j), without overflow.
fn softmax(outputs: &[f64]) -> [f64; N_DIGITS] {
    let highest = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut probabilities = [0.0; N_DIGITS];
    for (probability, output) in probabilities.iter_mut().zip(outputs) {
        *probability = (output - highest).exp();
    }
    let total: f64 = probabilities.iter().sum();
    probabilities.map(|probability| probability / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::digits;

    /// Slopes of −ln p by central differences, of every 53rd parameter, with steps of 1e-5.
    #[test]
    fn slopes_are_those_of_the_loss() {
        let images = &digits()[..3];
        let mut model =
            Classifier(Perceptron::random(SIZES, &mut Seed::new(5).stream(Purpose::Test, 0, 0)));
        let loss = |model: &Classifier| -> f64 {
            let losses =
                images.iter().map(|image| -model.probabilities(&image.pixels)[image.digit].ln());
            losses.sum()
        };
        let mut gradient = vec![0.0; model.0.parameters.len()];
        for image in images {
            model.add_slopes(image, 0.5, &mut gradient);
        }
        let mut n_large = 0;
        for k in (0..gradient.len()).step_by(53) {
            let mut near = |change: f64| {
                model.0.parameters[k] += change;
                let loss = loss(&model);
                model.0.parameters[k] -= change;
                loss
            };
            let expected = 0.5 * (near(1e-5) - near(-1e-5)) / 2e-5;
            assert!((gradient[k] - expected).abs() < 1e-7, "{k}");
            n_large += usize::from(expected.abs() > 1e-3);
        }
        assert!(n_large > 20, "{n_large}");
    }

    #[test]
    fn large_outputs_overflow_no_exponential() {
        let mut outputs = [0.0; N_DIGITS];
        outputs[3] = 1e4;
        let probabilities = softmax(&outputs);
        assert!((probabilities[3] - 1.0).abs() < 1e-12);
        assert!(probabilities.iter().all(|p| p.is_finite()));
    }
}
