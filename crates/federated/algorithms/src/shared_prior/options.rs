//! `[shared-prior]`: the options of the shared prior.

use std::sync::Arc;

use fedbo_config::{FileError, TableOptions};
use fedbo_strategies::{ReadOptions, SharedMessage, SharedPriorOptions, StrategySpec};
use serde::Deserialize;

use super::Federated;
use crate::{Read, Reading, Settings};

/// What `[shared-prior]` says beside [`SharedPriorOptions`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct SharedPriorTable {
    /// r, if the file says it: it is then at most the features' number.
    rank: Option<usize>,
    /// True if each agent's best point is sent; default true. Without best points there is no probe.
    send_best: Option<bool>,
}

/// M at most: the leading directions cost O(M³), from 1024 points of the cube.
const N_FEATURES_MAX: usize = 1000;

/// The tables of a file that are read here.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "shared-prior")]
    shared_prior: SharedPriorTable,
}

/// Reads `[shared-prior]`.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, space, n_features, .. } = *reading;
    let Tables { shared_prior: table } = check.file.parse()?;
    let keys = TableOptions { file: check.file, table: "shared-prior", keys: &["send_best"] };
    keys.check_keys(&[StrategySpec::shared_prior()], None)?;
    let options: SharedPriorOptions = ReadOptions::read(keys, SharedPriorOptions::default())?;
    let mut settings = options.settings(reading.log_ei.clone());
    if n_features > N_FEATURES_MAX {
        let expected = format!(
            "at most {N_FEATURES_MAX} with algorithm \"shared-prior\", whose agents find the leading directions of all features"
        );
        return Err(check.file.value_error(&["features", "count"], expected));
    }
    if table.rank.is_some() {
        let most = n_features.min(SharedPriorOptions::RANK_MAX);
        check.count(&["shared-prior", "rank"], options.rank, most)?;
    }
    if !settings.own.surrogate.standardize {
        let expected =
            "true with algorithm \"shared-prior\", which compares outputs in units of their own";
        return Err(check.file.value_error(&["surrogate", "standardize"], expected));
    }
    settings.rank = settings.rank.min(n_features);
    reading.memory_suffices(
        SharedMessage::n_numbers(settings.rank, space.dim()),
        "shared-prior.rank",
    )?;
    settings.sends_best = table.send_best.unwrap_or(settings.sends_best);
    settings.probes = settings.probes && settings.sends_best;
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    Ok(Read {
        settings: Settings::Relayed(Arc::new(Federated { settings, alone })),
        ucb_multiplier,
    })
}
