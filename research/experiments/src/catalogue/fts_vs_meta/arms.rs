//! The arms: TS, FTS and its rivals, each with its number of shared features.

use std::sync::Arc;

use fedbo_federated::fts::{Fts, FtsSettings};
use fedbo_gp::FeatureMap;
use fedbo_optim::{Direct, MultiStart};
use fedbo_protocol::AgentPlan;
use fedbo_strategies::meta::{
    EnsembleSettings, FeatureReport, FeatureTask, MetaTask, Rgpe, RgpeSettings, Taf, TafSettings,
    TaskModel,
};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageContent, MessageNoise, Observation,
    Points, Strategy, Surrogate, SurrogateSettings, ThompsonSettings,
};
use fedbo_streams::Seed;

use super::super::fts_landmine::{helpful, paper};
use super::super::jobs::contribute;
use super::super::landmine_fields::{DIM, FEATURE_COUNTS};

/// Configurations.
pub(super) const PAPER: &str = "paper's setting";
pub(super) const TRANSFER: &str = "a setting that can transfer";

/// M for arms that are not compared by M.
pub(super) const USUAL_FEATURES: usize = 100;

/// Number of evaluations of DIRECT for RGPE and TAF in the paper's setting. The authors use 20,000,
/// ten times as many.
pub(super) const DIRECT_EVALUATIONS: usize = 2_000;

/// σ² of the paper's messages and models.
const PAPER_NOISE: f64 = 1e-6;
/// Lower bound on σ² if σ² comes from the sender's own model.
const NOISE_FLOOR: f64 = 1e-4;

/// The strategy of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Ts,
    Fts,
    /// FTS with messages drawn from the prior.
    FtsPlacebo,
    Rgpe(Form),
    Taf(Form),
}

/// The variant of a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As in the rival's own paper.
    Paper,
    /// As in the runs of the authors of FTS.
    Authors,
    /// As in the rival's own paper, but with models of outputs that were shuffled among their
    /// inputs.
    Placebo,
}

/// One curve.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) configuration: &'static str,
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) n_features: usize,
}

/// Returns all arms.
pub(super) fn arms() -> Vec<Arm> {
    let (ours, authors, placebo) = (Form::Paper, Form::Authors, Form::Placebo);
    let mut arms = Vec::new();
    for configuration in [PAPER, TRANSFER] {
        let mut add = |name: &str, rule, n_features| {
            arms.push(Arm { configuration, name: name.to_owned(), rule, n_features });
        };
        add("ts", Rule::Ts, USUAL_FEATURES);
        for (name, rule) in
            [("fts", Rule::Fts), ("rgpe", Rule::Rgpe(ours)), ("taf", Rule::Taf(ours))]
        {
            for n_features in FEATURE_COUNTS {
                add(&format!("{name} M={n_features}"), rule, n_features);
            }
        }
        add("rgpe authors", Rule::Rgpe(authors), USUAL_FEATURES);
        add("taf authors", Rule::Taf(authors), USUAL_FEATURES);
        add("fts placebo", Rule::FtsPlacebo, USUAL_FEATURES);
        add("rgpe placebo", Rule::Rgpe(placebo), USUAL_FEATURES);
        add("taf placebo", Rule::Taf(placebo), USUAL_FEATURES);
    }
    arms
}

impl Arm {
    /// Returns the number of values that each of the other agents sends once, or `None` for TS.
    pub(super) fn message_floats(&self) -> Option<usize> {
        let m = self.n_features;
        match self.rule {
            Rule::Ts => None,
            Rule::Fts | Rule::FtsPlacebo => Some(m),
            Rule::Rgpe(_) => Some(m + m * m),
            Rule::Taf(_) => Some(m + m * m + 1),
        }
    }

    /// Returns the controls that this arm must beat to count as a gain.
    pub(super) fn controls(&self) -> Vec<&'static str> {
        match self.rule {
            Rule::Fts => vec!["ts", "fts placebo"],
            Rule::Rgpe(Form::Paper) => vec!["ts", "rgpe placebo"],
            Rule::Taf(Form::Paper) => vec!["ts", "taf placebo"],
            Rule::Rgpe(Form::Authors) | Rule::Taf(Form::Authors) => vec!["ts"],
            Rule::Ts | Rule::FtsPlacebo | Rule::Rgpe(_) | Rule::Taf(_) => Vec::new(),
        }
    }
}

/// Another agent's observations of its own objective.
#[derive(Clone, Debug)]
pub(super) struct Contributor {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) observed: Vec<Observation>,
    /// σ² in its model of standardized outputs.
    pub(super) noise_variance: f64,
}

impl Contributor {
    /// Creates a contributor with the noise variance fitted to its observations.
    pub(super) fn new(
        id: u32,
        name: String,
        observed: Vec<Observation>,
        seed: Seed,
    ) -> anyhow::Result<Self> {
        let settings = helpful(MessageContent::Posterior).own.surrogate;
        let mut surrogate = Surrogate::new(DIM, settings, None, seed)?;
        surrogate.tell(&observed)?;
        Ok(Self {
            id,
            name,
            noise_variance: surrogate.posterior().noise_variance().max(NOISE_FLOOR),
            observed,
        })
    }

    /// Returns the observations. With a seed, outputs are shuffled among the inputs.
    fn task(&self, shuffled: Option<&Seed>) -> MetaTask {
        let inputs = self.observed.iter().map(|observation| &observation.unit);
        let mut outputs: Vec<f64> = self
            .observed
            .iter()
            .map(|observation| observation.value.unwrap_or(f64::NAN)) // ignored by the model
            .collect();
        if let Some(seed) = shuffled {
            let mut stream = seed.stream(fedbo_protocol::PLACEBO, u64::from(self.id), 0);
            stream.shuffle(&mut outputs);
        }
        MetaTask { name: self.name.clone(), inputs: Points::from_rows(DIM, inputs), outputs }
    }
}

impl Arm {
    /// Creates the target's strategy with the others' messages, based on the shared features `map`.
    pub(super) fn strategy(
        &self,
        domain: Domain,
        others: &[Contributor],
        map: &Arc<FeatureMap>,
        seed: Seed,
    ) -> anyhow::Result<Box<dyn Strategy>> {
        let settings = if self.configuration == PAPER {
            paper(self.content())?
        } else {
            helpful(self.content())
        };
        match self.rule {
            Rule::Ts => {
                let alone = FtsSettings { local_prob: LocalProb::Constant(1.0), ..settings };
                Ok(Box::new(Fts::new(domain, alone, Arc::clone(map), seed)?))
            }
            Rule::Fts | Rule::FtsPlacebo => {
                let mut fts = Fts::new(domain, settings.clone(), Arc::clone(map), seed)?;
                for other in others {
                    let plan = AgentPlan {
                        id: other.id,
                        history: other.observed.clone(),
                        initial: Vec::new(),
                        n_rounds: 0,
                    };
                    let message = contribute(map, &self.senders(&settings, other), plan, &seed)?;
                    fts.receive(other.id, map.hash(), &message.weights)?;
                }
                Ok(Box::new(fts))
            }
            Rule::Rgpe(form) => {
                let rgpe = RgpeSettings::for_study(DIM, false);
                let rgpe = match form {
                    Form::Authors => rgpe.as_in_authors_code(),
                    Form::Paper | Form::Placebo => rgpe,
                };
                let rgpe = RgpeSettings { ensemble: self.ensemble(settings.own), ..rgpe };
                let models = self.models(map, others, form, false, &seed)?;
                Ok(Box::new(Rgpe::with_models(domain, models, rgpe, seed)?))
            }
            Rule::Taf(form) => {
                let taf = TafSettings::for_study(DIM, false);
                let taf = match form {
                    Form::Authors => taf.as_in_authors_code(),
                    Form::Paper | Form::Placebo => taf,
                };
                let taf = TafSettings { ensemble: self.ensemble(settings.own), ..taf };
                let models = self.models(map, others, form, true, &seed)?;
                Ok(Box::new(Taf::with_models(domain, models, taf, seed)?))
            }
        }
    }

    fn content(&self) -> MessageContent {
        if self.rule == Rule::FtsPlacebo {
            MessageContent::Placebo
        } else {
            MessageContent::Posterior
        }
    }

    /// Returns the settings of an agent that only sends. σ² is given, so the agent's own model
    /// needs no fit.
    fn senders(&self, settings: &FtsSettings, other: &Contributor) -> FtsSettings {
        let mut settings = settings.clone();
        let given = settings.own.surrogate.initial().clone();
        settings.own.surrogate = SurrogateSettings {
            hyperparameters: HyperparameterPolicy::Fixed(given),
            ..settings.own.surrogate
        };
        settings.message.noise_variance = MessageNoise::Given(self.noise_variance(other));
        settings
    }

    fn noise_variance(&self, other: &Contributor) -> f64 {
        if self.configuration == PAPER { PAPER_NOISE } else { other.noise_variance }
    }

    /// Returns the models for RGPE and TAF, after conversion to the numbers that are sent and back.
    fn models(
        &self,
        map: &Arc<FeatureMap>,
        others: &[Contributor],
        form: Form,
        with_incumbent: bool,
        seed: &Seed,
    ) -> anyhow::Result<Vec<Arc<dyn TaskModel>>> {
        let shuffled = (form == Form::Placebo).then_some(seed);
        let standardize = self.configuration != PAPER;
        let mut models: Vec<Arc<dyn TaskModel>> = Vec::with_capacity(others.len());
        for other in others {
            let (noise, task) = (self.noise_variance(other), other.task(shuffled));
            let mut report = FeatureReport::new(map, noise, standardize, &task)?;
            if !with_incumbent {
                report = report.without_incumbent();
            }
            let model = FeatureTask::new(other.name.clone(), Arc::clone(map), &report)?;
            models.push(Arc::new(model));
        }
        Ok(models)
    }

    /// Returns DIRECT in the paper's setting, and for the authors' variants in both settings, whose
    /// independent draw per point permits no other search.
    fn maximizer(&self) -> Maximizer {
        let direct = matches!(self.rule, Rule::Rgpe(Form::Authors) | Rule::Taf(Form::Authors));
        if self.configuration == PAPER || direct {
            return Maximizer::Direct(Direct {
                max_evaluations: DIRECT_EVALUATIONS,
                ..Direct::default()
            });
        }
        Maximizer::MultiStart(MultiStart {
            n_candidates: 20,
            n_refine: 5,
            ..MultiStart::for_dim(DIM)
        })
    }

    /// Returns the settings of RGPE's and TAF's own model, and their search.
    fn ensemble(&self, own: ThompsonSettings) -> EnsembleSettings {
        let ThompsonSettings { surrogate, repeats, .. } = own;
        EnsembleSettings { surrogate, maximizer: self.maximizer(), repeats }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{FeatureDescription, LengthscaleLaw};
    use fedbo_space::{ParameterSpec, Space};
    use fedbo_strategies::Source;
    use fedbo_streams::Purpose;

    use super::*;

    fn stream(n: u64) -> fedbo_streams::Stream {
        Seed::new(9).stream(Purpose::TEST, n, 0)
    }

    /// Every arm proposes a query with the others' messages, which are as long as in the figure.
    #[test]
    fn every_arm_chooses_a_query() {
        let unit = ParameterSpec::float(0.0, 1.0);
        let domain = Domain::Space(Space::from_specs([("a", &unit), ("b", &unit)]).unwrap());
        let observation = |i: u32| {
            let x = f64::from(i) / 7.0;
            Observation::new(
                vec![x, 1.0 - x],
                (i != 3).then_some(0.6 + 0.1 * (5.0 * x).sin()),
                Source::Initial,
            )
        };
        let observed: Vec<Observation> = (0..8).map(observation).collect();
        let other = Contributor::new(4, "field 4".into(), observed.clone(), Seed::new(1)).unwrap();
        assert!(other.noise_variance >= NOISE_FLOOR);
        for arm in arms().into_iter().filter(|arm| arm.n_features <= 100) {
            let description =
                FeatureDescription::random(arm.n_features, DIM, LengthscaleLaw::Fixed(0.01));
            let map = FeatureMap::draw(&description, &mut stream(1)).unwrap();
            let map = Arc::new(map);
            let others = std::slice::from_ref(&other);
            let mut strategy = arm.strategy(domain.clone(), others, &map, Seed::new(2)).unwrap();
            strategy.tell(&observed[..4]).unwrap();
            let proposal = strategy.ask(&Points::new(DIM), &mut stream(2)).unwrap();
            assert!(proposal.unit.iter().all(|x| (0.0..=1.0).contains(x)), "{arm:?}");
            let task = other.task(None);
            let report = FeatureReport::new(&map, 0.01, true, &task).unwrap();
            match arm.rule {
                Rule::Rgpe(_) => assert_eq!(
                    arm.message_floats(),
                    Some(report.without_incumbent().message_floats())
                ),
                Rule::Taf(_) => assert_eq!(arm.message_floats(), Some(report.message_floats())),
                Rule::Ts => assert_eq!(arm.message_floats(), None),
                Rule::Fts | Rule::FtsPlacebo => {
                    assert_eq!(arm.message_floats(), Some(arm.n_features));
                }
            }
        }
    }

    #[test]
    fn a_placebo_has_the_same_outputs_elsewhere() {
        let observed = (0..20_u32).map(|i| {
            Observation::new(vec![f64::from(i) / 20.0, 0.5], Some(f64::from(i)), Source::Initial)
        });
        let other = Contributor {
            id: 1,
            name: "field 1".into(),
            observed: observed.collect(),
            noise_variance: 1e-4,
        };
        let (plain, mut shuffled) = (other.task(None), other.task(Some(&Seed::new(1))));
        assert_eq!(plain.inputs, shuffled.inputs);
        assert_ne!(plain.outputs, shuffled.outputs);
        shuffled.outputs.sort_by(f64::total_cmp);
        assert_eq!(plain.outputs, shuffled.outputs);
    }
}
