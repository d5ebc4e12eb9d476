//! The `[surrogate]` table: the model of a party's own objective.

use fedbo_gp::{Family, FitOptions, Hyperparameters, Kernel, Prior, default_lengthscale};
use fedbo_strategies::{HyperparameterPolicy, OwnSampler, Refit, SurrogateSettings};
use serde::Deserialize;

use super::check::Check;
use super::entry::NumberOrList;
use super::toml_file::{FileError, format_key_path};

/// The `[surrogate]` table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SurrogateTable {
    /// `matern-5/2` (default), `matern-3/2` or `squared-exponential`.
    pub kernel: Option<String>,
    /// True to standardize the outputs; default true.
    pub standardize: Option<bool>,
    /// Length scale in the unit cube: one number, or one per coordinate. If set, nothing is fitted.
    pub lengthscale: Option<NumberOrList>,
    /// Signal variance a² for a given length scale; default 1.
    pub outputscale: Option<f64>,
    /// Noise variance σ² for a given length scale; default 1e-4.
    pub noise_variance: Option<f64>,
}

impl Check<'_> {
    /// Returns a table's surrogate settings, for a space with `dim` unit-cube coordinates.
    ///
    /// # Errors
    /// Fails if a number is not above 0, the number of length scales is not `dim`, or a variance is
    /// given without a length scale.
    pub fn surrogate(
        &self,
        table: &[&str],
        given: &SurrogateTable,
        dim: usize,
    ) -> Result<SurrogateSettings, FileError> {
        let at = |key| [table, &[key]].concat();
        let family = self.family(&at("kernel"), given.kernel.as_deref())?;
        let family = family.unwrap_or(Family::Matern52);
        let kernel = |lengthscales, outputscale| {
            Kernel::new(family, lengthscales, outputscale)
                .unwrap_or_else(|error| unreachable!("checked to be above 0: {error}"))
        };
        let hyperparameters = match &given.lengthscale {
            None => {
                for (key, set) in [
                    ("outputscale", given.outputscale.is_some()),
                    ("noise_variance", given.noise_variance.is_some()),
                ] {
                    if set {
                        let (path, lengthscale) = (at(key), at("lengthscale"));
                        let message = format!(
                            "{} is fitted unless {} is given too; add lengthscale, or remove {key}",
                            format_key_path(&path),
                            format_key_path(&lengthscale)
                        );
                        return Err(self.file.error(&path, message));
                    }
                }
                HyperparameterPolicy::Fitted {
                    initial: Hyperparameters {
                        kernel: kernel(vec![default_lengthscale(dim); dim], 1.0),
                        noise_variance: 1e-2,
                    },
                    options: FitOptions::default(),
                    refit: Refit::Geometric,
                }
            }
            Some(entry) => {
                let path = at("lengthscale");
                let lengthscales = match entry {
                    NumberOrList::Number(number) => vec![*number; dim],
                    NumberOrList::List(list) if list.len() == dim => list.clone(),
                    NumberOrList::List(_) => {
                        let expected =
                            format!("a number, or {dim} numbers, one per coordinate of the space");
                        return Err(self.file.value_error(&path, expected));
                    }
                };
                for lengthscale in &lengthscales {
                    self.positive(&path, *lengthscale)?;
                }
                let positive = |key: &'static str, value: Option<f64>, default| {
                    value.map_or(Ok(default), |value| self.positive(&at(key), value))
                };
                let outputscale = positive("outputscale", given.outputscale, 1.0)?;
                HyperparameterPolicy::Fixed(Hyperparameters {
                    kernel: kernel(lengthscales, outputscale),
                    noise_variance: positive("noise_variance", given.noise_variance, 1e-4)?,
                })
            }
        };
        Ok(SurrogateSettings {
            hyperparameters,
            standardize: given.standardize.unwrap_or(true),
            sampler: OwnSampler::Exact(Prior::default()),
        })
    }
}
