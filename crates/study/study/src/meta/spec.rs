//! The old studies in a study's definition.

use std::collections::BTreeMap;

use fedbo_optim::Points;
use fedbo_space::{Direction, Space, Value};
use fedbo_strategies::StrategyError;
use fedbo_strategies::meta::{
    MetaBeliefSettings, MetaShare, MetaTask, OutputScale, TaskWeighting, TaskWeights,
};
use serde::{Deserialize, Serialize};

use super::{MetaError, OldStudy};
use crate::StudyError;

/// The old studies that a study learns from, with their trials. They are read only once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaSpec {
    /// Settings for reading and weighting the old studies.
    pub settings: MetaSettings,
    /// The old studies, in file order.
    pub studies: Vec<OldStudy>,
}

/// Settings for reading and weighting old studies: the keys of `[meta]` other than the studies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaSettings {
    /// Treatment of old studies with a different space.
    pub mismatch: Mismatch,
    /// The units in which values are compared.
    pub scale: MetaScale,
    /// Maximum number of used trials per old study.
    pub trials_max: usize,
    /// Values of parameters that old studies do not have.
    pub values: BTreeMap<String, Value>,
    /// r: each value reduces the share of the old studies at least by this factor.
    pub decay: f64,
    /// ε: additional rate of decay if the old studies are far from the new one.
    pub gap_exponent: f64,
    /// η: learning rate with which the weights follow the distances; 0 keeps all weights equal.
    pub rate: f64,
    /// Number of the old studies' best points that are evaluated before the strategy is used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warm_start: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes skipped values by reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl MetaSettings {
    /// Default maximum number of used trials per old study.
    pub const TRIALS_MAX: usize = 1000;
}

impl Default for MetaSettings {
    /// Requires equal spaces, and uses a common scale and the weights of the thesis's experiments.
    fn default() -> Self {
        let share = MetaShare::default();
        Self {
            mismatch: Mismatch::default(),
            scale: MetaScale::default(),
            trials_max: Self::TRIALS_MAX,
            values: BTreeMap::new(),
            decay: share.decay,
            gap_exponent: share.gap_exponent,
            rate: 1.0,
            warm_start: 0,
        }
    }
}

/// Treatment of an old study with a different space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mismatch {
    /// The old study is rejected.
    #[default]
    Refuse,
    /// The common parameters are used.
    ///
    /// An old study is assumed to be constant in parameters that it does not have, and noisy if it
    /// varied parameters that the new study does not have.
    Shared,
}

/// The units in which values of old studies are compared with those of the new study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetaScale {
    /// Unchanged values, in a unit that is robust to outliers ([`OutputScale::Typical`]). Functions
    /// that differ by a constant count as different.
    #[default]
    Common,
    /// Each study is standardized by its own mean and standard deviation, so only shapes are
    /// compared.
    Own,
    /// Unchanged values.
    Raw,
}

impl MetaScale {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Own => "own",
            Self::Raw => "raw",
        }
    }

    pub(crate) fn output_scale(self) -> OutputScale {
        match self {
            Self::Common => OutputScale::Typical,
            Self::Own => OutputScale::Own,
            Self::Raw => OutputScale::Raw,
        }
    }
}

impl MetaSettings {
    /// Returns the validated weighting settings of robust meta-learning.
    pub(crate) fn belief(&self) -> Result<MetaBeliefSettings, StrategyError> {
        let weighting = TaskWeighting::Online { rate: self.rate };
        TaskWeights::new(weighting.clone(), 1)?;
        let meta_share = MetaShare { decay: self.decay, gap_exponent: self.gap_exponent };
        Ok(MetaBeliefSettings {
            weighting,
            meta_share: meta_share.validate()?,
            ..MetaBeliefSettings::default()
        })
    }
}

impl MetaSpec {
    /// Returns true if equal points of an old study can have different values.
    pub(crate) fn has_noise(&self) -> bool {
        self.studies.iter().any(|study| study.noisy)
    }

    /// Returns the old studies in the new space's unit cube, with values to be maximized.
    pub(crate) fn tasks(
        &self,
        space: &Space,
        direction: Direction,
    ) -> Result<Vec<MetaTask>, StudyError> {
        let task = |study: &OldStudy| {
            let mut inputs = Points::new(space.dim());
            let mut outputs = Vec::with_capacity(study.len());
            for (index, (point, value)) in study.trials().enumerate() {
                let refused =
                    |message: String| MetaError::Trial { name: study.name.clone(), index, message };
                let point = space.normalize(&point);
                let unit = point.and_then(|point| space.encode(&point));
                inputs.push(&unit.map_err(|error| refused(error.to_string()))?);
                if !value.is_finite() {
                    return Err(refused(format!("{value} is not a finite number")));
                }
                outputs.push(direction.to_maximize(value));
            }
            Ok(MetaTask { name: study.name.clone(), inputs, outputs })
        };
        let tasks = self.studies.iter().map(task);
        Ok(tasks.collect::<Result<_, MetaError>>()?)
    }
}
