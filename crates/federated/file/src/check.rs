//! Checks a `federation.toml`: every value, in words that name the key, what stands there and the way out.

mod fts;
mod objectives;

use std::collections::BTreeSet;

use fedbo_algorithms::{FtsSettings, Maximizer, Repeats, ThompsonSettings};
use fedbo_config::{
    Check, FileError, LengthscaleEntry, NAME_CHARS_MAX, TomlFile, default_lengthscale,
};
use fedbo_gp::{Family, FeatureDescription, FeatureSampling, LengthscaleLaw};
use fedbo_objective::Problems;
use fedbo_optim::MultiStart;
use fedbo_space::Direction;

use crate::checked::{
    AgentObjective, Algorithm, Collaboration, Federation, FederationAgent, Objectives,
};
use crate::distributed_ts::Neighbours;
use crate::dp_fts_de::{Around, Distributed};
use crate::file::{AgentTable, FeaturesTable, FederationFile, FtsTable};
use crate::network::Network;
use crate::public_config::PublicConfig;
use crate::topology::Topology;

const N_ROUNDS_MAX: u64 = 1_000_000;
const N_INITIAL_MAX: usize = 10_000;
const N_FEATURES_MAX: usize = 100_000;

impl FederationFile {
    /// Checks everything that can be checked before a run; `file` is where the data came from, `problems` are those that it may name.
    ///
    /// # Errors
    /// The first thing that cannot be used.
    pub fn validate(
        &self,
        file: &TomlFile,
        objectives: Objectives,
        problems: &dyn Problems,
    ) -> Result<Federation, FileError> {
        let check = Check::new(file);
        let parts = Parts {
            file,
            check,
            problems,
        };
        if self.version.is_some_and(|version| version != 1) {
            return Err(file.value_error(
                &["version"],
                "1, the only version of this file's layout so far",
            ));
        }
        let Some(head) = &self.federation else {
            let remedy = "begin the file with [federation] and its name, algorithm and rounds";
            return Err(file.missing_error(&["federation"], remedy));
        };
        let Some(name) = &head.name else {
            let remedy = "add name = \"...\", which also names the results folder";
            return Err(file.missing_error(&["federation", "name"], remedy));
        };
        check.folder_name(&["federation", "name"], name)?;
        let algorithm = parts.algorithm(head.algorithm.as_deref())?;
        parts.tables_have_an_effect(self, algorithm)?;
        let direction = check.word(
            &["federation", "direction"],
            head.direction.as_deref(),
            &[
                ("maximize", Direction::Maximize),
                ("minimize", Direction::Minimize),
            ],
        )?;
        let rounds = head.rounds.ok_or_else(|| {
            let remedy = "add rounds = .., the queries of each agent after its initial points";
            file.missing_error(&["federation", "rounds"], remedy)
        })?;
        if !(1..=N_ROUNDS_MAX).contains(&rounds) {
            let expected = format!("a whole number from 1 to {N_ROUNDS_MAX}");
            return Err(file.value_error(&["federation", "rounds"], expected));
        }
        let n_initial = check.count(
            &["federation", "initial"],
            head.initial.unwrap_or(3),
            N_INITIAL_MAX,
        )?;

        parts.agent_names(&self.agents, algorithm)?;
        let problems = self
            .agents
            .iter()
            .enumerate()
            .map(|(index, agent)| parts.problem(index, agent, head.seed.unwrap_or(0), objectives))
            .collect::<Result<Vec<_>, _>>()?;
        let space = parts.space(self, &problems)?;
        parts.directions(&self.agents, &problems, direction)?;
        let agents = self
            .agents
            .iter()
            .zip(problems)
            .enumerate()
            .map(|(index, (agent, problem))| {
                let objective = match problem {
                    Some(problem) => AgentObjective::Problem(problem),
                    None if agent.command.is_none() => AgentObjective::Elsewhere,
                    None => AgentObjective::Command(parts.command(index, agent, &space)?),
                };
                let name = agent.name.clone().unwrap_or_default();
                Ok(FederationAgent { name, objective })
            })
            .collect::<Result<Vec<_>, FileError>>()?;

        let dim = space.dim();
        let noisy = head.noisy.unwrap_or(false);
        let ucb_multiplier = match (algorithm, &self.dp_fts_de) {
            (Algorithm::DpFtsDe, Some(table)) => {
                check.ucb_multiplier(&["dp-fts-de", "ucb_multiplier"], table.ucb_multiplier)?
            }
            (Algorithm::DistributedTs, _) => {
                let given = self.distributed_ts.as_ref();
                let given = given.and_then(|table| table.ucb_multiplier);
                check.ucb_multiplier(&["distributed-ts", "ucb_multiplier"], given)?
            }
            _ => check.ucb_multiplier(&["fts", "ucb_multiplier"], self.fts.ucb_multiplier)?,
        };
        let ts_ucb = ["ts", "ucb_multiplier"];
        let ts_ucb_multiplier = match self.ts.ucb_multiplier {
            Some(entry) => check.ucb_multiplier(&ts_ucb, Some(entry))?,
            None => ucb_multiplier,
        };
        let own = ThompsonSettings {
            surrogate: check.surrogate(&["surrogate"], &self.surrogate, dim)?,
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(dim)),
            ucb_multiplier,
            repeats: if noisy {
                Repeats::Allow
            } else {
                Repeats::Avoid
            },
        };
        let features = parts.features(&self.features, dim)?;
        if objectives == Objectives::Here {
            parts.memory(algorithm, agents.len(), features.n_features)?;
        }
        let (seed, direction) = (
            head.seed.unwrap_or(0),
            direction.unwrap_or(Direction::Maximize),
        );
        let collaboration = if algorithm == Algorithm::DpFtsDe {
            let mut config = PublicConfig::new();
            let roster: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            config.federation(name, seed, direction, n_initial, &roster, &space);
            config.features(&features);
            let around = Around {
                check,
                name,
                rounds,
                n_agents: agents.len(),
                n_features: features.n_features,
                space: &space,
                own,
                config,
                objectives,
            };
            Collaboration::Distributed(Box::new(Distributed::of(self, around)?))
        } else if algorithm == Algorithm::DistributedTs {
            let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            let table = self.topology.clone().unwrap_or_default();
            let topology = Topology::of(&table, check, &names, seed)?;
            let table = self.distributed_ts.clone().unwrap_or_default();
            Collaboration::Neighbours(Box::new(Neighbours::of(&table, check, topology, own)?))
        } else {
            Collaboration::Fts(Box::new(FtsSettings {
                own,
                local_prob: parts.local_prob(&self.fts)?,
                agent_sampling: parts.agent_sampling(&self.fts, agents.len())?,
                message: parts.message(&self.fts)?,
            }))
        };
        Ok(Federation {
            name: name.clone(),
            seed,
            run: None,
            direction,
            algorithm,
            rounds,
            n_initial,
            features,
            collaboration,
            ts_ucb_multiplier,
            network: Network::of(&self.network, check, algorithm)?,
            file: self.clone(),
            source: file.clone(),
            agents,
            space,
        })
    }
}

/// Checks the parts that only a federation has.
struct Parts<'a> {
    file: &'a TomlFile,
    check: Check<'a>,
    problems: &'a dyn Problems,
}

impl Parts<'_> {
    fn algorithm(&self, given: Option<&str>) -> Result<Algorithm, FileError> {
        let path = ["federation", "algorithm"];
        let known = [
            ("fts", Algorithm::Fts),
            ("ts", Algorithm::Ts),
            ("dp-fts-de", Algorithm::DpFtsDe),
            ("distributed-ts", Algorithm::DistributedTs),
        ];
        self.check.word(&path, given, &known)?.ok_or_else(|| {
            let remedy = "add algorithm = \"fts\" (agents learn from each other), \"dp-fts-de\" (the same with differential \
                          privacy), \"distributed-ts\" (neighbours share observations) or \"ts\" (each alone)";
            self.file.missing_error(&path, remedy)
        })
    }

    /// Refuses tables that another algorithm reads: above all a [privacy] that would protect nobody.
    fn tables_have_an_effect(
        &self,
        file: &FederationFile,
        algorithm: Algorithm,
    ) -> Result<(), FileError> {
        let of_dp = algorithm == Algorithm::DpFtsDe;
        let of_neighbours = algorithm == Algorithm::DistributedTs;
        let tables = [
            ("privacy", !of_dp && file.privacy.is_some(), "\"dp-fts-de\""),
            (
                "exploration",
                !of_dp && file.exploration.is_some(),
                "\"dp-fts-de\"",
            ),
            (
                "dp-fts-de",
                !of_dp && file.dp_fts_de.is_some(),
                "\"dp-fts-de\"",
            ),
            (
                "fts",
                (of_dp || of_neighbours) && file.fts != FtsTable::default(),
                "\"fts\" or \"ts\"",
            ),
            (
                "features",
                of_neighbours && file.features != FeaturesTable::default(),
                "\"fts\", \"ts\" or \"dp-fts-de\"",
            ),
            (
                "distributed-ts",
                !of_neighbours && file.distributed_ts.is_some(),
                "\"distributed-ts\"",
            ),
            (
                "topology",
                !of_neighbours && file.topology.is_some(),
                "\"distributed-ts\"",
            ),
        ];
        match tables.iter().find(|(_, is_idle, _)| *is_idle) {
            None => Ok(()),
            Some((table, _, readers)) => {
                let message = format!(
                    "[{table}] has no effect unless federation.algorithm is {readers}; remove the table, or change the algorithm"
                );
                Err(self.file.error(&[table], message))
            }
        }
    }

    /// Every agent of a process keeps the latest message of every other in FTS: refuses what cannot fit.
    fn memory(
        &self,
        algorithm: Algorithm,
        n_agents: usize,
        n_features: usize,
    ) -> Result<(), FileError> {
        const BYTES_MAX: f64 = 4.0e9;
        if matches!(algorithm, Algorithm::DpFtsDe | Algorithm::DistributedTs) {
            return Ok(()); // an agent keeps one sum a region, or observations
        }
        // Measured: the broadcast being taken in adds about half of what the inboxes hold.
        let bytes = 1.5 * (n_agents as f64).powi(2) * (8.0 * n_features as f64 + 80.0);
        if bytes <= BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "{n_agents} agents that keep {n_features} numbers of each other would need about {:.0} GB of memory in one \
             process, which stops at {:.0}; name fewer agents, or lower features.count",
            bytes / 1e9,
            BYTES_MAX / 1e9
        );
        Err(self.file.error(&["agents", "0"], message))
    }

    fn agent_names(&self, agents: &[AgentTable], algorithm: Algorithm) -> Result<(), FileError> {
        if agents.is_empty() {
            let remedy = "add a table [[agents]] with a name and a command or problem for each";
            return Err(self.file.missing_error(&["agents"], remedy));
        }
        if agents.len() == 1 && algorithm != Algorithm::Ts {
            let word = match algorithm {
                Algorithm::DpFtsDe => "dp-fts-de",
                Algorithm::DistributedTs => "distributed-ts",
                _ => "fts",
            };
            let message = format!(
                "there is 1 agent, and algorithm = {word:?} needs at least 2 to learn from each other; \
                 add an [[agents]] table, or set algorithm = \"ts\""
            );
            return Err(self.file.error(&["agents", "0"], message));
        }
        let mut seen = BTreeSet::new();
        for (index, agent) in agents.iter().enumerate() {
            let index = index.to_string();
            let path = ["agents", index.as_str(), "name"];
            let Some(name) = &agent.name else {
                let remedy = "add name = \"...\", unlike all others";
                return Err(self.file.missing_error(&path, remedy));
            };
            if name.trim().is_empty()
                || name.chars().count() > NAME_CHARS_MAX
                || name.chars().any(char::is_control)
            {
                let expected =
                    format!("1 to {NAME_CHARS_MAX} characters without control characters");
                return Err(self.file.value_error(&path, expected));
            }
            // Names become folders and arguments of those who enrol.
            if name.starts_with(['-', '.']) || name.contains(['/', '\\']) {
                let expected = "a name without slashes, and without a dash or a dot in front";
                return Err(self.file.value_error(&path, expected));
            }
            if !seen.insert(name) {
                let expected = "a name that no other agent has";
                return Err(self.file.value_error(&path, expected));
            }
        }
        Ok(())
    }

    fn features(&self, given: &FeaturesTable, dim: usize) -> Result<FeatureDescription, FileError> {
        let n_features = self.check.count(
            &["features", "count"],
            given.count.unwrap_or(100),
            N_FEATURES_MAX,
        )?;
        let path = ["features", "lengthscale"];
        let lengthscale = match given.lengthscale {
            None => LengthscaleLaw::LogNormal {
                median: default_lengthscale(dim),
                spread: 0.5,
            },
            Some(LengthscaleEntry::Fixed(lengthscale)) => {
                LengthscaleLaw::Fixed(self.check.positive(&path, lengthscale)?)
            }
            Some(LengthscaleEntry::Mixture { median, spread }) => {
                // A spread of 5 is a factor of e^5 either way.
                if !(median.is_normal() && median > 0.0 && (0.0..=5.0).contains(&spread)) {
                    let expected = "a median above 0 and a spread between 0 and 5";
                    return Err(self.file.value_error(&path, expected));
                }
                LengthscaleLaw::LogNormal { median, spread }
            }
        };
        let path = ["features", "kernel"];
        let family = self.check.family(&path, given.kernel.as_deref())?;
        let known = [
            ("random", FeatureSampling::Random),
            ("quasi-random", FeatureSampling::QuasiRandom),
        ];
        let path = ["features", "sampling"];
        let sampling = self.check.word(&path, given.sampling.as_deref(), &known)?;
        Ok(FeatureDescription {
            n_features,
            dim,
            family: family.unwrap_or(Family::SquaredExponential),
            lengthscale,
            sampling: sampling.unwrap_or_default(),
        })
    }
}
