//! Small strategies and domains shared by the tests.

use std::sync::Arc;

use fedbo_gp::{Family, Hyperparameters, Kernel, Prior};
use fedbo_optim::{MultiStart, Points};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, Maximizer, Observation, OwnQuery, OwnSampler, Proposal, Repeats,
    SampleSearch, Source, Strategy, StrategyError, SurrogateSettings, ThompsonSampling,
    ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Seed, Stream};

pub(crate) const SEED: u64 = 5;

pub(crate) fn float(low: f64, high: f64, log: bool) -> ParameterSpec {
    ParameterSpec { log: Some(log), ..ParameterSpec::float(low, high) }
}

/// Returns the box [0, 1]^dim.
pub(crate) fn unit_box(dim: usize) -> Domain {
    let names: Vec<String> = (0..dim).map(|j| format!("x{j}")).collect();
    let spec = float(0.0, 1.0, false);
    Domain::Space(Space::from_specs(names.iter().map(|name| (name.as_str(), &spec))).unwrap())
}

/// Returns `n` equidistant points in [0, 1].
pub(crate) fn line(n: u32) -> Domain {
    let end = f64::from(n - 1).max(1.0);
    Domain::Finite(Arc::new(Points::from_flat(1, (0..n).map(|i| f64::from(i) / end).collect())))
}

pub(crate) fn hyperparameters(dim: usize) -> Hyperparameters {
    Hyperparameters {
        kernel: Kernel::isotropic(Family::Matern52, dim, 0.2, 1.0).unwrap(),
        noise_variance: 1e-4,
    }
}

/// Returns settings with fixed hyperparameters and small searches, which are fast and predictable.
pub(crate) fn own(dim: usize) -> ThompsonSettings {
    ThompsonSettings {
        surrogate: SurrogateSettings {
            hyperparameters: HyperparameterPolicy::Fixed(hyperparameters(dim)),
            standardize: true,
            sampler: OwnSampler::Exact(Prior { n_features: 64 }),
        },
        maximizer: Maximizer::MultiStart(MultiStart {
            n_starts: 64,
            n_candidates: 8,
            n_refine: 4,
            ..MultiStart::for_dim(dim)
        }),
        ucb_multiplier: UcbMultiplier::Constant(1.0),
        repeats: Repeats::Allow,
        search: SampleSearch::Global,
        own_query: OwnQuery::Sample,
    }
}

pub(crate) fn ts(domain: Domain, settings: ThompsonSettings) -> ThompsonSampling {
    ThompsonSampling::new(domain, settings, Seed::new(SEED)).unwrap()
}

pub(crate) fn observed(unit: &[f64], value: Option<f64>, source: Source) -> Observation {
    Observation::new(unit.to_vec(), value, source)
}

/// Returns points of the line with `n` points as initial observations of `f`.
pub(crate) fn initial(xs: &[f64], f: impl Fn(f64) -> f64) -> Vec<Observation> {
    xs.iter().map(|x| observed(&[*x], Some(f(*x)), Source::Initial)).collect()
}

/// Asks for a proposal without running trials.
pub(crate) trait AskAlone: Strategy {
    fn dim(&self) -> usize;

    fn ask_alone(&self, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.ask(&Points::new(self.dim()), stream)
    }
}

impl AskAlone for ThompsonSampling {
    fn dim(&self) -> usize {
        self.domain().dim()
    }
}

pub(crate) fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}
