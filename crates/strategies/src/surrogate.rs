//! An agent's model of its own objective: observations, their scale, hyperparameters, and the
//! posterior.

use std::sync::Arc;

use fedbo_gp::{
    Family, FitCriterion, FitOptions, Fitted, GpError, Hyperparameters, JointSampler, Kernel,
    LogNormal, OutputTransform, Posterior, Prior, Standardizer, Warping, default_lengthscale, fit,
};
use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Purpose, Seed};

use crate::expected_improvement::ln_normal_distribution;
use crate::{Observation, OutputOption, schedule};

/// Minimum lead in log evidence at which a warping other than the first is chosen.
const LEAST_LEAD: f64 = 8.0;
/// Smallest exponent of a power transform at which fits also try other warpings.
const LIMIT_POWER: f64 = 1.9;

/// Returns true if the exponent of the power transform is close to its upper limit.
fn is_at_its_limit(transform: &OutputTransform) -> bool {
    transform.power().is_some_and(|power| power >= LIMIT_POWER)
}

/// The schedule of hyperparameter fits, as a function of the number n of observations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refit {
    /// After every k observations since the last fit. The first fit happens as soon as there are
    /// two observations.
    Every(usize),
    /// At these numbers of observations, in ascending order.
    At(Vec<usize>),
    /// At every observation up to 20, then each time n has grown by a tenth. The total cost stays
    /// within a constant factor of the cost of the last fit.
    Geometric,
}

impl Refit {
    /// Returns true if a fit is due at n observations and the last fit was at `last` observations.
    pub fn is_due(&self, last: usize, n: usize) -> bool {
        match self {
            Self::At(list) => n > last && list.iter().any(|at| (last + 1..=n).contains(at)),
            Self::Every(k) => n >= 2 && (last == 0 || n >= last + (*k).max(1)),
            Self::Geometric => {
                n >= 2 && (n <= 20 && n > last || n >= last + last.div_ceil(10).max(1))
            }
        }
    }
}

/// The source of the kernel and the noise variance.
#[derive(Clone, Debug)]
pub enum HyperparameterPolicy {
    /// Fixed to the given values.
    Fixed(Hyperparameters),
    /// Fitted by maximizing the evidence, starting from `initial`.
    Fitted {
        /// The start of the first fit, used until then.
        initial: Hyperparameters,
        /// Options of the search in each fit.
        options: FitOptions,
        /// The schedule of fits.
        refit: Refit,
    },
    /// Fitted at 2, 3, …, 20 observations, then each time the count has grown by a tenth, up
    /// to 3000.
    ///
    /// Every fit starts from `initial` and uses only the observations up to its scheduled count.
    /// The posterior is then rebuilt, and later observations are appended one by one. Above 5000
    /// observations the posterior is conditioned on a subset: see [`Surrogate::MAX_CONDITIONED`].
    ///
    /// The surrogate is therefore, bit for bit, a function of the ordered list of observations, no
    /// matter how these are split into calls of `tell`. After a failed fit, `initial` is used until
    /// the next fit. A fit uses at most 500 observations: half of them are the best ones, and the
    /// rest are spread evenly over the others. Above 40 observations, fits do no random restarts.
    Scheduled {
        /// The start of every fit, also used until the first fit.
        initial: Hyperparameters,
        /// Options of the search in each fit.
        options: FitOptions,
        /// Families from which every fit chooses the [`OutputTransform`] of standardized outputs.
        /// The transform's parameters are computed from all outputs and change with every
        /// observation.
        ///
        /// The first family is chosen unless it is a power transform with λ ≥ 1.9 and the criterion
        /// of a different family is larger by 8. The criterion is the objective of the fit plus Σ_i
        /// ln ψ'(z_i), so that it refers to the untransformed outputs. The margin is a compromise.
        /// With a larger margin, a search loses steps because the outputs are not warped enough.
        /// With a smaller margin, it loses steps because the model switches back and forth.
        warpings: Vec<Warping>,
    },
}

/// The method for drawing a function from an agent's own posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnSampler {
    /// Pathwise on a box, and exact joint samples on a finite domain.
    Exact(Prior),
    /// In weight space with this many fresh random features, as in the authors' code (M_target).
    Features(usize),
}

/// Settings of a [`Surrogate`].
#[derive(Clone, Debug)]
pub struct SurrogateSettings {
    /// Source of the hyperparameters.
    pub hyperparameters: HyperparameterPolicy,
    /// True to standardize outputs (default), false to use raw outputs (the papers' setting).
    pub standardize: bool,
    /// Method for drawing functions.
    pub sampler: OwnSampler,
}

impl SurrogateSettings {
    /// Returns settings with a Matérn-5/2 kernel that has one length scale per dimension,
    /// hyperparameter priors, standardized outputs and exact samples.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn default_for(dim: usize) -> Self {
        let kernel = Kernel::isotropic(Family::Matern52, dim, default_lengthscale(dim), 1.0);
        let initial = Hyperparameters {
            kernel: kernel.unwrap_or_else(|error| unreachable!("a positive length scale: {error}")),
            noise_variance: 1e-2,
        };
        let options =
            FitOptions { criterion: FitCriterion::MaximumPosterior, ..FitOptions::default() };
        Self {
            hyperparameters: HyperparameterPolicy::Fitted {
                initial,
                options,
                refit: Refit::Geometric,
            },
            standardize: true,
            sampler: OwnSampler::Exact(Prior::default()),
        }
    }
}

/// Diagnostics of a surrogate that are shown to users. No fallback is silent (INV-21).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Diagnostics {
    /// Number of hyperparameter fits.
    pub n_fits: usize,
    /// Number of failed fits. After a failure the previous hyperparameters are kept or, with
    /// scheduled fits, the initial ones are used.
    pub n_failed_fits: usize,
    /// Number of fits that returned hyperparameters without a posterior. The fallback is the same.
    pub n_rejected_fits: usize,
    /// Largest jitter in any factorization for the posterior, relative to the signal variance.
    pub largest_jitter: f64,
}

/// An agent's observations and the Gaussian process conditioned on them.
#[derive(Clone, Debug)]
pub struct Surrogate {
    settings: SurrogateSettings,
    seed: Seed,
    inputs: Points,
    /// Raw outputs, to be maximized.
    outputs: Vec<f64>,
    failed: Points,
    standardizer: Standardizer,
    /// With scheduled fits of standardized outputs, used instead of the standardizer.
    transform: Option<OutputTransform>,
    /// The family chosen by the last scheduled fit.
    warping: Warping,
    /// Indices of the observations on which the posterior is conditioned, ascending. Used only with
    /// scheduled fits.
    conditioned: Vec<usize>,
    posterior: Posterior,
    joint: Option<Arc<JointSampler>>,
    last_fit: usize,
    diagnostics: Diagnostics,
}

impl Surrogate {
    /// Largest number of observations for which, with scheduled fits, the posterior is conditioned
    /// on all of them.
    ///
    /// Above this number, the posterior is conditioned on 2000 chosen observations and on those
    /// added since the choice, always fewer than 4000 in total. A new choice is made as
    /// observations accumulate.
    pub const MAX_CONDITIONED: usize = schedule::MAX_CONDITIONED;

    /// Creates a surrogate without observations. `finite_domain` is the domain for joint sampling,
    /// if any. `seed` is used for the restarts of hyperparameter fits.
    ///
    /// # Errors
    /// If the initial hyperparameters are not valid.
    pub fn new(
        dim: usize,
        settings: SurrogateSettings,
        finite_domain: Option<Arc<JointSampler>>,
        seed: Seed,
    ) -> Result<Self, GpError> {
        let initial = settings.initial().clone();
        let posterior =
            Posterior::new(initial.kernel, initial.noise_variance, Points::new(dim), Vec::new())?;
        Ok(Self {
            settings,
            seed,
            inputs: Points::new(dim),
            outputs: Vec::new(),
            failed: Points::new(dim),
            standardizer: Standardizer::RAW,
            transform: None,
            warping: Warping::AFFINE,
            conditioned: Vec::new(),
            posterior,
            joint: finite_domain,
            last_fit: 0,
            diagnostics: Diagnostics::default(),
        })
    }

    /// Returns the number of successful observations.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Returns true if there are no observations.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Returns the inputs of the successful observations, n×d.
    pub fn inputs(&self) -> &Points {
        &self.inputs
    }

    /// Returns the raw outputs of the successful observations.
    pub fn outputs(&self) -> &[f64] {
        &self.outputs
    }

    /// Returns the inputs of failed trials.
    pub fn failed(&self) -> &Points {
        &self.failed
    }

    /// Returns the posterior over the standardized (or raw) function.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Returns the posterior median of the latent function at `unit` (d) and half the distance
    /// between its 16 % and 84 % quantiles, in the units of the observed values. These are the mean
    /// and the standard deviation unless the outputs are transformed nonlinearly. Cost: O(n²).
    pub fn predict(&self, unit: &[f64]) -> (f64, f64) {
        let (mean, variance) = self.posterior.mean_variance(unit);
        (self.restore(mean), self.restored_std(mean, variance.sqrt()))
    }

    /// Returns the standard deviation of the noise in the units of the observed values. If the
    /// outputs are transformed nonlinearly, the result applies near the best output.
    pub fn noise_std(&self) -> f64 {
        let best = self.posterior.outputs().iter().copied().reduce(f64::max);
        self.restored_std(best.unwrap_or(0.0), self.posterior.noise_variance().sqrt())
    }

    /// Returns the probability Φ((μ(x) − t)/σ(x)) that the noise-free function at `unit` is at
    /// least `value`, given in the units of the observed values.
    pub fn probability_of_at_least(&self, value: f64, unit: &[f64]) -> f64 {
        let (mean, variance) = self.posterior.mean_variance(unit);
        let gap = mean - self.transformed_value(value);
        match variance > 0.0 {
            true => ln_normal_distribution(gap / variance.sqrt()).0.exp(),
            false => f64::from(u8::from(gap >= 0.0)),
        }
    }

    /// Converts a value from the units of the observed values to the units of the posterior.
    pub(crate) fn transformed_value(&self, y: f64) -> f64 {
        match &self.transform {
            Some(transform) => transform.apply(y),
            None => self.standardizer.standardize(y),
        }
    }

    /// Converts a value from the posterior's units back to the units of the observed values.
    pub(crate) fn restore(&self, z: f64) -> f64 {
        match &self.transform {
            Some(transform) => transform.restore(z),
            None => self.standardizer.restore(z),
        }
    }

    /// Returns the posterior's 0 and a difference of 1, in the units of the observed values. Valid
    /// only if the outputs are transformed affinely.
    pub(crate) fn level_and_size(&self) -> (f64, f64) {
        let level = self.restore(0.0);
        (level, self.restored_std(0.0, 1.0))
    }

    /// Returns the outputs on which the posterior is conditioned, standardized but not transformed,
    /// and the standardizer.
    pub(crate) fn standardized(&self) -> (Vec<f64>, Standardizer) {
        let standardizer = match self.settings.standardize {
            true => Standardizer::robust(&self.outputs),
            false => Standardizer::RAW,
        };
        let standardized = |v: &f64| standardizer.standardize(*v);
        let outputs = match self.settings.hyperparameters {
            HyperparameterPolicy::Scheduled { .. } => select(&self.conditioned, &self.outputs),
            _ => self.outputs.clone(),
        };
        (outputs.iter().map(standardized).collect(), standardizer)
    }

    /// Returns the logarithm of the derivative of the posterior's output with respect to the
    /// standardized output. `y` is in the units of the observed values.
    pub(crate) fn ln_slope(&self, y: f64) -> f64 {
        self.transform.map_or(0.0, |transform| transform.ln_slope(y))
    }

    fn restored_std(&self, mean: f64, std: f64) -> f64 {
        match &self.transform {
            Some(transform) => {
                0.5 * (transform.restore(mean + std) - transform.restore(mean - std))
            }
            None => self.standardizer.restore_std(std),
        }
    }

    /// Returns true if the posterior models standardized outputs.
    pub(crate) fn standardizes(&self) -> bool {
        self.settings.standardize
    }

    /// Returns the method for drawing functions.
    pub fn sampler(&self) -> OwnSampler {
        self.settings.sampler
    }

    /// Returns the sampler on the finite domain for the current kernel, if there is one.
    pub(crate) fn joint(&self) -> Option<&JointSampler> {
        self.joint.as_deref()
    }

    /// Returns the diagnostics so far.
    pub fn diagnostics(&self) -> Diagnostics {
        self.diagnostics
    }

    /// Returns the transform of standardized outputs, which exists only with scheduled fits.
    pub fn output_transform(&self) -> Option<&OutputTransform> {
        self.transform.as_ref()
    }

    /// Adds observations and refits when a fit is due. Failed and non-finite observations do not
    /// enter the model. Cost: O(n² m) for m observations without a refit.
    ///
    /// # Errors
    /// If an input is not finite, or no posterior can be built even with the previous
    /// hyperparameters. In that case the observations are unchanged.
    pub fn tell(&mut self, observed: &[Observation]) -> Result<(), GpError> {
        if let Some(index) =
            observed.iter().position(|observation| !observation.unit.iter().all(|v| v.is_finite()))
        {
            return Err(GpError::NotFinite { index });
        }
        let (inputs, n_outputs) = (self.inputs.clone(), self.outputs.len());
        let (failed, standardizer) = (self.failed.clone(), self.standardizer);
        self.add(observed).inspect_err(|_| {
            self.inputs = inputs;
            self.outputs.truncate(n_outputs);
            self.failed = failed;
            self.standardizer = standardizer;
        })
    }

    fn add(&mut self, observed: &[Observation]) -> Result<(), GpError> {
        let before = self.outputs.len();
        for observation in observed {
            match observation.value {
                Some(value) if value.is_finite() => {
                    self.inputs.push(&observation.unit);
                    self.outputs.push(value);
                }
                _ if observation.is_failure() => self.failed.push(&observation.unit),
                _ => {}
            }
        }
        if self.outputs.len() == before {
            return Ok(());
        }
        if let HyperparameterPolicy::Scheduled { .. } = self.settings.hyperparameters {
            self.follow_schedule()?;
            self.note_jitter();
            return Ok(());
        }
        if self.settings.standardize {
            self.standardizer = Standardizer::robust(&self.outputs);
        }
        let y: Vec<f64> = self.outputs.iter().map(|v| self.standardizer.standardize(*v)).collect();
        let refitted = self.refit_if_due(&y);
        // New observations extend the Cholesky factor unless they are the majority. If `append`
        // fails, the posterior is unchanged.
        let n_new = self.outputs.len() - before;
        if refitted || n_new > before.max(1) {
            self.rebuild(y)?;
        } else if n_new == 1 {
            self.posterior.append(self.inputs.row(before), y[before])?;
            self.posterior.set_outputs(y)?;
        } else {
            let new = self.inputs_between(before, self.outputs.len());
            let mut posterior = self.posterior.clone().extended(&new, &y[before..])?;
            posterior.set_outputs(y)?;
            self.replace_posterior(posterior)?;
        }
        self.note_jitter();
        Ok(())
    }

    fn note_jitter(&mut self) {
        let relative = self.posterior.factor().jitter() / self.posterior.kernel().outputscale();
        self.diagnostics.largest_jitter = self.diagnostics.largest_jitter.max(relative);
    }

    /// Updates the posterior after new observations as [`HyperparameterPolicy::Scheduled`]
    /// specifies.
    fn follow_schedule(&mut self) -> Result<(), GpError> {
        let n = self.outputs.len();
        let n_fitted = schedule::last_scheduled(n);
        let n_known = self.conditioned.last().map_or(0, |last| last + 1);
        if n_fitted == self.last_fit && n == n_known + 1 {
            let (y, transform) = self.transformed(n, self.warping);
            self.posterior.append(self.inputs.row(n - 1), y[n - 1])?;
            self.conditioned.push(n - 1);
            self.transform = transform;
            return self.posterior.set_outputs(select(&self.conditioned, &y));
        }
        let fitted = (n_fitted > self.last_fit).then(|| self.fit_first(n_fitted));
        let warping = fitted.as_ref().map_or(self.warping, |(_, warping)| *warping);
        let (y, transform) = self.transformed(n, warping);
        let (base, mut conditioned) = match fitted {
            Some((fitted, warping)) => {
                let chosen = self.chosen_of_first(n_fitted, &fitted, warping);
                (self.conditioned_on(&chosen, &y, &fitted)?, chosen)
            }
            None => (self.posterior.clone(), self.conditioned.clone()),
        };
        let first = match conditioned.last() {
            Some(last) => n_fitted.max(last + 1),
            None => 0,
        };
        let mut posterior = base.extended(&self.inputs_between(first, n), &y[first..])?;
        conditioned.extend(first..n);
        posterior.set_outputs(select(&conditioned, &y))?;
        self.replace_posterior(posterior)?;
        self.conditioned = conditioned;
        self.transform = transform;
        self.warping = warping;
        self.last_fit = n_fitted;
        Ok(())
    }

    /// Transforms the first m outputs to the units of a posterior over them. Also returns the
    /// transform, if there is one.
    fn transformed(&self, m: usize, warping: Warping) -> (Vec<f64>, Option<OutputTransform>) {
        let outputs = &self.outputs[..m];
        if !self.settings.standardize {
            return (outputs.to_vec(), None);
        }
        let transform = OutputTransform::new(outputs, warping);
        let y = outputs.iter().map(|v| transform.apply(*v)).collect();
        (y, Some(transform))
    }

    /// Returns the indices of the observations among the first m, a scheduled count, on which the
    /// posterior is conditioned. Below [`Surrogate::MAX_CONDITIONED`] observations, all of them are
    /// returned. Otherwise 2000 are returned: half of these are the best ones, and the rest are
    /// spread evenly over the others.
    ///
    /// The best observations are those with the largest posterior means of the latent function. The
    /// posterior is conditioned on the 500 observations of the fit, and its mean is updated by the
    /// observation itself: μ + v/(v + σ²)·(y − μ). With noise, this avoids choosing the
    /// observations with the luckiest noise. For a slack, the best observations are those closest
    /// to the constraint's bound.
    fn chosen_of_first(&self, m: usize, fitted: &Hyperparameters, warping: Warping) -> Vec<usize> {
        if m < Self::MAX_CONDITIONED {
            return (0..m).collect();
        }
        let (y, transform) = self.transformed(m, warping);
        let seen = schedule::representative(&self.outputs[..m], schedule::MAX_FITTED);
        let mut worth = y.clone();
        // Without a posterior, rank by the observed values. Building the posterior of the chosen
        // observations then reports the error.
        if let Ok(posterior) = self.posterior_of(&seen, &y, fitted) {
            let (means, variances) = posterior.mean_variances(&self.inputs_between(0, m));
            for (worth, (mean, variance)) in worth.iter_mut().zip(means.iter().zip(variances)) {
                let weight = variance / (variance + fitted.noise_variance);
                *worth = mean + weight * (*worth - mean);
            }
        }
        if warping == Warping::SignedLog {
            let bound = transform.map_or(0.0, |transform| transform.apply(0.0));
            worth.iter_mut().for_each(|worth| *worth = -(*worth - bound).abs());
        }
        schedule::representative(&worth, schedule::N_CHOSEN)
    }

    /// Builds a posterior from the observations at indices `places` with outputs `y`.
    fn posterior_of(
        &self,
        places: &[usize],
        y: &[f64],
        h: &Hyperparameters,
    ) -> Result<Posterior, GpError> {
        let rows = places.iter().map(|place| self.inputs.row(*place));
        let inputs = Points::from_rows(self.inputs.dim(), rows);
        Posterior::new(h.kernel.clone(), h.noise_variance, inputs, select(places, y))
    }

    /// Like [`Surrogate::posterior_of`], but falls back to the initial hyperparameters.
    fn conditioned_on(
        &mut self,
        places: &[usize],
        y: &[f64],
        fitted: &Hyperparameters,
    ) -> Result<Posterior, GpError> {
        match self.posterior_of(places, y, fitted) {
            Ok(posterior) => Ok(posterior),
            Err(_) => {
                self.diagnostics.n_rejected_fits += 1;
                self.posterior_of(places, y, self.settings.initial())
            }
        }
    }

    /// Returns inputs `from`..`to`.
    fn inputs_between(&self, from: usize, to: usize) -> Points {
        let dim = self.inputs.dim();
        Points::from_flat(dim, self.inputs.as_flat()[from * dim..to * dim].to_vec())
    }

    /// Fits the hyperparameters and the output warping to only the first m observations. Returns
    /// the initial hyperparameters and the first warping if no fit succeeds.
    fn fit_first(&mut self, m: usize) -> (Hyperparameters, Warping) {
        let HyperparameterPolicy::Scheduled { initial, options, warpings } =
            &self.settings.hyperparameters
        else {
            return (self.settings.initial().clone(), Warping::AFFINE);
        };
        let seen = schedule::representative(&self.outputs[..m], schedule::MAX_FITTED);
        let inputs =
            Points::from_rows(self.inputs.dim(), seen.iter().map(|index| self.inputs.row(*index)));
        let mut options = options.clone();
        if m > schedule::LAST_RESTARTED {
            options.n_restarts = 0;
        }
        let first = warpings.first().copied().unwrap_or(Warping::AFFINE);
        let mut best: Option<(f64, Hyperparameters, Warping)> = None;
        for (index, warping) in warpings.iter().enumerate() {
            let (y, transform) = self.transformed(m, *warping);
            let y: Vec<f64> = seen.iter().map(|index| y[*index]).collect();
            let jacobian: f64 = transform.map_or(0.0, |transform| {
                seen.iter().map(|index| transform.ln_slope(self.outputs[*index])).sum()
            });
            let mut stream = self.seed.stream(Purpose::HYPERPARAMETER_FIT, m as u64, 0);
            self.diagnostics.n_fits += 1;
            match fit(initial, &inputs, &y, &options, &mut stream) {
                Ok(fitted) => {
                    let lead = if index == 0 { 0.0 } else { LEAST_LEAD };
                    let value = fitted.value + jacobian - lead;
                    if best.as_ref().is_none_or(|(most, ..)| value > *most) {
                        best = Some((value, fitted.hyperparameters, *warping));
                    }
                }
                Err(_) => self.diagnostics.n_failed_fits += 1,
            }
            // The other warpings are stronger, which helps only if the first warping has reached
            // its limit.
            if index == 0 && !transform.is_some_and(|transform| is_at_its_limit(&transform)) {
                break;
            }
        }
        match best {
            Some((_, hyperparameters, warping)) => (hyperparameters, warping),
            None => (initial.clone(), first),
        }
    }

    /// Refits if [`Refit`] requires it. Returns true if the posterior was conditioned with new
    /// hyperparameters.
    fn refit_if_due(&mut self, y: &[f64]) -> bool {
        let HyperparameterPolicy::Fitted { options, refit, .. } = &self.settings.hyperparameters
        else {
            return false;
        };
        let n = self.outputs.len();
        if !refit.is_due(self.last_fit, n) {
            return false;
        }
        self.last_fit = n;
        self.diagnostics.n_fits += 1;
        let start = Hyperparameters {
            kernel: self.posterior.kernel().clone(),
            noise_variance: self.posterior.noise_variance(),
        };
        let mut stream = self.seed.stream(Purpose::HYPERPARAMETER_FIT, n as u64, 0);
        match fit(&start, &self.inputs, y, options, &mut stream) {
            Ok(Fitted { hyperparameters, .. }) => {
                match self.condition(&hyperparameters, y.to_vec()) {
                    Ok(()) => return true,
                    Err(_) => self.diagnostics.n_rejected_fits += 1,
                }
            }
            Err(_) => self.diagnostics.n_failed_fits += 1,
        }
        false
    }

    fn condition(&mut self, h: &Hyperparameters, y: Vec<f64>) -> Result<(), GpError> {
        let posterior = Posterior::new(h.kernel.clone(), h.noise_variance, self.inputs.clone(), y)?;
        self.replace_posterior(posterior)
    }

    /// Replaces the posterior and adapts the sampler of the finite domain to its kernel.
    fn replace_posterior(&mut self, posterior: Posterior) -> Result<(), GpError> {
        if let Some(joint) = &self.joint
            && joint.kernel() != posterior.kernel()
        {
            self.joint = Some(Arc::new(joint.with_kernel(posterior.kernel().clone())?));
        }
        self.posterior = posterior;
        Ok(())
    }

    fn rebuild(&mut self, y: Vec<f64>) -> Result<(), GpError> {
        if self.posterior.len() == y.len() {
            return Ok(()); // a fit has just conditioned on them
        }
        let kept = Hyperparameters {
            kernel: self.posterior.kernel().clone(),
            noise_variance: self.posterior.noise_variance(),
        };
        self.condition(&kept, y)
    }
}

impl SurrogateSettings {
    /// Returns the settings for a single-party study.
    ///
    /// The kernel is Matérn-5/2 with one length scale per dimension. Outputs are standardized and
    /// transformed by the Yeo–Johnson power transform (use [`SurrogateSettings::with_outputs`] for
    /// a different transform). Samples are exact. Hyperparameters follow
    /// [`HyperparameterPolicy::Scheduled`] fits with priors ℓ_j ~ LogNormal(ln(d)/2, 1) and a² ~
    /// LogNormal(0, 1).
    ///
    /// If `noisy`, the noise variance has the usual prior, LogNormal(−4, 1). Otherwise the
    /// objective always returns the same value at the same point, and σ² ~ LogNormal(ln 1e-6, 1)
    /// from 1e-8 to 1e-3 allows for little more than rounding.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        let mut initial = SurrogateSettings::default_for(dim).initial().clone();
        let mut options = FitOptions {
            lengthscale_prior: LogNormal { location: 0.0, variance: 1.0 },
            ..FitOptions::default()
        };
        if !noisy {
            initial.noise_variance = 1e-6;
            options.noise_bounds = (1e-8, 1e-3);
            options.noise_prior = LogNormal { location: 1e-6_f64.ln(), variance: 1.0 };
        }
        Self {
            hyperparameters: HyperparameterPolicy::Scheduled {
                initial,
                options,
                warpings: OutputOption::YeoJohnson.warpings(),
            },
            standardize: true,
            // Achieves the same regrets as 1024 features in half the time.
            sampler: OwnSampler::Exact(Prior { n_features: 512 }),
        }
    }

    /// Returns the settings with a different output transform, if fits are scheduled. With
    /// [`OutputOption::None`], the outputs of several models can be compared and added.
    #[must_use]
    pub fn with_outputs(self, option: OutputOption) -> Self {
        self.with_warpings(option.warpings())
    }

    /// Returns the settings for the slack of a constraint. The transform keeps the sign of the
    /// slack.
    #[must_use]
    pub fn for_slack(self) -> Self {
        self.with_warpings(OutputOption::OF_SLACKS.to_vec())
    }

    fn with_warpings(mut self, of_fits: Vec<Warping>) -> Self {
        if let HyperparameterPolicy::Scheduled { warpings, .. } = &mut self.hyperparameters {
            *warpings = of_fits;
        }
        self
    }

    /// Like [`SurrogateSettings::for_study`], but for a space that can have categorical parameters.
    ///
    /// The length scales of categorical coordinates are shorter by a factor e, both in the prior
    /// and at the start, because two choices are a priori less alike than the two ends of a range.
    /// Otherwise, bad values for one choice would count too much against other choices with few
    /// trials.
    pub fn for_space(space: &Space, noisy: bool) -> Self {
        Self::for_coordinates(lengthscale_offsets(space), noisy)
    }

    /// Returns the settings for a noisy objective over a space, with the training epoch as an
    /// additional last coordinate.
    pub fn for_trainings(space: &Space) -> Self {
        let mut offsets = lengthscale_offsets(space);
        offsets.push(0.0);
        Self::for_coordinates(offsets, true)
    }

    /// Like [`SurrogateSettings::for_study`], but with `offsets` added to the log length scales in
    /// the prior and at the start.
    fn for_coordinates(offsets: Vec<f64>, noisy: bool) -> Self {
        let mut settings = Self::for_study(offsets.len(), noisy);
        if let HyperparameterPolicy::Scheduled { initial, options, .. } =
            &mut settings.hyperparameters
        {
            let start = &initial.kernel;
            let lengthscales = start.lengthscales().iter().zip(&offsets);
            let lengthscales = lengthscales.map(|(l, offset)| l * offset.exp()).collect();
            initial.kernel = Kernel::new(start.family(), lengthscales, start.outputscale())
                .unwrap_or_else(|error| unreachable!("positive length scales: {error}"));
            options.lengthscale_offsets = offsets;
        }
        settings
    }

    /// Returns the hyperparameters before any fit.
    pub fn initial(&self) -> &Hyperparameters {
        match &self.hyperparameters {
            HyperparameterPolicy::Fixed(given)
            | HyperparameterPolicy::Fitted { initial: given, .. }
            | HyperparameterPolicy::Scheduled { initial: given, .. } => given,
        }
    }
}

/// Returns the values at the given indices.
fn select(places: &[usize], values: &[f64]) -> Vec<f64> {
    places.iter().map(|place| values[*place]).collect()
}

/// Returns the offset of each coordinate's log length scale relative to that of a numeric range.
fn lengthscale_offsets(space: &Space) -> Vec<f64> {
    const CATEGORICAL: f64 = -1.0;
    let parameters = space.parameters().iter();
    parameters
        .flat_map(|parameter| {
            let offset = if parameter.kind().is_ordered() { 0.0 } else { CATEGORICAL };
            std::iter::repeat_n(offset, parameter.n_coordinates())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::Source;

    /// If 19 of 20 points meet a constraint, nearly all points next to its bound are in the chosen
    /// subset.
    #[test]
    fn the_slacks_next_to_the_bound_are_chosen() {
        let settings = SurrogateSettings::for_study(2, false).for_slack();
        let mut surrogate = Surrogate::new(2, settings, None, Seed::new(1)).unwrap();
        let points = uniform_points(6_000, 2, &mut test_stream(4));
        let observed = |x: &[f64]| Observation::new(x.to_vec(), Some(x[0] - 0.05), Source::Own);
        surrogate.tell(&points.rows().map(observed).collect::<Vec<_>>()).unwrap();
        let near = |rows: &Points| rows.rows().filter(|x| x[0] < 0.1).count();
        let (kept, all) = (near(surrogate.posterior().inputs()), near(&points));
        assert!(kept * 10 > all * 9, "{kept} of {all}");
    }
}
