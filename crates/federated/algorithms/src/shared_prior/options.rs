//! `[shared-prior]`: the options of the shared prior.

use std::sync::Arc;

use fedbo_config::{FileError, TableOptions};
use fedbo_strategies::{
    ReadOptions, SharedMessage, SharedPriorOptions, SharedPriorSettings, StrategySpec,
};
use serde::Deserialize;

use super::Federated;
use crate::{Read, Reading, Settings};

/// The keys of `[shared-prior]` beside those of [`SharedPriorOptions`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct SharedPriorTable {
    /// r, if the file says it: it is then at most the features' number.
    rank: Option<usize>,
    /// True if each agent's best point is sent; default true. Without best points there is no probe.
    send_best: Option<bool>,
    /// See [`SharedPriorOptions`]; here to see whether the file says them.
    best_points: Option<usize>,
    probe: Option<bool>,
}

/// M at most: the leading directions cost O(M³), from 1024 points of the cube.
const N_FEATURES_MAX: usize = 1000;

/// The tables of a file that are read here.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "shared-prior")]
    shared_prior: SharedPriorTable,
}

/// Reads `[shared-prior]` of agents that pass messages on.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let settings = with_best_points(reading)?;
    reading.memory_suffices(
        SharedMessage::n_numbers(settings.rank, reading.space.dim()),
        "shared-prior.rank",
    )?;
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    Ok(Read {
        settings: Settings::Relayed(Arc::new(Federated { settings, alone })),
        ucb_multiplier,
    })
}

/// Reads all keys of `[shared-prior]`.
pub(super) fn with_best_points(reading: &Reading<'_>) -> Result<SharedPriorSettings, FileError> {
    let (table, mut settings) = common(reading)?;
    settings.sends_best = table.send_best.unwrap_or(settings.sends_best);
    settings.probes = settings.probes && settings.sends_best;
    Ok(settings)
}

/// Reads `[shared-prior]` of agents that learn from releases, in which there are no best points.
pub(super) fn private(reading: &Reading<'_>) -> Result<SharedPriorSettings, FileError> {
    let (table, settings) = common(reading)?;
    let unused = [
        ("best_points", table.best_points.is_some()),
        ("send_best", table.send_best.is_some()),
        ("probe", table.probe.is_some()),
    ];
    if let Some((key, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        let message = format!(
            "shared-prior.{key} has no effect with algorithm \"{}\", whose agents send no best points; remove it",
            reading.algorithm
        );
        return Err(reading.check.file.error(&["shared-prior", key], message));
    }
    Ok(settings)
}

/// The table, and the settings that it gives.
fn common(reading: &Reading<'_>) -> Result<(SharedPriorTable, SharedPriorSettings), FileError> {
    let Reading { check, n_features, algorithm, .. } = *reading;
    let Tables { shared_prior: table } = check.file.parse()?;
    let keys = TableOptions { file: check.file, table: "shared-prior", keys: &["send_best"] };
    keys.check_keys(&[StrategySpec::shared_prior()], None)?;
    let options: SharedPriorOptions = ReadOptions::read(keys, SharedPriorOptions::default())?;
    let mut settings = options.settings(reading.log_ei.clone());
    if n_features > N_FEATURES_MAX {
        let expected = format!(
            "at most {N_FEATURES_MAX} with algorithm \"{algorithm}\", whose agents find the leading directions of all features"
        );
        return Err(check.file.value_error(&["features", "count"], expected));
    }
    if table.rank.is_some() {
        let most = n_features.min(SharedPriorOptions::RANK_MAX);
        check.count(&["shared-prior", "rank"], options.rank, most)?;
    }
    if !settings.own.surrogate.standardize {
        let expected = format!(
            "true with algorithm \"{algorithm}\", which compares outputs in units of their own"
        );
        return Err(check.file.value_error(&["surrogate", "standardize"], expected));
    }
    settings.rank = settings.rank.min(n_features);
    Ok((table, settings))
}
