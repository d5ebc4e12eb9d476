//! Validation of a `federation.toml`. Errors name the key, its value and a remedy.

mod objectives;

use std::collections::BTreeSet;

use fedbo_config::{Check, FileError, LengthscaleEntry, NAME_CHARS_MAX, SurrogateTable, TomlFile};
use fedbo_federated::{Algorithm, Exchange, PublicConfig, Read, Reading, Role, Settings};
use fedbo_gp::{FeatureDescription, FeatureSampling, LengthscaleLaw};
use fedbo_objective::Problems;
use fedbo_optim::MultiStart;
use fedbo_space::Direction;
use fedbo_strategies::{
    LogEiSettings, Maximizer, OwnQuery, Repeats, SampleSearch, ThompsonSettings, UcbMultiplier,
    in_words,
};

use crate::checked::{AgentObjective, Collaboration, Federation, FederationAgent, Objectives};
use crate::file::{AgentTable, FeaturesTable, FederationFile};
use crate::neighbours::NeighbourPlan;
use crate::network::Network;
use crate::pace::FreePlan;
use crate::privacy::{PrivacyMode, Releases, Setting};
use crate::releases::ReleasePlan;
use crate::secure_sum::SecureSum;
use crate::topology::Topology;

const N_ROUNDS_MAX: u64 = 1_000_000;
const N_INITIAL_MAX: usize = 10_000;
/// Maximum length of `federation.value_name` in characters, because it is an axis label.
const VALUE_NAME_CHARS_MAX: usize = 60;
/// Maximum number of features in a file.
pub const N_FEATURES_MAX: usize = 100_000;

impl FederationFile {
    /// Checks everything that can be checked before a run. `file` is the source of the tables.
    /// `problems` and `algorithms` are the ones that the file can name.
    ///
    /// # Errors
    /// Returns the first invalid entry of the file.
    pub fn validate(
        self,
        file: &TomlFile,
        objectives: Objectives,
        problems: &dyn Problems,
        algorithms: &[Algorithm],
    ) -> Result<Federation, FileError> {
        let check = Check::new(file);
        let parts = Parts { file, check, problems, algorithms };
        parts.tables_are_known(&self)?;
        if self.version.is_some_and(|version| version != 1) {
            return Err(
                file.value_error(&["version"], "1, the only version of this file's layout so far")
            );
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
        parts.value_name(head.value_name.as_deref())?;
        let algorithm = parts.algorithm(head.algorithm.as_deref())?;
        parts.tables_have_an_effect(&self, &algorithm)?;
        let direction = check.word(
            &["federation", "direction"],
            head.direction.as_deref(),
            &[("maximize", Direction::Maximize), ("minimize", Direction::Minimize)],
        )?;
        let rounds = head.rounds.ok_or_else(|| {
            let remedy = "add rounds = .., the queries of each agent after its initial points";
            file.missing_error(&["federation", "rounds"], remedy)
        })?;
        if !(1..=N_ROUNDS_MAX).contains(&rounds) {
            let expected = format!("a whole number from 1 to {N_ROUNDS_MAX}");
            return Err(file.value_error(&["federation", "rounds"], expected));
        }
        let n_initial =
            check.count(&["federation", "initial"], head.initial.unwrap_or(3), N_INITIAL_MAX)?;

        parts.agent_names(&self.agents, &algorithm)?;
        parts.observations_have_an_effect(&self, &algorithm, objectives)?;
        let problems = self
            .agents
            .iter()
            .enumerate()
            .map(|(index, agent)| parts.problem(index, agent, head.seed.unwrap_or(0), objectives))
            .collect::<Result<Vec<_>, _>>()?;
        let space = parts.space(&self, &problems)?;
        parts.directions(&self.agents, &problems, direction)?;
        let agents = self
            .agents
            .iter()
            .zip(problems)
            .enumerate()
            .map(|(index, (agent, problem))| {
                let objective = match problem {
                    Some(problem) => AgentObjective::Problem(problem),
                    None if agent.observations.is_some() => {
                        let direction = direction.unwrap_or(Direction::Maximize);
                        parts.observations(index, agent, &space, direction)?
                    }
                    None if agent.command.is_none() => AgentObjective::Elsewhere,
                    None => AgentObjective::Command(parts.command(index, agent, &space)?),
                };
                let name = agent.name.clone().unwrap_or_default();
                Ok(FederationAgent { name, objective })
            })
            .collect::<Result<Vec<_>, FileError>>()?;

        let free = FreePlan::of(&self, check, &algorithm, (n_initial, rounds))?;
        let dim = space.dim();
        let noisy = head.noisy.unwrap_or(false);
        let own = ThompsonSettings {
            surrogate: check.surrogate(&["surrogate"], &self.surrogate, dim)?,
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(dim)),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: if noisy { Repeats::Allow } else { Repeats::Avoid },
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        };
        let mut log_ei = LogEiSettings::for_agent(&space, noisy);
        if self.surrogate != SurrogateTable::default() {
            log_ei.surrogate = own.surrogate.clone();
        }
        let features = parts.features(&self.features, dim)?;
        let (seed, direction) = (head.seed.unwrap_or(0), direction.unwrap_or(Direction::Maximize));
        let privacy = self.privacy.clone().unwrap_or_default();
        let reading = Reading {
            check,
            algorithm: algorithm.name,
            space: &space,
            n_agents: agents.len(),
            n_features: features.n_features,
            own,
            log_ei,
            papers: PrivacyMode::of(&privacy, check)?.is_papers(),
            in_one_process: objectives != Objectives::Elsewhere,
        };
        let Read { settings, ucb_multiplier } = (algorithm.read)(&reading)?;
        let ts_ucb_multiplier = match self.ts.ucb_multiplier {
            Some(entry) => check.ucb_multiplier(&["ts", "ucb_multiplier"], Some(entry))?,
            None => ucb_multiplier,
        };
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let collaboration = match settings {
            Settings::Relayed(algorithm) => Collaboration::Relayed(algorithm),
            Settings::Released(algorithm) => {
                let mut config = PublicConfig::default();
                config.federation(name, seed, direction, n_initial, &names, &space);
                config.rules(&self.rules, &self.mixtures);
                config.json("features", &features);
                algorithm.describe(&mut config);
                let n_features = u32::try_from(features.n_features).unwrap_or(u32::MAX); // checked to be far below
                let secure_sum = self.secure_sum.as_ref();
                let secure_sum =
                    secure_sum.map(|given| SecureSum::of(given, &privacy, n_features, check));
                let secure_sum = secure_sum.transpose()?;
                let setting = Setting {
                    check,
                    name,
                    rounds,
                    n_agents: u32::try_from(agents.len()).unwrap_or(u32::MAX), // 2^32 agents do not fit into memory
                    n_features,
                    shape: algorithm.shape(),
                    free: free.as_ref(),
                    secure_sum,
                };
                let releases = Releases::of(&privacy, &setting, config)?;
                Collaboration::Released(Box::new(ReleasePlan {
                    exact: setting.exact()?,
                    releases,
                    algorithm,
                }))
            }
            Settings::Neighbours(algorithm) => {
                let table = self.topology.clone().unwrap_or_default();
                let topology = Topology::of(&table, check, &names, seed)?;
                Collaboration::Neighbours(Box::new(NeighbourPlan { topology, algorithm }))
            }
        };
        let pace = (free.is_some(), n_initial);
        let network = Network::of(&self.network, check, &algorithm, algorithms, pace)?;
        if network.is_sharded && !collaboration.has_parts() {
            let message = "network.intake = \"shards\" is for sums in whole numbers that include every agent: algorithm = \"dp-fts-de\" or \
                           \"dp-shared-prior\" with sampling_rate = 1, not [secure_sum], not mode = \"paper\"; remove it";
            return Err(file.error(&["network", "intake"], message));
        }
        Ok(Federation {
            name: name.clone(),
            value_name: head.value_name.clone(),
            seed,
            run: None,
            direction,
            algorithm,
            rounds,
            n_initial,
            features,
            collaboration,
            ts_ucb_multiplier,
            network,
            free,
            file: self,
            source: file.clone(),
            agents,
            space,
        })
    }
}

/// Checks of the parts that are specific to federations.
struct Parts<'a> {
    file: &'a TomlFile,
    check: Check<'a>,
    problems: &'a dyn Problems,
    algorithms: &'a [Algorithm],
}

impl Parts<'_> {
    fn algorithm(&self, given: Option<&str>) -> Result<Algorithm, FileError> {
        let path = ["federation", "algorithm"];
        let known: Vec<(&str, Algorithm)> =
            self.algorithms.iter().map(|algorithm| (algorithm.name, *algorithm)).collect();
        self.check.word(&path, given, &known)?.ok_or_else(|| {
            let choices: Vec<String> = self
                .algorithms
                .iter()
                .map(|each| format!("{:?} ({})", each.name, each.summary))
                .collect();
            let remedy = format!("add algorithm = {}", choices.join(" or "));
            self.file.missing_error(&path, remedy)
        })
    }

    /// Checks that the name of the value can serve as an axis label.
    fn value_name(&self, given: Option<&str>) -> Result<(), FileError> {
        let fits = |name: &str| {
            !name.trim().is_empty()
                && name.chars().count() <= VALUE_NAME_CHARS_MAX
                && !name.contains(char::is_control)
        };
        if given.is_none_or(fits) {
            return Ok(());
        }
        let expected = format!("1 to {VALUE_NAME_CHARS_MAX} characters on one line");
        Err(self.file.value_error(&["federation", "value_name"], expected))
    }

    /// Refuses tables that no algorithm reads.
    fn tables_are_known(&self, file: &FederationFile) -> Result<(), FileError> {
        let tables = self.algorithms.iter().flat_map(|algorithm| algorithm.tables);
        let mut known: Vec<&str> = FederationFile::KEYS.to_vec();
        for table in tables {
            if !known.contains(table) {
                known.push(table);
            }
        }
        let mut given = file.of_algorithms.keys();
        match given.find(|table| !known.contains(&table.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(self.file.unknown_key(&[unknown], &known)),
        }
    }

    /// Refuses tables that only other algorithms read. In particular, this catches a [privacy]
    /// table that would protect nobody.
    fn tables_have_an_effect(
        &self,
        file: &FederationFile,
        algorithm: &Algorithm,
    ) -> Result<(), FileError> {
        type Readers<'a> = Box<dyn Fn(&Algorithm) -> bool + 'a>;
        let exchange = |wanted| -> Readers<'_> { Box::new(move |each| each.exchange == wanted) };
        let mut tables: Vec<(&str, Readers<'_>)> = Vec::new();
        if file.privacy.is_some() {
            tables.push(("privacy", exchange(Exchange::Released)));
        }
        if file.secure_sum.is_some() {
            tables.push(("secure_sum", exchange(Exchange::Released)));
        }
        for (table, keys) in &file.of_algorithms {
            // An empty table is accepted, because frozen texts can contain one.
            if keys.as_table().is_none_or(|keys| !keys.is_empty()) {
                tables.push((table, Box::new(|each| each.tables.contains(&table.as_str()))));
            }
        }
        if file.features != FeaturesTable::default() {
            tables.push(("features", Box::new(Algorithm::has_features)));
        }
        if file.topology.is_some() {
            tables.push(("topology", exchange(Exchange::Neighbours)));
        }
        match tables.iter().find(|(_, reads)| !reads(algorithm)) {
            None => Ok(()),
            Some((table, reads)) => {
                let readers = self.algorithms.iter().filter(|each| reads(each));
                let readers = in_words(readers.map(|each| each.name), "or");
                let message = format!(
                    "[{table}] has no effect unless federation.algorithm is {}; remove the table, or change the algorithm",
                    readers
                );
                Err(self.file.error(&[table], message))
            }
        }
    }

    fn agent_names(&self, agents: &[AgentTable], algorithm: &Algorithm) -> Result<(), FileError> {
        if agents.is_empty() {
            let remedy = "add a table [[agents]] with a name and a command or problem for each";
            return Err(self.file.missing_error(&["agents"], remedy));
        }
        if agents.len() == 1 && algorithm.role != Role::Alone {
            let word = algorithm.name;
            let message = format!(
                "there is 1 agent, but algorithm = {word:?} needs at least 2 to learn from each other; \
                 add an [[agents]] table, or set algorithm = \"ts\""
            );
            return Err(self.file.error(&["agents", "0"], message));
        }
        let mut seen = BTreeSet::new();
        for (index, agent) in agents.iter().enumerate() {
            let index = index.to_string();
            let path = ["agents", index.as_str(), "name"];
            let Some(name) = &agent.name else {
                let remedy = "add name = \"...\", different from all others";
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
            // Names become folder names, and command-line arguments when agents enroll.
            if name.starts_with(['-', '.']) || name.contains(['/', '\\']) {
                let expected = "a name without slashes and without a leading dash or dot";
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
        let default = FeatureDescription::for_parties(dim);
        let n_features = given.count.unwrap_or(default.n_features);
        let n_features = self.check.count(&["features", "count"], n_features, N_FEATURES_MAX)?;
        let path = ["features", "lengthscale"];
        let lengthscale = match given.lengthscale {
            None => default.lengthscale,
            Some(LengthscaleEntry::Fixed(lengthscale)) => {
                LengthscaleLaw::Fixed(self.check.positive(&path, lengthscale)?)
            }
            Some(LengthscaleEntry::Mixture { median, spread }) => {
                // A spread of 5 is a factor of e^5 in either direction.
                if !(median.is_normal() && median > 0.0 && (0.0..=5.0).contains(&spread)) {
                    let expected = "a median above 0 and a spread between 0 and 5";
                    return Err(self.file.value_error(&path, expected));
                }
                LengthscaleLaw::LogNormal { median, spread }
            }
        };
        let path = ["features", "kernel"];
        let family = self.check.family(&path, given.kernel.as_deref())?;
        let known =
            [("random", FeatureSampling::Random), ("quasi-random", FeatureSampling::QuasiRandom)];
        let path = ["features", "sampling"];
        let sampling = self.check.word(&path, given.sampling.as_deref(), &known)?;
        Ok(FeatureDescription {
            n_features,
            dim,
            family: family.unwrap_or(default.family),
            lengthscale,
            sampling: sampling.unwrap_or(default.sampling),
        })
    }
}
