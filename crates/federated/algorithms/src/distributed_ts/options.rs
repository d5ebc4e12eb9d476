//! The options in `[distributed-ts]`.

use std::sync::Arc;

use fedbo_config::{Check, FileError};
use fedbo_protocol::{InitialSharing, Pace};
use fedbo_strategies::UcbMultiplier;
use serde::Deserialize;

use super::{DistributedTsSettings, Federated, IndependentDraws, Query};
use crate::{NeighbourSettings, Read, Reading, Settings, VirtualNetwork};

/// `[distributed-ts]`: how an agent uses its neighbours' observations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributedTsTable {
    /// `synchronous` (default): a round begins when all neighbours have reported the previous
    /// round. `asynchronous`: a round begins as soon as the agent's own trial has ended.
    pub pace: Option<String>,
    /// Maximum time in seconds that a peer on a network waits for a neighbour in a synchronous
    /// round, after its own trial; unlimited by default. In one process, no agent is late.
    pub patience_s: Option<f64>,
    /// The initial points to share: `all` (default), `best` (as in the authors' code) or `none`.
    pub share_initial: Option<String>,
    /// β_t: a number (default 1), or the bound of FTS's Theorem 1.
    pub ucb_multiplier: Option<UcbMultiplier>,
    /// The method for choosing a query. `sample` (default): the maximizer of a function drawn from
    /// the posterior. `independent`: as in the authors' code, the candidate with the largest of
    /// independent draws.
    pub query: Option<String>,
    /// Number of candidate grid points per dimension, for `query = "independent"`; default 100.
    pub grid: Option<usize>,
    /// Maximum distance of a query from the agent's last point, in the unit cube, for `query =
    /// "independent"`.
    pub radius: Option<f64>,
    /// In one process: a trial takes from 1 − spread to 1 + spread of the nominal duration, in `[0,
    /// 1)`; default 0.5 at an asynchronous pace. This is virtual time, so nothing depends on the
    /// real duration of trials.
    pub spread: Option<f64>,
    /// In one process: the mean delay of a report, in units of the nominal trial duration. Delays
    /// range from 0 to twice this value; the default is 0.
    pub delay: Option<f64>,
    /// In one process: the probability that a report is lost and sent again after the nominal
    /// duration of a trial, in `[0, 1)`; default 0.
    pub loss: Option<f64>,
}

/// Default number of grid points per dimension, as in the paper's figure.
const GRID: usize = 100;
/// Maximum number of grid points per dimension.
const GRID_MAX: usize = 1000;
/// Maximum patience in seconds (31 days).
const PATIENCE_S_MAX: f64 = 2_678_400.0;
/// Maximum mean delay of a report, in units of the nominal trial duration.
const DELAY_MAX: f64 = 1000.0;

/// The tables that this algorithm reads.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "distributed-ts")]
    distributed_ts: DistributedTsTable,
}

/// Reads `[distributed-ts]`.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, .. } = *reading;
    let Tables { distributed_ts: table } = check.file.parse()?;
    let ucb_multiplier = check.ucb_multiplier(&at("ucb_multiplier"), table.ucb_multiplier)?;
    let exchange = exchange(&table, check)?;
    let mut own = reading.own.clone();
    own.ucb_multiplier = ucb_multiplier;
    let settings = Federated {
        exchange,
        settings: DistributedTsSettings { own, query: query(&table, check)? },
        log_ei: reading.log_ei.clone(),
    };
    Ok(Read { settings: Settings::Neighbours(Arc::new(settings)), ucb_multiplier })
}

/// Reads the exchange settings in `[distributed-ts]` for an algorithm that chooses its queries
/// differently.
pub(crate) fn exchange_alone(reading: &Reading<'_>) -> Result<NeighbourSettings, FileError> {
    let Reading { check, algorithm, .. } = *reading;
    let Tables { distributed_ts: table } = check.file.parse()?;
    let of_queries = [
        ("ucb_multiplier", table.ucb_multiplier.is_some()),
        ("query", table.query.is_some()),
        ("grid", table.grid.is_some()),
        ("radius", table.radius.is_some()),
    ];
    match of_queries.iter().find(|(_, is_given)| *is_given) {
        None => exchange(&table, check),
        Some((key, _)) => {
            let message = format!(
                "distributed-ts.{key} has no effect with algorithm {algorithm:?}, which reads only the keys of the exchange in this table; remove it"
            );
            Err(check.file.error(&at(key), message))
        }
    }
}

/// Reads the rules for exchanging observations between neighbours.
fn exchange(table: &DistributedTsTable, check: Check<'_>) -> Result<NeighbourSettings, FileError> {
    let words = [("synchronous", false), ("asynchronous", true)];
    let asynchronous = check.word(&at("pace"), table.pace.as_deref(), &words)?;
    let asynchronous = asynchronous.unwrap_or(false);
    let words = [
        ("all", InitialSharing::All),
        ("best", InitialSharing::Best),
        ("none", InitialSharing::Nothing),
    ];
    let path = at("share_initial");
    let initial_sharing = check.word(&path, table.share_initial.as_deref(), &words)?;
    Ok(NeighbourSettings {
        pace: pace(table, check, asynchronous)?,
        network: network(table, check, asynchronous)?,
        initial_sharing: initial_sharing.unwrap_or_default(),
    })
}

fn at(key: &str) -> [&str; 2] {
    ["distributed-ts", key]
}

fn pace(
    table: &DistributedTsTable,
    check: Check<'_>,
    asynchronous: bool,
) -> Result<Pace, FileError> {
    let path = at("patience_s");
    if asynchronous {
        if table.patience_s.is_some() {
            let message =
                "distributed-ts.patience_s has no effect unless pace = \"synchronous\"; remove it";
            return Err(check.file.error(&path, message));
        }
        return Ok(Pace::Asynchronous);
    }
    let patience = table.patience_s.map(|seconds| {
        let fits = (0.001..=PATIENCE_S_MAX).contains(&seconds);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be between 1 ms and a month"
        )]
        match fits {
            true => Ok((seconds * 1e3).round() as u64),
            false => {
                let expected = format!("seconds from 0.001 to {PATIENCE_S_MAX}");
                Err(check.file.value_error(&path, expected))
            }
        }
    });
    Ok(Pace::Synchronous { patience: patience.transpose()? })
}

fn network(
    table: &DistributedTsTable,
    check: Check<'_>,
    asynchronous: bool,
) -> Result<VirtualNetwork, FileError> {
    let within = |key: &str, given: Option<f64>, standard: f64, below: f64| {
        let value = given.unwrap_or(standard);
        match (0.0..below).contains(&value) {
            true => Ok(value),
            false => {
                let expected = format!("a number of at least 0 and below {below}");
                Err(check.file.value_error(&at(key), expected))
            }
        }
    };
    let given = [
        ("spread", table.spread.is_some()),
        ("delay", table.delay.is_some()),
        ("loss", table.loss.is_some()),
    ];
    if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given && !asynchronous) {
        let message = format!(
            "distributed-ts.{key} has no effect unless pace = \"asynchronous\", because otherwise all agents wait for each other; remove it"
        );
        return Err(check.file.error(&at(key), message));
    }
    let standard = if asynchronous { 0.5 } else { 0.0 };
    Ok(VirtualNetwork {
        spread: within("spread", table.spread, standard, 1.0)?,
        delay: within("delay", table.delay, 0.0, DELAY_MAX)?,
        loss: within("loss", table.loss, 0.0, 1.0)?,
    })
}

fn query(table: &DistributedTsTable, check: Check<'_>) -> Result<Query, FileError> {
    let words = [("sample", false), ("independent", true)];
    let independent = check.word(&at("query"), table.query.as_deref(), &words)?;
    if independent != Some(true) {
        let idle = [("grid", table.grid.is_some()), ("radius", table.radius.is_some())];
        return match idle.iter().find(|(_, is_given)| *is_given) {
            None => Ok(Query::Sample),
            Some((key, _)) => {
                let message = format!(
                    "distributed-ts.{key} has no effect unless query = \"independent\"; remove it"
                );
                Err(check.file.error(&at(key), message))
            }
        };
    }
    let Some(radius) = table.radius else {
        let remedy = "add radius = .., the maximum distance of a query from the agent's last point in the unit cube";
        return Err(check.file.missing_error(&at("radius"), remedy));
    };
    let n_per_dim = table.grid.unwrap_or(GRID);
    if !(2..=GRID_MAX).contains(&n_per_dim) {
        let expected = format!("a whole number from 2 to {GRID_MAX}");
        return Err(check.file.value_error(&at("grid"), expected));
    }
    Ok(Query::IndependentDraws(IndependentDraws {
        n_per_dim,
        radius: check.positive(&at("radius"), radius)?,
    }))
}
