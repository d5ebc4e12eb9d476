//! `[exploration]`: the regions of the space, the agents that explore each region, and their
//! weights there.

use fedbo_config::{Check, FileError, WordOrNumbers};
use fedbo_space::Space;
use fedbo_strategies::Partition;
use fedbo_streams::Stream;
use serde::Deserialize;

use super::{ExplorationWeightLaw, ExplorationWeights, region_sizes};
use crate::PublicConfig;

/// `[exploration]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExplorationTable {
    /// P, the number of regions. Agent n, counted from 0 in file order, is assigned to region n mod
    /// P. The default is 1 for fewer than 8 agents, and otherwise 4, or fewer if the space cannot
    /// be divided into 4 regions.
    pub regions: Option<u32>,
    /// Location of initial points: `region` (default), the agent's own region, or `anywhere`.
    pub start: Option<String>,
    /// The formula for φ, which gives an agent more weight in its own region: `softmax` (default),
    /// `linear`, `square` or `uniform`.
    pub weights: Option<String>,
    /// a_1, the initial value of a_t, at least 1; default 16.
    pub weight_start: Option<f64>,
    /// Number of rounds at the initial value, or `forever`; default 10.
    pub weight_hold: Option<WordOrNumbers>,
    /// Number of rounds over which the value decreases to 1, where all agents have equal weight;
    /// default 30.
    pub weight_decay: Option<u64>,
}

/// Default number of regions, if there are enough agents and the space can be divided into this
/// many.
const N_REGIONS: u32 = 4;
/// Minimum number of agents for which the default is more than one region: two agents per region.
const N_AGENTS_OF_SEVERAL: usize = 8;
/// Maximum number of rounds for a hold or a decay.
const N_ROUNDS_MAX: u64 = 1_000_000;

/// Distributed exploration (DP-FTS-DE section 3.2). The space is divided into P regions, and agent
/// n is assigned to region n mod P.
#[derive(Clone, Debug)]
pub(super) struct Exploration {
    pub(super) partition: Partition,
    /// True if initial points must lie in the agent's region.
    pub(super) starts_in_region: bool,
    /// φ_n^(i).
    pub(super) emphasis: ExplorationWeights,
    n_agents: usize,
}

impl Exploration {
    /// Checks the table.
    pub(super) fn of(
        given: &ExplorationTable,
        check: Check<'_>,
        space: &Space,
        n_agents: usize,
    ) -> Result<Self, FileError> {
        let starts = [("region", true), ("anywhere", false)];
        let start = check.word(&["exploration", "start"], given.start.as_deref(), &starts)?;
        Ok(Self {
            partition: partition(given, check, space, n_agents)?,
            starts_in_region: start.unwrap_or(true),
            emphasis: emphasis(given, check)?,
            n_agents,
        })
    }

    /// Returns P.
    pub(super) fn n_regions(&self) -> usize {
        self.partition.n_regions()
    }

    /// Returns the region of an agent, which depends only on the agent's index (INV-11).
    pub(super) fn region_of_agent(&self, agent: usize) -> usize {
        agent % self.n_regions()
    }

    /// Returns the number of agents assigned to each region (P entries).
    pub(super) fn region_sizes(&self) -> Vec<usize> {
        region_sizes(self.n_agents, self.n_regions())
    }

    /// Returns φ_n^(i) in a round: P rows of N weights, each of which sums to 1.
    pub(super) fn agent_weights(&self, round: u64) -> Vec<Vec<f64>> {
        let n_regions = self.n_regions();
        self.emphasis.agent_weights(round, self.n_agents, n_regions)
    }

    /// Draws a random initial point for an agent, in unit-cube coordinates. Returns `None` if no
    /// point in its region was found, which is extremely unlikely because every region contains
    /// points.
    pub(super) fn start(
        &self,
        agent: usize,
        space: &Space,
        stream: &mut Stream,
    ) -> Option<Vec<f64>> {
        const N_TRIES: usize = 10_000;
        let region = self.region_of_agent(agent);
        for _ in 0..N_TRIES {
            let mut unit: Vec<f64> = (0..space.dim()).map(|_| stream.uniform()).collect();
            if self.starts_in_region {
                unit = self.partition.place(region, &unit);
            }
            // Snapping to a valid point of the space can move the point across a region border.
            let point = space.snap(&unit);
            if !self.starts_in_region || self.partition.region_of(&point) == region {
                return Some(point);
            }
        }
        None
    }

    /// Adds the regions and weights to the public configuration.
    pub(super) fn describe(&self, config: &mut PublicConfig) {
        config.json("cuts", &self.partition.cuts());
        config.line(
            "start",
            match self.starts_in_region {
                true => "region",
                false => "anywhere",
            },
        );
        let ExplorationWeights { law, start, hold, decay } = self.emphasis;
        config.line(
            "weights",
            match law {
                ExplorationWeightLaw::Softmax => "softmax",
                ExplorationWeightLaw::Linear => "linear",
                ExplorationWeightLaw::Square => "square",
            },
        );
        config.number("weight_start", start);
        match hold {
            Some(hold) => config.count("weight_hold", hold),
            None => config.line("weight_hold", "forever"),
        }
        config.count("weight_decay", decay);
    }
}

fn partition(
    given: &ExplorationTable,
    check: Check<'_>,
    space: &Space,
    n_agents: usize,
) -> Result<Partition, FileError> {
    let path = ["exploration", "regions"];
    let Some(n_regions) = given.regions else {
        let most = if n_agents < N_AGENTS_OF_SEVERAL { 1 } else { N_REGIONS };
        let fitting = (1..=most).rev();
        let found =
            fitting.filter_map(|n_regions| Partition::of_space(space, n_regions).ok()).next();
        return Ok(found.unwrap_or_else(|| Partition::whole(space.dim())));
    };
    if n_regions == 0 || n_regions as usize > n_agents {
        let expected = format!(
            "a whole number from 1 to {n_agents}, the number of agents: results of a region's agents are worth most there"
        );
        return Err(check.file.value_error(&path, expected));
    }
    Partition::of_space(space, n_regions).map_err(|error| {
        let message = format!("exploration.regions = {n_regions}: {error}");
        check.file.error(&path, message)
    })
}

fn emphasis(given: &ExplorationTable, check: Check<'_>) -> Result<ExplorationWeights, FileError> {
    let laws = [
        ("softmax", Some(ExplorationWeightLaw::Softmax)),
        ("linear", Some(ExplorationWeightLaw::Linear)),
        ("square", Some(ExplorationWeightLaw::Square)),
        ("uniform", None),
    ];
    let path = ["exploration", "weights"];
    let law = check.word(&path, given.weights.as_deref(), &laws)?;
    let Some(law) = law.unwrap_or(Some(ExplorationWeightLaw::Softmax)) else {
        let unused = [
            ("weight_start", given.weight_start.is_some()),
            ("weight_hold", given.weight_hold.is_some()),
            ("weight_decay", given.weight_decay.is_some()),
        ];
        if let Some((key, _)) = unused.iter().find(|(_, is_given)| *is_given) {
            let message =
                format!("exploration.{key} has no effect with weights = \"uniform\"; remove it");
            return Err(check.file.error(&["exploration", key], message));
        }
        return Ok(ExplorationWeights::UNIFORM);
    };
    let standard = ExplorationWeights::REAL;
    let hold = match &given.weight_hold {
        None => standard.hold,
        Some(WordOrNumbers::Word(word)) if word == "forever" => None,
        Some(WordOrNumbers::Number(number)) if is_count(*number) => Some(whole(*number)),
        Some(_) => {
            let expected =
                format!("a whole number of rounds from 0 to {N_ROUNDS_MAX}, or \"forever\"");
            let path = ["exploration", "weight_hold"];
            return Err(check.file.value_error(&path, expected));
        }
    };
    if hold.is_none() && given.weight_decay.is_some() {
        let message =
            "exploration.weight_decay has no effect with weight_hold = \"forever\"; remove it";
        return Err(check.file.error(&["exploration", "weight_decay"], message));
    }
    let decay = given.weight_decay.unwrap_or(standard.decay);
    if decay > N_ROUNDS_MAX {
        let expected = format!("a whole number of rounds from 0 to {N_ROUNDS_MAX}");
        let path = ["exploration", "weight_decay"];
        return Err(check.file.value_error(&path, expected));
    }
    let emphasis = ExplorationWeights {
        law,
        start: given.weight_start.unwrap_or(standard.start),
        hold,
        decay,
    };
    check.setting(&["exploration", "weight_start"], emphasis.validate())
}

#[expect(clippy::float_cmp, reason = "a whole number is equal to itself")]
fn is_count(number: f64) -> bool {
    number.trunc() == number && (0.0..=N_ROUNDS_MAX as f64).contains(&number)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, as checked by `is_count`"
)]
fn whole(number: f64) -> u64 {
    number as u64
}
