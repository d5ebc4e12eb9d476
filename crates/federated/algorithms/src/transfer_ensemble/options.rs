//! The options in `[rgpe]` and `[taf]`.

use std::sync::Arc;

use fedbo_config::FileError;
use fedbo_strategies::meta::{RgpeSettings, TafSettings, Unranked};
use fedbo_strategies::{SharedMessage, SharedPriorOptions};
use serde::Deserialize;

use super::{Federated, Rule};
use crate::{Read, Reading, Settings, shared_prior};

/// `[rgpe]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RgpeTable {
    /// r; default 25, or the number of features if that is smaller.
    rank: Option<usize>,
    /// S, the number of samples from each model for the ranking losses; default 500.
    samples: Option<usize>,
    /// True to exclude agents with a median loss above the 95 % quantile of the loss of the agent's
    /// own model; default true.
    dilution_guard: Option<bool>,
}

/// `[taf]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TafTable {
    /// See [`RgpeTable`].
    rank: Option<usize>,
    /// ρ: agents whose models misrank at least this fraction of pairs have weight 0; default 0.5.
    bandwidth: Option<f64>,
}

/// The tables that these algorithms read.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    rgpe: RgpeTable,
    #[serde(default)]
    taf: TafTable,
}

/// Maximum S. A query ranks this many samples for every agent.
const N_SAMPLES_MAX: usize = 10_000;

/// Reads `[rgpe]`.
pub(super) fn rgpe(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, space, ref log_ei, .. } = *reading;
    let Tables { rgpe: table, .. } = check.file.parse()?;
    let standard = RgpeSettings::for_study(space.dim(), false);
    let settings = RgpeSettings {
        ensemble: log_ei.clone().into(),
        n_samples: match table.samples {
            Some(samples) => check.count(&["rgpe", "samples"], samples, N_SAMPLES_MAX)?,
            None => standard.n_samples,
        },
        dilution_guard: table.dilution_guard.unwrap_or(standard.dilution_guard),
        unranked: Unranked::Random,
        ..standard
    };
    common(reading, "rgpe", table.rank, Rule::Rgpe(settings))
}

/// Reads `[taf]`.
pub(super) fn taf(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, space, ref log_ei, .. } = *reading;
    let Tables { taf: table, .. } = check.file.parse()?;
    let standard = TafSettings::for_study(space.dim(), false);
    let settings = TafSettings {
        ensemble: log_ei.clone().into(),
        bandwidth: match table.bandwidth {
            Some(bandwidth) => check.positive(&["taf", "bandwidth"], bandwidth)?,
            None => standard.bandwidth,
        },
        ..standard
    };
    common(reading, "taf", table.rank, Rule::Taf(settings))
}

/// Returns the settings of a rule, with the rank from its table.
fn common(
    reading: &Reading<'_>,
    table: &str,
    rank: Option<usize>,
    rule: Rule,
) -> Result<Read, FileError> {
    let log_ei = reading.log_ei.clone();
    let standard = SharedPriorOptions::default();
    let rank = shared_prior::rank(reading, table, rank, standard.rank)?;
    shared_prior::outputs_are_standardized(reading, &log_ei)?;
    let key = format!("{table}.rank");
    reading.memory_suffices(SharedMessage::n_numbers(rank, reading.space.dim()), &key)?;
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    let terms = standard.settings(log_ei.clone()).terms();
    let settings = Federated { rule, rank, terms, log_ei, alone };
    Ok(Read { settings: Settings::Relayed(Arc::new(settings)), ucb_multiplier })
}
