//! `[shared-prior]`: the options of the shared prior.

use std::sync::Arc;

use fedbo_config::FileError;
use fedbo_strategies::{SharedMessage, SharedPriorSettings};
use serde::Deserialize;

use super::Federated;
use crate::{Read, Reading, Settings};

/// `[shared-prior]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedPriorTable {
    /// r: shared functions; default 25, at most the features' number.
    pub rank: Option<usize>,
    /// Weight of the shared model before an agent's first observation; default 0.5.
    pub trust: Option<f64>,
    /// Number of an agent's first queries that are chosen among the others' best points while these are trusted; default 3.
    pub best_points: Option<usize>,
    /// True if each agent's best point is sent; default true.
    pub send_best: Option<bool>,
    /// True if one query of its own model alone follows the best points, for an agent without initial points: it shows sooner whether the
    /// others mislead; default true, and without effect where best points are not sent.
    pub probe: Option<bool>,
}

/// M at most: the leading directions cost O(M³), from 1024 points of the cube.
const N_FEATURES_MAX: usize = 1000;
/// r at most: messages have r(r + 3)/2 numbers, and a fit costs O(N r³) a step.
const RANK_MAX: usize = 100;

/// The tables of a file that are read here.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "shared-prior")]
    shared_prior: SharedPriorTable,
}

/// Reads `[shared-prior]` of agents that pass messages on.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Tables { shared_prior: table } = reading.check.file.parse()?;
    let mut settings = common(reading, &table)?;
    reading.memory_suffices(
        SharedMessage::n_numbers(settings.rank, reading.space.dim()),
        "shared-prior.rank",
    )?;
    settings.n_best_first = table.best_points.unwrap_or(settings.n_best_first);
    settings.sends_best = table.send_best.unwrap_or(settings.sends_best);
    settings.probes = table.probe.unwrap_or(settings.probes) && settings.sends_best;
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    Ok(Read {
        settings: Settings::Relayed(Arc::new(Federated { settings, alone })),
        ucb_multiplier,
    })
}

/// Reads `[shared-prior]` of agents that learn from releases, in which there are no best points.
pub(super) fn private(reading: &Reading<'_>) -> Result<SharedPriorSettings, FileError> {
    let file = &reading.check.file;
    let Tables { shared_prior: table } = file.parse()?;
    let unused = [
        ("best_points", table.best_points.is_some()),
        ("send_best", table.send_best.is_some()),
        ("probe", table.probe.is_some()),
    ];
    if let Some((key, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        let message = format!(
            "shared-prior.{key} has no effect with algorithm \"dp-shared-prior\", whose agents send no best points; remove it"
        );
        return Err(file.error(&["shared-prior", key], message));
    }
    common(reading, &table)
}

/// The keys of both.
fn common(
    reading: &Reading<'_>,
    table: &SharedPriorTable,
) -> Result<SharedPriorSettings, FileError> {
    let Reading { check, space, n_features, algorithm, .. } = *reading;
    let mut settings = SharedPriorSettings {
        own: reading.log_ei.clone(),
        ..SharedPriorSettings::default_for(space.dim(), false)
    };
    if n_features > N_FEATURES_MAX {
        let expected = format!(
            "at most {N_FEATURES_MAX} with algorithm \"{algorithm}\", whose agents find the leading directions of all features"
        );
        return Err(check.file.value_error(&["features", "count"], expected));
    }
    if !settings.own.surrogate.standardize {
        let expected = format!(
            "true with algorithm \"{algorithm}\", which compares outputs in units of their own"
        );
        return Err(check.file.value_error(&["surrogate", "standardize"], expected));
    }
    if let Some(rank) = table.rank {
        let most = n_features.min(RANK_MAX);
        settings.rank = check.count(&["shared-prior", "rank"], rank, most)?;
    }
    settings.rank = settings.rank.min(n_features);
    if let Some(trust) = table.trust {
        if !(trust > 0.0 && trust < 1.0) {
            let expected = "a number above 0 and below 1";
            return Err(check.file.value_error(&["shared-prior", "trust"], expected));
        }
        settings.trust_before = trust;
    }
    Ok(settings)
}
