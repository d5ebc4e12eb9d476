//! Models of other agents' objectives in shared random features, for RGPE and TAF in a federation.

use std::fmt;
use std::sync::Arc;

use fedbo_gp::linalg::PackedLower;
use fedbo_gp::{FeatureMap, FunctionBasis, Standardizer, WeightMoments, WeightPosterior};
use fedbo_optim::Points;

use super::{MetaTask, TaskModel};
use crate::{SharedMessage, StrategyError};

/// The report that an agent sends once for RGPE or TAF (FTS section 3.2): its posterior over the
/// weights of the shared features and, for TAF, its incumbent. The report contains M + M² numbers,
/// or one more with the incumbent, whereas an FTS message contains M.
#[derive(Clone, PartialEq)]
pub struct FeatureReport {
    /// ν, the posterior mean of the M weights.
    pub mean: Vec<f64>,
    /// σ² Σ⁻¹, the posterior covariance of the weights, M×M row-major.
    pub covariance: Vec<f64>,
    /// Best observed output, in the units of the model.
    pub incumbent: Option<f64>,
}

impl fmt::Debug for FeatureReport {
    /// Prints only lengths, so that no weights reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FeatureReport {{ {} numbers }}", self.message_floats())
    }
}

impl FeatureReport {
    /// Builds the report from an agent's observations. Non-finite outputs are skipped.
    ///
    /// With `standardize`, the outputs are first scaled to mean 0 and variance 1. σ² is in the
    /// units of the resulting outputs. Cost: O(t M²).
    ///
    /// # Errors
    /// If no output is finite, σ² is not positive, or the posterior does not exist.
    pub fn new(
        map: &FeatureMap,
        noise_variance: f64,
        standardize: bool,
        observed: &MetaTask,
    ) -> Result<Self, StrategyError> {
        let finite = observed.inputs.rows().zip(&observed.outputs);
        let finite: Vec<(&[f64], f64)> =
            finite.filter(|(_, y)| y.is_finite()).map(|(x, y)| (x, *y)).collect();
        let raw: Vec<f64> = finite.iter().map(|(_, y)| *y).collect();
        let standardizer = if standardize { Standardizer::robust(&raw) } else { Standardizer::RAW };
        let outputs: Vec<f64> = raw.iter().map(|y| standardizer.standardize(*y)).collect();
        let incumbent = outputs.iter().copied().reduce(f64::max);
        StrategyError::ensure(
            incumbent.is_some(),
            "meta-task",
            &observed.name,
            "at least one finite value",
        )?;
        let inputs = Points::from_rows(observed.inputs.dim(), finite.iter().map(|(x, _)| *x));
        let posterior = WeightPosterior::new(map, noise_variance, &inputs, &outputs)?;
        Ok(Self { mean: posterior.mean().to_vec(), covariance: posterior.covariance(), incumbent })
    }

    /// Returns the report without the incumbent, which RGPE does not need.
    #[must_use]
    pub fn without_incumbent(self) -> Self {
        Self { incumbent: None, ..self }
    }

    /// Returns the number of floats in the message.
    pub fn message_floats(&self) -> usize {
        self.mean.len() + self.covariance.len() + usize::from(self.incumbent.is_some())
    }
}

/// A meta-task from another agent's message: f(x) = φ(x)·ω with ω ~ N(ν, σ² Σ⁻¹) from a
/// [`FeatureReport`], or the function of a [`SharedMessage`].
#[derive(Clone, Debug)]
pub struct FeatureTask {
    name: String,
    moments: WeightMoments,
    incumbent: Option<f64>,
}

impl FeatureTask {
    /// Creates the task from a received report. Cost: O(M³).
    ///
    /// # Errors
    /// If a length does not match the map, a number is not finite, or the covariance is not
    /// positive definite.
    pub fn new(
        name: impl Into<String>,
        map: Arc<FeatureMap>,
        report: &FeatureReport,
    ) -> Result<Self, StrategyError> {
        if let Some(incumbent) = report.incumbent
            && !incumbent.is_finite()
        {
            return Err(StrategyError::setting(
                "incumbent of a meta-task",
                incumbent,
                "a finite number",
            ));
        }
        Ok(Self {
            name: name.into(),
            moments: WeightMoments::new(map, &report.mean, &report.covariance)?,
            incumbent: report.incumbent,
        })
    }
}

impl FeatureTask {
    /// Creates the task from the statistics in a message. [`WeightMoments::of_statistics`] explains
    /// how the mean and scale are chosen. The task has no incumbent. Cost: O(r³ + M r²).
    ///
    /// # Errors
    /// If the statistics yield no posterior.
    ///
    /// # Panics
    /// If the message and the basis differ in the number of shared functions.
    pub fn of_message(
        name: impl Into<String>,
        basis: &FunctionBasis,
        message: &SharedMessage,
    ) -> Result<Self, StrategyError> {
        let moments = WeightMoments::of_statistics(basis, &message.statistics)?;
        Ok(Self { name: name.into(), moments, incumbent: None })
    }
}

impl TaskModel for FeatureTask {
    fn name(&self) -> &str {
        &self.name
    }

    fn dim(&self) -> usize {
        self.moments.map().dim()
    }

    /// Returns the received incumbent, or NaN if there is none.
    fn largest_output(&self) -> f64 {
        self.incumbent.unwrap_or(f64::NAN)
    }

    fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        self.moments.mean_variances(points)
    }

    fn predict(
        &self,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64) {
        self.moments.predict(x, mean_gradient, variance_gradient)
    }

    fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower) {
        self.moments.joint(points)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{FeatureDescription, GpError, LengthscaleLaw};
    use fedbo_testkit::dense::{self, Matrix};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    /// Compares a received task with the sender's posterior computed by dense linear algebra, with
    /// and without standardization.
    #[test]
    fn a_received_task_says_what_the_sender_believes() {
        let description = FeatureDescription::random(20, 2, LengthscaleLaw::Fixed(0.3));
        let map = FeatureMap::draw(&description, &mut test_stream(1)).unwrap();
        let inputs = uniform_points(15, 2, &mut test_stream(2));
        let mut outputs: Vec<f64> = inputs.rows().map(|x| 7.0 + 3.0 * x[0]).collect();
        outputs[4] = f64::NAN;
        let observed =
            MetaTask { name: "north".into(), inputs: inputs.clone(), outputs: outputs.clone() };
        let map = Arc::new(map);
        for standardize in [false, true] {
            let report = FeatureReport::new(&map, 0.01, standardize, &observed).unwrap();
            assert_eq!(report.message_floats(), 20 + 400 + 1);
            assert_eq!(report.clone().without_incumbent().message_floats(), 420);
            let task = FeatureTask::new("north", Arc::clone(&map), &report).unwrap();

            let known: Vec<usize> = (0..15).filter(|i| *i != 4).collect();
            let raw: Vec<f64> = known.iter().map(|i| outputs[*i]).collect();
            let (mean, std) = if standardize {
                let mean = raw.iter().sum::<f64>() / 14.0;
                let square = raw.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
                let scale = Standardizer::new(&raw);
                let std = scale.restore(1.0) - scale.restore(0.0);
                assert!((square / std / std - 14.0).abs() < 1.1); // variance by n or n − 1
                (mean, std)
            } else {
                (0.0, 1.0)
            };
            let y: Vec<f64> = raw.iter().map(|y| (y - mean) / std).collect();
            let rows = known.iter().map(|i| map.features(inputs.row(*i)));
            let rows = Matrix::from_rows(&rows.collect::<Vec<_>>());
            let (nu, covariance) = dense::weight_posterior(&rows, 0.01, &y);
            let best = y.iter().copied().fold(f64::MIN, f64::max);
            assert!((task.largest_output() - best).abs() < 1e-12);
            let points = uniform_points(6, 2, &mut test_stream(3));
            let (means, variances) = task.mean_variances(&points);
            for ((x, mean), variance) in points.rows().zip(means).zip(variances) {
                let phi = map.features(x);
                let expected: f64 = phi.iter().zip(&nu).map(|(p, w)| p * w).sum();
                let spread = covariance.times_vector(&phi);
                let spread: f64 = phi.iter().zip(spread).map(|(p, c)| p * c).sum();
                assert!((mean - expected).abs() < 1e-9, "{mean} {expected}");
                assert!((variance - spread).abs() < 1e-10, "{variance} {spread}");
            }
        }
        let nothing = MetaTask { outputs: vec![f64::NAN; 15], ..observed };
        assert!(FeatureReport::new(&map, 0.01, true, &nothing).is_err());
        let wrong = FeatureReport { mean: vec![0.0; 3], covariance: vec![0.0; 9], incumbent: None };
        assert!(matches!(
            FeatureTask::new("short", map, &wrong),
            Err(StrategyError::Surrogate(GpError::Length { .. }))
        ));
    }
}
