//! One query of RGPE, TAF and the shared prior with the messages of many other agents, compared
//! with one query of federated Thompson sampling.

use std::sync::Arc;

use anyhow::Result;
use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{FeatureMap, Hyperparameters, Prior, WeightPosterior};
use fedbo_optim::{MultiStart, Points};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::meta::{
    EnsembleSettings, FeatureReport, FeatureTask, MetaTask, Rgpe, RgpeSettings, Taf, TafSettings,
    TaskModel,
};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, LogEiSettings, Maximizer, MessageSettings,
    Observation, OwnSampler, Proposal, Repeats, SharedMessage, SharedPrior, SharedPriorSettings,
    Source, Strategy, StrategyError, SurrogateSettings, ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed, Stream};
use serde_json::{Value, json};

use crate::measure::{Limits, columns, measure, rounded};
use crate::message::feature_map;
use crate::thompson_step::kernel;

const DIM: usize = 2;
/// Number of observations in each of the other agents' models, and the noise variance σ².
const T_OTHERS: usize = 50;
const NOISE_VARIANCE: f64 = 0.01;

/// Seconds per query in the authors' own runs: minimum and maximum over M, from the timestamps of
/// their results. The times include the evaluation of an SVM, which takes about 0.2 s.
const AUTHORS: [(&str, f64, f64); 3] =
    [("RGPE", 69.2, 185.8), ("TAF", 79.8, 99.9), ("FTS", 0.91, 1.05)];

/// Sizes of a measured step.
pub(crate) struct Setting {
    /// Number N of other agents.
    pub(crate) n_agents: usize,
    /// Number M of shared features.
    pub(crate) n_features: usize,
    /// Number of observations of the target.
    pub(crate) t: usize,
    /// Sample counts S for RGPE.
    pub(crate) samples: Vec<usize>,
}

/// Returns one row for RGPE with each sample count, and one row each for TAF, the shared prior and
/// FTS.
pub(crate) fn rows(setting: &Setting, limits: &Limits) -> Result<Vec<Value>> {
    let map = Arc::new(feature_map(setting.n_features, DIM)?);
    let others: Vec<MetaTask> = (0..setting.n_agents)
        .map(|agent| observed(format!("agent {agent}"), 1 + agent as u64, T_OTHERS))
        .collect();
    let models = received(&map, &others)?;
    let target = observed("target".into(), 0, setting.t);
    let (last, before) = told(&target);
    let ensemble =
        EnsembleSettings { surrogate: surrogate()?, maximizer: search(), repeats: Repeats::Avoid };
    let mut rows = Vec::new();
    for &n_samples in &setting.samples {
        let standard = RgpeSettings::for_study(DIM, true);
        let settings = RgpeSettings { ensemble: ensemble.clone(), n_samples, ..standard };
        let rgpe = Rgpe::with_models(square()?, models.clone(), settings, Seed::new(1))?;
        rows.push(row("RGPE", Some(n_samples), setting, rgpe, &before, &last, limits)?);
    }
    let settings = TafSettings { ensemble, ..TafSettings::for_study(DIM, true) };
    let taf = Taf::with_models(square()?, models, settings, Seed::new(1))?;
    rows.push(row("TAF", None, setting, taf, &before, &last, limits)?);
    let joined = Joined::new(&map, &others)?;
    rows.push(row("shared-prior", None, setting, joined, &before, &last, limits)?);
    let fts = fts(&map, &others)?;
    rows.push(row("FTS", None, setting, fts, &before, &last, limits)?);
    Ok(rows)
}

/// Times one step: telling the last observation, then asking for a query.
fn row<S: Strategy + Clone>(
    what: &str,
    n_samples: Option<usize>,
    setting: &Setting,
    mut strategy: S,
    before: &[Observation],
    last: &Observation,
    limits: &Limits,
) -> Result<Value> {
    strategy.tell(before)?;
    let none = Points::new(DIM);
    let (timing, _) = measure(
        limits,
        |draw| Ok((strategy.clone(), stream(draw))),
        |(strategy, stream)| {
            strategy.tell(std::slice::from_ref(last))?;
            Ok(strategy.ask(&none, stream)?.unit)
        },
    )?;
    let mut row = columns(json!({
        "peer": "fedbo", "what": what, "agents": setting.n_agents, "M": setting.n_features, "t": setting.t,
    }));
    if let Some(n_samples) = n_samples {
        row.insert("S".into(), json!(n_samples));
    }
    if let Some(transfer) = strategy.transfer() {
        let parts = transfer.tasks.iter().filter(|task| task.weight > 0.0);
        row.insert("tasks_with_weight".into(), json!(parts.count()));
    }
    row.extend(timing.columns());
    if let Some((_, least, most)) = AUTHORS.iter().find(|(name, ..)| *name == what) {
        row.insert("authors_seconds".into(), json!([least, most]));
        let ratio = least / timing.median();
        row.insert("times_faster".into(), rounded(ratio, 0));
    }
    Ok(Value::Object(row))
}

fn stream(draw: u64) -> Stream {
    Seed::new(1).stream(Purpose::PROPOSAL, draw, 0)
}

/// Returns observations of one member of a family of similar functions, at `n` random points.
///
/// The function is a bowl with two waves. The bowl's position and size depend on the index.
fn observed(name: String, index: u64, n: usize) -> MetaTask {
    let mut stream = Seed::new(3).stream(Purpose::PROBLEM, index, 0);
    let (shift, size) = (0.3 * stream.uniform(), 0.5 + stream.uniform());
    let mut inputs = Points::new(DIM);
    let mut outputs = Vec::with_capacity(n);
    for _ in 0..n {
        let x = [stream.uniform(), stream.uniform()];
        let bowl = -(x[0] - 0.5 - shift).powi(2) - (x[1] - 0.4).powi(2);
        let wave = 0.1 * (9.0 * x[0] + shift).sin() * (7.0 * x[1]).cos();
        inputs.push(&x);
        outputs.push(size * (bowl + wave) + 0.02 * stream.normal());
    }
    MetaTask { name, inputs, outputs }
}

/// Returns the last observation and all observations before it.
fn told(task: &MetaTask) -> (Observation, Vec<Observation>) {
    let pairs = task.inputs.rows().zip(&task.outputs);
    let mut all: Vec<Observation> = pairs
        .map(|(unit, value)| Observation::new(unit.to_vec(), Some(*value), Source::Initial))
        .collect();
    let last = all.remove(all.len() - 1);
    (last, all)
}

fn received(map: &Arc<FeatureMap>, others: &[MetaTask]) -> Result<Vec<Arc<dyn TaskModel>>> {
    let mut models: Vec<Arc<dyn TaskModel>> = Vec::with_capacity(others.len());
    for other in others {
        let report = FeatureReport::new(map, NOISE_VARIANCE, true, other)?;
        let task = FeatureTask::new(other.name.clone(), Arc::clone(map), &report)?;
        models.push(Arc::new(task));
    }
    Ok(models)
}

/// A party with a shared prior and a message from every agent.
///
/// Each observation replaces one message, as in a round, and refits the prior.
#[derive(Clone)]
struct Joined {
    party: SharedPrior,
    fresh: SharedMessage,
}

impl Joined {
    fn new(map: &Arc<FeatureMap>, others: &[MetaTask]) -> Result<Self> {
        let empty = || -> Result<SharedPrior> {
            let settings = SharedPriorSettings {
                own: LogEiSettings {
                    surrogate: surrogate()?,
                    maximizer: search(),
                    ..LogEiSettings::for_study(DIM, true)
                },
                n_best_first: 0, // forces the same search as in the others
                ..SharedPriorSettings::default_for(DIM, true)
            };
            Ok(SharedPrior::new(square()?, settings, Arc::clone(map), Seed::new(1))?)
        };
        let message = |other: &MetaTask| -> Result<SharedMessage> {
            let mut party = empty()?;
            let (last, before) = told(other);
            party.tell(&before)?;
            party.tell(&[last])?;
            Ok(party.message()?)
        };
        let messages = others.iter().map(message).collect::<Result<Vec<_>>>()?;
        let mut party = empty()?;
        for (sender, message) in (0..).zip(&messages) {
            party.receive(sender, message.clone())?;
        }
        Ok(Self { party, fresh: messages[0].clone() })
    }
}

impl Strategy for Joined {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.party.ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.party.receive(0, self.fresh.clone())?;
        self.party.tell(observed)
    }
}

/// Creates an FTS strategy with a message from every agent. Half of all queries use a message.
fn fts(map: &Arc<FeatureMap>, others: &[MetaTask]) -> Result<Fts> {
    let settings = FtsSettings {
        own: ThompsonSettings {
            surrogate: surrogate()?,
            maximizer: search(),
            ..ThompsonSettings::default_for(DIM)
        },
        local_prob: LocalProb::Constant(0.5),
        agent_sampling: AgentSampling::Uniform,
        message: MessageSettings::default(),
    };
    let mut fts = Fts::new(square()?, settings, Arc::clone(map), Seed::new(1))?;
    for (sender, other) in (0..).zip(others) {
        let posterior = WeightPosterior::new(map, NOISE_VARIANCE, &other.inputs, &other.outputs)?;
        let mut stream = Seed::new(1).stream(fedbo_protocol::WEIGHT_SAMPLE, u64::from(sender), 0);
        fts.receive(sender, map.hash(), posterior.sample(1.0, &mut stream))?;
    }
    Ok(fts)
}

/// Returns the search settings shared by all methods.
fn search() -> Maximizer {
    Maximizer::MultiStart(MultiStart { n_candidates: 20, n_refine: 5, ..MultiStart::for_dim(DIM) })
}

/// Returns a surrogate with fixed hyperparameters. A fit would cost the same for all methods, and
/// is measured elsewhere.
fn surrogate() -> Result<SurrogateSettings> {
    let initial = Hyperparameters { kernel: kernel(DIM)?, noise_variance: NOISE_VARIANCE };
    Ok(SurrogateSettings {
        hyperparameters: HyperparameterPolicy::Fixed(initial),
        standardize: true,
        sampler: OwnSampler::Exact(Prior::default()),
    })
}

fn square() -> Result<Domain> {
    let unit = ParameterSpec::float(0.0, 1.0);
    Ok(Domain::Space(Space::from_specs([("a", &unit), ("b", &unit)])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rival_has_its_row() {
        let setting = Setting { n_agents: 3, n_features: 12, t: 6, samples: vec![10, 20] };
        let limits = Limits { budget_s: 0.0, min_reps: 1, max_reps: 1 };
        let rows = rows(&setting, &limits).unwrap();
        let names: Vec<&Value> = rows.iter().map(|row| &row["what"]).collect();
        assert_eq!(names, ["RGPE", "RGPE", "TAF", "shared-prior", "FTS"]);
        assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
        assert_eq!(rows[1]["S"], json!(20));
    }
}
