//! Gaussian-process surrogates: kernels, exact posteriors, random features, function samples,
//! hyperparameter fits.
//!
//! Computes posteriors over unknown functions from observations, and draws functions from these
//! posteriors. Inputs lie in `[0,1]^d`, and randomness comes from a [`fedbo_streams::Stream`]. This
//! crate does not depend on federations, strategies, search spaces or files. Only [`linalg`] uses
//! the linear-algebra backend, and only `lanes` dispatches to the machine's vector units.
//!
//! Start at [`Kernel`] and [`Posterior`], then [`FeatureMap`] and [`WeightPosterior`].

mod bad_tail;
mod decay;
mod evidence;
mod feature_error;
mod features;
mod fit;
mod function_basis;
mod joint;
mod kernel;
mod lanes;
pub mod linalg;
mod multi_task;
mod output_transform;
mod parallel;
mod pathwise;
mod posterior;
mod prediction;
mod shared_posterior;
mod standardizer;
mod weight_moments;
mod weight_prior;
mod weights;

pub use decay::{Continuation, DecayAverage, DecayFit, DecayNoise, DecayProcess};
pub use evidence::{Evidence, evidence};
pub use feature_error::FeatureError;
pub use features::{
    FeatureDescription, FeatureMap, FeatureSampling, LengthscaleLaw, MapHash, default_lengthscale,
};
pub use fit::{FitCriterion, FitOptions, Fitted, Hyperparameters, LogNormal, fit};
pub use function_basis::FunctionBasis;
pub use joint::JointSampler;
pub use kernel::{Columns, Family, Kernel};
pub use linalg::NotPositiveDefinite;
pub use multi_task::{MultiTaskHyperparameters, MultiTaskPosterior, TaskObservations};
pub use output_transform::{OutputTransform, Warping};
pub use pathwise::{PathwiseSample, Prior};
pub use posterior::Posterior;
pub use prediction::{Prediction, Predictor};
pub use shared_posterior::{SharedDraw, SharedPosterior, SharedPrediction};
pub use standardizer::Standardizer;
pub use weight_moments::WeightMoments;
pub use weight_prior::{
    Implausible, Remainder, Units, WeightPrior, WeightPriorSettings, WeightStatistics,
};
pub use weights::{Form, WeightPosterior, WeightSpaceSample};

/// A reason for failing to build a surrogate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GpError {
    /// A hyperparameter is out of range.
    #[error("{name} = {value}: expected a finite number {expected}")]
    Hyperparameter {
        /// The name of the hyperparameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The accepted values.
        expected: &'static str,
    },
    /// An input or an output is NaN or infinite.
    #[error("observation {index} is not finite")]
    NotFinite {
        /// Index of the observation.
        index: usize,
    },
    /// A covariance matrix is indefinite even with the largest jitter.
    #[error(transparent)]
    NotPositiveDefinite(#[from] NotPositiveDefinite),
    /// A vector has the wrong length.
    #[error("{what}: {found} numbers, expected {expected}")]
    Length {
        /// The name of the vector.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The expected length.
        expected: usize,
    },
    /// An observed input is not a point of the finite domain that is sampled.
    #[error("observation {index} does not lie on the finite domain")]
    OffDomain {
        /// Index of the observation.
        index: usize,
    },
}

/// Checks that a hyperparameter is finite and above zero.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, GpError> {
    if value.is_normal() && value > 0.0 {
        Ok(value)
    } else {
        Err(GpError::Hyperparameter { name, value, expected: "above 0" })
    }
}
