//! The options in `[shared-prior]`.

use std::sync::Arc;

use fedbo_config::{FileError, TableOptions};
use fedbo_strategies::{
    LogEiSettings, ReadOptions, SharedMessage, SharedPriorOptions, SharedPriorSettings,
    StrategySpec,
};
use serde::Deserialize;

use super::Federated;
use crate::{Read, Reading, Settings};

/// The keys of `[shared-prior]` in addition to those in [`SharedPriorOptions`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct SharedPriorTable {
    /// r, if it is set in the file. It must not exceed the number of features.
    rank: Option<usize>,
    /// True if each agent sends its best point; default true. Without best points, there is no
    /// probe.
    send_best: Option<bool>,
    /// See [`SharedPriorOptions`]. Read here only to detect whether the file sets these keys.
    best_points: Option<usize>,
    probe: Option<bool>,
}

/// Maximum M. Computing the leading directions costs O(M³), and uses 1024 points of the cube.
const N_FEATURES_MAX: usize = 1000;

/// The tables that this algorithm reads.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "shared-prior")]
    shared_prior: SharedPriorTable,
}

/// Reads `[shared-prior]` for agents that exchange messages.
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

/// Reads `[shared-prior]` for agents that learn from releases, which do not contain best points.
pub(super) fn private(reading: &Reading<'_>) -> Result<SharedPriorSettings, FileError> {
    let (table, settings) = common(reading)?;
    let unused = [
        ("best_points", table.best_points.is_some()),
        ("send_best", table.send_best.is_some()),
        ("probe", table.probe.is_some()),
    ];
    if let Some((key, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        let message = format!(
            "shared-prior.{key} has no effect with algorithm \"{}\", because its agents send no best points; remove it",
            reading.algorithm
        );
        return Err(reading.check.file.error(&["shared-prior", key], message));
    }
    Ok(settings)
}

/// Returns the table and the settings that it defines.
fn common(reading: &Reading<'_>) -> Result<(SharedPriorTable, SharedPriorSettings), FileError> {
    let check = reading.check;
    let Tables { shared_prior: table } = check.file.parse()?;
    let keys = TableOptions { file: check.file, table: "shared-prior", keys: &["send_best"] };
    keys.check_keys(&[StrategySpec::shared_prior()], None)?;
    let options: SharedPriorOptions = ReadOptions::read(keys, SharedPriorOptions::default())?;
    let mut settings = options.settings(reading.log_ei.clone());
    settings.rank = rank(reading, "shared-prior", table.rank, options.rank)?;
    outputs_are_standardized(reading, &settings.own)?;
    Ok((table, settings))
}

/// Reads r, which a table can set with the key `rank`. The default is `standard`, or the number of
/// features if that is smaller.
///
/// # Errors
/// If the rank or the number of features is too large.
pub(crate) fn rank(
    reading: &Reading<'_>,
    table: &str,
    given: Option<usize>,
    standard: usize,
) -> Result<usize, FileError> {
    let Reading { check, n_features, algorithm, .. } = *reading;
    if n_features > N_FEATURES_MAX {
        let expected = format!(
            "at most {N_FEATURES_MAX} with algorithm \"{algorithm}\", whose agents find the leading directions of all features"
        );
        return Err(check.file.value_error(&["features", "count"], expected));
    }
    match given {
        Some(rank) => {
            check.count(&[table, "rank"], rank, n_features.min(SharedPriorOptions::RANK_MAX))
        }
        None => Ok(standard.min(n_features)),
    }
}

/// Rejects surrogates of raw outputs.
///
/// # Errors
/// If the surrogate does not standardize outputs.
pub(crate) fn outputs_are_standardized(
    reading: &Reading<'_>,
    own: &LogEiSettings,
) -> Result<(), FileError> {
    if own.surrogate.standardize {
        return Ok(());
    }
    let expected = format!(
        "true with algorithm \"{}\", which compares outputs in their own units",
        reading.algorithm
    );
    Err(reading.check.file.value_error(&["surrogate", "standardize"], expected))
}
