//! The state of robust meta-learning after each estimate: the meta-tasks' gaps, weights and share.

use super::comparison::OWN_SCALE_MIN;
use super::{
    GapBound, MetaShare, OutputScale, TaskModels, TaskTrust, TaskWeighting, TaskWeights, Transfer,
};
use crate::{Source, StrategyError, Surrogate};

/// The role of an initial design in weighting the meta-tasks before the first query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialDesign {
    /// Not used. The weights for the first query are uniform, as in the text of the thesis.
    Ignored,
    /// Used for one estimate of the gaps, which determines the weights for the first query. ν
    /// stays 1. (The authors' code also makes this estimate, but reduces ν.)
    Weighs,
}

/// Settings for weighting the meta-tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaBeliefSettings {
    /// The gap bound d̄_i.
    pub gap_bound: GapBound,
    /// The task weights ω_i.
    pub weighting: TaskWeighting,
    /// The share ν_t.
    pub meta_share: MetaShare,
    /// Use of the initial design.
    pub initial_design: InitialDesign,
}

impl Default for MetaBeliefSettings {
    /// As in the experiments of the thesis, except that an initial design is used for the weights.
    fn default() -> Self {
        Self {
            gap_bound: GapBound::practical(),
            weighting: TaskWeighting::Online { rate: 1.0 },
            meta_share: MetaShare::default(),
            initial_design: InitialDesign::Weighs,
        }
    }
}

/// ω_i and ν_t after the estimates made so far.
#[derive(Clone, Debug)]
pub(super) struct MetaBelief {
    settings: MetaBeliefSettings,
    /// Number of observations of the target before the first estimate.
    n_least: usize,
    weights: TaskWeights,
    share: f64,
    gap_bounds: Option<Vec<f64>>,
}

impl MetaBelief {
    pub(super) fn new(
        settings: MetaBeliefSettings,
        scale: OutputScale,
        n_tasks: usize,
    ) -> Result<Self, StrategyError> {
        settings.meta_share.validate()?;
        if let Some(failure_prob) = settings.gap_bound.failure_prob
            && !(failure_prob > 0.0 && failure_prob < 1.0)
        {
            return Err(StrategyError::setting(
                "failure_prob",
                failure_prob,
                "a number between 0 and 1, ends excluded",
            ));
        }
        Ok(Self {
            weights: TaskWeights::new(settings.weighting.clone(), n_tasks)?,
            n_least: match scale {
                OutputScale::Own => OWN_SCALE_MIN,
                OutputScale::Raw | OutputScale::Common | OutputScale::Typical => 1,
            },
            settings,
            share: 1.0,
            gap_bounds: None,
        })
    }

    /// Must be called before an observation from `source` is added to the target's posterior.
    /// Estimates the gaps from the initial design, if that has not been done yet.
    pub(super) fn before(
        &mut self,
        source: &Source,
        target: &Surrogate,
        beta: f64,
        models: &TaskModels,
    ) {
        if *source != Source::Initial {
            self.weigh_initial_design(target, beta, models);
        }
    }

    /// Must be called after an observation from `source` was added. Estimates the gaps again,
    /// unless the observation belongs to the initial design.
    pub(super) fn after(
        &mut self,
        source: &Source,
        target: &Surrogate,
        beta: f64,
        models: &TaskModels,
    ) {
        if *source != Source::Initial && target.len() >= self.n_least {
            let gap_bounds = self.estimate(target, beta, models);
            let weighted = self.weights.weights();
            let weighted = weighted.iter().zip(&gap_bounds).map(|(w, d)| w * d).sum();
            self.share = self.settings.meta_share.next(self.share, weighted);
            self.gap_bounds = Some(gap_bounds);
        }
    }

    /// Returns the state for the next query.
    pub(super) fn for_query(&self, target: &Surrogate, beta: f64, models: &TaskModels) -> Self {
        let mut belief = self.clone();
        belief.weigh_initial_design(target, beta, models);
        belief
    }

    fn weigh_initial_design(&mut self, target: &Surrogate, beta: f64, models: &TaskModels) {
        let is_first = self.gap_bounds.is_none() && target.len() >= self.n_least;
        if is_first && self.settings.initial_design == InitialDesign::Weighs {
            self.gap_bounds = Some(self.estimate(target, beta, models));
        }
    }

    fn estimate(&mut self, target: &Surrogate, beta: f64, models: &TaskModels) -> Vec<f64> {
        let exchange = models.exchange(target);
        let rule = self.settings.gap_bound;
        let gap_bounds = rule.exchanged(target.posterior(), beta, models.tasks(), &exchange);
        self.weights.observe(&gap_bounds, models.tasks());
        gap_bounds
    }

    /// Returns ν.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Returns ω, which sums to 1.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.weights.weights()
    }

    pub(super) fn transfer(&self, target: &Surrogate, models: &TaskModels) -> Transfer {
        use super::TaskModel as _;
        let tasks = models.tasks().iter().zip(self.weights()).enumerate();
        Transfer {
            meta_share: self.share,
            gap_unit: models.exchange(target).unit,
            tasks: tasks
                .map(|(index, (task, weight))| TaskTrust {
                    name: task.name().to_owned(),
                    weight,
                    gap_bound: self.gap_bounds.as_ref().map(|bounds| bounds[index]),
                })
                .collect(),
        }
    }
}
