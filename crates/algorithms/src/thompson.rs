//! Thompson sampling: query where a function drawn from the posterior is largest.

use std::collections::HashSet;
use std::sync::Arc;

use fedbo_gp::{
    FeatureMap, JointSampler, Kernel, PathwiseSample, WeightPosterior, WeightSpaceSample,
};
use fedbo_optim::{Function, MultiStart, Points, sobol};
use fedbo_streams::{Seed, Stream};

use crate::domain::Candidates;
use crate::{
    Domain, Maximizer, Observation, OwnSampler, Proposal, Source, Strategy, StrategyError,
    Surrogate, SurrogateSettings, UcbMultiplier,
};

/// What happens when the best candidate was evaluated before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// It is evaluated again: the objective is noisy.
    Allow,
    /// The next best local maximum that is new is taken, and a uniformly random point if there is none.
    Avoid,
    /// A uniformly random point is taken at once, as in the authors' code.
    Randomize,
}

/// How a [`ThompsonSampling`] strategy works.
#[derive(Clone, Debug)]
pub struct ThompsonSettings {
    /// The surrogate.
    pub surrogate: SurrogateSettings,
    /// The search for a function's maximum.
    pub maximizer: Maximizer,
    /// β_t.
    pub ucb_multiplier: UcbMultiplier,
    /// Repeated points.
    pub repeats: Repeats,
}

impl ThompsonSettings {
    /// Defaults for a deterministic objective on a box of dimension `dim`.
    pub fn default_for(dim: usize) -> Self {
        Self {
            surrogate: SurrogateSettings::default_for(dim),
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(dim)),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Avoid,
        }
    }
}

/// Thompson sampling with a Gaussian process: f_t ~ GP(μ_{t−1}, β_t² σ²_{t−1}), x_t = argmax f_t (FTS Algorithm 1 line 4).
#[derive(Clone, Debug)]
pub struct ThompsonSampling {
    domain: Domain,
    surrogate: Surrogate,
    maximizer: Maximizer,
    ucb_multiplier: UcbMultiplier,
    repeats: Repeats,
    /// Points that cover the domain, for γ_t.
    cover: Points,
    evaluated: HashSet<Vec<u64>>,
}

/// Half the side of the box around a failed trial, as a share of √d, that is not queried again.
const FAILED_RADIUS: f64 = 0.01;

impl ThompsonSampling {
    /// A strategy without observations; `seed` feeds hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: ThompsonSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let dim = domain.dim();
        let (joint, cover) = match &domain {
            Domain::Space(space) => (None, sobol(space.dim(), 256, 0)),
            Domain::Finite(points) => {
                check_finite_domain(points)?;
                let points = points.as_ref().clone();
                let joint = match settings.surrogate.sampler {
                    OwnSampler::Exact(_) => {
                        let kernel: Kernel = settings.surrogate.initial().kernel.clone();
                        Some(Arc::new(JointSampler::new(kernel, points.clone())?))
                    }
                    OwnSampler::Features(_) => None,
                };
                (joint, points)
            }
        };
        Ok(Self {
            surrogate: Surrogate::new(dim, settings.surrogate, joint, seed)?,
            maximizer: settings.maximizer,
            ucb_multiplier: settings.ucb_multiplier.validate()?,
            repeats: settings.repeats,
            domain,
            cover,
            evaluated: HashSet::new(),
        })
    }

    /// Its surrogate.
    pub fn surrogate(&self) -> &Surrogate {
        &self.surrogate
    }

    /// Its domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Query for the maximum of a function drawn from the own posterior.
    ///
    /// # Errors
    /// If no finite query exists.
    pub fn propose_own(&self, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let posterior = self.surrogate.posterior();
        let step = self.surrogate.len() as u64 + 1;
        let beta = self.ucb_multiplier.at(
            step,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        );
        match (
            self.surrogate.sampler(),
            &self.domain,
            self.surrogate.joint(),
        ) {
            (OwnSampler::Exact(_), Domain::Finite(points), Some(joint)) => {
                let values = joint.sample(posterior, beta, stream)?;
                self.pick(Candidates::ranked(&values, points)?, Source::Own, stream)
            }
            (OwnSampler::Exact(prior), ..) => {
                let sample = PathwiseSample::draw(posterior, prior, beta, stream)?;
                self.propose_maximum(&sample, Source::Own, stream)
            }
            (OwnSampler::Features(n_features), ..) => {
                let map = FeatureMap::for_kernel(posterior.kernel(), n_features, stream)?;
                let weights = WeightPosterior::new(
                    &map,
                    posterior.noise_variance(),
                    posterior.inputs(),
                    posterior.outputs(),
                )?;
                let sample = WeightSpaceSample::new(&map, &weights.sample(beta, stream))?;
                self.propose_maximum(&sample, Source::Own, stream)
            }
        }
    }

    /// Query for the maximum of any function on the domain.
    ///
    /// # Errors
    /// If no finite query exists.
    pub fn propose_maximum(
        &self,
        function: &dyn Function,
        source: Source,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let candidates = self.maximizer.candidates(
            function,
            &self.domain,
            &self.extra_starts(stream),
            stream,
        )?;
        self.pick(candidates, source, stream)
    }

    /// The best observed inputs and points near the best: a sample often peaks beside them.
    fn extra_starts(&self, stream: &mut Stream) -> Points {
        const N_BEST: usize = 4;
        const N_NEAR: usize = 8;
        let outputs = self.surrogate.outputs();
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_by(|a, b| outputs[*b].total_cmp(&outputs[*a]));
        let mut starts = Points::new(self.domain.dim());
        for &index in order.iter().take(N_BEST) {
            starts.push(self.surrogate.inputs().row(index));
        }
        if let Some(&best) = order.first() {
            let lengthscales = self.surrogate.posterior().kernel().lengthscales();
            for _ in 0..N_NEAR {
                let near: Vec<f64> = self
                    .surrogate
                    .inputs()
                    .row(best)
                    .iter()
                    .zip(lengthscales)
                    .map(|(x, l)| (x + 0.25 * l.min(1.0) * stream.normal()).clamp(0.0, 1.0))
                    .collect();
                starts.push(&near);
            }
        }
        starts
    }

    /// The best candidate that may be queried, by the rule for repeats; failed trials are always kept away from.
    fn pick(
        &self,
        candidates: Candidates,
        source: Source,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let chosen = match self.repeats {
            Repeats::Allow => candidates.first(|unit| !self.near_failed(unit)),
            Repeats::Avoid => {
                candidates.first(|unit| !self.near_failed(unit) && !self.was_evaluated(unit))
            }
            Repeats::Randomize => candidates
                .first(|_| true)
                .filter(|unit| !self.near_failed(unit) && !self.was_evaluated(unit)),
        };
        match chosen {
            Some(unit) => Ok(Proposal { unit, source }),
            None => self.random_query(&source, stream),
        }
    }

    /// A random point in place of one from `source`.
    fn random_query(
        &self,
        source: &Source,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let unit = match &self.domain {
            Domain::Finite(points) => self.random_of(points, stream)?,
            Domain::Space(_) => self.random_in_box(stream),
        };
        let source = match *source {
            Source::Message { sender } => Source::RandomInstead { sender },
            _ => Source::Random,
        };
        Ok(Proposal { unit, source })
    }

    /// One of the points that may still be queried, each as likely as the others.
    fn random_of(&self, points: &Points, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        let usable: Vec<&[f64]> = points
            .rows()
            .filter(|unit| {
                !self.near_failed(unit)
                    && (self.repeats == Repeats::Allow || !self.was_evaluated(unit))
            })
            .collect();
        if usable.is_empty() {
            return Err(StrategyError::Exhausted {
                n_points: points.len(),
            });
        }
        Ok(usable[stream.below(usable.len())].to_vec())
    }

    /// A point that was neither evaluated nor lies near a failure; if none comes up, one that was evaluated; failing
    /// that too, one near a failure.
    fn random_in_box(&self, stream: &mut Stream) -> Vec<f64> {
        let (mut evaluated, mut near_failure) = (None, None);
        for _ in 0..1000 {
            let unit = self.domain.random(stream);
            let new = !self.was_evaluated(&unit);
            match self.near_failed(&unit) {
                false if new || self.repeats == Repeats::Allow => return unit,
                false => evaluated = Some(unit),
                true if new => near_failure = Some(unit),
                true => {}
            }
        }
        evaluated
            .or(near_failure)
            // Every point failed: one is as good as another.
            .unwrap_or_else(|| self.domain.random(stream))
    }

    fn was_evaluated(&self, unit: &[f64]) -> bool {
        self.evaluated.contains(&key(unit))
    }

    fn near_failed(&self, unit: &[f64]) -> bool {
        #[expect(
            clippy::cast_precision_loss,
            reason = "input dimensions are far below 2^53"
        )]
        let radius = match self.domain {
            Domain::Space(_) => FAILED_RADIUS * (unit.len() as f64).sqrt(),
            Domain::Finite(_) => 0.0,
        };
        self.surrogate.failed().rows().any(|failed| {
            failed
                .iter()
                .zip(unit)
                .all(|(a, b)| (a - b).abs() <= radius)
        })
    }
}

/// A finite domain needs a point, and finite coordinates.
fn check_finite_domain(points: &Points) -> Result<(), StrategyError> {
    let fail = |value: String| {
        Err(StrategyError::Setting {
            name: "finite domain",
            value,
            expected: "at least one point, all coordinates finite",
        })
    };
    if points.is_empty() {
        return fail("no point".into());
    }
    match points.as_flat().iter().find(|v| !v.is_finite()) {
        Some(bad) => fail(bad.to_string()),
        None => Ok(()),
    }
}

/// Coordinates as bit patterns, so that exact equality can be hashed.
fn key(unit: &[f64]) -> Vec<u64> {
    unit.iter().map(|v| (v + 0.0).to_bits()).collect()
}

impl Strategy for ThompsonSampling {
    fn ask(&self, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.propose_own(stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.surrogate.tell(observed)?;
        self.evaluated
            .extend(observed.iter().map(|observation| key(&observation.unit)));
        Ok(())
    }
}
