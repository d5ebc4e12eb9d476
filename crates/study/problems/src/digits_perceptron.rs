//! Handwritten digits by form: each party tunes a perceptron on the images of its own form.
//!
//! docs/decisions/0016-digits-forms.md describes the forms and shows the surfaces.

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_streams::{Purpose, Seed, Stream};

use crate::digit_classifier::{DigitClassifier, TrainingSettings};
use crate::digits::{Digit, N_FORMS, forms};
use crate::problem::{ProblemError, coordinates};

/// Seed of the split and of all training runs. It is part of the problem's definition.
const SPLIT_SEED: u64 = 1998;

/// One party's objective: the two-fold cross-validated accuracy of a perceptron with one hidden
/// layer on the party's images, as a function of five hyperparameters; to be maximized.
///
/// The images are split into halves once. A network is trained on each half and scored on the
/// other, so every image counts once. The halves, initial weights and order of images are fixed, so
/// equal points have equal values.
#[derive(Clone, Debug)]
pub struct DigitsPerceptron {
    form: usize,
    space: Space,
    seed: Seed,
    halves: [Vec<Digit>; 2],
}

impl DigitsPerceptron {
    /// Creates the objective of the party with form number `form`.
    ///
    /// # Errors
    /// Fails if there is no form with this number.
    pub fn new(form: usize) -> Result<Self, ProblemError> {
        let images = forms().into_iter().nth(form).ok_or_else(|| ProblemError::Option {
            problem: "digits-perceptron".into(),
            key: "silo",
            found: form.to_string(),
            expected: format!("a number from 0 to {}", N_FORMS - 1),
        })?;
        let specs = [
            ("learning_rate", ParameterSpec::log_float(1e-5, 1.0)),
            ("hidden", ParameterSpec::log_int(2, 64)),
            ("l2", ParameterSpec::log_float(1e-6, 1.0)),
            ("epochs", ParameterSpec::log_int(2, 30)),
            ("batch_size", ParameterSpec::log_int(8, 64)),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
            .unwrap_or_else(|error| unreachable!("a valid space: {error}"));
        let seed = Seed::new(SPLIT_SEED).child(Purpose::PROBLEM, form as u64);
        let halves = halve(images, &mut seed.stream(Purpose::PROBLEM, 0, 0));
        Ok(Self { form, space, seed, halves })
    }

    /// Returns the share of images that are classified correctly by the network trained on the
    /// other half.
    fn accuracy(&self, settings: &TrainingSettings) -> f64 {
        let [first, second] = &self.halves;
        let n_right = |fold, train: &[Digit], validation: &[Digit]| {
            let seed = self.seed.child(Purpose::PROBLEM, fold);
            DigitClassifier::trained(train, settings, seed).n_right(validation)
        };
        let right = n_right(0, first, second) + n_right(1, second, first);
        right as f64 / (first.len() + second.len()) as f64
    }

    /// Returns the settings at a point of the space.
    fn settings(&self, point: &Point) -> Result<TrainingSettings, Failure> {
        let at = coordinates(&self.space, point)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole numbers from 2 to 64"
        )]
        Ok(TrainingSettings {
            learning_rate: at[0],
            n_hidden: at[1] as usize,
            l2: at[2],
            n_epochs: at[3] as usize,
            batch_size: at[4] as usize,
            pixel_noise: 0.0,
        })
    }
}

/// Splits images into halves at random within each digit. For each digit, the halves differ by at
/// most one image.
fn halve(mut images: Vec<Digit>, stream: &mut Stream) -> [Vec<Digit>; 2] {
    stream.shuffle(&mut images);
    images.sort_by_key(|image| image.digit);
    let mut halves = [Vec::new(), Vec::new()];
    for (index, image) in images.into_iter().enumerate() {
        halves[index % 2].push(image);
    }
    halves
}

impl Objective for DigitsPerceptron {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        let accuracy = self.settings(point).map(|settings| self.accuracy(&settings));
        accuracy.map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for DigitsPerceptron {
    fn name(&self) -> String {
        format!("digits-perceptron silo {} of {N_FORMS}", self.form)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.settings(point).ok().map(|settings| self.accuracy(&settings))
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::Value;

    use super::*;

    /// Returns the point with these hyperparameters.
    fn point(learning_rate: f64, hidden: i64, epochs: i64) -> Point {
        Point::new(vec![
            ("learning_rate".into(), Value::Float(learning_rate)),
            ("hidden".into(), Value::Int(hidden)),
            ("l2".into(), Value::Float(1e-4)),
            ("epochs".into(), Value::Int(epochs)),
            ("batch_size".into(), Value::Int(8)),
        ])
    }

    fn accuracy(form: usize, point: &Point) -> f64 {
        match DigitsPerceptron::new(form).unwrap().evaluate(point, TrialId { agent: 0, trial: 0 }) {
            Outcome::Value(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn halves_have_all_images_and_halve_every_digit() {
        for (form, images) in forms().iter().enumerate() {
            let [first, second] = DigitsPerceptron::new(form).unwrap().halves;
            assert_eq!(first.len() + second.len(), images.len());
            assert!(images.iter().all(|image| first.contains(image) || second.contains(image)));
            for digit in 0..10 {
                let count = |half: &[Digit]| half.iter().filter(|i| i.digit == digit).count();
                assert!(count(&first).abs_diff(count(&second)) <= 1);
            }
        }
    }

    /// A network trained for a long time at a moderate rate classifies nine out of ten images
    /// correctly. A network that hardly moves, overshoots or has two units classifies less than
    /// half correctly. Chance level is one in ten.
    #[test]
    fn good_settings_are_good_at_every_form_and_others_are_near_chance() {
        for form in [0, 5, 12] {
            assert!(accuracy(form, &point(0.01, 60, 30)) > 0.88);
            for poor in [point(1e-5, 60, 30), point(1.0, 60, 30), point(0.01, 2, 2)] {
                let value = accuracy(form, &poor);
                assert!((0.0..0.5).contains(&value), "{form}: {value}");
            }
        }
    }

    #[test]
    fn equal_points_have_equal_values_and_forms_differ() {
        let point = point(0.003, 30, 20);
        let problem = DigitsPerceptron::new(3).unwrap();
        assert_eq!(problem.noiseless(&point), Some(accuracy(3, &point)));
        assert!((accuracy(0, &point) - accuracy(1, &point)).abs() > 0.01);
        let refused = DigitsPerceptron::new(N_FORMS).unwrap_err().to_string();
        assert!(refused.contains("silo = 14, expected a number from 0 to 13"), "{refused}");
    }
}
