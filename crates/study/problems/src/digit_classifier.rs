//! A perceptron that classifies digits, and its training.

use fedbo_streams::{Purpose, Seed};

use crate::digits::{Digit, N_DIGITS, N_PIXELS};
use crate::neural::{Adam, Perceptron, Sizes};

/// A classifier of digits: p_k = exp(y_k)/Σ_j exp(y_j), with the outputs y of a perceptron.
#[derive(Clone, Debug)]
pub struct DigitClassifier(Perceptron);

/// Training settings of a digit classifier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingSettings {
    /// Number of hidden units h ≥ 1.
    pub n_hidden: usize,
    /// Number of passes over the training images.
    pub n_epochs: usize,
    /// Number of images per step. The last batch of an epoch can have fewer.
    pub batch_size: usize,
    /// Adam's rate η > 0 in the first epoch. It decreases linearly to 0.
    pub learning_rate: f64,
    /// Weight λ ≥ 0 of the penalty (λ/2) ‖W‖² on the weights, without biases.
    pub l2: f64,
    /// Standard deviation of the normal noise added to each pixel during training, which improves
    /// generalization to unseen images.
    pub pixel_noise: f64,
}

impl DigitClassifier {
    /// Trains a classifier: minimizes the mean of −ln p of the images' digits, plus the penalty, by
    /// Adam on mini-batches.
    ///
    /// The initial weights depend only on `seed` and the number of hidden units; the order of the
    /// images depends only on `seed`. Cost: O(h) per image, and O(h) per step.
    pub fn trained(images: &[Digit], settings: &TrainingSettings, seed: Seed) -> Self {
        let sizes = Sizes { inputs: N_PIXELS, hidden: settings.n_hidden, outputs: N_DIGITS };
        let mut model = Self(Perceptron::random(sizes, &mut seed.stream(Purpose::PROBLEM, 0, 0)));
        let mut adam = Adam::new(model.0.parameters.len());
        let mut gradient = vec![0.0; model.0.parameters.len()];
        let mut order: Vec<usize> = (0..images.len()).collect();
        for epoch in 0..settings.n_epochs {
            let rate = settings.learning_rate * (1.0 - epoch as f64 / settings.n_epochs as f64);
            let mut stream = seed.stream(Purpose::PROBLEM, 1, epoch as u64 + 1);
            stream.shuffle(&mut order);
            for batch in order.chunks(settings.batch_size) {
                gradient.fill(0.0);
                for &index in batch {
                    let Digit { mut pixels, digit } = images[index];
                    if settings.pixel_noise > 0.0 {
                        for pixel in &mut pixels {
                            *pixel += settings.pixel_noise * stream.normal();
                        }
                    }
                    let seen = Digit { pixels, digit };
                    model.add_slopes(&seen, 1.0 / batch.len() as f64, &mut gradient);
                }
                if settings.l2 > 0.0 {
                    model.0.add_penalty_slopes(settings.l2, &mut gradient);
                }
                adam.step(&mut model.0.parameters, &gradient, rate);
            }
        }
        model
    }

    /// Returns the probabilities of the digits 0 to 9.
    pub fn probabilities(&self, pixels: &[f64; N_PIXELS]) -> [f64; N_DIGITS] {
        softmax(&self.0.activations(pixels).outputs)
    }

    /// Returns the number of correctly classified images. If several outputs are the highest, the
    /// lowest digit is chosen.
    pub fn n_right(&self, images: &[Digit]) -> usize {
        let right = images.iter().filter(|image| {
            let outputs = self.0.activations(&image.pixels).outputs;
            let best =
                (1..N_DIGITS).fold(0, |best, k| if outputs[k] > outputs[best] { k } else { best });
            best == image.digit
        });
        right.count()
    }

    /// Adds `share` times the gradient of −ln p of an image's digit: ∂(−ln p)/∂y = p − e.
    fn add_slopes(&self, image: &Digit, share: f64, gradient: &mut [f64]) {
        let at = self.0.activations(&image.pixels);
        let mut slopes = softmax(&at.outputs);
        slopes[image.digit] -= 1.0;
        let slopes = slopes.map(|slope| share * slope);
        self.0.add_parameter_slopes(&image.pixels, &at, &slopes, gradient);
    }
}

/// Returns exp(y_k)/Σ_j exp(y_j), without overflow.
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

    const SETTINGS: TrainingSettings = TrainingSettings {
        n_hidden: 128,
        n_epochs: 4,
        batch_size: 8,
        learning_rate: 3e-3,
        l2: 0.0,
        pixel_noise: 0.0,
    };

    fn random(n_hidden: usize) -> DigitClassifier {
        let sizes = Sizes { inputs: N_PIXELS, hidden: n_hidden, outputs: N_DIGITS };
        DigitClassifier(Perceptron::random(sizes, &mut Seed::new(5).stream(Purpose::TEST, 0, 0)))
    }

    /// Compares the gradients of −ln p and of the penalty with central differences, for every 53rd
    /// parameter, with steps of 1e-5.
    #[test]
    fn slopes_are_those_of_the_loss() {
        let images = &digits()[..3];
        let (mut model, l2) = (random(128), 0.3);
        let loss = |model: &DigitClassifier| -> f64 {
            let losses =
                images.iter().map(|image| -model.probabilities(&image.pixels)[image.digit].ln());
            let (first, second) = (64 * 128, 128 * 10);
            let p = &model.0.parameters;
            let weights = p[..first].iter().chain(&p[first + 128..first + 128 + second]);
            0.5 * losses.sum::<f64>() + l2 / 2.0 * weights.map(|w| w * w).sum::<f64>()
        };
        for bias in &mut model.0.parameters[64 * 128..65 * 128] {
            *bias = 0.1; // reveals a penalty on biases
        }
        let mut gradient = vec![0.0; model.0.parameters.len()];
        for image in images {
            model.add_slopes(image, 0.5, &mut gradient);
        }
        model.0.add_penalty_slopes(l2, &mut gradient);
        let mut n_large = 0;
        for k in (0..gradient.len()).step_by(53) {
            let mut near = |change: f64| {
                model.0.parameters[k] += change;
                let loss = loss(&model);
                model.0.parameters[k] -= change;
                loss
            };
            let expected = (near(1e-5) - near(-1e-5)) / 2e-5;
            assert!((gradient[k] - expected).abs() < 1e-7, "{k}");
            n_large += usize::from(expected.abs() > 1e-3);
        }
        assert!(n_large > 20, "{n_large}");
    }

    /// Training separates the training images, and a penalty leads to smaller weights.
    #[test]
    fn training_learns_and_the_penalty_shrinks() {
        let images = &digits()[..60];
        let trained = |l2, n_epochs| {
            let settings = TrainingSettings { l2, n_epochs, ..SETTINGS };
            DigitClassifier::trained(images, &settings, Seed::new(6))
        };
        let size =
            |model: &DigitClassifier| -> f64 { model.0.parameters.iter().map(|w| w * w).sum() };
        assert!(random(128).n_right(images) < 20);
        assert!(trained(0.0, 20).n_right(images) > 57);
        assert!(size(&trained(0.1, 20)) < 0.5 * size(&trained(0.0, 20)));
        assert_eq!(trained(0.1, 2).0, trained(0.1, 2).0);
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
