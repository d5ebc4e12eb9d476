//! The influence of old studies on a new study, and the trust in each, in the user's units.

use fedbo_strategies::meta::Transfer;
use serde::Serialize;

use super::{MetaScale, MetaSpec};

/// The influence of old studies on the next query, after some trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferStep {
    /// Number of finished trials of the new study.
    pub n_told: u64,
    /// The combined share of all old studies in the next query, in `[0, 1]`.
    ///
    /// If a shared prior trusts the negated functions more, the share is negative and its magnitude
    /// is their weight: good points of the old studies are bad here.
    pub share: f64,
    /// One entry per old study, in order; empty if the strategy gives all of them one joint weight.
    pub studies: Vec<OldStudyTrust>,
}

/// The trust in one old study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OldStudyTrust {
    /// Name of the old study.
    pub name: String,
    /// The old study's fraction of the combined share of all old studies. The weights sum to 1
    /// unless all of them are 0.
    pub weight: f64,
    /// Upper bound on the difference between the old study's values and the new study's, averaged
    /// over the old study's trials.
    ///
    /// The bound includes the uncertainty about the new study. It is in the units of the values, or
    /// in standard deviations with [`MetaScale::Own`].
    pub distance: Option<f64>,
    /// True if the old study's weight is no longer significant.
    pub dropped: bool,
}

/// An old study is dropped if its weight is below this value and below half of an equal share.
const DROPPED: f64 = 0.05;

/// The units of distances.
pub(crate) struct Units {
    /// True if distances are reported in the units of the values.
    of_values: bool,
}

impl Units {
    pub(crate) fn of(meta: &MetaSpec) -> Self {
        Self { of_values: meta.settings.scale != MetaScale::Own }
    }

    pub(crate) fn step(&self, n_told: u64, transfer: Transfer) -> TransferStep {
        #[expect(clippy::cast_precision_loss, reason = "numbers of old studies are far below 2^53")]
        let least = DROPPED.min(0.5 / transfer.tasks.len().max(1) as f64);
        let unit = if self.of_values { transfer.gap_unit } else { 1.0 };
        let trusts = transfer.tasks.into_iter().map(|task| OldStudyTrust {
            name: task.name,
            weight: task.weight,
            distance: task.gap_bound.map(|gap| gap * unit),
            dropped: task.weight < least,
        });
        TransferStep { n_told, share: transfer.meta_share, studies: trusts.collect() }
    }
}
